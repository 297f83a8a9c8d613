"""The manifest, as one broker of a scope holds it: what came down with the last wave, and what goes up with its answer.

The root makes the next manifest from the rows that came up. Members whose owners did not answer keep their row for a
while: a broker that is down for minutes is not forgotten. The root gives members their numbers, too: the number in a
row that comes up is a wish.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from stentor.model.colours.manifest import ManifestRow, digest_of_rows, rows_by_unit
from stentor.model.scope import LARGEST_UNIT

_REST_ROUNDS = 3  # events may be under way for as long, in masks in which the number means its former holder
_LEASE_ROUNDS = 720  # that a member keeps its row without its owner's word: an hour of rounds of five seconds


class Members(Protocol):
    """The members of a scope, as the broker that holds a manifest knows them."""

    def own_row(self) -> ManifestRow | None:
        """Return what this broker says of the member that it speaks for; None if it speaks for none."""
        ...

    def compare(self, rows: Mapping[str, ManifestRow]) -> None:
        """Hold what is known of all members against their own words, once a round."""
        ...

    def departed(self, rows: Mapping[str, ManifestRow]) -> list[str]:
        """Return those of these members that have said that they leave for good, after they wrote their rows."""
        ...


class ManifestLease:
    """Invariants, asserted by `validate`: `digest` is that of `rows`; no two rows have the same number."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self.rows: dict[str, ManifestRow] = {}
        self.digest = digest_of_rows({})
        self.has_changed = False  # since the wave before the last
        self._missing: dict[str, int] = {}  # at the root: rounds for which a member's owner has been silent
        self._resting: dict[int, tuple[str, int]] = {}  # at the root: numbers that nobody has, who had each, and rounds

    def clamp(self) -> None:
        """Give up rows that are not those of the digest: everybody's are asked for, or told again."""
        if self.digest != digest_of_rows(self.rows):
            self.rows = {}
            self.digest = digest_of_rows({})
            self.has_changed = True

    def take(self, rows: tuple[ManifestRow, ...], digest: int) -> bool:
        """Take a manifest, if it is the one of this digest; return whether it is."""
        found = {row.unit: row for row in rows}
        if digest_of_rows(found) != digest:
            return False
        self.rows = found
        self.digest = digest
        return True

    def compare(self) -> None:
        """Let the broker hold all that it knows against the manifest."""
        self._members.compare(self.rows)

    def own_answer(self) -> tuple[int, tuple[ManifestRow, ...]]:
        """Return what goes up: the bit of our member if its row stands, or the row that shall be there."""
        row = self._members.own_row()
        if row is None:
            return 0, ()
        return (1 << row.number, ()) if self.rows.get(row.unit) == row else (0, (row,))

    def renew(self, confirmed: int, rows: tuple[ManifestRow, ...]) -> None:
        """Make the next manifest, at the root, from what came up."""
        fresh = rows_by_unit(rows)
        silent = {
            unit: self._missing.get(unit, 0) + 1
            for unit, row in self.rows.items()
            if unit not in fresh and not confirmed >> row.number & 1
        }
        gone = {unit for unit, rounds in silent.items() if rounds > _LEASE_ROUNDS}
        gone.update(self._members.departed({unit: self.rows[unit] for unit in silent}))
        following = {unit: row for unit, row in {**self.rows, **fresh}.items() if unit not in gone}
        if len(following) > LARGEST_UNIT:  # those that spoke last are real; others may be what damage left behind
            spare = sorted(following, key=lambda unit: (silent.get(unit, 0), unit))[LARGEST_UNIT:]
            following = {unit: row for unit, row in following.items() if unit not in spare}
        following = self._numbered(following)
        self._missing = {unit: rounds for unit, rounds in silent.items() if unit in following}
        digest = digest_of_rows(following)
        self.has_changed = digest != self.digest
        self.rows = following
        self.digest = digest

    def _numbered(self, following: Mapping[str, ManifestRow]) -> dict[str, ManifestRow]:
        """Return rows of which no two have the same number. Whoever has a number keeps it, a newcomer gets the one that
        it wishes for if that is free. If no number is free, a newcomer has no row yet.
        """
        taken: dict[int, str] = {}
        for unit in sorted(following, key=lambda each: (each not in self.rows, each)):
            number = next((each for each in self._choices(following[unit]) if each not in taken), None)
            if number is not None:
                taken[number] = unit
        self._rest({row.number: unit for unit, row in self.rows.items()}, taken)
        return {unit: msgspec.structs.replace(following[unit], number=number) for number, unit in taken.items()}

    def _choices(self, row: ManifestRow) -> Iterator[int]:
        """Yield the numbers that a member may get, the best first."""
        known = self.rows.get(row.unit)
        if known is not None:
            yield known.number
        for number in (row.number, *range(LARGEST_UNIT)):
            if number not in self._resting or self._resting[number][0] == row.unit:
                yield number

    def _rest(self, before: Mapping[int, str], taken: Mapping[int, str]) -> None:
        """Let numbers that were given back rest for some rounds: only their former holders get them again at once."""
        left = {number: (unit, min(rounds, _REST_ROUNDS) - 1) for number, (unit, rounds) in self._resting.items()}
        resting = {number: rest for number, rest in left.items() if rest[1] > 0}
        resting |= {number: (unit, _REST_ROUNDS) for number, unit in before.items() if taken.get(number) != unit}
        self._resting = {number: rest for number, rest in resting.items() if number not in taken}

    def validate(self) -> None:
        assert self.digest == digest_of_rows(self.rows), "a manifest with the digest of another one"
        assert len({row.number for row in self.rows.values()}) == len(self.rows), "two members with one number"
