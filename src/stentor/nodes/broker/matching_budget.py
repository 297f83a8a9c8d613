"""Matching budget: how much of a chunk can be matched in one step, if filters have to be evaluated or ranges are many.

Most routes need no matching, or a few look-ups. Where an event is compared with thousands of ranges or has to be
evaluated, a chunk of events is matched over several steps: frame by frame, and a frame that is too much by itself is
cut into halves.
"""

from typing import NamedTuple

from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.routes import Route
from stentor.wire.block import Block
from stentor.wire.head import LENGTH_AND_COUNT

Run = tuple[Route[Outbox], int, int, int]  # route, start, end, events


class MatchingBudget(NamedTuple):
    """The runs of a chunk that fit into a step: where they end, and what matching them costs in nanoseconds."""

    data: bytes
    runs: list[Run]
    end: int
    cost: int
    is_all: bool


def ration(forwarder: Forwarder[Outbox], data: bytes, runs: list[Run], allowance: int) -> MatchingBudget:
    """Return as many of these runs, from the first one on, as cost no more than that; at least one event."""
    chosen: list[Run] = []
    cost = 0
    for route, start, end, count in runs:
        price = route.price(count, end - start)
        if cost + price <= allowance:
            chosen.append((route, start, end, count))
            cost += price
            continue
        position, events = start, 0
        while position < end:
            length, some = LENGTH_AND_COUNT.unpack_from(data, position)
            price = route.price(some, length)
            if cost + price > allowance:
                break
            cost, events, position = cost + price, events + some, position + length
        if position > start:
            chosen.append((route, start, position, events))
        if chosen:
            return MatchingBudget(data, chosen, position, cost, is_all=False)
        data, length, some = _halve(forwarder, data, position, allowance, route)
        price = route.price(some, length)
        return MatchingBudget(
            data, [(route, position, position + length, some)], position + length, price, is_all=False
        )
    return MatchingBudget(data, chosen, runs[-1][2], cost, is_all=True)


def _halve(
    forwarder: Forwarder[Outbox], data: bytes, position: int, allowance: int, route: Route[Outbox]
) -> tuple[bytes, int, int]:
    """Cut the frame at a place of a chunk until its first part can be afforded, or has one event. Return the chunk as
    it is then, and the length and the number of events of that part.
    """
    length, count = LENGTH_AND_COUNT.unpack_from(data, position)
    while count > 1 and route.price(count, length) > allowance:
        schema = forwarder.schema_of(data, position)
        first, second = Block(memoryview(data)[position : position + length], schema).halves()
        data = b"".join((data[:position], first, second, data[position + length :]))
        length, count = len(first), count // 2
    return data, length, count
