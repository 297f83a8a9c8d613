"""Profile propagation at one broker: what it tells of its clients and its units, and what it makes of what it hears."""

import pytest
from tests.unit.protocols.message_ports import KeepingPort

from stentor.model.context import Context
from stentor.model.errors import FrameError
from stentor.model.filter import Filter
from stentor.model.messages import MARKS, NEVER, Message, ProfileChange, ProfileEntry, Stamp
from stentor.model.scope import ScopePath
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.neighbours import Neighbour, Neighbours

ME, B2, LIBRARY, HALL = "north/library/b1", "north/library/b2", "north/library", "north/hall"
INSIDE, OUTSIDE = B2, "north/hall/b1"  # the neighbours


class Desk:
    """north/library/b1 with a neighbour in its cluster and one in another, and an index that just remembers."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Message]] = []
        self.filed: set[tuple[int, int, str, str]] = set()
        neighbours = Neighbours()
        for name, level, unit in ((INSIDE, 0, B2), (OUTSIDE, 1, HALL)):
            port = KeepingPort(name, lambda to, message: self.said.append((to, message)))
            neighbours[name] = Neighbour(name, level, unit, 1000, port)
        self.profiles = Profiles(Context(ScopePath.parse(ME)), neighbours, self)
        self.profiles.flush()
        self.said.clear()

    def clear_index(self) -> None:
        self.filed.clear()

    def index(self, wanted: bool, depth: int, level: int, member: int, pattern: str, where: Filter | None) -> None:
        assert depth == 3
        entry = (level, member, pattern, str(where or ""))
        assert (entry in self.filed) is not wanted, "added once, removed once"
        (self.filed.add if wanted else self.filed.remove)(entry)

    def subscribe(self, pattern: str, where: str = "") -> None:
        self.profiles.subscribe(pattern, Filter(where) if where else None)
        self.profiles.flush()

    def unsubscribe(self, pattern: str, where: str = "") -> None:
        self.profiles.unsubscribe(pattern, Filter(where) if where else None)
        self.profiles.flush()

    def told(self, peer: str) -> list[tuple[str, tuple[ProfileEntry, ...], tuple[ProfileEntry, ...]]]:
        found = [
            (message.unit, message.added, message.removed)
            for to, message in self.said
            if to == peer and isinstance(message, ProfileChange)
        ]
        self.said.clear()
        return found

    def hear(
        self, unit: str, before: Stamp, stamp: Stamp, *added: ProfileEntry, removed: tuple[ProfileEntry, ...] = ()
    ) -> None:
        peer = INSIDE if unit == B2 else OUTSIDE
        self.profiles.hear(
            peer,
            ProfileChange(unit=unit, before=before, stamp=stamp, added=added, removed=removed, predicates=len(added)),
        )
        self.profiles.flush()


@pytest.mark.req("GE-07")
def test_only_changes_travel() -> None:
    desk = Desk()
    desk.subscribe("t", "n > 5")
    assert desk.told(INSIDE) == [(ME, (("t", "n > 5"),), ())]
    desk.subscribe("t", "n > 5")
    desk.subscribe("t", "n > 7")
    assert desk.told(INSIDE) == []  # equal, and covered
    desk.unsubscribe("t", "n > 5")
    assert desk.told(INSIDE) == []  # one more has it
    desk.unsubscribe("t", "n > 5")
    assert desk.told(INSIDE) == [(ME, (("t", "n > 7"),), (("t", "n > 5"),))]


def test_what_comes_and_goes_in_one_step_is_not_told() -> None:
    desk = Desk()
    desk.profiles.subscribe("t", None)
    desk.profiles.unsubscribe("t", None)
    desk.profiles.flush()
    assert desk.told(INSIDE) == []


@pytest.mark.req("GE-07")
def test_who_speaks_for_a_unit_sums_up_its_members() -> None:
    desk = Desk()
    desk.profiles.sum_up(1, {ME, B2})
    desk.hear(B2, NEVER, (1, B2), ("t", "n > 1"))
    assert desk.told(OUTSIDE) == [(LIBRARY, (("t", "n > 1"),), ())]
    desk.subscribe("t", "n > 3")
    assert desk.told(OUTSIDE) == []  # covered by what b2 wants
    desk.profiles.sum_up(1, {ME})  # b2 is gone
    desk.profiles.flush()
    assert desk.told(OUTSIDE) == [(LIBRARY, (("t", "n > 3"),), (("t", "n > 1"),))]


@pytest.mark.req("GE-07")
def test_how_many_wishes_there_are_is_told_even_if_none_of_them_is_news() -> None:
    desk = Desk()
    desk.profiles.sum_up(1, {ME, B2})
    for where in ("n > 1", "n > 1", "n > 7"):
        desk.subscribe("t", where)
    desk.said.clear()
    desk.profiles.flush(counts=True)
    counts = {(to, message.unit): message.predicates for to, message in desk.said if isinstance(message, ProfileChange)}
    assert counts == {(INSIDE, ME): 3, (INSIDE, LIBRARY): 3, (OUTSIDE, LIBRARY): 3}
    desk.said.clear()
    desk.profiles.flush(counts=True)
    assert desk.said == []  # once


def test_what_takes_many_changes_is_never_unwanted_in_between_and_a_mark_comes_last() -> None:
    desk = Desk()
    desk.subscribe("t/#")
    for number in range(1500):
        desk.profiles.subscribe(f"t/{number}", None)
    desk.said.clear()
    desk.profiles.unsubscribe("t/#", None)
    desk.profiles.subscribe(f"{MARKS}1/1/{ME}", None)
    for number in range(1500, 3000):
        desk.profiles.subscribe(f"t/{number}", None)
    desk.profiles.flush()
    changes = desk.told(INSIDE)
    assert [len(added) for _, added, _ in changes] == [1000, 1000, 1000, 1]
    assert changes[-1] == (ME, ((f"{MARKS}1/1/{ME}", ""),), (("t/#", ""),))
    assert not any(removed for _, _, removed in changes[:-1])


def test_a_new_speaker_tells_the_difference_to_what_the_former_told() -> None:
    desk = Desk()
    desk.subscribe("t", "n > 3")
    desk.hear(LIBRARY, NEVER, (7, "north/library/b0"), ("t", "n > 3"), ("u", ""))
    desk.said.clear()
    desk.profiles.sum_up(1, {ME})
    desk.profiles.flush()
    assert desk.told(OUTSIDE) == [(LIBRARY, (), (("u", ""),))]


@pytest.mark.req("GE-07")
def test_a_change_is_applied_once_and_only_to_what_it_was_made_for() -> None:
    desk = Desk()
    desk.profiles.renumber(1, {HALL: 9})
    desk.hear(HALL, NEVER, (1, HALL), ("t", ""))
    desk.hear(HALL, (1, HALL), (2, HALL), ("u", ""))
    assert desk.filed == {(1, 9, "t", ""), (1, 9, "u", "")}
    desk.said.clear()
    desk.hear(HALL, (1, HALL), (2, HALL), ("u", ""))  # again
    desk.hear(HALL, (5, HALL), (6, HALL), ("v", ""))  # something before it is missing
    assert desk.filed == {(1, 9, "t", ""), (1, 9, "u", "")}
    assert desk.said == []
    desk.hear(HALL, NEVER, (6, HALL), ("v", ""))  # all of it
    assert desk.filed == {(1, 9, "v", "")}


def test_what_is_heard_is_handed_on_to_the_scope_but_not_back() -> None:
    desk = Desk()
    desk.hear(HALL, NEVER, (1, HALL), ("t", ""))
    assert desk.told(INSIDE) == [(HALL, (("t", ""),), ())]
    desk.hear(HALL, (1, HALL), (2, HALL), ("u", ""))
    assert desk.told(OUTSIDE) == []


def test_numbers_may_come_before_or_after_wants() -> None:
    desk = Desk()
    desk.hear(HALL, NEVER, (1, HALL), ("t", "n > 1"))
    assert desk.filed == set()
    desk.profiles.renumber(1, {HALL: 9})
    assert desk.filed == {(1, 9, "t", "n > 1")}
    desk.profiles.renumber(1, {HALL: 8})
    assert desk.filed == {(1, 8, "t", "n > 1")}
    desk.profiles.renumber(1, {})
    assert desk.filed == set()
    desk.profiles.forget(1, HALL)
    assert desk.profiles.inventory(1) == {}


@pytest.mark.req("GE-07")
def test_a_neighbour_that_comes_back_gets_what_it_does_not_know() -> None:
    desk = Desk()
    desk.subscribe("t", "n > 5")
    desk.said.clear()
    known = desk.profiles.inventory(0)
    desk.profiles.compare(INSIDE, 0, known)
    assert desk.said == []
    desk.profiles.compare(INSIDE, 0, {})
    assert desk.told(INSIDE) == [(ME, (("t", "n > 5"),), ())]
    before = desk.profiles.digest(0)
    desk.subscribe("u")
    assert desk.profiles.digest(0) != before


def test_a_long_profile_comes_in_parts_and_counts_when_it_is_whole() -> None:
    desk, other = Desk(), Desk()
    for number in range(2500):
        desk.profiles.subscribe(f"t/{number}", None)
    desk.profiles.flush()
    desk.said.clear()
    desk.profiles.compare(INSIDE, 0, {})
    parts = [message for _, message in desk.said if isinstance(message, ProfileChange)]
    assert [(len(part.added), part.more) for part in parts] == [(1000, True), (1000, True), (500, False)]
    other.profiles.renumber(0, {B2: 2})
    for part in parts:
        assert other.filed == set()
        other.profiles.hear(
            INSIDE,
            ProfileChange(
                unit=B2,
                before=part.before,
                stamp=part.stamp,
                added=part.added,
                removed=(),
                predicates=2500,
                more=part.more,
            ),
        )
    assert len(other.filed) == 2500


def test_a_former_life_of_ours_is_followed_not_obeyed() -> None:
    desk = Desk()
    desk.subscribe("t")
    desk.said.clear()
    desk.profiles.hear(
        INSIDE, ProfileChange(unit=ME, before=NEVER, stamp=(99 << 20, ME), added=(("old", ""),), removed=())
    )
    (mine,) = [message for _, message in desk.said if isinstance(message, ProfileChange)]
    assert mine.stamp > (99 << 20, ME)
    assert (mine.before, mine.added) == (NEVER, (("t", ""),))


@pytest.mark.parametrize(
    "want", [("a/#/b", ""), ("t", "n >"), ("", "")], ids=["a bad pattern", "a bad filter", "nothing"]
)
def test_wants_that_cannot_be_are_refused(want: ProfileEntry) -> None:
    with pytest.raises(FrameError):
        Desk().hear(HALL, NEVER, (1, HALL), want)


def test_what_is_not_shared_is_refused() -> None:
    with pytest.raises(FrameError, match="no member of a scope"):
        Desk().profiles.hear(OUTSIDE, ProfileChange(unit=B2, before=NEVER, stamp=(1, B2)))
