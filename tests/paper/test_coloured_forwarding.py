"""Paper 003, "Reconfiguring Self-stabilizing Publish/Subscribe Systems", sections 3 and 4: routing on the tree itself.

A scope with `forwarding = "coloured"` is the paper's system: brokers that route events over a tree, whatever other
links there are. Each test quotes the sentence that it is about. What the paper says of the tree itself is in
`test_colours.py`, of plans in `test_plans.py`.
"""

from collections.abc import Set as AbstractSet
from itertools import combinations

import pytest
from tests.paper.coloured_scope import ColouredScope, Pair

from stentor.machine import MILLISECOND
from stentor.model.colours.colour import current_colour, new_colour, old_colour
from stentor.model.colours.plan import PlanStage, Side, TopologyChange, TopologyPlan
from stentor.nodes.network.link_cost import TREE_COST

BROKERS = "ABCDE"
MESH = [(one, other, 1.0) for one, other in combinations(BROKERS, 2)]
RING = [(one, other, 1.0) for one, other in zip(BROKERS, BROKERS[1:] + BROKERS[:1], strict=True)]


def subscribed(links: list[tuple[str, str, float]], delay_ns: int = MILLISECOND) -> ColouredScope:
    """A scope in which every client wants all events of a topic."""
    scope = ColouredScope(BROKERS, links, delay_ns=delay_ns)
    for client in scope.clients.values():
        client.subscribe("t")
    scope.run(2.0)
    return scope


def next_hops(scope: ColouredScope, name: str) -> set[Pair]:
    """Return the links by which a broker reaches anybody."""
    (state,) = scope[name].network.relay.states
    return {frozenset((name, neighbour)) for neighbour in state.next_hops}


def used(scope: ColouredScope) -> set[Pair]:
    """Return the links by which any broker reaches another."""
    return set().union(*(next_hops(scope, name) for name in BROKERS))


def carries(scope: ColouredScope) -> AbstractSet[Pair]:
    """Let everybody subscribe and publish; return the links that carry events then."""
    for client in scope.clients.values():
        client.subscribe("t")
    scope.run(2.0)
    before = scope.carried()
    for name, client in scope.clients.items():
        client.publish("t", name.encode())
    scope.run(2.0)
    return (scope.carried() - before).keys()


def replacement(scope: ColouredScope) -> TopologyPlan:
    """A plan that takes a link of the tree away, in a mesh in which other links lead to the same brokers."""
    near, far = sorted(min(map(sorted, scope.trees()[""])))
    return TopologyPlan(7, (TopologyChange(near=near, far=far, before=1000, after=0),))


# ---- section 3: the model


@pytest.mark.req("CO-06")
def test_events_travel_on_an_acyclic_broker_topology() -> None:
    # "Basically, we assume a hierarchical routing algorithm based on an acyclic broker topology with bidirectional FIFO
    # links connecting individual nodes."
    scope = subscribed(MESH)
    before = scope.carried()
    for name, client in scope.clients.items():
        client.publish("t", name.encode())
    scope.run()
    (tree,) = scope.trees().values()
    assert len(tree) == len(BROKERS) - 1 < len(MESH)
    assert (scope.carried() - before).keys() == tree
    assert all(sorted(client.got) == [each.encode() for each in BROKERS] for client in scope.clients.values())


@pytest.mark.req("CO-06")
def test_a_broker_knows_of_its_tree_neighbours_who_is_behind_them_and_needs_no_other_way() -> None:
    # "hierarchical routing": of all links of a broker, those to its parent and its children are its next hops.
    scope = ColouredScope(BROKERS, MESH)
    (tree,) = scope.trees().values()
    for name in BROKERS:
        (state,) = scope[name].network.relay.states
        assert next_hops(scope, name) == {edge for edge in tree if name in edge}
        assert state.members.bit_count() == len(BROKERS) - 1


@pytest.mark.req("CO-06")
def test_routing_is_decided_by_the_table_and_the_event_alone() -> None:
    # "the routing algorithm bases its routing decisions solely on the contents of the routing table and the
    # notification to forward"
    scope = ColouredScope(BROKERS, MESH)
    scope.clients["B"].subscribe("t", "n > 1")
    scope.run(2.0)
    before = scope.carried()
    for count in range(4):
        scope.clients["C"].publish("t", bytes([count]), {"n": count})
    scope.run()
    assert scope.clients["B"].got == [b"\x02", b"\x03"]
    assert set((scope.carried() - before).values()) == {2}, "what nobody wants takes no link"


