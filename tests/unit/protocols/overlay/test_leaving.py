"""A broker that leaves says so to all its neighbours, and does not take it back while its links go."""

from stentor.model.messages import Message, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.gateways import Gateways


def test_a_broker_with_two_links_leaves_for_both() -> None:
    said: dict[str, list[Message]] = {"b": [], "c": []}

    def say(name: str, message: Message) -> None:
        said[name].append(message)

    gateways = Gateways(ScopePath.parse("a"), (0,), "a:1", 10, say, lambda *_: None)
    for name in ("b", "c"):
        gateways.link_up(ScopePath.parse(name), 1000)
    gateways.leave()
    for name in ("b", "c"):  # as a broker closes them that stops
        gateways.link_down(name)
    for name in ("b", "c"):
        last = said[name][-1]
        assert isinstance(last, Presence)
        assert (last.unit, last.left) == ("a", True), name
