"""A trial: one contestant with so many filters of one workload, in a process of its own."""

import gc
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.matching import clock
from benchmarks.matching.contestants import ENTRIES, Contestant
from benchmarks.matching.population import Population
from benchmarks.matching.reading import READING, read
from benchmarks.matching.truth import Truth
from benchmarks.matching.workloads import BATCH, WORKLOADS
from stentor import Filter
from stentor.bench.machine import busy_seconds, own_seconds
from stentor.model.batch import Batch, Row, Rows

EVENTS = 10_000
CHUNK = 100  # filters made, then added: few, since what they leave on the heap is taken for the index's
CHANGES = 1_000  # filters added, and removed, in a round
AFTERWARDS = 50  # matches right after a change, in a round
WARM_UP = 5_000  # filters, more than any cache remembers
LEAST_MEMORY = 10_000  # filters whose memory can be told from an allocator's steps
SEED_FILTERS, SEED_EVENTS, SEED_NEW, SEED_CHOICE, SEED_WARM_UP = 1, 2, 3, 4, 5
_PAGE = os.sysconf("SC_PAGE_SIZE")

Rounds = dict[str, list[float]]  # a value for each round


class Task(msgspec.Struct, frozen=True):
    """What to measure."""

    workload: str
    masks: str
    contestant: str
    size: int
    rounds: int
    seconds: float


