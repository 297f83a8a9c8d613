"""Stentor itself: one node, its frames built by its own encoders, with credit as every subscriber must give it."""

import itertools
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from benchmarks.targets.target import Publisher, Shape, Subscriber, Target, TargetError, read_exactly
from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema, Value
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, SubscriptionId, publisher_id, topic_id
from stentor.model.messages import (
    AnyMessage,
    Hello,
    Message,
    Receipt,
    Rejection,
    SchemaDefinition,
    Subscription,
    Topic,
    Welcome,
)
from stentor.wire import block, frame

WINDOW = 4 << 20  # what a subscriber lets the broker send ahead: the broker's own default
INCARNATION = Incarnation(1)
SCHEMA = Schema(("level", "price"), (Kind.INTEGER, Kind.DECIMAL))


class StentorNode(Target):
    name: ClassVar[str] = "stentor"
    separator: ClassVar[str] = "/"
    ports: ClassVar[int] = 2  # events, and the metrics of a broker as it is run in earnest
    batches: ClassVar[tuple[int, ...]] = (1, 32, 100)
    attributes: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._names = itertools.count()

    def prepare(self, directory: Path, install: bool) -> str:  # noqa: ARG002
        self._program = Path(sys.executable).with_name("stentor")
        if not self._program.exists():
            raise TargetError("the stentor command is not in this environment: make setup")
        return version("stentor")

    def command(self, directory: Path) -> Sequence[str]:
        return [
            str(self._program),
            "up",
            "--listen",
            f"127.0.0.1:{self.port}",
            "--data",
            str(directory / "data"),
            "--http",
            f"127.0.0.1:{self.port + 1}",
        ]

    def publisher(self, topics: Sequence[str], shape: Shape) -> Publisher:
        link = self._link()
        definitions: list[Message] = [Topic(topic_id(name), name) for name in topics]
        if shape.attributes:
            definitions.append(SchemaDefinition(SCHEMA))
        link.socket.sendall(b"".join(map(frame.encode, definitions)))
        return Publisher(link.socket, _Frames(publisher_id(link.principal, link.name)).frame)

    def subscriber(self, topic: str, where: str = "") -> Subscriber:
        link = self._link()
        link.socket.sendall(frame.encode(Subscription(SubscriptionId(1), topic, where)))
        while not isinstance(answer := _read_message(link.socket), Receipt):
            continue
        if answer.code is not None:
            raise ConnectionError(f"the subscription was refused: {answer.reason}")
        return Subscriber(link.socket, WINDOW, counts=bool(where))

    def _link(self) -> "_Link":
        link = self.connect()
        name = f"bench-{next(self._names)}"
        # heartbeats would mix with the bytes that are counted
        hello = Hello(name=name, incarnation=INCARNATION, window=WINDOW, heartbeat=3600.0, agent="benchmarks")
        link.sendall(frame.PREAMBLE + frame.encode(hello))
        frame.check_preamble(read_exactly(link, len(frame.PREAMBLE)))
        while not isinstance(answer := _read_message(link), Welcome):
            continue
        return _Link(link, name, answer.principal)


@dataclass(frozen=True, slots=True)
class _Link:
    socket: socket.socket
    name: str
    principal: str


class _Frames:
    """Frames of one publisher."""

    def __init__(self, publisher: PublisherId) -> None:
        self._publisher = publisher

    def frame(self, topic: str, shape: Shape, number: int) -> bytes:
        origin = block.Origin(topic_id(topic), self._publisher, INCARNATION, CatenationNumber(number), time.time_ns())
        bodies = [shape.body] * shape.batch
        if not shape.attributes:
            return block.encode(origin, EMPTY_SCHEMA, (), bodies)
        return block.encode(origin, SCHEMA, _columns(shape.batch), bodies)


def _columns(batch: int) -> tuple[list[Value], list[Value]]:
    """`level` runs from 0 to 99 in an order that spreads matches over the batch; `price` is there to be carried."""
    level: list[Value] = [position * 37 % batch * 100 // batch for position in range(batch)]
    price: list[Value] = [position * 0.25 for position in range(batch)]
    return level, price


def _read_message(link: socket.socket) -> AnyMessage:
    """The next control message; a refusal is raised."""
    head = read_exactly(link, 4)
    (length,) = frame.LENGTH.unpack(head)
    data = head + read_exactly(link, length - 4)
    if data[4] != frame.CONTROL:
        raise ConnectionError("the broker sent events before the subscription was in force")
    message = frame.decode(data)
    if isinstance(message, Rejection):
        raise ConnectionError(f"the broker refused the link: {message.reason}")
    return message