@pytest.mark.req("CO-06", "CO-12")
def test_a_client_gets_what_it_has_subscribed_for_once_from_then_on_until_it_unsubscribes() -> None:
    # "(i) every client receives only the published notifications it has subscribed for (without duplicates) and (ii)
    # every subscription becomes active after finite time, from which on the client receives every published
    # notification matching its subscription until it unsubscribes."
    scope = ColouredScope(BROKERS, MESH)
    reader, writer = scope.clients["B"], scope.clients["C"]
    subscription = reader.subscribe("t")
    scope.run(2.0)
    bodies = [bytes([count]) for count in range(50)]
    for body in bodies:
        writer.publish("t", body)
        writer.publish("u", body)
    scope.run()
    assert reader.got == bodies
    assert not any(client.got for client in scope.clients.values() if client is not reader)
    reader.unsubscribe(subscription)
    scope.run()
    writer.publish("t", b"late")
    scope.run()
    assert reader.got == bodies


# ---- section 4: colours


@pytest.mark.req("CO-02", "CO-06")
def test_each_colour_has_a_tree_of_its_own_while_the_tree_changes() -> None:
    # "To be able to deliver these messages, the topology for c^old has to be kept long enough."
    scope = subscribed(MESH, delay_ns=20 * MILLISECOND)
    (tree,) = scope.trees().values()
    plan = replacement(scope)
    gone = frozenset((plan.changes[0].near, plan.changes[0].far))
    seen: set[tuple[bool, bool]] = set()

    def look() -> None:
        """Note by which links the old and the current colour go while the plan is in force."""
        (colours,) = scope["A"].network.colouring.scopes
        if colours.announced.stage is PlanStage.SWITCHED and colours.announced.number == plan.number:
            routes, number = scope["A"].network.relay._tables, colours.tree.round
            ways = [
                {frozenset(("A", far)) for far in routes.states((colour,))[0].next_hops}
                for colour in (old_colour(number), current_colour(number))
            ]
            own = {edge for edge in tree if "A" in edge}
            seen.add((ways[0] == own, gone not in ways[1]))
        scope.world.schedule.after(MILLISECOND, look)

    look()
    assert "A" in gone
    scope.plan(plan)
    assert seen == {(True, True)}


@pytest.mark.req("CO-06")
def test_events_have_the_current_colour_and_what_is_prepared_has_the_new_one() -> None:
    # "we demand that control messages are colored with c^new, while notifications are colored with c^cur"
    scope = ColouredScope(BROKERS, MESH)
    colouring = scope["A"].network.colouring
    (colours,) = colouring.scopes
    colours.announced.on_announce(replacement(scope), PlanStage.ANNOUNCED, colours.tree.round)
    (sides,) = colouring.sides
    assert colouring.current == (current_colour(colours.tree.round),)
    assert {colour: sides[colour] for colour in range(3)} == {
        old_colour(colours.tree.round): Side.BEFORE,
        current_colour(colours.tree.round): Side.BEFORE,
        new_colour(colours.tree.round): Side.AFTER,
    }


@pytest.mark.req("CO-05", "CO-06", "CO-12", "CO-13")
def test_a_link_of_the_tree_is_replaced_under_load_and_nothing_is_lost_or_comes_twice() -> None:
    # "Thereby, we ensure that notifications will be routed over the topology, the publishing broker belonged to at
    # publishing time. This way, we prevent duplicates, i.e., notifications sent multiple times to the same broker."
    scope = subscribed(MESH, delay_ns=20 * MILLISECOND)
    published: list[bytes] = []

    def publish() -> None:
        if len(published) < 4 * 400:
            for name in ("A", "B", "C", "E"):
                published.append(f"{name} {len(published)}".encode())
                scope.clients[name].publish("t", published[-1])
            scope.world.schedule.after(5 * MILLISECOND, publish)

    publish()
    plan = replacement(scope)
    gone = frozenset((plan.changes[0].near, plan.changes[0].far))
    scope.plan(plan)
    scope.run_until_on_the_tree()
    scope.run(10.0)
    (tree,) = scope.trees().values()
    assert gone not in tree
    assert len(tree) == len(BROKERS) - 1
    for client in scope.clients.values():
        for name in ("A", "B", "C", "E"):
            own = [body for body in published if body.startswith(name.encode())]
            assert [body for body in client.got if body.startswith(name.encode())] == own


@pytest.mark.req("CO-05", "CO-13")
def test_a_tree_that_has_changed_is_announced_with_one_wave_and_active_with_another() -> None:
    # "Thus, reconfigurations take two recolor messages to become active: one to disseminate the reconfiguration and one
    # to activate it."
    scope = ColouredScope(BROKERS, MESH)
    child, former = _leaf(scope)
    scope.part(child, former)
    scope.run_until(lambda: scope.tree_of(child).parent not in ("", former))
    parent, round_number, plans = scope.tree_of(child).parent, scope.tree_of(scope.root()).round, _plans(scope)
    assert scope.detours(), "it has another place already, and no link costs less for that"
    scope.run_until_on_the_tree()
    assert _plans(scope) == plans + 1
    assert scope.tree_of(scope.root()).round >= round_number + 2
    assert next_hops(scope, child) == {frozenset((child, parent))}


