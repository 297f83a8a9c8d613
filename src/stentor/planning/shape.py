"""Shapes: how many members the units of each level have, and which members of a unit are linked."""

import math
from itertools import combinations
from random import Random
from typing import Literal

from stentor.model.errors import InvalidInput
from stentor.model.scope import LARGEST_UNIT

Shape = Literal["mesh", "ring", "random"]
Graph = tuple[tuple[int, ...], ...]  # the members that each member is linked with, in rising order

MOST_LEVELS = 8  # masks that a parcel can carry


def sizes(brokers: int, levels: int, unit: int) -> tuple[int, ...]:
    """How many members the units of each level have, the lowest first, so that there are brokers enough.

    They are as equal as can be: that makes the tables of a broker smallest.
    """
    if not 1 <= levels <= MOST_LEVELS:
        raise InvalidInput(f"{levels} levels: expected 1 to {MOST_LEVELS}")
    if not 2 <= unit <= LARGEST_UNIT:
        raise InvalidInput(f"units of {unit} members: expected 2 to {LARGEST_UNIT}")
    if brokers < 1:
        raise InvalidInput("no clients need no brokers")
    if unit**levels < brokers:
        needed = math.ceil(math.log(brokers, unit) - 1e-9)
        hint = f"{needed} levels" if needed <= MOST_LEVELS else "more clients per broker"
        raise InvalidInput(f"{brokers:,} brokers do not fit into {levels} levels of {unit}: take {hint}")
    found = [next(size for size in range(1, unit + 1) if size**levels >= brokers)] * levels
    for level in reversed(range(levels)):  # the highest level gives way first
        while found[level] > 1 and math.prod(found) // found[level] * (found[level] - 1) >= brokers:
            found[level] -= 1
    return tuple(found)


def link(members: int, shape: Shape, links: int, dice: Random) -> Graph:
    """Who is linked with whom among the members of a unit, with so many links each, as far as that goes."""
    if shape == "mesh" or links >= members - 1:
        return _graph(members, set(combinations(range(members), 2)))
    pairs = {_pair(one, (one + step) % members) for one in range(members) for step in range(1, max(1, links // 2) + 1)}
    if shape == "random":
        order = dice.sample(range(members), members)  # a ring in any order, so that all reach all, and then chords
        pairs = {_pair(order[place - 1], one) for place, one in enumerate(order)}
        while len(pairs) < members * links // 2:
            one, other = dice.sample(range(members), 2)
            pairs.add(_pair(one, other))
    return _graph(members, pairs)


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def _graph(members: int, pairs: set[tuple[int, int]]) -> Graph:
    linked: list[set[int]] = [set() for _ in range(members)]
    for one, other in pairs:
        linked[one].add(other)
        linked[other].add(one)
    return tuple(tuple(sorted(each)) for each in linked)
