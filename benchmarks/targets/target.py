"""A target: one broker, how it is started and how its bytes look; every broker is driven in its own raw bytes."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchmarks.process import START_WITHIN, Server, free_port


class TargetError(Exception):
    """This broker is not on this machine; the text says why it could not be had."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one published frame holds."""

    size: int  # bytes of a body
    batch: int = 1  # events in the frame
    attributes: bool = False  # whether events carry attributes

    @property
    def body(self) -> bytes:
        return b"x" * self.size


@dataclass(frozen=True, slots=True)
class Publisher:
    """A link that may publish; `frame` is the bytes of one frame: topic, shape, number of its first event."""

    socket: socket.socket
    frame: Callable[[str, Shape, int], bytes]


@dataclass(slots=True)
class Subscriber:
    """A link that is subscribed; `window` is the bytes a broker with credit may send ahead, 0 without credit."""

    socket: socket.socket
    window: int = 0
    received: int = 0  # bytes read so far; credit counts from the link's start
    counts: bool = False  # progress is counted in events, because a filter joins frames as it likes


class Broker(ABC):
    """One broker, started on a free port of this machine."""

    name: ClassVar[str]
    ports: ClassVar[int] = 1
    start_within: ClassVar[float] = START_WITHIN  # seconds

    def __init__(self) -> None:
        self.port = 0
        self.server: Server | None = None

    def prepare(self, directory: Path, install: bool) -> str:
        """Make sure that the broker is here, and tell its version; raises TargetError."""
        raise NotImplementedError

    @abstractmethod
    def command(self, directory: Path) -> Sequence[str]:
        """How it is started, with its files in `directory`."""

    def environment(self, directory: Path) -> Mapping[str, str]:  # noqa: ARG002
        """What it is told beside its command."""
        return {}

    def start(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.port = free_port(self.ports)
        self.server = Server(self.command(directory), directory / "log.txt", self.environment(directory))
        self.server.wait_for(self.port, self.start_within)

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    def connect(self, port: int | None = None) -> socket.socket:
        link = socket.create_connection(("127.0.0.1", self.port if port is None else port), 10)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link


class Target(Broker):
    """A broker that forwards what is published to those who subscribed."""

    separator: ClassVar[str] = "."
    batches: ClassVar[tuple[int, ...]] = (1,)  # events per frame that its wire can carry
    attributes: ClassVar[bool] = False  # whether it filters by content
    topics: ClassVar[bool] = True  # whether it knows more than one topic

    @abstractmethod
    def publisher(self, topics: Sequence[str], shape: Shape) -> Publisher:
        """A new link on which these topics can be published."""

    @abstractmethod
    def subscriber(self, topic: str, where: str = "") -> Subscriber:
        """A new link to which the topic's events come, once this returns."""

    def topic(self, number: int) -> str:
        return f"bench{self.separator}t{number:02d}"


def read_exactly(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = link.recv(size - len(data))
        if not chunk:
            raise ConnectionError(f"the broker closed the link after {bytes(data)!r}")
        data += chunk
    return bytes(data)


def read_until(link: socket.socket, end: bytes) -> bytes:
    data = bytearray()
    while not data.endswith(end):
        data += read_exactly(link, 1)
    return bytes(data)
