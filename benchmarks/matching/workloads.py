"""Workloads: which filters stand against which events."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.matching import population
from benchmarks.matching.population import Population
from stentor.model.batch import Row

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
MASKS = ("dense", "sparse")
BATCH = 1_000  # events in a batch, if nothing else is said


@dataclass(frozen=True, slots=True)
class Workload:
    """Filters and events, the same for the same seed."""

    name: str
    title: str
    filters: Callable[[int, int], Population]  # count, seed
    events: Callable[[int, int], list[Row]]
    batches: tuple[int, ...] = (BATCH,)
    toll: float = 60e-6  # seconds that a filter takes until it is measured, roughly
    usual: bool = True  # part of a run that names no workloads


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("W1", "four of six tags equal", population.Tags, population.tagged_events, toll=15e-6),
        Workload(
            "W2",
            "a symbol equal and a range of prices",
            population.Orders,
            population.order_events,
            batches=(32, 100, BATCH),
        ),
        Workload(
            "W2n",
            "W2 with narrow ranges",
            population.NarrowOrders,
            population.order_events,
            batches=(32, 100, BATCH),
            usual=False,
        ),
        Workload("W3", "two wide ranges", population.Squares, population.points, toll=120e-6),
    )
}
