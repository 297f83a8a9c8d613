"""The machine: what it is, and how much of it others use while we measure."""

import os
import platform
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")
QUIET = 0.25  # cores that others may use while we measure


class MachineDescription(msgspec.Struct, frozen=True):
    """The machine that figures were measured on."""

    processors: int
    model: str
    memory_gib: float
    system: str
    python: str
    load: float  # of the minute before the run


def describe() -> MachineDescription:
    return MachineDescription(
        processors=len(os.sched_getaffinity(0)),
        model=_field("/proc/cpuinfo", "model name") or platform.machine(),
        memory_gib=round(int((_field("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / (1 << 20), 1),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        load=round(os.getloadavg()[0], 2),
    )


def _field(path: str, name: str) -> str:
    """What a file of the kernel says; "" where there is no such file."""
    try:
        text = Path(path).read_text()
    except OSError:
        return ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def busy_seconds() -> float:
    """Processor seconds that anybody has used or another machine has stolen since boot.

    Interrupts are left out: under load they are our own traffic over loopback, and belong to no process.
    """
    try:
        counts = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _, _, _, _, stolen = map(int, counts)
    return (user + nice + system + stolen) / _TICKS


def own_seconds() -> float:
    times = os.times()
    return times.user + times.system


class Usage(NamedTuple):
    """Processor seconds of a process: its own, and those of its children that have ended."""

    own: float
    ended: float


def family() -> dict[int, Usage]:
    """This process and all that it started, directly or not."""
    used: dict[int, Usage] = {}
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has just gone
        pid = int(path.parent.name)
        user, system, ended_user, ended_system = map(int, fields[11:15])
        used[pid] = Usage((user + system) / _TICKS, (ended_user + ended_system) / _TICKS)
        children.setdefault(int(fields[1]), []).append(pid)
    pids = [os.getpid()]
    for pid in pids:
        pids += children.get(pid, [])
    return {pid: used[pid] for pid in pids if pid in used}


class Noise:
    """How many cores others use from now on."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._busy = busy_seconds()
        self._family = family()

    def own(self) -> float:
        """Processor seconds that we and all that we started have used."""
        before, after = self._family, family()
        total = sum(map(sum, after.values())) - sum(map(sum, before.values()))
        # a parent that ignores its children's end is not told what they used: Spark's workers vanish with it
        living = sum(usage.own - (before[pid].own if pid in before else 0.0) for pid, usage in after.items())
        return max(total, living)

    def cores(self) -> float:
        passed = time.monotonic() - self._since
        return max(0.0, busy_seconds() - self._busy - self.own()) / passed if passed else 0.0


def await_quiet(patience: float, share: float = 0.25) -> None:
    """Wait, at most `patience` seconds, until others leave the processors alone."""
    deadline = time.monotonic() + patience
    allowed = share * len(os.sched_getaffinity(0))
    while time.monotonic() < deadline:
        before, since = busy_seconds(), time.monotonic()
        time.sleep(0.25)
        if (busy_seconds() - before) / (time.monotonic() - since) < allowed:
            return
