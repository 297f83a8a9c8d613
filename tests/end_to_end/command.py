"""The `stentor` command as a user runs it: real processes, their output, their exit codes."""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pytest

from stentor.cli import main

STENTOR = str(Path(sys.executable).parent / "stentor")
PATIENCE = 90.0  # seconds after which a process is taken to hang; nothing here is about how fast it is


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, without what would send a command elsewhere; wide enough that no line is broken."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("STENTOR_")}
    return {**plain, "COLUMNS": "200", "TERM": "dumb", **(more or {})}


def stentor(
    *arguments: str | Path,
    stdin: bytes | str = b"",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    done = subprocess.run(
        [STENTOR, *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        cwd=cwd,
        env=environment(env),
        timeout=patience,
        check=False,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


def in_process(
    *arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The same without a process, which costs most of a second: for uses that end before anything is connected."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["stentor", *map(str, arguments)])
        for name in os.environ.keys() - environment().keys():
            patch.delenv(name)
        for name, value in environment(env).items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return subprocess.CompletedProcess(list(arguments), code, out.getvalue(), err.getvalue())


class Command:
    """A command that runs while the test goes on. Use it with `with`: it ends with the test at the latest."""

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        self.process = subprocess.Popen(
            [*launcher, STENTOR, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment({"PYTHONUNBUFFERED": "1", **(env or {})}),
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out: list[str] = []
        self.err: list[str] = []
        self._changed = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=pair)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[bytes], lines: list[str]) -> None:
        for line in stream:
            with self._changed:
                lines.append(line.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()
        stream.close()
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join()
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()

    def line(self, pattern: str, *, err: bool = False, count: int = 1) -> re.Match[str]:
        """Wait for a line that holds the pattern, the `count`-th one; what it says."""
        lines = self.err if err else self.out
        end = time.monotonic() + PATIENCE
        with self._changed:
            while True:
                found = [match for text in lines if (match := re.search(pattern, text))]
                if len(found) >= count:
                    return found[count - 1]
                ended = self.process.poll() is not None and not any(reader.is_alive() for reader in self._readers)
                if ended or (
                    not self._changed.wait(timeout=min(0.5, max(0.0, end - time.monotonic())))
                    and (time.monotonic() > end)
                ):
                    raise AssertionError(f"no line with {pattern!r}; stdout: {self.out}; stderr: {self.err}")

    def begun(self, pattern: str, *, err: bool = False) -> re.Match[str]:
        """Wait for the line that says so; a command that never says it is ended, since nobody else would."""
        try:
            return self.line(pattern, err=err)
        except AssertionError:
            self.__exit__(None, None, None)
            raise

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def ended(self, within: float = PATIENCE) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(within)
        for reader in self._readers:
            reader.join()
        return code

    @property
    def errors(self) -> str:
        return "\n".join(self.err)


class Fabric(Command):
    """`stentor up`, when it is up."""

    def __init__(self, *arguments: str | Path, cwd: Path, launcher: Sequence[str] = ()) -> None:
        super().__init__("up", *arguments, cwd=cwd, launcher=launcher)
        self.begun("Ctrl-C stops")

    def url(self, node: str = "local") -> str:
        return self.line(rf"{re.escape(node)}\s+(stentor://\S+)")[1]

    def http(self, node: str = "local") -> str:
        return self.line(rf"● {re.escape(node)}\s.*\s(https?://\S+)")[1]

    def nodes(self) -> list[int]:
        """The processes of its nodes."""
        return children(self.process.pid)

    def node_at(self, port: int) -> int:
        """The process of the node that listens on a port."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        inode = next(line[9] for line in lines if line[3] == "0A" and line[1] == f"0100007F:{port:04X}")
        for pid in self.nodes():
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):  # it may be closed meanwhile
                    if str(handle.readlink()) == f"socket:[{inode}]":
                        return pid
        raise AssertionError(f"nobody listens at {port}")


@contextmanager
def fabric(cwd: Path, *arguments: str | Path) -> Iterator[Fabric]:
    """A local broker on a port of its own."""
    with Fabric("--listen", "127.0.0.1:0", "--data", cwd / "data", *arguments, cwd=cwd) as running:
        yield running


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return sorted(found)


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(*pids: int) -> bool:
    """Wait until the processes are gone."""
    end = time.monotonic() + PATIENCE
    while any(map(alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"process {pid} has no memory")
