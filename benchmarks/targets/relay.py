"""The ceiling: a relay in C that parses nothing. No broker can be faster on this machine."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks import compiler
from benchmarks.targets.target import Publisher, Shape, Subscriber, Target, read_exactly


class Relay(Target):
    name: ClassVar[str] = "relay"
    ports: ClassVar[int] = 2
    topics: ClassVar[bool] = False

    def prepare(self, directory: Path, install: bool) -> str:  # noqa: ARG002
        self._program = compiler.program("relay.c", directory)
        return "C, no parsing"

    def command(self, directory: Path) -> Sequence[str]:  # noqa: ARG002
        return [str(self._program), str(self.port)]

    def publisher(self, topics: Sequence[str], shape: Shape) -> Publisher:  # noqa: ARG002
        return Publisher(self.connect(), _frame)

    def subscriber(self, topic: str, where: str = "") -> Subscriber:  # noqa: ARG002
        link = self.connect(self.port + 1)
        read_exactly(link, 1)
        return Subscriber(link)


def _frame(topic: str, shape: Shape, number: int) -> bytes:  # noqa: ARG001
    # length and a topic's number: the least that any broker's frame would need
    return struct.pack("<II", 8 + shape.size, 1) + shape.body
