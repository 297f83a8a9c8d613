"""Profile propagation: what the members of the scopes around a broker want, told as changes that are applied once.

A broker's profile is the summary of what its clients want; a unit's is the summary of its members', made by the unit's
speaker. A change goes to all brokers of the scope that holds the unit, and further up only as far as it changes
something there: a wish that another one covers is not told.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol, TypeVar

from xxhash import xxh3_64_intdigest

from stentor.matching.profile_summary import ProfileSummary, SummaryChange
from stentor.model.colours.manifest import OwnersWords
from stentor.model.context import Context
from stentor.model.errors import FilterError, FrameError, Refusal, TopicError
from stentor.model.filter import Filter
from stentor.model.ids import fingerprint
from stentor.model.messages import LAST_CREDIBLE_VERSION, MARKS, NEVER, ProfileChange, ProfileEntry, Stamp, next_version
from stentor.model.topic import check_pattern
from stentor.protocols.neighbours import Neighbours

T = TypeVar("T")
_AT_ONCE = 1000  # wants in a message


class MemberIndex(Protocol):
    """Where one looks up which members want an event."""

    def index(self, wanted: bool, depth: int, level: int, member: int, pattern: str, where: Filter | None) -> None:
        """A member of a level wants something, or no longer."""
        ...

    def clear_index(self) -> None:
        """No member wants anything."""
        ...


class MemberProfile:
    """The profile of a member as it was last told."""

    __slots__ = ("digest", "number", "predicates", "stamp", "wants")

    def __init__(self) -> None:
        self.stamp: Stamp = NEVER
        self.wants: dict[ProfileEntry, None] = {}
        self.digest = 0  # Invariant: the exclusive or of the digests of all wants.
        self.predicates = 0  # subscriptions of clients behind it
        self.number: int | None = None  # its bit in the index; None if it is not there

    @property
    def is_told(self) -> bool:
        """Whether its owner has told anything, as far as the stamp can be believed."""
        return self.stamp > NEVER and self.stamp[0] <= LAST_CREDIBLE_VERSION


class Profiles:
    """The profiles that one broker knows, and what it tells of its own and of the units that it speaks for."""

    def __init__(
        self, context: Context, neighbours: Neighbours, index: MemberIndex, owners: OwnersWords | None = None
    ) -> None:
        self.context = context
        self._owners = owners or OwnersWords(context.depth)
        self.members: tuple[dict[str, MemberProfile], ...] = tuple({} for _ in range(context.depth))
        self._neighbours = neighbours
        self._index = index
        self._marks: list[str] = []  # of others, which are to be answered: see `settlement`
        self._clients = ProfileSummary()
        self._summaries: list[ProfileSummary | None] = [None] * context.depth  # of the units that we speak for
        self._counted: list[set[str]] = [set() for _ in range(context.depth)]  # members that a summary sums up
        self._numbers: list[dict[str, int]] = [{} for _ in range(context.depth)]  # bits of the members
        self._news: dict[int, dict[ProfileEntry, bool]] = {}  # by level of the unit: what its profile gained or lost
        self._parts: dict[tuple[str, str], list[ProfileChange]] = {}  # profiles of which some is still to come
        self._answered: set[int] = set()  # levels at which we contradicted another speaker since the last beat
        self._contested: set[int] = set()  # those at which another has spoken again since then
        self.boot = 0
        self.is_damaged = False  # something was not there that should have been: see `restore`
        self.members[0][context.name] = MemberProfile()

    # ---- what our own clients want

    def subscribe(self, pattern: str, where: Filter | None) -> None:
        self._note(0, self._clients.add(pattern, where))

    def unsubscribe(self, pattern: str, where: Filter | None) -> None:
        try:
            self._note(0, self._clients.remove(pattern, where))
        except (AssertionError, LookupError):
            self.is_damaged = True  # the summary does not hold what our clients want: it is made anew

    def sum_up_clients(self, wants: Iterable[tuple[str, Filter | None]]) -> bool:
        """Make the summary of what our clients want anew; return whether the former one was wrong."""
        former, self._clients = self._clients, (summary := ProfileSummary())
        marks = [(pattern, None) for pattern, _ in former if pattern.startswith(MARKS)]
        for pattern, where in (*wants, *marks):
            summary.add(pattern, where)
        self._reconcile(0)
        return former.predicates != summary.predicates or set(former) != set(summary)

    def _note(self, level: int, change: SummaryChange) -> None:
        news = self._news.setdefault(level, {})
        for wants, gained in ((change.added, True), (change.removed, False)):
            for want in wants:
                if news.get(want) is (not gained):
                    del news[want]  # as if nothing had been
                else:
                    news[want] = gained

    def flush(self, *, counts: bool = False) -> None:
        """Tell what has changed, lower levels first: they may change the higher ones. A wish that is covered changes
        nothing but how many there are: that is told if the caller asks for it, now and then.
        """
        for level in self._take_contested() if counts else ():
            self._reconcile(level)
        for level in range(self.context.depth):
            news = self._news.pop(level, {})
            is_new = level == 0 and self.members[0][self.context.name].stamp == NEVER
            if news or is_new or (counts and self._is_miscounted(level)):
                self._publish(level, news)

    def _take_contested(self) -> list[int]:
        """Return the levels at which another has spoken for our unit, as far as we still speak for it."""
        levels = [level for level in sorted(self._contested) if self._summaries[level] is not None]
        self._contested.clear()
        self._answered.clear()
        return levels

    def _is_miscounted(self, level: int) -> bool:
        """Return whether we speak for our unit of a level, and more or fewer wishes stand behind it than was told."""
        speaks = level == 0 or self._summaries[level] is not None
        return speaks and self._standing(level, self.context.units[level]).predicates != self._predicates(level)

    def _publish(self, level: int, news: dict[ProfileEntry, bool]) -> None:
        """Tell what a unit of ours gained or lost, if that is much in several changes: what it gained first, so that
        nothing is unwanted in between, and among that marks last, so that all that was wished before one is known.
        """
        unit = self.context.units[level]
        predicates = self._predicates(level)
        ordered = sorted(news.items(), key=lambda each: 2 if not each[1] else each[0][0].startswith(MARKS))
        for some in _batches(ordered) if ordered else [()]:
            profile = self._standing(level, unit)
            change = ProfileChange(
                unit=unit,
                before=profile.stamp,
                stamp=self._after(profile.stamp),
                added=tuple(want for want, gained in some if gained),
                removed=tuple(want for want, gained in some if not gained),
                predicates=predicates,
            )
            self._apply(level, change)
            self._spread(level, change, "")

    def _after(self, stamp: Stamp) -> Stamp:
        return next_version(stamp[0], self.boot), self.context.name

    def _predicates(self, level: int) -> int:
        if level == 0:
            return self._clients.predicates
        return sum(self.members[level - 1][unit].predicates for unit in self._counted[level])

    # ---- what neighbours say

    def hear(self, name: str, change: ProfileChange) -> None:
        level = self.context.level(change.unit)
        if level is None or self._neighbours[name].level > level:
            raise FrameError(Refusal.PROTOCOL, f"{change.unit!r} is no member of a scope that we share")
        check_wants(change.added)
        whole = self._assemble(name, change)
        if whole is None:
            return
        profile = self._standing(level, whole.unit)
        if whole.stamp[0] > LAST_CREDIBLE_VERSION or (profile.is_told and whole.stamp <= profile.stamp):
            return  # not to be believed, or known already
        if whole.before == NEVER:
            if self._owners.contradict_profile(level, whole.unit, whole.stamp, digest_of(whole.added)):
                return  # its owner says something else under this stamp
        elif whole.before != profile.stamp:
            return  # something before it is missing: the inventories that follow will tell
        if whole.unit == self.context.name:  # from a former life of ours: go on after it
            profile.stamp = whole.stamp
            self._restate(0)
            return
        self._apply(level, whole)
        self._spread(level, whole, name)
        if whole.unit == self.context.units[level] and self._summaries[level] is not None:
            # Another speaks for our unit, too, and shall not have the last word. But we answer once, and then wait for
            # a beat: two that always answer each other at once would never stop.
            if level not in self._answered:
                self._answered.add(level)
                self._reconcile(level)
            else:
                self._contested.add(level)

    def _assemble(self, name: str, change: ProfileChange) -> ProfileChange | None:
        """Return a profile that came in parts once it is there as a whole."""
        key = (name, change.unit)
        parts = self._parts.pop(key, [])
        if parts and parts[0].stamp != change.stamp:
            parts = []
        parts.append(change)
        if change.more:
            self._parts[key] = parts
            return None
        if len(parts) == 1:
            return change
        added = tuple(want for part in parts for want in part.added)
        return ProfileChange(
            unit=change.unit, before=NEVER, stamp=change.stamp, added=added, removed=(), predicates=change.predicates
        )

    def forget_neighbour(self, name: str) -> None:
        for key in [key for key in self._parts if key[0] == name]:
            del self._parts[key]

    def _restate(self, level: int) -> None:
        """Tell all of a profile of ours again, after a stamp that is newer than ours."""
        unit = self.context.units[level]
        profile = self._standing(level, unit)
        profile.stamp = self._after(profile.stamp)
        for neighbour in self._neighbours.sharing(level):
            self._say_all(neighbour.name, unit, profile)

    def _say_all(self, name: str, unit: str, profile: MemberProfile) -> None:
        parts: list[tuple[ProfileEntry, ...]] = list(_batches(profile.wants)) or [()]
        for place, wants in enumerate(parts):
            more = place < len(parts) - 1
            self._neighbours.say(
                name,
                ProfileChange(
                    unit=unit,
                    before=NEVER,
                    stamp=profile.stamp,
                    added=wants,
                    removed=(),
                    predicates=profile.predicates,
                    more=more,
                ),
            )

    def _spread(self, level: int, change: ProfileChange, heard_from: str) -> None:
        size = len(change.added) + len(change.removed)
        for neighbour in self._neighbours.sharing(level):
            if neighbour.name == heard_from:
                continue
            if size > 2 * _AT_ONCE:
                self._say_all(neighbour.name, change.unit, self.members[level][change.unit])
            else:
                neighbour.port.post(change)

    def inventory(self, level: int) -> dict[str, Stamp]:
        """Return how new what we know of each member is, as far as that can be believed."""
        return {unit: profile.stamp for unit, profile in self.members[level].items() if profile.is_told}

    def compare(self, name: str, level: int, stamps: dict[str, Stamp]) -> None:
        """Send a neighbour what it does not know of a scope."""
        for unit, profile in sorted(self.members[level].items()):
            if profile.is_told and profile.stamp > stamps.get(unit, NEVER):
                self._say_all(name, unit, profile)

    def digest(self, level: int) -> int:
        """Return a digest of what the members of a level want, by contents."""
        known = [
            (unit, profile.stamp, profile.digest)
            for unit, profile in sorted(self.members[level].items())
            if profile.stamp != NEVER
        ]
        return fingerprint("profiles", repr(known))

    # ---- what it means

    def _standing(self, level: int, unit: str) -> MemberProfile:
        profile = self.members[level].get(unit)
        if profile is None:
            profile = self.members[level][unit] = MemberProfile()
            profile.number = self._numbers[level].get(unit)
        return profile

    def _apply(self, level: int, change: ProfileChange) -> None:
        """Let a member want more or less than before."""
        profile = self._standing(level, change.unit)
        added: Iterable[ProfileEntry] = [want for want in change.added if want not in profile.wants]
        removed: Iterable[ProfileEntry] = [want for want in change.removed if want in profile.wants]
        if change.before == NEVER:
            kept = dict.fromkeys(change.added)
            removed = [want for want in profile.wants if want not in kept]
        for want in removed:
            del profile.wants[want]
            profile.digest ^= _digest(want)
            self._forget(level, change.unit, profile, want)
        for want in added:
            profile.wants[want] = None
            profile.digest ^= _digest(want)
            self._learn(level, change.unit, profile, want)
        profile.stamp, profile.predicates = change.stamp, change.predicates

    def _learn(self, level: int, unit: str, profile: MemberProfile, want: ProfileEntry) -> None:
        if profile.number is not None:
            self._file(level, profile.number, want)
        if level + 1 < self.context.depth and unit in self._counted[level + 1]:
            self._note(level + 1, self._summary(level + 1).add(want[0], _filter(want)))

    def _forget(self, level: int, unit: str, profile: MemberProfile, want: ProfileEntry) -> None:
        if profile.number is not None:
            self._unfile_surely(level, profile.number, want)
        try:
            if level + 1 < self.context.depth and unit in self._counted[level + 1]:
                self._note(level + 1, self._summary(level + 1).remove(want[0], _filter(want)))
        except (AssertionError, LookupError):
            self.is_damaged = True  # the summary does not hold what profiles say: it is made anew

    def _summary(self, level: int) -> ProfileSummary:
        summary = self._clients if level == 0 else self._summaries[level]
        assert summary is not None, "only whoever speaks for a unit sums it up"
        return summary

    def _file(self, level: int, number: int, want: ProfileEntry) -> None:
        """Let events be found that a member wants. A mark is a wish for no event: it is answered."""
        if want[0].startswith(MARKS):
            self._marks.append(want[0])
        else:
            self._index.index(True, self.context.depth, level, number, want[0], _filter(want))

    def _unfile(self, level: int, number: int, want: ProfileEntry) -> None:
        if not want[0].startswith(MARKS):
            self._index.index(False, self.context.depth, level, number, want[0], _filter(want))

    def _unfile_surely(self, level: int, number: int, want: ProfileEntry) -> None:
        try:
            self._unfile(level, number, want)
        except (AssertionError, LookupError):
            self.is_damaged = True  # the index does not hold what profiles say: it is made anew

    def take_marks(self) -> list[str]:
        """Return the marks of units that we can name in a mask, in the order in which they were heard."""
        marks, self._marks = self._marks, []
        return marks

    @property
    def has_marks(self) -> bool:
        return bool(self._marks)

    # ---- when the graph has changed

    def renumber(self, level: int, numbers: dict[str, int]) -> None:
        """Give the members of a scope their bits; our own unit has none, since what is inside it is matched anyway."""
        self._numbers[level] = numbers
        for unit, profile in self.members[level].items():
            number = numbers.get(unit)
            if number == profile.number:
                continue
            for want in profile.wants:
                if profile.number is not None:
                    self._unfile_surely(level, profile.number, want)
                if number is not None:
                    self._file(level, number, want)
            profile.number = number

    def forget(self, level: int, unit: str) -> None:
        """Forget a unit that is no member any longer: it has no number. If it comes back, it tells everything again."""
        profile = self.members[level].get(unit)
        if profile is not None and profile.number is None:
            del self.members[level][unit]

    def discard(self, level: int, unit: str) -> None:
        """Let another member want nothing, as if it had never told anything: its owner says something else."""
        profile = self.members[level].get(unit)
        if profile is not None:
            profile.wants = {}
            profile.digest = 0
            profile.stamp = NEVER
            self.refile()  # what was filed may not be what the profile said last

    def number_of(self, level: int, unit: str) -> int | None:
        """Return the bit that a member has in the index."""
        return self._numbers[level].get(unit)

    def refile(self) -> None:
        """Make the index and the summaries of our units anew from what profiles say."""
        self._index.clear_index()
        for level, members in enumerate(self.members):
            for unit, profile in members.items():
                number = profile.number = self._numbers[level].get(unit)
                for want in profile.wants:
                    if number is not None and not want[0].startswith(MARKS):
                        self._file(level, number, want)
        for level in range(1, self.context.depth):
            if self._summaries[level] is not None:
                counted = set(self._counted[level])
                self.sum_up(level, None)
                self.sum_up(level, counted & self.members[level - 1].keys())

    @property
    def is_own_right(self) -> bool:
        """Whether our own profile, and those of the units that we speak for, say what they should."""
        return not any(self._is_at_end(level) or self._is_told_wrong(level) for level in range(self.context.depth))

    def _is_told_wrong(self, level: int) -> bool:
        """Return whether we speak for our unit of a level, and its profile is not what we sum up, and has to tell."""
        summary = self._clients if level == 0 else self._summaries[level]
        if summary is None or self._news.get(level):
            return False
        return self._standing(level, self.context.units[level]).wants.keys() != dict.fromkeys(summary).keys()

    def _is_at_end(self, level: int) -> bool:
        """Return whether we speak for our unit of a level, and its profile has a stamp that nobody believes."""
        speaks = level == 0 or self._summaries[level] is not None
        return speaks and self._standing(level, self.context.units[level]).stamp[0] > LAST_CREDIBLE_VERSION

    def restore(self) -> None:
        """Make our own profile anew from what our clients want, and all that follows from profiles from these."""
        self.is_damaged = False
        own = self._standing(0, self.context.name)
        own.wants = dict.fromkeys(self._clients)
        own.digest = digest_of(own.wants)
        self._news.pop(0, None)
        for level in range(self.context.depth):
            if level == 0 or self._is_at_end(level):
                self._restate(level)
        self.refile()

    def sum_up(self, level: int, members: set[str] | None) -> None:
        """Sum up our unit of a level, which has these members of the level below; None if we do not speak for it."""
        counted = self._counted[level]
        if members is None:
            self._summaries[level] = None
            counted.clear()
            self._news.pop(level, None)
            return
        if self._summaries[level] is None:
            self._summaries[level] = ProfileSummary()
        elif members == counted:
            return
        summary = self._summary(level)
        for unit in sorted(counted - members):
            counted.discard(unit)
            for pattern, where in list(self.members[level - 1][unit].wants):
                self._note(level, summary.remove(pattern, _filter((pattern, where))))
        for unit in sorted(members - counted):
            counted.add(unit)
            for pattern, where in list(self._standing(level - 1, unit).wants):
                self._note(level, summary.add(pattern, _filter((pattern, where))))
        self._reconcile(level)

    def _reconcile(self, level: int) -> None:
        """Tell how our unit differs from what was last told of it, by us or by another speaker."""
        told = self._standing(level, self.context.units[level]).wants
        summary = self._summary(level)
        wanted = dict.fromkeys(summary)
        news = {want: True for want in wanted if want not in told}
        news.update({want: False for want in told if want not in wanted})
        if news:
            self._news[level] = news
        else:
            self._news.pop(level, None)

    @property
    def unfinished(self) -> bool:
        """Whether something is still to be told, or to be heard to its end."""
        return bool(self._parts) or any(self._news.values())

    def summed_up(self, level: int) -> set[str] | None:
        """Return the members that our unit of a level consists of, if we speak for it."""
        return None if self._summaries[level] is None else self._counted[level]


def check_wants(wants: Iterable[ProfileEntry]) -> None:
    for pattern, where in wants:
        try:
            check_pattern(pattern)
            if where:
                Filter(where)
        except (TopicError, FilterError) as error:
            raise FrameError(Refusal.PROTOCOL, f"a profile that cannot be: {error}") from None


def _batches(items: Iterable[T]) -> Iterator[tuple[T, ...]]:
    rest = iter(items)
    while some := tuple(islice(rest, _AT_ONCE)):
        yield some


def _digest(want: ProfileEntry) -> int:
    return xxh3_64_intdigest("\0".join(want).encode())


def digest_of(wants: Iterable[ProfileEntry]) -> int:
    """Return the digest of all that a member wants."""
    digest = 0
    for want in wants:
        digest ^= _digest(want)
    return digest


def _filter(want: ProfileEntry) -> Filter | None:
    return Filter(want[1]) if want[1] else None
