"""Units with two exits that cost the same outside: what changes inside a unit moves no path outside it (CO-16)."""

import pytest
from tests.paper.coloured_scope import ColouredScope, Pair

from stentor.machine import MILLISECOND, SECOND
from stentor.model.colours.plan import TopologyChange, TopologyPlan
from stentor.protocols.overlay.exits import ExitChoices, ExitTable

NAMES = ["x/A", "x/B", "x/C", "x/D", "y/A", "y/B"]
LINKS = [  # x is the row A - C - D - B; it is left at A or at B
    ("x/C", "x/A", 1.0),
    ("x/C", "x/D", 1.0),
    ("x/D", "x/B", 1.0),
    ("x/A", "y/A", 1.0),
    ("x/B", "y/B", 1.0),
    ("y/A", "y/B", 1.0),
]
BY_A, BY_B = frozenset(("x/A", "y/A")), frozenset(("x/B", "y/B"))
FARTHER = TopologyPlan(7, (TopologyChange(near="x/C", far="x/A", before=1000, after=9000),))


def units() -> ColouredScope:
    """Return both units; the clients of y want everything."""
    scope = ColouredScope(NAMES, LINKS, {})
    for name in ("y/A", "y/B"):
        scope.clients[name].subscribe("t")
    scope.run(2.0)
    return scope


def used(scope: ColouredScope, name: str) -> set[Pair]:
    """Return the links between the units by which an event of a broker's client goes."""
    before = scope.carried()
    scope.clients[name].publish("t", b"which way?")
    scope.run()
    return {pair for pair, count in scope.carried().items() if count > before[pair]} & {BY_A, BY_B}


@pytest.mark.req("CO-16")
def test_a_plan_inside_a_unit_that_makes_another_exit_nearer_moves_no_path_outside_it() -> None:
    scope = units()
    assert used(scope, "x/C") == {BY_A}
    assert used(scope, "x/D") == {BY_B}
    scope.plan(FARTHER, "x")
    assert scope["x/C"].network.gateways.graph.cache.path("y") == ["x/D", "x/B", "y"]
    assert used(scope, "x/C") == {BY_A}
    assert used(scope, "x/D") == {BY_B}


@pytest.mark.req("CO-16", "CO-12")
@pytest.mark.parametrize("is_kept", [True, False])
def test_an_event_overtakes_an_earlier_one_on_a_slow_link_if_the_exit_moves(
    is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearest(_: ExitChoices, table: ExitTable, key: tuple[int, str, frozenset[str]], **__: bool) -> str:
        return table.nearest(*key[1:])

    if not is_kept:
        monkeypatch.setattr(ExitChoices, "choose", nearest)
    scope = units()
    ends = "at-x_A", "at-y_A"
    scope.world.network.block(*ends)  # for a moment: what is sent arrives later
    scope.clients["x/C"].publish("t", b"early")
    scope.plan(FARTHER, "x")  # inside x nothing is under way
    scope.clients["x/C"].publish("t", b"late")
    scope.run(0.2)
    scope.world.network.unblock(*ends)
    scope.run()
    assert scope.clients["y/A"].got == ([b"early", b"late"] if is_kept else [b"late"])


@pytest.mark.req("CO-16")
def test_a_plan_outside_moves_the_path_if_the_exit_is_no_longer_as_good() -> None:
    scope = units()
    scope.plan(TopologyPlan(8, (TopologyChange(near="x/A", far="y/A", before=1000, after=2000),)))
    assert used(scope, "x/C") == {BY_B}


@pytest.mark.req("CO-16", "CO-12")
def test_nothing_is_lost_or_overtaken_while_both_exits_are_used_and_the_unit_is_rebuilt() -> None:
    scope = units()
    published: list[bytes] = []

    def publish() -> None:
        if len(published) < 2 * 600:
            for name in ("x/C", "x/D"):
                published.append(f"{name} {len(published)}".encode())
                scope.clients[name].publish("t", published[-1])
            scope.world.schedule.after(5 * MILLISECOND, publish)

    publish()
    scope.plan(FARTHER, "x")
    nearer = TopologyChange(near="x/C", far="x/A", before=9000, after=1000)
    scope.plan(TopologyPlan(9, (nearer, TopologyChange(near="x/D", far="x/B", before=1000, after=9000))), "x")
    scope.run(10.0)
    for client in (scope.clients["y/A"], scope.clients["y/B"]):
        for name in ("x/C", "x/D"):
            own = [body for body in published if body.startswith(name.encode())]
            assert [body for body in client.got if body.startswith(name.encode())] == own


@pytest.mark.req("CO-13", "CO-16")
def test_a_broker_that_has_a_nearer_exit_asks_the_outer_root_which_makes_a_plan_of_it() -> None:
    # "A unit whose exits could be better asks the outer root: a change of the outer scope." (colours.md)
    scope = units()
    scope.plan(FARTHER, "x")
    assert used(scope, "x/C") == {BY_A}
    root = scope[scope.root()].network.colouring.of_scope("")
    assert root is not None
    scope.run_until(lambda: any(view.changes == 1 for view in root.planning.views()))
    scope.run_until(lambda: not root.announced.is_open)
    assert used(scope, "x/C") == {BY_B}
    assert used(scope, "x/D") == {BY_B}
    plans = len(root.planning.views())
    scope.run(30.0)
    assert len(root.planning.views()) == plans  # it is nearer, and stays so


@pytest.mark.req("CO-12", "CO-13", "CO-16")
@pytest.mark.parametrize("publisher", ["x/C", "z/A"])
def test_no_event_overtakes_another_when_a_broker_chooses_its_exit_again(publisher: str) -> None:
    # What z/A publishes crosses x, which it enters at the broker that chooses again: it waits where it got its colour.
    scope = ColouredScope([*NAMES, "z/A"], [*LINKS, ("z/A", "x/C", 1.0)], {})
    for name in ("y/A", "y/B"):
        scope.clients[name].subscribe("t")
    scope.run(2.0)
    scope.plan(FARTHER, "x")
    choices = scope["x/C"].network.routes._choices
    root = scope[scope.root()].network.colouring.of_scope("")
    assert root is not None
    ends = "at-x_A", "at-y_A"
    published: list[bytes] = []
    deadline = scope.world.now + 40 * SECOND

    def publish() -> None:
        if scope.world.now < deadline:
            published.append(f"{len(published)}".encode())
            scope.clients[publisher].publish("t", published[-1])
            scope.world.schedule.after(20 * MILLISECOND, publish)

    publish()
    scope.run_until(lambda: root.announced.is_open)
    scope.world.network.block(*ends)  # for a moment: what is sent arrives later
    scope.run(0.5)
    scope.world.network.unblock(*ends)
    scope.run_until(lambda: not root.announced.is_open)
    scope.run(45.0)
    assert "x/B" in choices._kept.values()
    assert scope.clients["y/A"].got == scope.clients["y/B"].got == published
