"""Ports for those who must be found again at the same one."""

import atexit
import random
import socket
from collections import deque
from pathlib import Path

_HELD = 200  # more than are ever drawn before the first is used
_held: deque[socket.socket] = deque()


def free_port() -> int:
    """One that is free and stays so until it is used: no system gives it to whoever just wants some port, and all
    tests on this machine see by a datagram socket at the same number that it was drawn.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, max(lowest, 20_000))
        token = socket.socket(type=socket.SOCK_DGRAM)
        try:
            token.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            token.close()
            continue
        _held.append(token)
        if len(_held) > _HELD:
            _held.popleft().close()
        return port


@atexit.register
def _release() -> None:
    while _held:
        _held.pop().close()
