"""Results: every trial of a run of the GES benchmark, what follows from them, and the file they are kept in."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from stentor.bench.ges22 import FAR, MIDWAY
from stentor.bench.grid import Trial
from stentor.bench.machine import QUIET, MachineDescription
from stentor.bench.measurer import Latency

CHAINS, CONNECTED = "figure 6", "figure 9"  # the paper's drawings of the two networks


class Sample(msgspec.Struct, frozen=True):
    """One trial."""

    network: str
    trial: Trial
    seconds: float  # that publishing took
    latencies: dict[int, Latency]  # by hops from the publisher
    expected: int  # by the crowd, of all its clients together
    received: int
    noise_cores: float
    copies: int = 0  # how often an event was stored

    @property
    def reached(self) -> float:
        """Events/s that were published indeed."""
        return self.trial.events / self.seconds if self.seconds else 0.0


class Extreme(NamedTuple):
    """The lowest or the highest mean of a match rate, and where it was."""

    latency: Latency
    trial: Trial


class Hops(NamedTuple):
    """Mean latency in ms by hops, at one rate and size; of the near ones in the well-connected network."""

    rate: float
    size: int
    means: dict[int, float]
    per_hop: float | None  # of the eight hops more in the network with few links


class StoredLatency(NamedTuple):
    """Mean latency in ms at one rate, size and match rate: not stored, stored once and stored twice."""

    rate: float
    size: int
    match: int
    none: float | None
    midway: float | None  # stored once, where the paper measured that
    one: float | None
    two: float | None


class GesResults(msgspec.Struct):
    """The trials of one run of the GES benchmark."""

    date: str
    version: str
    machine: MachineDescription
    settings: dict[str, list[float]]
    clients: int = 0
    samples: list[Sample] = []
    hops: list[Sample] = []
    alone: list[Sample] = []  # as the hops, before the crowd came: what a hop costs by itself
    stored: list[Sample] = []  # as the samples, by topics that are stored
    interrupted: bool = False
    failures: list[str] = []  # why the rest of a part of the session was given up

    def matches(self) -> list[int]:
        return sorted({each.trial.match for each in self.samples}, reverse=True)

    def mean(self, match: int, rate: float, size: int, copies: int = 0, hops: int = FAR) -> float | None:
        """The mean latency of the grid at a point."""
        for each in self._of(copies):
            if (each.trial.match, each.trial.rate, each.trial.size) == (match, rate, size) and _sound(each, hops):
                return each.latencies[hops].mean
        return None

    def extremes(self, match: int, copies: int = 0) -> tuple[Extreme, Extreme] | None:
        """The lowest and the highest mean of a match rate; None if nothing was measured."""
        found = [
            Extreme(each.latencies[FAR], each.trial)
            for each in self._of(copies)
            if each.trial.match == match and _sound(each, FAR)
        ]
        if not found:
            return None
        return min(found, key=lambda each: each.latency.mean), max(found, key=lambda each: each.latency.mean)

    def _of(self, copies: int) -> list[Sample]:
        return [each for each in self.stored if each.copies == copies] if copies else self.samples

    def by_copies(self) -> Iterator[StoredLatency]:
        """What storing costs, match rate by match rate, rate by rate and size by size."""
        points = {(-each.trial.match, each.trial.rate, each.trial.size) for each in self.stored}
        for match, rate, size in sorted(points):
            none, one, two = (self.mean(-match, rate, size, copies) for copies in range(3))
            yield StoredLatency(rate, size, -match, none, self.mean(-match, rate, size, 1, MIDWAY), one, two)

    def by_hops(self) -> Iterator[Hops]:
        """What hops cost, rate by rate and size by size."""
        points = sorted({(each.trial.rate, each.trial.size) for each in self.hops})
        for rate, size in points:
            there = [each for each in self.hops if (each.trial.rate, each.trial.size) == (rate, size)]
            near = _means(each for each in there if each.network == CONNECTED)
            far = _means(each for each in there if each.network == CHAINS)
            per_hop = (far[FAR] - far[1]) / (FAR - 1) if {1, FAR} <= far.keys() else None
            means = {**{hops: mean for hops, mean in far.items() if hops not in near}, **near}
            yield Hops(rate, size, means, per_hop)

    def hops_alone(self) -> list[tuple[Trial, float]]:
        """What one of the eight hops more costs in ms while nobody else is there."""
        found = []
        for each in self.alone:
            means = _means([each])
            if {1, FAR} <= means.keys():
                found.append((each.trial, (means[FAR] - means[1]) / (FAR - 1)))
        return found

    def everything(self) -> list[Sample]:
        return [*self.samples, *self.hops, *self.alone, *self.stored]

    def lost(self) -> int:
        """Events that did not come to measuring subscribers or to the crowd."""
        everything = self.everything()
        measured = sum(latency.missed for each in everything for latency in each.latencies.values())
        return measured + sum(each.expected - each.received for each in everything)

    def disturbed(self) -> list[float]:
        """Cores that others used, in the trials in which they used many."""
        return [each.noise_cores for each in self.everything() if each.noise_cores > QUIET]

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        table = {
            str(match): {"lowest": low._asdict(), "highest": high._asdict()}
            for match in self.matches()
            if (both := self.extremes(match)) is not None
            for low, high in [both]
        }
        figures = {
            "table_2": table,
            "figure_8": [each._asdict() for each in self.by_copies()],
            "figure_10": [each._asdict() for each in self.by_hops()],
        }
        content = {**msgspec.to_builtins(self, str_keys=True), **figures}
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


def _sound(sample: Sample, hops: int) -> bool:
    return hops in sample.latencies and sample.latencies[hops].received > 0


def _means(samples: Iterable[Sample]) -> dict[int, float]:
    return {
        hops: latency.mean for each in samples for hops, latency in sorted(each.latencies.items()) if latency.received
    }
