"""Publishers and subscribers whose events have numbers and times: what is lost, doubled, late, and how long it took."""

import asyncio
import struct
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter

import numpy as np

import stentor

_EVENT = struct.Struct("<qd")  # its number, and when it was published
_END = -1
_PAUSE = 0.005  # seconds
_LATEST = 30.0  # seconds after which nothing arrives any more
Flow = tuple[str, str]  # a subscriber and a publisher
Span = tuple[float, float]


class Figures(dict[str, float]):
    """Rates and delays of some seconds, and what went wrong in them."""


def _unit(broker: str) -> str:
    return broker.partition("/")[0]


def crosses(flow: Flow, unit: str) -> bool:
    """Return whether a flow passes a cluster: all are linked with each other, so a third one is never on the way."""
    return unit in map(_unit, flow)


class Load:
    """Events at a steady rate, from some brokers to some."""

    def __init__(self, urls: dict[str, str], publishers: list[str], subscribers: list[str], rate: float) -> None:
        self._urls = urls
        self._publishers = publishers
        self._subscribers = subscribers
        self.rate = rate  # events/s of a publisher, from now on
        self._is_over = False
        self.published: dict[str, list[float]] = {name: [] for name in publishers}  # when, by number
        self.got: dict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)

    async def begin(self, group: asyncio.TaskGroup) -> None:
        """Return when everybody is there and events flow."""
        ready = [asyncio.Event() for _ in self._subscribers]
        for name, event in zip(self._subscribers, ready, strict=True):
            group.create_task(self._subscribe(name, event))
        await asyncio.gather(*(event.wait() for event in ready))
        for name in self._publishers:
            group.create_task(self._publish(name))

    def end(self) -> None:
        self._is_over = True

    async def _publish(self, name: str) -> None:
        async with stentor.connect(self._urls[name], stay=True) as fabric:
            last, due, published = time.perf_counter(), 0.0, self.published[name]
            while not self._is_over:
                now = time.perf_counter()
                due, last = min(due + (now - last) * self.rate, len(published) + self.rate), now
                while len(published) < due and not self._is_over:
                    published.append(time.perf_counter())
                    await fabric.publish(f"load/{name}", _EVENT.pack(len(published) - 1, published[-1]))
                await asyncio.sleep(_PAUSE)
            await asyncio.sleep(1.0)  # what was sent before has arrived, and this is not overtaken
            await fabric.publish(f"load/{name}", _EVENT.pack(_END, 0.0))
            await fabric.flush()

    async def _subscribe(self, name: str, ready: asyncio.Event) -> None:
        left = set(self._publishers)
        async with stentor.connect(self._urls[name], stay=True) as fabric, fabric.subscribe("load/#") as events:
            await events.settled()
            ready.set()
            async for batch in events.batches():
                arrived, publisher = time.perf_counter(), batch.topic.removeprefix("load/")
                rows = [_EVENT.unpack(body) for body in batch.bodies]
                if rows[-1][0] == _END:
                    rows.pop()
                    left.discard(publisher)
                self.got[name, publisher] += [(number, published, arrived) for number, published in rows]
                if not left:
                    return

    def figures(self, since: float, until: float) -> Figures:
        """Return what arrived of the events that were published in some time."""
        wrong = {"lost": 0, "doubled": 0, "reordered": 0}
        for flow in self.got:
            found = [number for number, _, _ in self._arrived(flow, (since, until))]
            sent = sum(since <= each < until for each in self.published[flow[1]])
            wrong["lost"] += sent - len(set(found))
            wrong["doubled"] += len(found) - len(set(found))
            wrong["reordered"] += sum(one > other for one, other in pairwise(found))
        delays = self.delays(dict.fromkeys(self.got, ((since, until),)))
        return Figures(
            rate=len(delays) / (until - since),
            p50_ms=1e3 * float(np.percentile(delays, 50)),
            p99_ms=1e3 * float(np.percentile(delays, 99)),
            **wrong,
        )

    def delays(self, spans: Mapping[Flow, Sequence[Span]]) -> list[float]:
        """Return how long events took, in seconds, that were published in some spans of some flows."""
        return [
            arrived - published
            for flow, some in spans.items()
            for span in some
            for _, published, arrived in self._arrived(flow, span)
        ]

    def _arrived(self, flow: Flow, span: Span) -> Iterator[tuple[int, float, float]]:
        since, until = span
        rows = self.got[flow]
        for place in range(bisect_left(rows, since, key=itemgetter(2)), len(rows)):
            row = rows[place]
            if row[2] > until + _LATEST:
                return
            if since <= row[1] < until:
                yield row
