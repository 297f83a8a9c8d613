"""LIKE: `%` stands for any characters, `_` for one, a backslash before either for itself.

A pattern is cut at its `%` into segments. The first and the last have their places in a text; each between them is
taken where it comes first, which leaves the most for the others, so nothing is ever tried again. A segment is found
by its core: what is left of it without the `_` at its ends. A core without `_` is a plain search; one with `_` inside
may cost its length at every character of a text, so its length is bounded.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

LONGEST_WILD_CORE = 64  # characters: on the longest text that is a millisecond at most
_ANY = "%"  # any characters, none included
_ONE = "_"  # exactly one character
_SPECIAL = re.compile(r"\\[%_]|%|_")
_LONG_CORE = 100  # characters from which Python's search takes time that does not grow with the length of the core

Token = tuple[str, bool]  # a character, and whether it is a wildcard
Find = Callable[[str, int, int], int]  # where a core begins in a text between two places; -1 is nowhere


@lru_cache(maxsize=64)  # several look at a pattern that is new, one after the other
def tokens(pattern: str) -> tuple[Token, ...]:
    """The characters of a pattern, each with whether it is a wildcard; adjacent `%` are one."""
    found: list[Token] = []
    position = 0
    for special in _SPECIAL.finditer(pattern):
        found.extend(zip(pattern[position : special.start()], repeat(False)))
        position = special.end()
        token = special[0][-1], len(special[0]) == 1
        if token != (_ANY, True) or not found or found[-1] != token:
            found.append(token)
    found.extend(zip(pattern[position:], repeat(False)))
    return tuple(found)


def beginning(pattern: str) -> tuple[str, str]:
    """What a text must begin with, and the rest of the pattern from its first wildcard, escapes resolved."""
    parts = tokens(pattern)
    length = next((index for index, (_, wild) in enumerate(parts) if wild), len(parts))
    characters = [character for character, _ in parts]
    return "".join(characters[:length]), "".join(characters[length:])


class _Segment(NamedTuple):
    """What stands between two `%`: its length, and its core with the number of `_` before and behind it."""

    size: int
    lead: int
    core: tuple[Token, ...]
    trail: int

    @property
    def is_wild(self) -> bool:
        return any(wild for _, wild in self.core)

    def runs(self) -> list[tuple[int, str]]:
        """The plain parts of the segment, and where each begins in it."""
        found: list[tuple[int, str]] = []
        for offset, (character, wild) in enumerate(self.core, self.lead):
            if wild:
                continue
            if found and found[-1][0] + len(found[-1][1]) == offset:
                found[-1] = found[-1][0], found[-1][1] + character
            else:
                found.append((offset, character))
        return found


@lru_cache(maxsize=64)
def _segments(pattern: str) -> list[_Segment]:
    cut: list[list[Token]] = [[]]
    for token in tokens(pattern):
        if token == (_ANY, True):
            cut.append([])
        else:
            cut[-1].append(token)
    found = []
    for parts in cut:
        plain = [index for index, (_, wild) in enumerate(parts) if not wild]
        start, end = (plain[0], plain[-1] + 1) if plain else (len(parts), len(parts))
        found.append(_Segment(len(parts), start, tuple(parts[start:end]), len(parts) - end))
    return found


def longest_wild_core(pattern: str) -> int:
    """Return the length of the longest core that is searched for and has a `_` inside."""
    return max((len(each.core) for each in _segments(pattern)[1:-1] if each.is_wild), default=0)


def cost_per_character(pattern: str) -> int:
    """Return how many nanoseconds a pattern takes at most for each character of a text."""
    cores = [each for each in _segments(pattern)[1:-1] if each.core]
    costs = [len(each.core) if each.is_wild else 1 + min(len(each.core), _LONG_CORE) // 8 for each in cores]
    return max(costs, default=0)  # each character is searched for one core after the other


def wildcards(pattern: str) -> int:
    """Return how many wildcards a pattern has: each is one more thing to look for."""
    return sum(wild for _, wild in tokens(pattern))


def matcher(pattern: str) -> Callable[[str], bool]:
    """A predicate for a pattern; the common shapes are single calls of `str`."""
    first, *rest = _segments(pattern)
    if not rest:
        return _whole(first)
    between, last = [each for each in rest[:-1] if each.size], rest[-1]
    if not between and not any(wild for each in (first, last) for _, wild in each.core):
        if not first.size:
            if last.size == len(last.core):
                return _ending("".join(character for character, _ in last.core))
        elif not last.size and first.size == len(first.core):
            return _beginning("".join(character for character, _ in first.core))
    return _pieces(first, between, last)


def _whole(segment: _Segment) -> Callable[[str], bool]:
    runs, size = segment.runs(), segment.size
    if runs and len(runs[0][1]) == size:
        return runs[0][1].__eq__
    return lambda text: len(text) == size and all(text.startswith(run, at) for at, run in runs)


def _beginning(first: str) -> Callable[[str], bool]:
    return lambda text: text.startswith(first)


def _ending(last: str) -> Callable[[str], bool]:
    return lambda text: text.endswith(last)


def _pieces(first: _Segment, between: list[_Segment], last: _Segment) -> Callable[[str], bool]:
    """`first%between%…%last`."""
    front, back = first.runs(), last.runs()
    finders = [(each.lead, _finder(each), len(each.core), each.trail) for each in between]

    def matches(text: str) -> bool:
        start, end = first.size, len(text) - last.size
        if start > end:
            return False
        for at, run in front:
            if not text.startswith(run, at):
                return False
        for at, run in back:
            if not text.startswith(run, end + at):
                return False
        for lead, find, length, trail in finders:
            start += lead
            if find is not None:
                start = find(text, start, end)
                if start < 0:
                    return False
            start += length + trail
            if start > end:
                return False
        return True

    return matches


def _finder(segment: _Segment) -> Find | None:
    """How to search for a core; None if there is nothing to be found."""
    if not segment.core:
        return None
    if not segment.is_wild:
        core = "".join(character for character, _ in segment.core)
        return lambda text, start, end: text.find(core, start, end)
    expression = "".join("." if wild else re.escape(character) for character, wild in segment.core)
    search = re.compile(expression, re.DOTALL).search

    def find(text: str, start: int, end: int) -> int:
        found = search(text, start, end)
        return -1 if found is None else found.start()

    return find
