"""Sums of traces: fewer rows that hold the same numbers, for the same subscribers."""

from collections import Counter
from random import Random

import pytest

from stentor.machine import MILLISECOND, SECOND
from stentor.model.reports.trace import Trace, TraceKind, audience_body, audience_of, numbers_body, numbers_of
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.trace_sum import TraceSum, delay_of


def stored(first: int, last: int, start: int = 0, at: int = 0, life: int = 1, **wanted: list[tuple[int, int]]) -> Trace:
    return Trace(
        kind=TraceKind.STORED,
        at=at,
        about="t",
        source_id=7,
        life=life,
        first=first,
        last=last,
        count=last - first + 1,
        keeper="r1",
        start=start or first,
        end=(start or first) + last - first,
        size=100,
        born=1,
        body=audience_body(wanted),
    )


def released(*spans: tuple[int, int], at: int = 0, keeper: str = "r1") -> Trace:
    first, last = spans[0][0], spans[-1][1]
    return Trace(
        kind=TraceKind.RELEASED,
        at=at,
        about="t",
        source_id=7,
        life=1,
        first=first,
        last=last,
        keeper=keeper,
        count=sum(high - low + 1 for low, high in spans),
        start=first,
        end=last,
        subscriber="s",
        size=100,
        body=numbers_body(first, spans),
    )


def told(rows: list[Trace]) -> Counter[tuple[str, int, int, str]]:
    """Which numbers rows are about, how often, and for whom."""
    found: Counter[tuple[str, int, int, str]] = Counter()
    for row in rows:
        if row.kind is TraceKind.STORED:
            whole = [(0, row.last - row.first)]
            named = {"": whole} | {name: offsets or whole for name, offsets in audience_of(row.body).items()}
        else:
            named = {row.subscriber: numbers_of(row.body) if row.body else [(0, row.last - row.first)]}
        for name, offsets in named.items():
            for low, high in offsets:
                found.update((row.kind, row.life, row.first + number, name) for number in range(low, high + 1))
    return found


def summed(rows: list[Trace]) -> list[Trace]:
    traces = TraceBuffer(sums=True)
    for row in rows:
        traces.add(row)
    return traces.take(0)


def test_what_goes_on_is_one_row_also_when_other_streams_lie_between() -> None:
    rows = [
        stored(number, number, 2 * number + life, number, life, a=[]) for number in range(1, 101) for life in (1, 2)
    ]
    one, other = summed(rows)
    assert (one.first, one.last, one.count, one.start, one.end) == (1, 100, 100, 3, 201)
    assert (one.at, one.until, one.size, one.body) == (1, 100, 10_000, b'{"a":[]}')
    assert (other.life, other.count) == (2, 100)


def test_for_whom_events_are_stays_exact() -> None:
    rows = [
        stored(1, 4, a=[], b=[(0, 0), (3, 3)]),
        stored(5, 8, a=[], b=[(0, 0), (3, 3)]),
        stored(9, 9, a=[]),
        stored(10, 10),
    ]
    (row,) = summed(rows)
    assert told([row]) == told(rows)
    assert audience_of(row.body) == {"a": [(0, 8)], "b": [(0, 0), (3, 4), (7, 7)]}


def test_doubles_and_swaps_are_rows_of_their_own_in_the_order_in_which_they_came() -> None:
    rows = [released((1, 5)), released((6, 9)), released((6, 9)), released((20, 22)), released((10, 19))]
    assert [(row.first, row.last) for row in summed(rows)] == [(1, 9), (6, 22), (10, 19)]
    assert told(summed(rows)) == told(rows)


