"""Rows: the lines of tables and plots, each one way to match by one contestant."""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.matching.contestants import ANY, ENTRIES
from benchmarks.matching.results import Results

_HOW = {"one": "one event", "batch32": "batches of 32", "batch100": "batches of 100", "batch1000": "batches of 1,000"}


class Row(NamedTuple):
    """A figure of a contestant with certain masks."""

    contestant: str
    masks: str
    figure: str

    @property
    def how(self) -> str:
        """Its contestant, and how that was given events."""
        entry = ENTRIES[self.contestant]
        return f"{entry.title}, {_HOW[self.figure]}" if entry.batches else entry.title

    @property
    def title(self) -> str:
        return self.how if self.masks == ANY else f"{self.how}, {self.masks}"


def rows(results: Results, workload: str) -> Iterator[Row]:
    """Everything that was measured of a workload, as rates."""
    samples = results.of(workload)
    for contestant in ENTRIES:
        for figure in _HOW:
            for masks in dict.fromkeys(each.masks for each in samples if each.contestant == contestant):
                if any(
                    figure in each.figures for each in samples if (each.contestant, each.masks) == (contestant, masks)
                ):
                    yield Row(contestant, masks, figure)
