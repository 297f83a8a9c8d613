"""A broker that leaves says so to all its neighbours, and does not take it back while its links go."""

from stentor.model.messages import Message, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.gateways import Gateways


def report(level: str, what: str, details: dict[str, str | int | float]) -> None:
    """People are told elsewhere."""


def test_a_broker_with_two_links_leaves_for_both() -> None:
    said: dict[str, list[Message]] = {"b": [], "c": []}

    def say(name: str, message: Message) -> None:
        said[name].append(message)

    gateways = Gateways(ScopePath.parse("a"), (0,), "a:1", 10, say, report)
    for name in ("b", "c"):
        gateways.link_up(ScopePath.parse(name), 1000)
    gateways.leave()
    for name in ("b", "c"):  # as a broker closes them that stops
        gateways.link_down(name)
    for name in ("b", "c"):
        last = said[name][-1]
        assert isinstance(last, Presence)
        assert (last.unit, last.left) == ("a", True), name


def test_a_unit_goes_with_its_last_broker() -> None:
    said: list[Message] = []
    gateways = Gateways(ScopePath.parse("x/y/a"), (0, 0, 0), "a:1", 10, lambda _, message: said.append(message), report)
    gateways.link_up(ScopePath.parse("x/z/b"), 1000)
    gateways.hear(0, "x/z/b", Presence("x/z", 1, "x/z/b", 1))
    gateways.leave()
    left = [each.unit for each in said if isinstance(each, Presence) and each.left]
    assert left == ["x/y"], "x holds another, and x/y/a is nobody's business outside"


def test_a_unit_stays_with_those_whom_its_broker_cannot_reach() -> None:
    said: list[Message] = []
    gateways = Gateways(ScopePath.parse("x/a"), (0, 0), "a:1", 10, lambda _, message: said.append(message), report)
    gateways.link_up(ScopePath.parse("x/b"), 1000)
    gateways.hear(0, "x/b", Presence("x/b", 1, "x/b", 1))
    gateways.link_down("x/b")
    gateways.link_up(ScopePath.parse("z/c"), 1000)
    gateways.leave()
    assert not [each for each in said if isinstance(each, Presence) and each.left and each.unit == "x"]
