"""The manifest, as one broker of a scope holds it: what came down with the last wave, and what goes up with its answer.

The root makes the next manifest from the rows that came up. Members whose owners did not answer keep their row for a
while: a broker that is down for minutes is not forgotten.
"""

from collections.abc import Mapping
from typing import Protocol

from stentor.model.colours.manifest import ManifestRow, digest_of_rows, rows_by_unit
from stentor.model.scope import LARGEST_UNIT

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
    """Invariant, asserted by `validate`: `digest` is that of `rows`."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self.rows: dict[str, ManifestRow] = {}
        self.digest = digest_of_rows({})
        self.has_changed = False  # since the wave before the last
        self._missing: dict[str, int] = {}  # at the root: rounds for which a member's owner has been silent

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
        self._missing = {unit: rounds for unit, rounds in silent.items() if unit in following}
        digest = digest_of_rows(following)
        self.has_changed = digest != self.digest
        self.rows = following
        self.digest = digest

    def validate(self) -> None:
        assert self.digest == digest_of_rows(self.rows), "a manifest with the digest of another one"
