"""A broker that leaves says so to all its neighbours, and does not take it back while its links go."""

from tests.unit.protocols.message_ports import KeepingPort

from stentor.machine import Step
from stentor.model.messages import Message, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.neighbours import Neighbours
from stentor.protocols.overlay.gateways import Gateways


def gateways_of(name: str, *numbers: int) -> Gateways:
    return Gateways(ScopePath.parse(name), numbers, "a:1", 10, Neighbours(), Step())


def test_a_broker_with_two_links_leaves_for_both() -> None:
    said: dict[str, list[Message]] = {"b": [], "c": []}

    gateways = gateways_of("a", 0)
    for name in ("b", "c"):
        gateways.link_up(ScopePath.parse(name), 1000, KeepingPort(name, lambda to, message: said[to].append(message)))
    gateways.leave()
    for name in ("b", "c"):  # as a broker closes them that stops
        gateways.link_down(name)
    for name in ("b", "c"):
        last = said[name][-1]
        assert isinstance(last, Presence)
        assert (last.unit, last.left) == ("a", True), name


def test_a_unit_goes_with_its_last_broker() -> None:
    said: list[Message] = []
    gateways = gateways_of("x/y/a", 0, 0, 0)
    port = KeepingPort("", lambda _, message: said.append(message))
    gateways.link_up(ScopePath.parse("x/z/b"), 1000, port)
    gateways.hear("x/z/b", Presence(unit="x/z", version=1, speaker="x/z/b", number=1))
    gateways.leave()
    left = [each.unit for each in said if isinstance(each, Presence) and each.left]
    assert left == ["x/y"], "x holds another, and x/y/a is nobody's business outside"


def test_a_unit_stays_with_those_whom_its_broker_cannot_reach() -> None:
    said: list[Message] = []
    gateways = gateways_of("x/a", 0, 0)
    port = KeepingPort("", lambda _, message: said.append(message))
    gateways.link_up(ScopePath.parse("x/b"), 1000, port)
    gateways.hear("x/b", Presence(unit="x/b", version=1, speaker="x/b", number=1))
    gateways.link_down("x/b")
    gateways.link_up(ScopePath.parse("z/c"), 1000, port)
    gateways.leave()
    assert not [each for each in said if isinstance(each, Presence) and each.left and each.unit == "x"]
