"""Gateway propagation at one broker: what it says of itself and its units, to whom, and whom it believes."""

import pytest
from tests.unit.protocols.message_ports import KeepingPort
from tests.unit.protocols.spoken_links import spoken_links

from stentor.machine import SECOND, Report, Step
from stentor.model.errors import FrameError
from stentor.model.messages import Gateway, Message, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.neighbours import Neighbours
from stentor.protocols.overlay.gateways import LEASE, PATIENCE, Gateways

ME, B2, HALL, SOUTH = "north/library/b1", "north/library/b2", "north/hall/b1", "south/lab/b1"


class Desk:
    """north/library/b1, with a test in the place of all other brokers."""

    def __init__(self, *peers: str, name: str = ME) -> None:
        self.said: list[tuple[str, Message]] = []
        self.step = Step()
        self.gateways = Gateways(ScopePath.parse(name), (3, 4, 5), "here:1", SECOND, Neighbours(), self.step)
        for peer in peers:
            self.link_up(peer)

    def link_up(self, peer: str, cost: int = 1000) -> None:
        port = KeepingPort(peer, lambda to, message: self.said.append((to, message)))
        self.gateways.link_up(ScopePath.parse(peer), cost, port)

    def tick(self, now: int) -> None:
        self.step.now = now
        self.gateways.tick()

    def reports(self) -> list[str]:
        """What people were told since the last time."""
        reports = [each for each in self.step.end() if isinstance(each, Report)]
        return [f"{each.level} {each.what} {each.details}" for each in reports]

    def hear(self, peer: str, unit: str, *gateways: str, version: int = 1 << 20, **more: object) -> None:
        links = spoken_links(self.gateways.context.name, self.gateways.neighbours, unit, *gateways)
        speaker = more.pop("speaker", unit if unit.count("/") == 2 else f"{unit}/b1")
        number = more.pop("number", 1)
        presence = Presence(unit=unit, version=version, speaker=speaker, number=number, gateways=links, **more)  # type: ignore[arg-type]
        self.gateways.hear(peer, presence)

    def told(self, peer: str) -> list[Presence]:
        found = [message for to, message in self.said if to == peer and isinstance(message, Presence)]
        self.said.clear()
        return found


@pytest.mark.req("GE-03")
def test_a_link_is_told_to_those_who_share_a_scope_with_both_ends() -> None:
    desk = Desk(B2, HALL)
    desk.hear(B2, B2, ME)
    desk.said.clear()
    desk.link_up(SOUTH, 3000)
    mine = [(each.unit, [gateway.unit for gateway in each.gateways]) for each in desk.told(B2)]
    assert (ME, ["north/hall", B2, "south"]) in mine
    assert ("north/library", ["north/hall", "south"]) in mine


@pytest.mark.req("GE-03")
def test_those_outside_hear_of_the_unit_and_not_of_what_is_inside() -> None:
    desk = Desk(B2, HALL)
    desk.hear(B2, B2, ME, "south")
    assert {each.unit for each in desk.told(HALL)} <= {"north/library", "north"}


def test_only_the_smallest_reachable_member_speaks_for_a_unit() -> None:
    assert Desk(B2).gateways.speaks(2)
    desk = Desk(ME, name=B2)
    assert desk.gateways.speaks(1)
    desk.hear(ME, ME, B2)
    assert not desk.gateways.speaks(1)
    desk.gateways.link_down(ME)
    assert desk.gateways.speaks(1)


@pytest.mark.req("GE-05")
def test_an_edge_stands_only_if_both_ends_speak_of_it() -> None:
    desk = Desk(B2)
    desk.hear(B2, B2)
    assert not desk.gateways.graph.reaches(B2)
    desk.hear(B2, B2, ME, version=2 << 20)
    assert desk.gateways.graph.reaches(B2)
    assert desk.gateways.parted == []


@pytest.mark.req("GE-05")
def test_who_is_suspected_is_not_routed_over_and_others_are_told() -> None:
    desk = Desk(B2, HALL)
    desk.hear(B2, B2, ME)
    desk.said.clear()
    desk.gateways.suspect(B2, suspected=True)
    assert not desk.gateways.graph.reaches(B2)
    mine = desk.told(B2)[0]
    assert [gateway.unit for gateway in mine.gateways] == ["north/hall"]
    assert desk.gateways.parted == [B2]
    assert desk.reports()[-1].startswith("warning cannot reach")
    desk.gateways.suspect(B2, suspected=False)
    assert desk.gateways.graph.reaches(B2)
    assert desk.reports()[-1].startswith("info can reach again")


