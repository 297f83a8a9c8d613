"""The truth: what every contestant must answer, by arrays alone. Whoever answers otherwise ends the run."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.matching.population import Population
from stentor.model.batch import Row, Rows

LEAST, MOST = 5, 100  # events looked at
PATIENCE = 1.0  # seconds after which those that were looked at are enough

Answer = int | list[int]


class Disagreement(Exception):
    """A contestant is wrong."""


class Truth:
    """Right answers for the first events."""

    def __init__(self, filters: Population, owners: Sequence[int] | None, events: Sequence[Row]) -> None:
        self.events = events[:MOST]
        self._count = filters.count
        matching = [np.flatnonzero(filters.truth(event)).tolist() for event in self.events]
        self.answers: list[Answer] = [
            numbers if owners is None else _mask(owners[number] for number in numbers) for numbers in matching
        ]
        self._found = [len(numbers) for numbers in matching]

    def figures(self) -> dict[str, float]:
        """How many filters match an event, and how many bits that sets."""
        figures = {"matching": float(np.mean(self._found)) / self._count}
        bits = [answer.bit_count() for answer in self.answers if isinstance(answer, int)]
        return figures | ({"bits": float(np.mean(bits))} if bits else {})

    def check_one(self, call: Any) -> None:
        until = time.monotonic() + PATIENCE
        for number, event in enumerate(self.events):
            if number >= LEAST and time.monotonic() > until:
                break
            given = call(event)
            self._compare(number, given if isinstance(given, int) else sorted(given), "one event")

    def check_batch(self, call: Any) -> None:
        for number, given in enumerate(_split(call(Rows(self.events)), len(self.events))):
            self._compare(number, given, "a batch")

    def _compare(self, number: int, given: Answer, how: str) -> None:
        right = self.answers[number]
        if given != right:
            raise Disagreement(f"{how}: {self.events[number]} gives {_short(given)}, right is {_short(right)}")


def _mask(members: Iterable[int]) -> int:
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


def _split(given: Any, count: int) -> Iterator[Answer]:
    """The answer for each event of a batch."""
    if not isinstance(given, tuple):
        yield from given.tolist()
        return
    events, numbers = given
    for event in range(count):
        yield sorted(numbers[events == event].tolist())


def _short(answer: Answer) -> str:
    return f"{answer:#x}" if isinstance(answer, int) else f"{len(answer)} filters {answer[:5]}…"
