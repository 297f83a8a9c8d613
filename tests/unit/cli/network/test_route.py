"""Ways that go wrong, on networks that exist only on paper."""

import msgspec
import pytest
from tests.unit.cli.network.networks import campus_of_22, clusters, paper_network

from stentor.admin.survey import BrokerSeen, Survey
from stentor.cli.network.route import distance_text, follow


def turned(found: Survey, broker: str, unit: str, hop: str, exits: tuple[str, ...] = ()) -> Survey:
    """The same network, but one broker goes another way to a unit, by these exits."""
    seen = found.brokers[broker]
    assert seen.view is not None
    scopes = [
        msgspec.structs.replace(
            scope,
            members=tuple(
                msgspec.structs.replace(member, hop=hop, exits=exits) if member.unit == unit else member
                for member in scope.members
            ),
        )
        for scope in seen.view.scopes
    ]
    view = msgspec.structs.replace(seen.view, scopes=tuple(scopes))
    brokers: dict[str, BrokerSeen] = {**found.brokers, broker: msgspec.structs.replace(seen, view=view)}
    return msgspec.structs.replace(found, brokers=brokers)


def test_every_broker_finds_every_other() -> None:
    found = paper_network(*campus_of_22())
    for start in found.brokers:
        for goal in found.brokers:
            way = follow(found, start, goal)
            assert way.arrives, (start, goal, way.reason)
            assert way.steps[-1].broker == goal


def test_a_route_that_goes_in_a_circle_is_noticed() -> None:
    names, links = clusters("", 2, 1, 1)
    found = turned(paper_network(names, links), "c0/b0", "c2", "c0/b1")
    found = turned(found, "c0/b1", "c2", "c0/b0")
    way = follow(found, "c0/b0", "c2/b0")
    assert not way.arrives
    assert way.reason == "the way goes in a circle: it comes to c0/b0 again"
    assert [step.broker for step in way.steps] == ["c0/b0", "c0/b1", "c0/b0"]


@pytest.mark.req("CO-16")
def test_a_route_goes_by_the_exit_that_the_first_broker_has_chosen_whatever_the_others_have() -> None:
    names = ["c0/b0", "c0/b1", "c0/b2", "c1/b0"]
    links = [("c0/b0", "c0/b1"), ("c0/b1", "c0/b2"), ("c0/b0", "c1/b0"), ("c0/b2", "c1/b0")]
    found = turned(paper_network(names, links), "c0/b0", "c1", "c0/b1", ("c0/b2",))
    found = turned(found, "c0/b1", "c1", "c0/b0", ("c0/b0",))
    way = follow(found, "c0/b0", "c1")
    assert [step.broker for step in way.steps] == ["c0/b0", "c0/b1", "c0/b2", "c1/b0"]
    assert [step.towards for step in way.steps] == ["c1", "c0/b2", "c1", ""]


def test_a_route_that_leads_to_a_silent_broker_says_so() -> None:
    names, links = clusters("", 2, 1, 1)
    found = turned(paper_network(names, links, silent=["c1/b0"]), "c0/b0", "c2", "c1/b0")
    way = follow(found, "c0/b0", "c2")
    assert (way.arrives, way.reason) == (False, "c1/b0 does not answer")
    assert way.steps[-1].broker == "c1/b0"


def test_a_route_that_ends_too_early_says_where() -> None:
    names, links = clusters("", 2, 1, 1)
    found = paper_network(names, links, silent=["c1/b0"])
    way = follow(found, "c0/b1", "c2/b0")
    assert (way.arrives, way.reason) == (False, "c0/b1 cannot reach c2")


def test_a_route_to_an_unknown_broker_is_refused() -> None:
    found = paper_network(*clusters("", 2))
    assert follow(found, "c0/b0", "c7").reason == "c0/b0 knows nothing of c7"


def test_distances_are_told_by_level() -> None:
    assert distance_text((5.0, 0.0, 1.5)) == "5 at level 2 + 1.5 at level 0"
    assert distance_text(()) == ""
