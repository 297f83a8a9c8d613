"""The publisher and the measuring subscribers, on one clock, in one process where nothing else goes on.

{"publisher": "stentor://…", "subscribers": {"10": "stentor://…"}, "topic": "…"}   is answered by   {"subscribers": 1}
{"rate": 20, "size": 50, "match": 50, "events": 60}                                by the latencies at each subscriber
"""

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from struct import Struct

import msgspec
import numpy as np
import uvloop

from stentor.bench.grid import WHERE, Trial
from stentor.bench.lines import WorkerFailed, read_lines, say
from stentor.bench.replication import PUBLISHER
from stentor.client.fabric import Events, Fabric, connect
from stentor.client.reliable_publisher import Publisher
from stentor.client.reliable_subscription import Subscription
from stentor.model.attribute import Value

_STAMP = Struct("<qI")  # when it was published, and in which trial
_SILENCE = 5.0  # seconds without an event after which no more will come
_LONG_SILENCE = 30.0  # the same if nothing is ever lost
_WARM_UP = 30.0
_BEFORE = 0.1  # seconds to collect garbage in, before each trial

Send = Callable[[bytes, dict[str, Value]], Awaitable[None]]  # a body and its attributes


class MeasurerPlaces(msgspec.Struct):
    """The brokers of the publisher and the subscribers."""

    publisher: str
    subscribers: dict[str, str]  # by hops
    topic: str
    named: bool = False  # the topic is a reliable one


class MeasurerReady(msgspec.Struct):
    subscribers: int


class Latency(msgspec.Struct, frozen=True):
    """Of the events that one subscriber got, in ms and ms²."""

    received: int
    missed: int  # told that they were dropped, or never came
    mean: float
    variance: float
    median: float
    p99: float
    highest: float


class MeasuredTrial(msgspec.Struct):
    """The latencies of one trial."""

    seconds: float  # that publishing took
    published: int
    latencies: dict[str, Latency]


class Station:
    """A measuring subscriber."""

    def __init__(self, events: Events | Subscription) -> None:
        self._events = events
        self._silence = _SILENCE if isinstance(events, Events) else _LONG_SILENCE
        self.trial = 0
        self.taken: list[int] = []  # ns
        self.changed = asyncio.Event()

    async def listen(self) -> None:
        async for batch in self._events.batches():
            now = time.perf_counter_ns()
            for body in batch.bodies:
                sent, trial = _STAMP.unpack_from(body)
                if trial == self.trial:
                    self.taken.append(now - sent)
            self.changed.set()

    async def expect(self, count: int) -> None:
        """Until so many have come, or none comes any more."""
        while len(self.taken) < count:
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), self._silence)
            except TimeoutError:
                return


def latency(taken: Sequence[int], wanted: int) -> Latency:
    values = np.array(taken, np.float64) / 1e6
    if not len(values):
        return Latency(0, wanted, *[0.0] * 5)
    p50, p99 = np.percentile(values, (50, 99))
    variance = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    return Latency(
        len(values),
        max(0, wanted - len(values)),
        float(values.mean()),
        variance,
        float(p50),
        float(p99),
        float(values.max()),
    )


async def publish(send: Send, trial: Trial, number: int) -> float:
    """All events of a trial, each when it is due; returns how long that took."""
    body = bytes(max(0, trial.size - _STAMP.size))
    clock = time.perf_counter_ns
    begin = clock()
    for place in range(trial.events):
        due = begin + int(place * 1e9 / trial.rate)
        while (early := due - clock()) > 0:  # noqa: ASYNC110 – nothing but the clock tells when it is due
            await asyncio.sleep(early / 1e9)
        await send(_STAMP.pack(clock(), number) + body, trial.attributes(place))
        await asyncio.sleep(0)  # every event leaves on its own
    return (clock() - begin) / 1e9


async def warm_up(send: Send, stations: Sequence[Station]) -> None:
    """Publish until everybody has got something: then all routes are known."""
    end = time.monotonic() + _WARM_UP
    while not all(station.taken for station in stations):
        if time.monotonic() > end:
            raise WorkerFailed(f"nothing arrived within {_WARM_UP:.0f} s")
        await publish(send, Trial(100.0, 50, 100, 10), 0)
        await asyncio.sleep(0.1)


async def measure(send: Send, stations: dict[str, Station], trial: Trial, number: int) -> MeasuredTrial:
    for station in stations.values():
        station.trial, station.taken = number, []
    gc.collect()
    gc.disable()  # its pauses would be ours, not the network's
    await asyncio.sleep(_BEFORE)
    seconds = await publish(send, trial, number)
    for station in stations.values():
        await station.expect(trial.wanted)
    gc.enable()
    return MeasuredTrial(
        seconds, trial.events, {name: latency(station.taken, trial.wanted) for name, station in stations.items()}
    )


def station_name(hops: str) -> str:
    return f"measuring-{hops}"


async def take_place(stack: AsyncExitStack, posts: MeasurerPlaces, hops: str, url: str) -> Station:
    fabric = await stack.enter_async_context(connect(url, wait=30.0))
    if posts.named:
        stored = fabric.subscribe(posts.topic, WHERE, name=station_name(hops))
        return Station(await stack.enter_async_context(stored))
    return Station(await stack.enter_async_context(fabric.subscribe(posts.topic, WHERE)))


def plainly(fabric: Fabric, topic: str) -> Send:
    async def send(body: bytes, attributes: dict[str, Value]) -> None:
        await fabric.publish(topic, body, attributes=attributes)

    return send


def reliably(publisher: Publisher) -> Send:
    """Whoever waits for an event to be stored cannot publish at a rate; that subscribers get it tells as much."""

    async def send(body: bytes, attributes: dict[str, Value]) -> None:
        await publisher.room()
        publisher.send_nowait(body, attributes=attributes)

    return send


async def attend() -> None:
    lines = read_lines()
    posts = msgspec.json.decode(await anext(lines), type=MeasurerPlaces)
    async with AsyncExitStack() as stack:
        stations = {hops: await take_place(stack, posts, hops, url) for hops, url in posts.subscribers.items()}
        fabric = await stack.enter_async_context(connect(posts.publisher, wait=30.0))
        if posts.named:
            send = reliably(await stack.enter_async_context(fabric.publisher(posts.topic, name=PUBLISHER)))
        else:
            send = plainly(fabric, posts.topic)
        tasks = [asyncio.create_task(station.listen()) for station in stations.values()]
        await warm_up(send, list(stations.values()))
        say(MeasurerReady(len(stations)))
        number = 0
        async for line in lines:
            number += 1
            say(await measure(send, stations, msgspec.json.decode(line, type=Trial), number))
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    sys.exit(uvloop.run(attend()))
