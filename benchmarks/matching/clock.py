"""The clock: processor time of this process, so that others on a shared machine disturb as little as can be."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
LEAST = 0.01  # seconds between two looks at the clock, for a rate


def rate(call: Callable[[Item], object], items: Sequence[Item], seconds: float) -> float:
    """Calls a second, over the items again and again."""
    spent, done, start, group = 0.0, 0, 0, 1
    while spent < seconds:
        chosen = items[start : start + group]
        began = time.process_time()
        for item in chosen:
            call(item)
        took = time.process_time() - began
        spent += took
        done += len(chosen)
        start = start + group if start + group < len(items) else 0
        if took < LEAST:
            group = min(2 * group, len(items))
    return done / spent


def costs(call: Callable[..., object], arguments: Iterable[tuple[object, ...]]) -> list[float]:
    """Microseconds of each call, without those of looking at the clock."""
    now = time.process_time_ns
    taken = []
    for each in arguments:
        began = now()
        call(*each)
        taken.append(now() - began)
    own = _own()
    return [max(0.0, nanoseconds - own) / 1e3 for nanoseconds in taken]


def seconds(call: Callable[[], Item]) -> tuple[float, Item]:
    """How long one call takes, and what it gives."""
    began = time.process_time()
    given = call()
    return time.process_time() - began, given


def middle_and_tail(values: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    middle, tail = np.percentile(values, (50, 99)).tolist()
    return middle, tail


@cache
def _own() -> float:
    """Nanoseconds that the clock itself takes, and a call of nothing."""
    now = time.process_time_ns
    taken = []
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731
    for _ in range(2000):
        began = now()
        nothing(0, 0)
        taken.append(now() - began)
    return float(np.median(taken))
