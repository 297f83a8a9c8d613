"""The audit of links: what is remembered wrong of a link ends it, and registers are what the links say."""

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from stentor.model.errors import Refusal
from stentor.model.ids import LinkId
from stentor.model.limits import Limits
from stentor.model.messages import Rejection
from stentor.nodes.broker.link_session import LinkState
from stentor.nodes.damage.damaged_links import DamagedLinks

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Actor, Stage

pytestmark = pytest.mark.req("CO-01", "CO-10")
HEALED = 8 * Limits().heartbeat  # an audit, and a client that finds out by three silent heartbeats


def served(stage: "Stage", *names: str) -> list["Actor"]:
    clients = [stage.client(name) for name in names]
    for client in clients:
        client.subscribe(1, "t")
    return clients


def holders(stage: "Stage") -> dict[str, LinkId]:
    """Who holds which name, and over which link."""
    return {name: each.link for (_, name), each in stage.broker._names._holders.items()}


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "y"), ("principal", "root"), ("address", "x"), ("incarnation", 0), ("attempt", 9), ("publisher", 3)],
)
def test_a_link_ends_of_whose_other_end_something_wrong_is_remembered(stage: "Stage", field: str, value: Any) -> None:
    peer, other = stage.peer("x"), stage.peer("y")
    peer.subscribe(1, "t")
    setattr(stage.broker._sessions[peer.link].connection, field, value)
    stage.wait(Limits().heartbeat)
    (rejection,) = [each for each in peer.hear() if isinstance(each, Rejection)]
    assert rejection.code is Refusal.CORRUPT
    assert holders(stage) == {"y": other.link}
    assert not stage.broker._forwarder.table.subscriptions


def test_nothing_is_wrong_with_links_that_nobody_damages(stage: "Stage") -> None:
    served(stage, "x", "y", "z")
    stage.wait(5 * Limits().heartbeat)
    assert stage.broker.network.links_repaired == 0
    assert not [report for report in stage.reports if report.what == "links repaired"]


def test_names_are_held_by_the_links_that_there_are(stage: "Stage") -> None:
    served(stage, "x", "y")
    before = holders(stage)
    register = stage.broker._names._holders
    (one, other) = register.values()
    register.clear()
    register["nobody", "z"] = one
    register[other.principal, other.name] = one
    stage.wait(Limits().heartbeat)
    assert holders(stage) == before


def test_a_link_that_the_broker_has_forgotten_is_closed_when_something_comes_over_it(stage: "Stage") -> None:
    (client,) = served(stage, "x")
    link = client.link
    del stage.broker._sessions.links[LinkId(1)]
    client.publish("t", b"lost")
    stage.wait(HEALED)
    assert client.link not in (None, link)
    client.publish("t", b"come")
    stage.wait(1.0)
    assert [body for _, _, body in client.read(1)] == [b"come"]


def test_what_was_put_off_goes_on_whatever_is_remembered_of_it(stage: "Stage") -> None:
    deferred = stage.broker._deferred
    peer = stage.peer("x")
    session = stage.broker._sessions[peer.link]
    deferred._is_scheduled = True  # nobody comes
    deferred.waiting[peer.link] = session  # which waits for nothing
    stage.wait(Limits().heartbeat)
    assert not deferred.waiting
    deferred.waiting[peer.link] = session
    assert deferred.begin_turn() is None


@pytest.mark.parametrize("seed", range(60))
def test_clients_are_served_again_whatever_a_broker_remembered_of_their_links(stage: "Stage", seed: int) -> None:
    publisher, *readers = served(stage, "p", "x", "y", "z")
    broker = stage.broker
    DamagedLinks(broker._sessions, broker._names, broker.network, broker._deferred, Random(seed)).scramble()
    for _ in range(3):
        stage.wait(HEALED)
        publisher.publish("warm", b"")  # so that a link of which the broker knows nothing is used
    publisher.publish("t", b"come")
    stage.wait(1.0)
    assert [[body for _, _, body in reader.read(1)] for reader in readers] == 3 * [[b"come"]]
    clients = [each for each in broker._sessions if each.state is LinkState.CLIENT]
    assert holders(stage) == {each.connection.name: each.connection.link for each in clients}
    assert sorted(holders(stage)) == ["p", "x", "y", "z"]
