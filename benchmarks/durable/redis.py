"""redis streams: XADD into an append-only file that is synced before every answer."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.durable.lane import SIZE, Lane, Outcome, Refused
from benchmarks.targets.redis import Redis
from benchmarks.targets.target import read_until


class RedisStreams(Redis):
    name: ClassVar[str] = "redis"
    promise: ClassVar[str] = "fsync before each answer (appendfsync always)"

    def __init__(self) -> None:
        super().__init__()
        self._keys = itertools.count()

    def command(self, directory: Path) -> Sequence[str]:
        return [*super().command(directory), "--appendonly", "yes", "--appendfsync", "always"]

    def publish(self, window: int, seconds: float, batched: bool) -> Outcome:  # noqa: ARG002
        key = b"bench%d" % next(self._keys)
        body = b"x" * SIZE
        message = b"*5\r\n$4\r\nXADD\r\n$%d\r\n%s\r\n$1\r\n*\r\n$1\r\nb\r\n$%d\r\n%s\r\n" % (len(key), key, SIZE, body)
        with self.connect() as link:
            outcome = Lane(link, message, _Replies()).drive(window, seconds)
            link.sendall(b"DEL %s\r\n" % key)
            read_until(link, b"\r\n")
        return outcome


class _Replies:
    """Counts answers: a line with a length and a line with an id for each."""

    def __init__(self) -> None:
        self._lines = 0
        self._end = b"\n"

    def __call__(self, data: bytes) -> int:
        if not data:
            raise ConnectionError("the broker closed the link")
        if b"\n-" in self._end + data:
            raise Refused(data.decode(errors="replace"))
        self._end = data[-1:]
        before = self._lines // 2
        self._lines += data.count(b"\n")
        return self._lines // 2 - before
