"""A network of real processes, as `stentor up` runs it, and the commands that change it."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STENTOR = str(Path(sys.executable).parent / "stentor")
Link = tuple[str, str]
_UP_WITHIN = 120.0  # seconds: dozens of processes on few processors
_COMMAND_WITHIN = 180.0


def clusters(*sizes: int) -> tuple[list[str], list[Link]]:
    """Return brokers in clusters that are rings with one chord, and the clusters in a ring of two links each."""
    names = [[f"u{unit}/b{number}" for number in range(size)] for unit, size in enumerate(sizes)]
    links: list[Link] = []
    for members in names:
        links += [(one, members[(place + 1) % len(members)]) for place, one in enumerate(members)]
        links.append((members[0], members[len(members) // 2]))
    for place, members in enumerate(names):
        other = names[(place + 1) % len(names)]
        links += [(members[0], other[1]), (members[2], other[3])]
    return [name for members in names for name in members], links


def write(path: Path, brokers: Sequence[str], links: Sequence[Link], costs: dict[Link, float] | None = None) -> Path:
    """Write the file of a network."""
    lines = ["[fabric]", 'log = "error"', "[colours]", 'delta_max = "100 ms"']
    for name in brokers:
        lines += ["[[node]]", f'name = "{name}"', 'listen = "127.0.0.1:0"', 'http = ""']
    for link in links:
        lines += ["[[link]]", f'between = ["{link[0]}", "{link[1]}"]', f"cost = {(costs or {}).get(link, 1.0)}"]
    path.write_text("\n".join(lines))
    return path


class Operator:
    """Changes links, one after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def change(self, what: str, link: Link, how: str) -> tuple[float, float]:
        """Return how many seconds the plan took, and in how many of them events waited."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(what, *link, how, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().split()
        if len(answer) != len(("seconds", "held")):
            raise RuntimeError(f"a link could not be changed: {what} {' '.join(link)}, {how}")
        return float(answer[0]), float(answer[1])


class Network:
    """A network that runs."""

    def __init__(self, urls: dict[str, str]) -> None:
        self.urls = urls

    def say(self, *command: str) -> str:
        """Run a command at one of the brokers; return what it prints."""
        url = next(iter(self.urls.values()))
        done = subprocess.run(
            [STENTOR, *command, "--url", url], capture_output=True, text=True, timeout=_COMMAND_WITHIN, check=False
        )
        if done.returncode:
            raise RuntimeError(f"stentor {' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def tell(self, *command: str) -> Any:
        return json.loads(self.say(*command, "--json"))

    @contextmanager
    def operator(self) -> Iterator["Operator"]:
        """Run an operator until the `with` ends."""
        command = [sys.executable, "-m", "benchmarks.colours.operator", next(iter(self.urls.values()))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield Operator(process)
            finally:
                process.terminate()

    def is_legal(self) -> bool:
        found = self.tell("map")["network"]
        return all(each["colours"] is not None and each["colours"]["is_legal"] for each in (found, *found["units"]))


@contextmanager
def running(file: Path) -> Iterator[Network]:
    """Run the network of a file until the `with` ends."""
    with subprocess.Popen(
        [STENTOR, "up", "--config", str(file), "--chaos"], stdout=subprocess.PIPE, text=True, cwd=file.parent
    ) as process:
        try:
            assert process.stdout is not None
            urls = {}
            for line in process.stdout:
                found = re.search(r"● (\S+)\s+(stentor://\S+)", line)
                if found:
                    urls[found[1]] = found[2]
                if "Ctrl-C stops" in line:
                    break
            network = Network(urls)
            end = time.monotonic() + _UP_WITHIN
            while not network.is_legal():
                if time.monotonic() > end:
                    raise RuntimeError("the network did not get into its correct state")
            yield network
        finally:
            process.terminate()
