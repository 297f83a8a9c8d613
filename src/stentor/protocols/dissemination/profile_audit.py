"""The audit of profiles: what a broker holds of what members want is compared with itself, a slice at a time.

News change profiles, their digests and the index together, so none of them shows that another was damaged. The audit
counts digests anew from contents, and looks whether the index has just what profiles say. Wrong copies are left to the
lease, which replaces what differs from its owner's digest; our own profile is made anew from what our clients want, and
the index from all profiles. What the index has made of filters cannot be compared: it is made anew, beside the one in
use.
"""

from collections import Counter
from collections.abc import Iterator
from zlib import crc32

from stentor.model.messages import MARKS
from stentor.protocols.dissemination.member_interests import Change, InterestIndex
from stentor.protocols.dissemination.profiles import Profiles, digest_of

_AT_ONCE = 5_000  # wants in a slice: some five milliseconds
_REINDEXED = 250  # wants that are indexed anew with a slice: some ten milliseconds

Place = tuple[str, int, int, bool]  # in the index: a pattern, a level, a member, and whether there is a filter


class ProfileAudit:
    """Audits the profiles of one broker, and the index that is made of them."""

    def __init__(self, profiles: Profiles, index: InterestIndex) -> None:
        self._profiles = profiles
        self._index = index
        self._turn = 0  # counts slices
        self.repaired = 0  # how often something was wrong

    def run(self, turns: int = 0) -> None:
        """Audit the next slice, so that everything is audited in as many turns; 0 makes slices of a size that takes no
        time to speak of.
        """
        profiles = self._profiles
        wants = sum(len(each.wants) for members in profiles.members for each in members.values())
        slices = turns or 1 + wants // _AT_ONCE
        self._turn = (self._turn + 1) % slices
        is_right = self._have_right_digests(slices) and profiles.is_own_right and self._is_indexed_right(slices)
        if profiles.is_damaged or not is_right:
            self.repaired += 1
            profiles.restore()
        most = max(_REINDEXED, wants // turns) if turns else _REINDEXED
        self._index.renew(profiles.context.depth, self._filed, most)

    def _filed(self) -> Iterator[Change]:
        """Yield what the index must hold."""
        for level, members in enumerate(self._profiles.members):
            for profile in members.values():
                if profile.number is None:
                    continue
                for pattern, where in profile.wants:
                    if not pattern.startswith(MARKS):
                        yield True, level, profile.number, pattern, where

    def _have_right_digests(self, slices: int) -> bool:
        """Let each profile of this turn have the digest of what it says; return whether all had it."""
        is_right = True
        for level, members in enumerate(self._profiles.members):
            for place, unit in enumerate(sorted(members)):
                profile = members[unit]
                if (place + level) % slices == self._turn and profile.digest != digest_of(profile.wants):
                    profile.digest = digest_of(profile.wants)
                    is_right = False
        return is_right

    def _is_indexed_right(self, slices: int) -> bool:
        """Return whether the index holds just what profiles say, of the patterns of this turn."""
        expected: Counter[Place] = Counter()
        for level, members in enumerate(self._profiles.members):
            for unit, profile in members.items():
                if profile.number != self._profiles.number_of(level, unit):
                    return False
                if profile.number is None:
                    continue
                for pattern, where in profile.wants:
                    if crc32(pattern.encode()) % slices == self._turn and not pattern.startswith(MARKS):
                        expected[pattern, level, profile.number, bool(where)] += 1
        found = {
            place: count for place, count in self._index.counts() if crc32(place[0].encode()) % slices == self._turn
        }
        return found == expected