def test_what_was_said_before_is_not_handed_on_again() -> None:
    desk = Desk(B2, HALL)
    desk.hear(HALL, "north/hall", "north/library", version=5 << 20)
    desk.said.clear()
    desk.hear(HALL, "north/hall", "north/library", version=5 << 20)
    desk.hear(HALL, "north/hall", version=4 << 20)
    assert desk.said == []


def test_a_former_life_is_contradicted() -> None:
    desk = Desk(B2)
    desk.said.clear()
    desk.hear(B2, ME, "north/hall", version=99 << 20, speaker=ME)
    (mine,) = [each for each in desk.told(B2) if each.unit == ME]
    assert mine.version > 99 << 20
    assert [gateway.unit for gateway in mine.gateways] == [B2]


@pytest.mark.req("GE-05")
def test_of_two_parts_of_a_unit_the_larger_is_heard_and_the_other_tells_people() -> None:
    desk = Desk(HALL)
    desk.said.clear()
    desk.hear(HALL, "north/library", "north/hall", version=50 << 20, speaker=B2, members=2)
    assert desk.told(HALL) == []  # it knows more of our unit than we do
    desk.tick(PATIENCE * SECOND + 1)
    (again,) = desk.told(HALL)
    assert (again.unit, again.speaker) == ("north/library", ME)
    desk.hear(HALL, "north/library", "north/hall", version=52 << 20, speaker=B2, members=2)
    assert any("unit in two parts" in each for each in desk.reports())


def test_the_larger_part_insists() -> None:
    desk = Desk(B2, HALL)
    desk.hear(B2, B2, ME)
    desk.said.clear()
    desk.hear(HALL, "north/library", "north/hall", version=50 << 20, speaker="north/library/b0", members=1)
    assert [each.unit for each in desk.told(HALL)] == ["north/library"]


@pytest.mark.req("GE-07")
def test_a_member_that_nobody_reaches_is_forgotten_when_its_lease_is_over() -> None:
    desk = Desk(B2, HALL)
    desk.hear(B2, B2, ME)
    desk.gateways.link_down(B2)
    desk.tick(1)
    desk.said.clear()
    desk.tick(LEASE * SECOND)
    assert desk.gateways.parted == [B2]
    desk.tick(LEASE * SECOND + 2)
    assert desk.gateways.parted == []
    assert any("forgotten" in each for each in desk.reports())
    desk.link_up(B2, 1000)
    assert [each.left for each in desk.told(B2) if each.unit == B2] == []
    desk.gateways.compare(B2, 0, {})
    assert [each.left for each in desk.told(B2) if each.unit == B2] == [True]  # so that it can contradict


def test_who_leaves_says_so_and_nothing_after_it() -> None:
    desk = Desk(B2, HALL)
    desk.hear(B2, B2, ME)
    desk.said.clear()
    desk.gateways.leave()
    assert [(each.unit, each.left) for each in desk.told(B2)] == [(ME, True)]
    desk.gateways.link_down(HALL)  # there are no ticks any more: heartbeats end with leaving
    assert desk.said == []


def test_the_last_of_a_unit_takes_it_along() -> None:
    desk = Desk(HALL)
    desk.hear(HALL, "north/hall", "north/library")
    desk.said.clear()
    desk.gateways.leave()
    assert [(each.unit, each.left) for each in desk.told(HALL)] == [("north/library", True)]


@pytest.mark.parametrize(
    ("peer", "unit", "more"),
    [
        (HALL, B2, {}),
        (B2, "west/x/y", {}),
        (B2, "", {}),
        (B2, "north", {"number": 64}),
        (B2, "north/hall", {"version": 0}),
    ],
    ids=["of a scope that is not shared", "of nobody we know", "of nobody", "a 65th member", "never said"],
)
def test_what_cannot_be_is_refused(peer: str, unit: str, more: dict[str, int]) -> None:
    with pytest.raises(FrameError):
        Desk(B2, HALL).hear(peer, unit, **more)
    presence = Presence(unit="north/hall", version=1, speaker=HALL, number=1, gateways=(Gateway("south", 1, 0),))
    with pytest.raises(FrameError):
        Desk(B2, HALL).gateways.hear(HALL, presence)
