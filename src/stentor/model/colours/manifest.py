"""The manifest of a scope: who its members are and what each of them says of itself, as digests of contents.

Owners send their rows up with the acknowledgement of a wave, and the root sends the manifest down with the next one. So
it is a lease: whatever a broker holds of a member that differs from the member's row is replaced.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from stentor.model.ids import fingerprint
from stentor.model.ranges import Count, Id, MemberNumber, Path, Version
from stentor.model.scope import LARGEST_UNIT


class ManifestRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What a member of a scope says of itself. Only a unit's speaker, its owner, writes this row."""

    unit: Path
    speaker: Path
    number: MemberNumber
    presence: Id  # a digest of what its presence says
    presence_version: Version
    profile: Id  # a digest of what it wants
    profile_version: Version
    profile_maker: Path  # who made that version: the speaker, or one before it whose word still holds
    predicates: Count  # subscriptions of clients that its profile sums up


ManifestRows = Annotated[tuple[ManifestRow, ...], Meta(max_length=LARGEST_UNIT)]


def digest_of_rows(rows: Mapping[str, ManifestRow]) -> int:
    """Return a digest of a manifest, whatever the order of its rows."""
    return fingerprint("manifest", repr([msgspec.structs.astuple(rows[unit]) for unit in sorted(rows)]))


def rows_by_unit(rows: Iterable[ManifestRow]) -> dict[str, ManifestRow]:
    """Return rows by unit. Of two rows of one unit, which may be in two parts, the first one's speaker by name wins."""
    found: dict[str, ManifestRow] = {}
    for row in sorted(rows, key=lambda each: (each.unit, each.speaker)):
        found.setdefault(row.unit, row)
    return found


class OwnersWords:
    """What the owners of members said of themselves in the last manifest of each level.

    A broker that has lost a copy takes a new one from whichever neighbour answers first. Without the owner's word it
    would take the same wrong copy again from a neighbour that was damaged in the same way, round after round.
    """

    def __init__(self, depth: int) -> None:
        self.rows: list[Mapping[str, ManifestRow]] = [{} for _ in range(depth)]  # by level

    def contradict_presence(self, level: int, unit: str, stamp: tuple[int, str], digest: int) -> bool:
        """Return whether a presence has its owner's stamp, and says something else."""
        row = self.rows[level].get(unit)
        return row is not None and stamp == (row.presence_version, row.speaker) and digest != row.presence

    def contradict_profile(self, level: int, unit: str, stamp: tuple[int, str], digest: int) -> bool:
        """Return whether a profile has its owner's stamp, and says something else."""
        row = self.rows[level].get(unit)
        return row is not None and stamp == (row.profile_version, row.profile_maker) and digest != row.profile
