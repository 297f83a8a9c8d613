"""How far a link can come, and what cannot happen to it."""

import pytest

from stentor.machine import LinkOpened
from stentor.model.ids import LinkId
from stentor.nodes.broker.access.credentials import Credentials
from stentor.nodes.broker.link_session import TRANSITIONS, LinkChange, LinkSession, LinkState
from stentor.protocols.connection.connection import Connection
from stentor.protocols.dissemination.mask_plans import NextHop


def session() -> LinkSession:
    link = LinkId(1)
    return LinkSession(Connection(link, 0, 1000, 1000, 5.0), Credentials(LinkOpened(link)), dialled=False)


def test_a_broker_is_a_neighbour_until_another_link_takes_its_place() -> None:
    link = session()
    hop = NextHop("a/b", 0, link.connection.outbox, None)
    link.join_network(hop)
    assert (link.state, link.hop) == (LinkState.NEIGHBOUR, hop)
    link.leave_network()
    assert (link.state, link.hop) == (LinkState.REPLACED, None)
    link.change(LinkChange.ENDED)
    assert link.state is LinkState.CLOSED


@pytest.mark.parametrize(
    "changes",
    [
        (LinkChange.CLIENT_GREETED, LinkChange.CLIENT_GREETED),
        (LinkChange.CLIENT_GREETED, LinkChange.BROKER_GREETED),
        (LinkChange.CLIENT_GREETED, LinkChange.SUPERSEDED),
        (LinkChange.SUPERSEDED,),
        (LinkChange.ENDED, LinkChange.ENDED),
        (LinkChange.ENDED, LinkChange.CLIENT_GREETED),
    ],
)
def test_what_cannot_happen_to_a_link_ends_the_node(changes: tuple[LinkChange, ...]) -> None:
    link = session()
    *before, last = changes
    for change in before:
        link.change(change)
    with pytest.raises(AssertionError, match=f"cannot be {last.value}"):
        link.change(last)


def test_every_state_but_the_last_can_end() -> None:
    assert {state for state, change in TRANSITIONS if change is LinkChange.ENDED} == set(LinkState) - {LinkState.CLOSED}
