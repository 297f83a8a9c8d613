"""A driver: how a Python client library publishes, subscribes and answers, each in the way its users would."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import msgspec

END = b"end"  # the body of the last message
IDLE = 10.0  # seconds without a message after which the rest counts as lost
CHECK = 100  # messages between two looks at the clock
PING, PONG = "bench/ping", "bench/pong"


class Published(msgspec.Struct, frozen=True):
    """What a publisher did; times are nanoseconds of the machine's monotonic clock, which all processes share."""

    sent: int
    began: int
    ended: int


class Received(msgspec.Struct, frozen=True):
    received: int
    last: int


class Tally:
    """Counts what a subscriber gets."""

    def __init__(self) -> None:
        self.received = 0
        self.last = time.monotonic_ns()

    def take(self, body: bytes) -> bool:
        """Count one message; True if it was the last."""
        self.last = time.monotonic_ns()
        if body == END:
            return True
        self.received += 1
        return False

    def idle(self) -> bool:
        return time.monotonic_ns() - self.last > IDLE * 1e9


class Driver(ABC):
    """One library against its broker at 127.0.0.1:port."""

    separator: ClassVar[str] = "/"

    def __init__(self, port: int) -> None:
        self.port = port

    def topic(self, name: str) -> str:
        return name.replace("/", self.separator)

    @abstractmethod
    def publish(self, topic: str, body: bytes, seconds: float) -> Published:
        """As many as can be in this time, then END."""

    @abstractmethod
    def subscribe(self, topic: str, tally: Tally, ready: Callable[[], None]) -> None:
        """Until END has come."""

    @abstractmethod
    def echo(self, ready: Callable[[], None]) -> None:
        """Publish on PONG whatever comes on PING, until END."""

    @abstractmethod
    def ping(self, body: bytes, count: int) -> list[int]:
        """Nanoseconds of `count` round trips, one after the other, then END."""
