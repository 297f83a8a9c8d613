"""A trial: one contestant on one workload, once."""

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from benchmarks.load import Generator, LinkError, Outcome
from benchmarks.process import Server
from benchmarks.targets.target import Publisher, Shape, Subscriber, Target
from benchmarks.workloads import LATENCY_RATE, Kind, Workload
from stentor.bench import machine

RING = 256 << 10  # bytes of frames that are sent over and over: small enough to stay in the cache
FIRST_WITHIN = 5.0  # seconds for a frame to come through
QUIET = 0.1  # seconds without a byte that end a delivery
STUCK = 5  # seconds for one send
WARM_UP = 200  # latencies that are not counted

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A broker, and how many events its publisher puts into a frame."""

    target: Target
    batch: int = 1

    @property
    def name(self) -> str:
        return self.target.name if self.batch == 1 else f"{self.target.name} x{self.batch}"


class Cost:
    """What a trial costs: the broker's processor time, and everybody else's."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._since = time.monotonic()
        self._before = self._read()

    def _read(self) -> tuple[float, float]:
        return self._server.processor_seconds(), machine.busy_seconds() - machine.own_seconds()

    def figures(self, messages: float) -> Figures:
        seconds = time.monotonic() - self._since
        broker, others = (after - before for before, after in zip(self._before, self._read(), strict=True))
        return {
            "cpu_us": broker / messages * 1e6 if messages else 0.0,
            "cpu_cores": broker / seconds,
            "noise_cores": max(0.0, others - broker) / seconds,
            "rss_mb": self._server.resident_bytes() / 1e6,
        }


class Trial:
    """The links of one trial, warmed up, with what one unit delivers to each subscriber measured."""

    def __init__(self, contestant: Contestant, workload: Workload, stack: ExitStack) -> None:
        self._workload = workload
        target = contestant.target
        assert target.server is not None, "targets are started before they are measured"
        self._server = target.server
        self._shape = Shape(workload.size, workload.batch(contestant.batch), workload.attributes)
        self._topics = [target.topic(number) for number in range(workload.topics)]
        self._subscribers = [
            target.subscriber(topic, workload.where) for topic in self._topics for _ in range(workload.subscribers)
        ]
        self._publishers = [target.publisher(self._topics, self._shape) for _ in range(workload.publishers)]
        links = [link.socket for link in self._subscribers] + [link.socket for link in self._publishers]
        for link in links:
            stack.enter_context(link)
        self._warm_up()
        self._size = self._measure()
        for link in links:
            link.settimeout(
                None
            )  # the loops in C wait by themselves, but not for ever on a broker that stopped reading
            link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", STUCK, 0))

    def run(self, generator: Generator, seconds: float) -> Figures:
        if self._workload.kind is Kind.LATENCY:
            return self._latency(generator, seconds)
        return self._throughput(generator, seconds)

    def _throughput(self, generator: Generator, seconds: float) -> Figures:
        cost = Cost(self._server)
        if len(self._publishers) > 1:
            frames = [self._unit(publisher, 0) for publisher in self._publishers]
            outcome = generator.scatter(self._publishers, frames, self._subscribers, self._size, seconds)
        else:
            publisher = self._publishers[0]
            turns = max(1, RING // len(self._unit(publisher, 0)))
            ring = [self._unit(publisher, turn) for turn in range(turns)]
            outcome = generator.stream(publisher, ring, self._subscribers, self._size, seconds)
        return self._rates(outcome) | cost.figures(outcome.sent * self._messages)

    def _rates(self, outcome: Outcome) -> Figures:
        if not outcome.delivered:
            raise LinkError("nothing was delivered")
        return {
            "rate": outcome.delivered * self._messages * self._workload.subscribers / outcome.seconds,
            "lost": 1 - outcome.delivered / outcome.sent,
            "seconds": outcome.seconds,
            "batch": self._shape.batch,
        }

    def _latency(self, generator: Generator, seconds: float) -> Figures:
        count = WARM_UP + int(LATENCY_RATE * seconds)
        cost = Cost(self._server)
        unit = self._unit(self._publishers[0], 0)
        taken = generator.pace(self._publishers[0], unit, self._subscribers[0], self._size, LATENCY_RATE, count)
        p50, p99, p999 = np.percentile(taken[WARM_UP:], (50, 99, 99.9)) / 1e3
        return {"p50": float(p50), "p99": float(p99), "p999": float(p999)} | cost.figures(count)

    @property
    def _messages(self) -> int:
        """Messages in one unit."""
        return self._shape.batch * len(self._topics)

    def _unit(self, publisher: Publisher, turn: int) -> bytes:
        """One frame for each topic."""
        return b"".join(publisher.frame(topic, self._shape, turn * self._shape.batch) for topic in self._topics)

    def _warm_up(self) -> None:
        """Definitions and routes belong to a link's beginning: past them, every unit delivers the same bytes."""
        for publisher in self._publishers:
            publisher.socket.sendall(self._unit(publisher, 0))
        _collect(self._subscribers)

    def _measure(self) -> int:
        """What a unit brings to each subscriber, in bytes or events, and a look at whether it is the right thing."""
        publisher = self._publishers[0]
        publisher.socket.sendall(self._unit(publisher, 1))
        deliveries = _collect(self._subscribers)
        sizes = set(map(len, deliveries))
        bodies = {data.count(self._shape.body) for data in deliveries}
        if len(sizes) != 1 or len(bodies) != 1:
            raise LinkError(f"subscribers got {sorted(sizes)} bytes with {sorted(bodies)} bodies for one unit")
        expected = self._shape.batch if not self._workload.where else round(self._shape.batch / 10)
        if bodies != {expected}:
            raise LinkError(f"{bodies.pop()} bodies came back of a unit that holds {expected} for each subscriber")
        return expected if self._workload.where else sizes.pop()


def _collect(subscribers: Sequence[Subscriber]) -> list[bytes]:
    """What comes to each subscriber until all have got something and nothing more comes."""
    data = [bytearray() for _ in subscribers]
    with selectors.DefaultSelector() as selector:
        for position, subscriber in enumerate(subscribers):
            selector.register(subscriber.socket, selectors.EVENT_READ, position)
        deadline = time.monotonic() + FIRST_WITHIN
        while time.monotonic() < deadline:
            ready = selector.select(QUIET)
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                chunk = key.fileobj.recv(1 << 20)
                if not chunk:
                    raise LinkError(f"the broker closed a subscriber's link after {bytes(data[key.data][:200])!r}")
                data[key.data] += chunk
            if not ready and all(data):
                break
    if not all(data):
        raise LinkError(f"{sum(not got for got in data)} of {len(data)} subscribers got nothing")
    for subscriber, got in zip(subscribers, data, strict=True):
        subscriber.received += len(got)
    return [bytes(got) for got in data]


def attempt(generator: Generator, contestant: Contestant, workload: Workload, seconds: float) -> Figures:
    """One trial with links of its own."""
    with ExitStack() as stack:
        return Trial(contestant, workload, stack).run(generator, seconds)
