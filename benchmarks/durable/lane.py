"""A lane: a link on which one message after the other is published, so many at most without an acknowledgement."""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

SIZE = 256  # bytes of a body
LARGEST_SEND = 256 << 10
STUCK = 20.0  # seconds without an acknowledgement


class Refused(Exception):
    """The broker did not take it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    acknowledged: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Lane:
    """`message` is the bytes of one message, `count` tells how many acknowledgements bytes from the broker hold."""

    link: socket.socket
    message: bytes
    count: Callable[[bytes], int]

    def drive(self, window: int, seconds: float) -> Outcome:
        """Keep the window full; what is under way at the end is awaited and counts."""
        self.link.settimeout(STUCK)
        largest = max(1, LARGEST_SEND // len(self.message))
        begin = time.perf_counter()
        end = begin + seconds
        sent = acknowledged = 0
        while True:
            room = window - (sent - acknowledged)
            if time.perf_counter() >= end:
                if sent == acknowledged:
                    break
            elif room:
                room = min(room, largest)
                self.link.sendall(self.message * room)
                sent += room
                if sent - acknowledged < window:
                    continue
            acknowledged += self.count(self.link.recv(1 << 18))
        return Outcome(acknowledged, time.perf_counter() - begin)


class Pattern:
    """Counts a pattern in a stream of bytes, wherever it is cut."""

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern
        self._rest = b""

    def __call__(self, data: bytes) -> int:
        if not data:
            raise ConnectionError("the broker closed the link")
        data = self._rest + data
        count = data.count(self._pattern)
        self._rest = data[-(len(self._pattern) - 1) :]
        return count
