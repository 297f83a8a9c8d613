"""Ports for those who must be found again at the same one."""

import contextlib
import random
import socket
from pathlib import Path


def free_port() -> int:
    """One that is free, and that no system gives to whoever just wants some port: it stays free until it is used."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.SystemRandom().randrange(10_000, max(lowest, 20_000))))
            return int(probe.getsockname()[1])
