"""What a broker answers when it is asked about the network around it."""

import msgspec
from tests.unit.nodes.network.desk import HALL, ME, Desk

from stentor.model.colours.wave_messages import Ack, Rejoin, Rotate
from stentor.model.reports.colour_view import ColourView
from stentor.model.reports.view import NetworkView
from stentor.nodes.broker.introspection import view_of


def colours(desk: Desk, scope: str) -> ColourView:
    """What the broker tells of a scope, as it arrives."""
    view = msgspec.msgpack.decode(msgspec.msgpack.encode(view_of(desk.network, 0, 0)), type=NetworkView)
    found = next(each for each in view.scopes if each.scope == scope)
    assert found.colours is not None
    return found.colours


def test_a_broker_that_knows_nobody_is_the_root_of_itself_in_every_scope() -> None:
    desk = Desk()
    for scope in desk.network.context.scopes:
        found = colours(desk, scope)
        assert (found.tree.role, found.tree.root, found.tree.round, found.brokers) == ("root", ME, 0, 1)
        assert found.bound == desk.network.colouring.scopes[0].timing.bound() > 0


def test_a_view_tells_of_children_and_of_waves_that_were_not_taken_scope_by_scope() -> None:
    desk = Desk()
    session = desk.link(HALL, 1000)
    desk.network.hear(session, Rejoin(scope="north", broker=HALL))
    desk.network.hear(session, Rotate(scope="", round=5, root=HALL, rank=0, depth=1, manifest=0))
    north, outermost = colours(desk, "north"), colours(desk, "")
    assert [each.children for each in north.tree.pointers] == [(HALL,)] * 3
    assert (north.refused, outermost.refused) == (0, 1)
    assert colours(desk, "north/library").tree.pointers[0].children == ()


def test_a_view_counts_the_brokers_of_the_tree_when_a_wave_has_ended() -> None:
    desk = Desk()
    session = desk.link(HALL, 1000)
    desk.network.hear(session, Rejoin(scope="north", broker=HALL))
    desk.network.colouring.scopes[1].wave.begin()
    assert (colours(desk, "north").tree.round, colours(desk, "north").brokers) == (1, 1)
    desk.network.hear(session, Ack(scope="north", round=1, is_complete=True, brokers=3))
    assert colours(desk, "north").brokers == 4


def test_what_was_repaired_is_counted_for_all_scopes_together() -> None:
    desk = Desk()
    desk.network.colouring.repaired = 2
    desk.network.colouring.audit.repaired = 3
    assert view_of(desk.network, 0, 0).repaired == 5