@pytest.mark.req("CO-07")
def test_tables_that_were_perturbed_are_rebuilt_with_the_next_waves() -> None:
    # "It is necessary to periodically rebuild the routing tables as we assume that they can be perturbed arbitrarily."
    scope = ColouredScope(BROKERS, MESH)
    (tree,) = scope.trees().values()
    for name in BROKERS:
        for far in scope[name].network.peers:
            cost = 5_000 if frozenset((name, far)) in tree else TREE_COST
            scope[name].network.gateways.reprice(far, cost)
    scope.run_until(lambda: used(scope) != tree)
    scope.run(5 * scope[BROKERS[0]].network.colouring.scopes[0].timing.patience)
    assert used(scope) == tree


# ---- what the paper leaves open


@pytest.mark.req("CO-13")
def test_while_the_tree_has_a_gap_events_go_round_it_and_the_detours_are_counted() -> None:
    # "In this case, B contacts R to rejoin the tree." Until it has, the paper delivers nothing to it.
    scope = subscribed(RING)
    child, parent = _leaf(scope)
    scope.part(child, parent)
    scope.run(0.3)
    assert scope.detours() > 0
    scope.clients["A"].publish("t", b"round")
    scope.run(0.3)
    assert [client.got for client in scope.clients.values()] == [[b"round"]] * len(BROKERS)
    scope.run_until_on_the_tree()
    before = scope.carried()
    scope.clients["A"].publish("t", b"on the tree")
    scope.run()
    (tree,) = scope.trees().values()
    assert (scope.carried() - before).keys() == tree


@pytest.mark.req("CO-16")
def test_between_units_events_go_by_those_links_that_the_tree_around_the_units_has() -> None:
    inside = [(f"{unit}/{one}", f"{unit}/{other}", 1.0) for unit in "xyz" for one, other in combinations("ABC", 2)]
    between = [(f"{one}/{near}", f"{other}/{near}", 1.0) for one, other in combinations("xyz", 2) for near in "ABC"]
    names = [f"{unit}/{broker}" for unit in "xyz" for broker in "ABC"]
    scope = ColouredScope(names, [*inside, *between])
    found = carries(scope)
    assert {tuple(sorted(client.got)) for client in scope.clients.values()} == {tuple(map(str.encode, sorted(names)))}
    trees = scope.trees()
    allowed = {edge for unit in "xyz" for edge in trees[unit]}
    allowed |= {edge for edge in trees[""] if len({end[0] for end in edge}) == 2}
    assert found <= allowed
    assert {edge for unit in "xyz" for edge in trees[unit]} <= found, "units are crossed by their own trees"


@pytest.mark.req("SC-02")
def test_a_scope_decides_for_itself_whether_its_events_go_by_its_tree() -> None:
    links = [(f"{unit}/{one}", f"{unit}/{other}", 1.0) for unit in "xy" for one, other in combinations("ABC", 2)]
    names = [f"{unit}/{broker}" for unit in "xy" for broker in "ABC"]
    scope = ColouredScope(names, [*links, ("x/A", "y/A", 1.0)], {"x": "coloured"})
    found = carries(scope)
    assert len([edge for edge in found if all(end.startswith("x/") for end in edge)]) == 2
    assert len([edge for edge in found if all(end.startswith("y/") for end in edge)]) == 3


@pytest.mark.req("CO-13")
def test_a_plan_that_changes_what_links_cost_is_refused_where_they_cost_nothing() -> None:
    scope = ColouredScope(BROKERS, MESH)
    plan = TopologyPlan(7, (TopologyChange(near="A", far="B", before=1000, after=2000),))
    assert scope[scope.root()].network.colouring.scopes[0].request(plan) == (
        "in the network events go by the tree, whatever links cost: leave costs as they are"
    )


def _leaf(scope: ColouredScope) -> tuple[str, str]:
    """Return a broker without children, and its parent."""
    leaf = next(name for name in BROKERS if name != scope.root() and not scope.tree_of(name).children)
    return leaf, scope.tree_of(leaf).parent


def _plans(scope: ColouredScope) -> int:
    """Return how many plans roots have carried out."""
    return sum(len(scope[name].network.colouring.scopes[0].planning.views()) for name in BROKERS)
