"""Processes: a broker's, with its children, its processor time and its memory."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
START_WITHIN = 20.0
STOP_WITHIN = 10.0


class StartError(Exception):
    """A broker did not come up; the end of its log says why."""


def free_port(count: int = 1) -> int:
    """The first of `count` neighbouring ports that nobody listens on."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        try:
            for other in range(port, port + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", other))
        except (OSError, OverflowError):
            continue
        return port


class Server:
    """A broker in a session of its own, so that Ctrl-C reaches us alone and brokers are stopped in order."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=log.parent,
                env={**os.environ, **(environment or {})},
            )

    def wait_for(self, port: int, within: float = START_WITHIN) -> None:
        """Until it takes connections."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise StartError(f"it ended with status {self._process.returncode}: {self.log_end()}")
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise StartError(f"it does not listen after {within:.0f} s: {self.log_end()}")

    def log_end(self, size: int = 400) -> str:
        text = self._log.read_text(errors="replace").strip()
        return text[-size:] or "nothing in its log"

    def stop(self) -> None:
        """Politely first; whatever is left of the family after that is killed, by the numbers it had."""
        family = {pid: _stat(pid) for pid in self._family()}
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_WITHIN)
        for pid, was in family.items():
            if was and _started(_stat(pid)) == _started(was):  # the number may be another's by now
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def processor_seconds(self) -> float:
        """User and system time of the process and its living descendants."""
        total = 0
        for pid in self._family():
            fields = _stat(pid)
            total += int(fields[11]) + int(fields[12]) if fields else 0
        return total / _TICKS

    def resident_bytes(self) -> int:
        total = 0
        for pid in self._family():
            try:
                total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
            except OSError:
                continue
        return total

    def _family(self) -> list[int]:
        parents = {int(path.name): _stat(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
        children: dict[int, list[int]] = {}
        for pid, fields in parents.items():
            if fields:
                children.setdefault(int(fields[1]), []).append(pid)
        family = [self._process.pid]
        for pid in family:
            family += children.get(pid, [])
        return family


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, …; empty if the process has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def _started(fields: list[str]) -> str:
    """When a process began, in ticks since boot."""
    return fields[19] if fields else ""
