"""The machine: what it is, and how much of it others use while we measure."""

import os
import platform
import time
from pathlib import Path

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")


class Machine(msgspec.Struct, frozen=True):
    """What a figure must be read with."""

    processors: int
    model: str
    memory_gib: float
    system: str
    python: str
    load: float  # of the minute before the run


def describe() -> Machine:
    return Machine(
        processors=len(os.sched_getaffinity(0)),
        model=_field("/proc/cpuinfo", "model name") or platform.machine(),
        memory_gib=round(int((_field("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / (1 << 20), 1),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        load=round(os.getloadavg()[0], 2),
    )


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def busy_seconds() -> float:
    """Processor seconds that anybody has used or another machine has stolen since boot.

    Interrupts are left out: under load they are our own traffic over loopback, and belong to no process.
    """
    user, nice, system, _, _, _, _, stolen = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + stolen) / _TICKS


def own_seconds() -> float:
    times = os.times()
    return times.user + times.system


def await_quiet(patience: float, share: float = 0.25) -> None:
    """Wait, at most `patience` seconds, until others leave the processors alone."""
    deadline = time.monotonic() + patience
    allowed = share * len(os.sched_getaffinity(0))
    while time.monotonic() < deadline:
        before, since = busy_seconds(), time.monotonic()
        time.sleep(0.25)
        if (busy_seconds() - before) / (time.monotonic() - since) < allowed:
            return
