"""The comparison: how many times as fast this tree is as the other commit, row by row, and whether that is enough."""

from collections.abc import Iterable

import msgspec

from benchmarks.results import Results, Sample

BOUND = 0.97  # medians of five rounds of one commit beside itself differ by up to 3 % on a quiet machine
# A row is judged by the first of these that it has. More is better for a rate, less for everything else.
RATE, COST = "rate", "cpu_us"
JUDGED = (RATE, "p50", "us", "count")


class Comparison(msgspec.Struct, frozen=True):
    """One row of both sides. Ratios above 1 say that this tree is faster, or uses less processor time."""

    row: str
    figure: str
    base: float
    head: float
    ratio: float
    base_cost: float | None  # microseconds of processor time per event
    head_cost: float | None
    cost_ratio: float | None

    @property
    def met(self) -> bool:
        return self.ratio >= BOUND


def compare(results: Results, base: str, head: str) -> list[Comparison]:
    """Return the rows that both sides have, in the order in which they were measured."""
    compared = []
    for row in rows_of(results):
        pair = next(
            (
                (figure, ours, theirs)
                for figure in JUDGED
                if (ours := results.median(row, head, figure)) and (theirs := results.median(row, base, figure))
            ),
            None,
        )
        if pair is None:
            continue
        figure, ours, theirs = pair
        costs = results.median(row, base, COST), results.median(row, head, COST)
        compared.append(
            Comparison(
                row=row,
                figure=figure,
                base=theirs,
                head=ours,
                ratio=ours / theirs if figure == RATE else theirs / ours,
                base_cost=costs[0],
                head_cost=costs[1],
                cost_ratio=costs[0] / costs[1] if costs[0] and costs[1] else None,
            )
        )
    return compared


def rows_of(results: Results) -> list[str]:
    return list(dict.fromkeys(sample.workload for sample in results.samples))


def one_sided(results: Results, base: str, head: str) -> list[str]:
    """Return the rows that only one side has: it is new, it is gone, or it failed in every round."""
    compared = {each.row for each in compare(results, base, head)}
    return [row for row in rows_of(results) if row not in compared]


def is_no_slower(results: Results, base: str, head: str) -> bool:
    """Return whether no row is below the bound, none failed, and there is one at all. A row that the other commit
    does not know is no reproach.
    """
    compared = compare(results, base, head)
    lost = [row for row in one_sided(results, base, head) if base in results.contestants(row)]
    return bool(compared) and not lost and not results.errors() and all(each.met for each in compared)


def replace(samples: Iterable[Sample], rows: Iterable[str], again: Iterable[Sample]) -> list[Sample]:
    """Return the samples with those of some rows taken from another run."""
    chosen = set(rows)
    kept = [sample for sample in samples if sample.workload not in chosen]
    return kept + [sample for sample in again if sample.workload in chosen]
