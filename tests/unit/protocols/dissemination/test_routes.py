"""Routes and flows: worked out once, shared where interests are the same, forgotten exactly where they change."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.filter import Filter
from stentor.model.ids import (
    CatenationNumber,
    Incarnation,
    LinkId,
    PublisherId,
    SubscriptionId,
    topic_id,
)
from stentor.model.topic import matches
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination import routes as routing
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.routes import FlowTable, Route, RouteTable
from stentor.wire import block
from stentor.wire.block import Origin
from stentor.wire.head import FLOW, topic_of_flow

Table = RouteTable[Outbox]


def outbox(link: int) -> Outbox:
    return Outbox(LinkId(link), 1000)


A, B, C = outbox(1), outbox(2), outbox(3)


def flow(topic: str, publisher: int = 1) -> bytes:
    origin = Origin(topic_id(topic), PublisherId(publisher), Incarnation(1), CatenationNumber(1), 0)
    return block.encode(origin, EMPTY_SCHEMA, [], [b""])[FLOW]


def interest(number: int, pattern: str, destination: Outbox = A, where: str = "") -> BrokerSubscription[Outbox]:
    return BrokerSubscription(number, SubscriptionId(number), destination, pattern, Filter(where) if where else None)


def link(table: Table, number: int, *topics: str) -> FlowTable[Outbox]:
    """A link whose peer has defined these topics."""
    flows: FlowTable[Outbox] = FlowTable(number)
    for topic in topics:
        table.define(flows, topic_id(topic), topic)
    return flows


def route(table: Table, topic: str) -> Route[Outbox]:
    return table.route(table.topics[topic_id(topic)])


def test_the_number_of_a_flows_topic_is_in_it() -> None:
    assert topic_of_flow(flow("a/b")) == topic_id("a/b")


def test_a_route_leads_to_everyone_who_wants_the_topic() -> None:
    table: Table = RouteTable()
    for each in (interest(1, "a/b", A), interest(2, "a/#", B), interest(3, "+/x", C), interest(4, "a/b", A, "n > 1")):
        table.add(each)
    link(table, 1, "a/b", "a/x", "c")
    assert route(table, "a/b").takers == {A: (1,), B: (2,)}
    assert [len(filtered) for filtered in route(table, "a/b").filtered] == [1]
    assert route(table, "a/x").takers == {B: (2,), C: (3,)}
    assert route(table, "c").takers == {}
    assert route(table, "c").filtered == ()


def test_who_filters_joins_an_audience_and_no_route_changes_for_the_second_one() -> None:
    table: Table = RouteTable()
    flows = link(table, 1, "t/a", "t/b")
    picky = [interest(number, "t/+", A, f"n > {number}") for number in (1, 2, 3)]
    table.add(picky[0])
    kept = table.remember(flows, flow("t/a"))
    for each in picky[1:]:
        table.add(each)
    table.remove(picky[0])
    assert flows.routes == {flow("t/a"): kept}
    assert [len(filtered) for filtered in kept.filtered] == [2]
    for each in picky[1:]:
        table.remove(each)
    assert flows.routes == {}
    assert table.remember(flows, flow("t/a")).filtered == ()


def test_topics_of_the_same_interests_share_a_route() -> None:
    table: Table = RouteTable()
    table.add(interest(1, "a/#"))
    table.add(interest(2, "a/special", B))
    link(table, 1, "a/x", "a/y", "a/special", "b", "c")
    assert route(table, "a/x") is route(table, "a/y")
    assert route(table, "a/x") is not route(table, "a/special")
    assert route(table, "b") is route(table, "c")


def test_an_interest_forgets_the_routes_that_it_touches_and_no_others() -> None:
    table: Table = RouteTable()
    flows, others = link(table, 1, "a/x", "a/y", "b"), link(table, 2, "a/x")
    for topic in ("a/x", "a/y", "b"):
        table.remember(flows, flow(topic))
    table.remember(flows, flow("a/x", publisher=2))
    table.remember(others, flow("a/x"))
    wish = interest(1, "a/x")
    table.add(wish)
    assert set(flows.routes) == {flow("a/y"), flow("b")}
    assert others.routes == {}
    for topic in ("a/x",):
        assert table.remember(flows, flow(topic)).takers == {A: (1,)}
    wide = interest(2, "+/#", B)
    table.add(wide)
    assert flows.routes == {}
    for topic in ("a/x", "a/y", "b"):
        table.remember(flows, flow(topic))
    table.remove(wish)
    assert set(flows.routes) == {flow("a/y"), flow("b")}
    table.add(interest(3, "nobody/knows"))
    assert set(flows.routes) == {flow("a/y"), flow("b")}


def test_a_change_elsewhere_leaves_a_shared_route_in_use() -> None:
    table: Table = RouteTable()
    table.add(interest(1, "#"))
    flows = link(table, 1, "a", "b")
    kept = table.remember(flows, flow("a"))
    assert table.remember(flows, flow("b")) is kept
    table.add(interest(2, "b", B))
    assert flows.routes == {flow("a"): kept}
    assert table.remember(flows, flow("b")).takers == {A: (1,), B: (2,)}


def test_counts_are_settled_when_a_route_is_forgotten_and_when_asked() -> None:
    table: Table = RouteTable()
    wish, picky = interest(1, "#"), interest(2, "#", A, "n > 1")
    table.add(wish)
    table.add(picky)
    link(table, 1, "a", "b")
    route(table, "a").events += 5
    table.book_counts()
    table.book_counts()
    assert wish.accepted == 5
    assert picky.accepted == 0, "its own filter counts for it"
    route(table, "b").events += 2
    assert route(table, "a").events == 2, "they share one"
    other = interest(3, "a", B)
    table.add(other)
    route(table, "a").events += 10
    table.book_counts()
    assert (wish.accepted, other.accepted) == (17, 10)


def test_counts_are_settled_when_the_last_publisher_of_a_topic_goes() -> None:
    table: Table = RouteTable()
    wish = interest(1, "a")
    table.add(wish)
    flows = link(table, 1, "a")
    table.remember(flows, flow("a")).events += 3
    table.drop(flows)
    assert wish.accepted == 3


def test_a_topic_is_known_as_long_as_one_of_its_definers_is_there() -> None:
    table: Table = RouteTable()
    one, two = link(table, 1, "a", "b"), link(table, 2, "a")
    table.define(one, topic_id("a"), "a")  # said twice, counted once
    table.drop(one)
    assert [state.name for state in table.topics.values()] == ["a"]
    table.drop(two)
    assert table.topics == {}


def test_a_link_with_too_many_flows_starts_anew() -> None:
    table: Table = RouteTable()
    one, two = link(table, 1, "a"), link(table, 2, "a")
    table.remember(one, flow("a"))
    table.remember(two, flow("a"))
    table.forget_flows(one)
    assert one.routes == {}
    assert set(two.routes) == {flow("a")}
    table.add(interest(1, "a"))
    assert two.routes == {}


def test_a_flow_of_a_link_that_we_dialled_is_forgotten_with_its_route() -> None:
    table: Table = RouteTable()
    dialled = link(table, -3, "a")  # such links have negative numbers
    table.remember(dialled, flow("a"))
    table.add(interest(1, "a"))
    assert dialled.routes == {}


def test_an_interest_that_covers_many_topics_forgets_all_routes_without_looking_at_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "_MANY_TOPICS", 10)
    table: Table = RouteTable()
    names = [f"many/{number}" for number in range(50)]
    flows = link(table, 1, "other", *names)
    early = interest(1, "many/3")
    table.add(early)
    for name in ("other", *names):
        table.remember(flows, flow(name)).events += 2
    wide = interest(2, "#")
    table.add(wide)
    assert flows.routes == {}
    assert sum(state.route is not None for state in table.topics.values()) > 30, "they were not looked at"
    route = table.remember(flows, flow("many/3"))
    assert list(route.takers.values()) == [(early.id, wide.id)]
    assert early.accepted == 2
    route.events += 1
    table.remove(wide)
    assert flows.routes == {}
    assert list(table.remember(flows, flow("many/3")).takers.values()) == [(early.id,)]
    table.book_counts()
    assert (early.accepted, wide.accepted) == (3, 1)
    table.drop(flows)
    assert (table.topics, table._tables) == ({}, {})


@pytest.mark.req("CO-01")
def test_routes_are_worked_out_anew_in_turns_whatever_became_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_RENEWED", 2)
    table = Table()
    topics = ["a", "b", "c", "d", "e"]
    links = [link(table, 1, *topics), link(table, 2, *topics)]
    for number, topic in enumerate(topics):
        table.add(interest(number, topic, (A, B)[number % 2]))

    def use() -> None:
        """Open the flows that have no route."""
        for each in links:
            for topic in topics:
                if flow(topic) not in each.routes:
                    table.remember(each, flow(topic))

    use()
    wrong = Route[Outbox]((), ())
    for state in table.topics.values():
        state.route, state.remembered = wrong, {}
    for each in links:
        each.routes.update(dict.fromkeys(each.routes, wrong))
    table._tables.clear()
    table._renewed = 1 << 40
    for _ in range(10):
        table.renew(links)
        use()
    table.validate()
    assert not any(route is wrong for each in links for route in each.routes.values())


def residue(table: Table) -> dict[str, Any]:
    """Whatever a table holds on to."""
    return {
        "topics": table.topics,
        "interests": table.subscriptions,
        "tree": table._tree._root.branches,
        "patterns": table.filed._whole._tree._root.branches,
        "exact": table.filed._whole._exact,
        "shared": table._shared,
        "audiences": table.filed._by_pattern,
        "filtered": table.filed._audiences._exact,
        "destinations": table.slots._numbers,
    }


@pytest.mark.parametrize("publisher_first", [True, False])
def test_nothing_is_left_of_links_that_came_and_went(publisher_first: bool) -> None:
    table: Table = RouteTable()
    for number in range(20):
        wishes = [interest(10 * number, "a/b"), interest(10 * number + 1, "a/#"), interest(10 * number + 2, "+/b")]
        for each in wishes:
            table.add(each)
        flows = link(table, number, "a/b", f"own/{number}")
        table.remember(flows, flow("a/b"))
        table.remember(flows, flow(f"own/{number}"))
        if publisher_first:
            table.drop(flows)
        for each in wishes:
            table.remove(each)
        if not publisher_first:
            table.drop(flows)
    assert [name for name, held in residue(table).items() if held] == []


TOPICS = ["a", "a/b", "a/c", "b", "$s/a"]
PATTERNS = ["a", "a/b", "a/#", "#", "+", "+/b", "$s/#"]
changes = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 6), st.sampled_from(PATTERNS)),
    st.tuples(st.just("remove"), st.integers(1, 6), st.just("")),
    st.tuples(st.just("define"), st.integers(1, 3), st.sampled_from(TOPICS)),
    st.tuples(st.just("use"), st.integers(1, 3), st.sampled_from(TOPICS)),
    st.tuples(st.just("forget"), st.integers(1, 3), st.just("")),
    st.tuples(st.just("drop"), st.integers(1, 3), st.just("")),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(changes, max_size=50))
def test_a_remembered_route_is_always_the_right_one_and_every_event_is_counted(
    steps: list[tuple[str, int, str]],
) -> None:
    table: Table = RouteTable()
    wishes: dict[int, BrokerSubscription[Outbox]] = {}
    links: dict[int, FlowTable[Outbox]] = {number: FlowTable(number) for number in (1, 2, 3)}
    counted: dict[int, int] = {}
    serial = 0
    for what, number, name in steps:
        flows = links.get(number)
        if what == "add" and number not in wishes:
            serial += 1
            wishes[number] = made = interest(serial, name, (A, B, C)[number % 3])
            counted[serial] = 0
            table.add(made)
        elif what == "remove" and number in wishes:
            gone = wishes.pop(number)
            table.remove(gone)
            assert gone.accepted == counted[gone.number]
        elif what == "define" and flows is not None:
            table.define(flows, topic_id(name), name)
        elif what == "use" and flows is not None and topic_id(name) in flows.topics:
            found = flows.routes.get(flow(name)) or table.remember(flows, flow(name))
            found.events += 1
            for each in wishes.values():
                if matches(each.pattern, name):
                    counted[each.number] += 1
        elif what == "forget" and flows is not None:
            table.forget_flows(flows)
        elif what == "drop" and flows is not None:
            table.drop(flows)
            links[number] = FlowTable(number)
        for each_link in links.values():
            for remembered, found in each_link.routes.items():
                topic = table.topics[topic_of_flow(remembered)].name
                wanted = sorted(wish.number for wish in wishes.values() if matches(wish.pattern, topic))
                assert sorted(number for ids in found.takers.values() for number in ids) == wanted
    table.book_counts()
    assert {wish.number: wish.accepted for wish in wishes.values()} == {
        wish.number: counted[wish.number] for wish in wishes.values()
    }
    assert sum(len(state.remembered) for state in table.topics.values()) == sum(
        len(each.routes) for each in links.values()
    )


# ---- access


class Only:
    """May read some topics."""

    def __init__(self, *topics: str) -> None:
        self.topics = set(topics)

    def may_read(self, topic: str) -> bool:
        return topic in self.topics


def test_a_route_leads_only_to_those_who_may_read_the_topic() -> None:
    table: Table = RouteTable()
    some = Only("a/b")
    for number, (destination, access, where) in enumerate(
        [(A, some, ""), (B, None, ""), (C, some, "n > 1"), (A, None, "n > 1")], 1
    ):
        made = interest(number, "a/#", destination, where)
        made.access = access
        table.add(made)
    link(table, 1, "a/b", "a/c")
    assert route(table, "a/b").takers == {A: (1,), B: (2,)}
    assert len(route(table, "a/b").filtered) == 2
    assert route(table, "a/c").takers == {B: (2,)}
    assert [len(filtered) for filtered in route(table, "a/c").filtered] == [1]


def test_whose_access_changes_moves_to_another_audience_and_all_of_it_can_be_removed() -> None:
    table: Table = RouteTable()
    one, other = Only("a"), Only("b")
    filtered, whole = interest(1, "+", A, "n > 1"), interest(2, "+", B)
    for each in (filtered, whole):
        each.access = one
        table.add(each)
    link(table, 1, "a", "b")
    assert route(table, "a").is_wanted
    assert not route(table, "b").is_wanted
    for each in (filtered, whole):
        table.change_access(each, other)
    assert not route(table, "a").is_wanted
    assert route(table, "b").is_wanted
    for each in (filtered, whole):
        table.remove(each)
    assert not route(table, "b").is_wanted
    assert table.filed._by_pattern == {}


def test_a_denied_flow_is_forgotten_with_the_routes_of_its_topic() -> None:
    table: Table = RouteTable()
    flows = link(table, 1, "t")
    table.deny(flows, flow("t"))
    assert flows.routes[flow("t")] is table.denied
    assert table.forget_routes("t") == {topic_id("t")}
    assert flows.routes == {}
    table.deny(flows, flow("t"))
    table.drop(flows)
    assert table.topics == {}


DAMAGES: dict[str, Callable[[Table], object]] = {
    "is filed under another number": lambda table: table.topics.update({topic_id("z"): table.topics[topic_id("a/b")]}),
    "is not as it was": lambda table: table.filed.add(interest(9, "a/b")),
    "has a route of its own": lambda table: table._tables[1].routes.update({flow("a/b"): Route((), ())}),
    "does not know of a flow": lambda table: table.topics[topic_id("a/b")].remembered.clear(),
    "an audience of interests that are gone": lambda table: table.subscriptions.pop(2),
    "still paid for": lambda table: table.filed.evaluated_for.update({A: 1}),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_to_a_table_is_seen(what: str) -> None:
    table: Table = RouteTable()
    table.add(interest(1, "a/#"))
    table.add(interest(2, "a/b", B, "n > 1"))
    table.remember(link(table, 1, "a/b"), flow("a/b"))
    table.validate()
    DAMAGES[what](table)
    with pytest.raises(AssertionError, match=what):
        table.validate()
