"""redis, from Debian: publish and subscribe, nothing on disk."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.targets import debian
from benchmarks.targets.target import Publisher, Shape, Subscriber, Target, read_until

# without limits on output buffers, or it would cut slow subscribers off
_SETTINGS = (
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    "--daemonize",
    "no",
    "--client-output-buffer-limit",
    "pubsub 0 0 0",
    "--client-output-buffer-limit",
    "normal 0 0 0",
)


class Redis(Target):
    name: ClassVar[str] = "redis"

    def prepare(self, directory: Path, install: bool) -> str:  # noqa: ARG002
        self._program = debian.program("redis-server", "redis-server", install)
        text = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=True).stdout
        return next(word.removeprefix("v=") for word in text.split() if word.startswith("v="))

    def command(self, directory: Path) -> Sequence[str]:
        return [self._program, "--port", str(self.port), "--dir", str(directory), *_SETTINGS]

    def publisher(self, topics: Sequence[str], shape: Shape) -> Publisher:  # noqa: ARG002
        link = self.connect()
        # the replies would be counted against redis, the other brokers send none
        link.sendall(b"PING\r\nCLIENT REPLY OFF\r\n")
        read_until(link, b"+PONG\r\n")
        return Publisher(link, _frame)

    def subscriber(self, topic: str, where: str = "") -> Subscriber:  # noqa: ARG002
        link = self.connect()
        link.sendall(b"SUBSCRIBE %s\r\n" % topic.encode())
        read_until(link, b":1\r\n")
        return Subscriber(link)


def _frame(topic: str, shape: Shape, number: int) -> bytes:  # noqa: ARG001
    name = topic.encode()
    return b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(name), name, shape.size, shape.body)