def test_releases_of_another_repository_are_not_put_in_front_of_those_between() -> None:
    rows = [released((1, 5)), released((6, 9), keeper="r2"), released((10, 12))]
    assert [(row.first, row.keeper) for row in summed(rows)] == [(1, "r1"), (6, "r2"), (10, "r1")]


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_summed_up_no_number_is_lost_or_made_up(seed: int) -> None:
    random = Random(seed)
    rows: list[Trace] = []
    number, sequence = {1: 1, 2: 1}, 1
    for at in range(200):
        life, count = random.choice((1, 2)), random.randint(1, 5)
        first = max(number[life] + random.choice((0, 0, 0, 0, 1, -3)), 1)
        last = first + count - 1
        audience: dict[str, list[tuple[int, int]]] = {}
        for name in ("a", "b"):
            some = Spans((low, low) for low in range(count) if random.random() < 0.5)
            if some:
                audience[name] = list(some) if random.random() < 0.5 else []
        rows.append(stored(first, last, sequence, at, life, **audience))
        spans = [(low, low) for low in range(first, last + 1) if random.random() < 0.7]
        if spans:
            rows.append(released(*Spans(spans), at=at))
        number[life], sequence = last + 1, sequence + count
    found = summed(rows)
    assert told(found) == told(rows)
    assert len(found) < len(rows)
    assert sum(row.size for row in found) == sum(row.size for row in rows)


def test_sums_are_told_when_they_are_worth_it_or_after_ten_seconds() -> None:
    traces = TraceBuffer(sums=True)
    traces.add(stored(1, 1, at=SECOND))
    assert not traces.is_due(2 * SECOND)
    assert traces.is_due(11 * SECOND)
    for number in range(2, 2000):
        traces.add(stored(number, number, at=SECOND))
    assert traces.is_due(2 * SECOND)
    every = TraceBuffer()
    every.add(stored(1, 1, at=SECOND))
    assert every.is_due(SECOND), "what is not summed up does not wait"


def test_published_events_are_cut_where_windows_begin() -> None:
    traces = TraceBuffer(sums=True)
    for number in range(1, 31):
        traces.publish(number, "t", "shop", (7, 1), (number, number), 10, number * SECOND)
    assert [(row.first, row.last) for row in traces.take(0)] == [(1, 9), (10, 19), (20, 29), (30, 30)]


def test_delays_are_counted_by_how_long_they_are() -> None:
    traces = TraceBuffer(sums=True)
    traces.offset = 10 * SECOND
    for number in range(1, 11):
        traces.add(stored(number, number, at=number * MILLISECOND))
    (row,) = traces.take(0)
    delays = [(10 * SECOND + number * MILLISECOND - 1) for number in range(1, 11)]
    assert row.delays == f"[[{delay_of(delays[0])},10]]"
    for nanoseconds in (0, 15_000, 16_000, 1_000_000, 123_456_789, 7_000_000_000):
        number = delay_of(nanoseconds)
        shift = (number >> 3) - 1
        middle = number if number < 16 else (number - shift * 8 + 0.5) * 2**shift
        assert abs(middle - nanoseconds / 1000) <= max(0.0625 * nanoseconds / 1000, 0.5)


@pytest.mark.parametrize("seed", range(40))
def test_events_that_go_on_are_summed_up_as_if_each_had_a_row(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> list[list[Trace]]:
        random, traces, told = Random(seed), TraceBuffer(sums=True), []
        last = dict.fromkeys(("t", "u"), 0)
        for step in range(60):
            topic, life = random.choice("ttttu"), random.choice((1, 1, 1, 1, 2))
            first = last[topic] + random.choice((1, 1, 1, 1, 5))
            last[topic] = first + random.choice((0, 0, 3))
            traces.publish(step, topic, "shop", (7, life), (first, last[topic]), 10, step * SECOND // 3)
            if random.random() < 0.1:
                told.append(traces.take(step))
            if random.random() < 0.05:
                traces.switch(on=True, sums=True)
        return [*told, traces.take(100)]

    quick = run()
    assert sum(map(len, quick)) < 60, "some went on"
    monkeypatch.setattr(TraceSum, "extend", lambda *_: False)
    assert run() == quick
