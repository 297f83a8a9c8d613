"""Runs: neighbouring event frames of a chunk that go the same way, so that they travel as one slice."""

from collections.abc import Mapping
from typing import TypeVar

from stentor.wire.head import FLOW, HEADER_SIZE, LENGTH_AND_COUNT

R = TypeVar("R")


def split(data: bytes, position: int, flows: Mapping[bytes, R]) -> tuple[list[tuple[R, int, int, int]], int]:
    """Cut `data` from `position` into runs (route, start, end, events); stop at the first frame that needs a look:
    a control frame, an unknown flow, an incomplete or impossible frame. Returns the runs and where that frame is.
    """
    runs: list[tuple[R, int, int, int]] = []
    size = len(data)
    last = size - HEADER_SIZE
    unpack = LENGTH_AND_COUNT.unpack_from
    first_byte, behind = FLOW.start, FLOW.stop
    flow = route = None
    start, events = position, 0
    while position <= last:
        length, count = unpack(data, position)
        end = position + length
        if end > size or length < HEADER_SIZE or not count:
            break
        key = data[position + first_byte : position + behind]
        if key != flow:
            found = flows.get(key)
            if found is None:
                break
            flow = key
            if found is not route:
                if events:
                    runs.append((route, start, position, events))  # type: ignore[arg-type]
                route, start, events = found, position, 0
        events += count
        position = end
    if position > start and route is not None:
        runs.append((route, start, position, events))
    return runs, position


def cut(data: bytes, start: int, end: int) -> bytes | memoryview:
    """A slice that does not keep a large chunk alive for the sake of a small part of it."""
    if end - start == len(data):
        return data
    return memoryview(data)[start:end] if (end - start) * 4 >= len(data) else data[start:end]