class Trial:
    """Filters, events and an index that gets them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._entry = ENTRIES[task.contestant]
        self._workload = WORKLOADS[task.workload]
        self._filters = self._workload.filters(task.size, SEED_FILTERS)
        self._newcomers = self._workload.filters(CHANGES * task.rounds, SEED_NEW)
        self._owners = self._owned(self._filters, 0)
        self._new_owners = self._owned(self._newcomers, task.size)
        self._events = self._workload.events(EVENTS, SEED_EVENTS)
        self._batches = {size: _batches(self._events, size) for size in self._workload.batches}
        self._truth = Truth(self._filters, None if self._entry.lists else self._owners, self._events)
        self._index: Contestant = self._entry.make(tuple(self._events[0]))
        self._random = np.random.default_rng(SEED_CHOICE)
        self._figures: Rounds = {}

    def run(self) -> Rounds:
        for name, value in self._truth.figures().items():
            self._note(name, value)
        self._build()
        self._check()
        for _ in range(self._task.rounds):
            self._rates()
        for number in range(self._task.rounds):
            self._changes(number)
            self._churn(number)
        self._check()  # what was added and removed meanwhile has left no trace
        self._snapshot()
        return self._figures

    def _note(self, name: str, value: float) -> None:
        self._figures.setdefault(name, []).append(value)

    def _owned(self, filters: Population, first: int) -> list[int]:
        """What a filter is added with: its member, or its number."""
        if self._entry.lists:
            return list(range(first, first + filters.count))
        return filters.owners(self._task.masks)

    def _made(self, filters: Population, numbers: Sequence[int]) -> list[Filter]:
        """New objects, as if a client had just sent them, with all done that is measured apart."""
        made = [Filter(filters.text(number)) for number in numbers]
        for where in made:
            self._index.prepare(where)
        return made

    def _check(self) -> None:
        self._truth.check_one(self._index.one)
        if self._index.batch is not None:
            self._truth.check_batch(self._index.batch)

    def _build(self) -> None:
        """Memory is all that stays when the filters' own objects are gone, and what the first matches leave."""
        add, size = self._index.add, self._task.size
        others = self._workload.filters(WARM_UP, SEED_WARM_UP)
        for first in range(0, WARM_UP, CHUNK):
            self._made(others, range(first, first + CHUNK))  # caches are full before memory is looked at
        before, spent = _resident(), 0.0
        for first in range(0, size, CHUNK):
            numbers = range(first, min(first + CHUNK, size))
            pairs = list(zip(self._made(self._filters, numbers), self._owners[first : numbers.stop], strict=True))
            began = time.process_time()
            for where, who in pairs:
                add(where, who)
            spent += time.process_time() - began
            del pairs
        settled = clock.seconds(self._settle)[0]
        gc.collect()
        self._note("build_s", spent)
        self._note("settle_s", settled)
        if size >= LEAST_MEMORY:
            self._note("bytes", (_resident() - before) / size)

    def _settle(self) -> None:
        """The first matches, which may put off no work any longer."""
        self._index.one(self._events[0])
        if self._index.batch is not None:
            self._index.batch(self._batches[BATCH][0])

    def _rates(self) -> None:
        seconds = self._task.seconds
        self._note("one", clock.rate(self._index.one, self._events, seconds))
        if self._index.batch is not None:
            for size, batches in self._batches.items():
                self._note(f"batch{size}", size * clock.rate(self._index.batch, batches, seconds))

    def _changes(self, number: int) -> None:
        """Add some and remove them, remove some and add them, so that the index stays as large as it was."""
        add, remove = self._index.add, self._index.remove
        new = iter(range(number * CHANGES, (number + 1) * CHANGES))
        chosen = iter(self._random.permutation(self._task.size)[:CHANGES].tolist())
        self._note_costs("add", self._newcomers, self._new_owners, new, add, remove)
        self._note_costs("remove", self._filters, self._owners, chosen, remove, add)

    def _note_costs(
        self,
        name: str,
        filters: Population,
        owners: Sequence[int],
        numbers: Iterator[int],
        change: Callable[[Filter, int], object],
        undo: Callable[[Filter, int], object],
    ) -> None:
        """The median and the tail of one kind of change."""
        group = max(1, min(self._task.size // 10, 100))
        until = time.monotonic() + 2 * self._task.seconds + 0.2
        taken: list[float] = []
        while time.monotonic() < until and (some := list(islice(numbers, group))):
            owned = [owners[number] for number in some]
            taken += clock.costs(change, zip(self._made(filters, some), owned, strict=True))
            for where, who in zip(self._made(filters, some), owned, strict=True):
                undo(where, who)
        middle, tail = clock.middle_and_tail(taken)
        self._note(f"{name}_p50", middle)
        self._note(f"{name}_p99", tail)

    def _churn(self, number: int) -> None:
        """Batches while filters come and go: one is added and another removed before each, off the clock."""
        index = self._index
        if index.batch is None:
            return
        until = time.monotonic() + 2 * self._task.seconds
        ones: list[float] = []
        batches: list[float] = []
        here: list[tuple[Filter, int]] = []
        first = number * CHANGES
        for new, batch in zip(range(first, first + CHANGES), cycle(self._batches[BATCH]), strict=False):
            if len(batches) >= 2 and time.monotonic() > until:
                break
            (where,), who = self._made(self._newcomers, [new]), self._new_owners[new]
            index.add(where, who)
            if len(here) > 10:
                index.remove(*here.pop(0))
            here.append((where, who))
            if len(ones) < AFTERWARDS:
                event = next((event for event in self._events[:500] if where.matches(event)), self._events[0])
                ones += clock.costs(index.one, [(event,)])
            batches += clock.costs(index.batch, [(batch,)])
        for where, who in here:
            index.remove(where, who)
        self._note("after_one", clock.middle_and_tail(ones)[0])
        self._note("churn", 1e6 * BATCH * len(batches) / sum(batches))
        self._note("churn_p99", clock.middle_and_tail(batches)[1])

    def _snapshot(self) -> None:
        if self._index.snapshot is None:
            return
        taken, snapshot = clock.seconds(self._index.snapshot)
        pickled, sent = clock.seconds(lambda: pickle.dumps(snapshot, pickle.HIGHEST_PROTOCOL))
        loaded, received = clock.seconds(lambda: pickle.loads(sent))
        self._truth.check_batch(received.match)
        self._truth.check_one(received.match_one)
        for name, value in (("snapshot_s", taken), ("pickle_s", pickled), ("unpickle_s", loaded)):
            self._note(name, value)
        self._note("snapshot_bytes", float(len(sent)))


def _batches(events: list[Row], size: int) -> list[Batch]:
    """Batches whose columns are there already: a broker reads them from the wire, not from rows."""
    made: list[Batch] = []
    for first in range(0, len(events) - size + 1, size):
        batch = Rows(events[first : first + size])
        for name in events[0]:
            batch.column(name)
        made.append(batch)
    return made


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def measure(task: Task) -> Rounds:
    """All figures of a task, and the cores that others used meanwhile."""
    since, busy, own = time.monotonic(), busy_seconds(), own_seconds()
    is_reading = task.contestant == READING
    figures = read(WORKLOADS[task.workload], task.rounds) if is_reading else Trial(task).run()
    others = (busy_seconds() - busy) - (own_seconds() - own)
    return figures | {"noise_cores": [max(0.0, others) / (time.monotonic() - since)]}
