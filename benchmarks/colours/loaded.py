"""Links that go and come back under load, by plans and at once: what is lost, how much less passes, who waits."""

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.colours.load import Figures, Flow, Load, Span, crosses
from benchmarks.colours.running import Link, Network, Operator, clusters, running, write

SIZES = (7, 7, 8)
_QUIET = 6.0  # seconds before anything happens
_STEP = 3.0  # seconds for which a rate is tried
_SLOWEST = 200.0  # events/s of a publisher, at which trying begins
_FASTER = 1.25
_SHARE = 0.8  # of the highest rate without drops
_KEEPS_UP = 0.97  # of what was to be published and to arrive, or the rate is too high
_LATE_MS = 250.0  # p99: queues that grow so long do not last


class Loaded:
    """One network under load, and what was seen of it."""

    def __init__(self, network: Network, brokers: list[str], operator: Operator) -> None:
        self._load = Load(network.urls, brokers[3::6], brokers[::6], _SLOWEST)
        self._operator = operator
        self._elsewhere: dict[Flow, list[Span]] = defaultdict(list)  # when plans ran, for flows that pass none of them
        self._plans: list[tuple[float, float]] = []  # seconds, and those in which events waited

    async def play(self, links: list[Link], rate: float) -> dict[str, Figures]:
        """Return the figures before, during plans and during the same changes at once; `rate` 0 finds one out."""
        load, spans = self._load, dict[str, Span]()

        async def during(name: str, work: Callable[[], Any]) -> None:
            begin = time.perf_counter()
            await asyncio.to_thread(work)
            spans[name] = begin, time.perf_counter()
            await asyncio.sleep(1.0)

        async with asyncio.TaskGroup() as group:
            await load.begin(group)
            load.rate = rate or _SHARE * await self._highest_rate()
            await asyncio.sleep(2.0)
            await during("quiet", lambda: time.sleep(_QUIET))
            await during("plans", lambda: self._toggle(links, "planned"))
            await during("at once", lambda: self._toggle(links, "sudden"))
            load.end()
        return {name: load.figures(*span) for name, span in spans.items()}

    async def _highest_rate(self) -> float:
        """Return the highest rate of a publisher at which nothing is dropped and nothing stays behind."""
        load, last = self._load, 0.0
        while True:
            await asyncio.sleep(1.0)
            begin = time.perf_counter()
            await asyncio.sleep(_STEP)
            end = time.perf_counter()
            await asyncio.sleep(1.0)  # what was published then has arrived
            found = load.figures(begin, end)
            wanted = load.rate * len(load.got)
            if found["rate"] < _KEEPS_UP * wanted or found["lost"] or found["p99_ms"] > _LATE_MS:
                load.rate = last or _SLOWEST / 2
                return load.rate
            last, load.rate = load.rate, load.rate * _FASTER

    def _toggle(self, links: list[Link], how: str) -> None:
        for link in links:
            for what in ("remove", "add"):
                begin = time.perf_counter()
                took = self._operator.change(what, link, how)
                if how == "planned":
                    self._plans.append(took)
                    unit = link[0].partition("/")[0]
                    for flow in self._load.got:
                        if not crosses(flow, unit):
                            self._elsewhere[flow].append((begin, time.perf_counter()))

    def plans(self) -> dict[str, float]:
        """Return how long plans took and let events wait, and how late flows were that none of them concerned."""
        seconds, held = zip(*self._plans, strict=True)
        delays = self._load.delays(self._elsewhere)
        return {
            "rate": self._load.rate,
            "plans": len(seconds),
            "seconds_median": statistics.median(seconds),
            "held_median": statistics.median(held),
            "held_most": max(held),
            "elsewhere_p99_ms": 1e3 * float(np.percentile(delays, 99)),
            "elsewhere_events": len(delays),
        }


def under_load(folder: Path, count: int, rate: float) -> tuple[dict[str, Figures], dict[str, float]]:
    """Rates and delays before plans, during plans, and during the same changes at once; and what plans took."""
    brokers, links = clusters(*SIZES)
    random = Random(1)
    inner = [link for link in links if link[0].split("/")[0] == link[1].split("/")[0]]
    drawn = [random.choice(inner) for _ in range(count)]
    with running(write(folder / "stentor.toml", brokers, links)) as network, network.operator() as operator:
        loaded = Loaded(network, brokers, operator)
        figures = asyncio.run(loaded.play(drawn, rate))
        return figures, loaded.plans()
