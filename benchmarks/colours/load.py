"""Publishers and subscribers whose events have numbers and times: what is lost, doubled, late, and how long it took."""

import asyncio
import struct
import time
from collections import defaultdict
from itertools import pairwise

import numpy as np

import stentor

_EVENT = struct.Struct("<qd")  # its number, and when it was published
_END = -1
_PAUSE = 0.005  # seconds


class Figures(dict[str, float]):
    """Rates and delays of some seconds, and what went wrong in them."""


class Load:
    """Events at a steady rate, from some brokers to some."""

    def __init__(self, urls: dict[str, str], publishers: list[str], subscribers: list[str], rate: float) -> None:
        self._urls = urls
        self._publishers = publishers
        self._subscribers = subscribers
        self._rate = rate  # events/s of a publisher
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
            begin, published = time.perf_counter(), self.published[name]
            while not self._is_over:
                while len(published) < (time.perf_counter() - begin) * self._rate:
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
            async for event in events:
                number, published = _EVENT.unpack(event.body)
                publisher = event.topic.removeprefix("load/")
                if number == _END:
                    left.discard(publisher)
                    if not left:
                        return
                else:
                    self.got[name, publisher].append((number, published, time.perf_counter()))

    def figures(self, since: float, until: float) -> Figures:
        """Return what arrived of the events that were published in some time."""
        delays: list[float] = []
        wrong = {"lost": 0, "doubled": 0, "reordered": 0}
        expected = {name: sum(since <= each < until for each in times) for name, times in self.published.items()}
        for (_, publisher), rows in self.got.items():
            some = [row for row in rows if since <= row[1] < until]
            delays += [arrived - published for _, published, arrived in some]
            found = [number for number, _, _ in some]
            wrong["lost"] += expected[publisher] - len(set(found))
            wrong["doubled"] += len(found) - len(set(found))
            wrong["reordered"] += sum(one > other for one, other in pairwise(found))
        return Figures(
            rate=len(delays) / (until - since),
            p50_ms=1e3 * float(np.percentile(delays, 50)),
            p99_ms=1e3 * float(np.percentile(delays, 99)),
            **wrong,
        )
