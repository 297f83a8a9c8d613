"""Access at a broker: what strangers get and bring, what ends and begins when a charter changes, and what it costs."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.nodes.conftest import Peer, Stage

from stentor.model.errors import Refusal
from stentor.model.ids import SubscriptionId, topic_id
from stentor.model.messages import Ping, Pong, Receipt, Rejection, Topic, Welcome
from stentor.model.reports.view import AccessView
from stentor.model.topic import matches
from stentor.model.trust.access import Grant, Membership, SharedFact, TopicTerms
from stentor.model.trust.access_messages import AccessFacts, AccessReport, AccessRequest, FlowRefusal
from stentor.model.trust.request_topic import request_topic, requests_pattern
from stentor.nodes.broker.access.access_control import subject_of
from stentor.policies.access import AccessRule, AccessSettings
from stentor.policies.scope_policies import ScopePolicies

QUOTES = AccessRule(principals=("alice", "bob"), topics=("quotes/#",), publish=True, subscribe=True)
EVERYTHING = AccessRule(principals=("alice", "bob"), topics=("#",), publish=True, subscribe=True)
DENIED = Refusal.NOT_AUTHORISED


def pack(value: msgspec.Struct | None) -> bytes:
    return b"" if value is None else msgspec.msgpack.encode(value)


class Guarded(Stage):
    """A broker with TLS, and a repository that tells it charters."""

    def __init__(self, *rules: AccessRule, is_open: bool = False, traces: bool = False) -> None:
        super().__init__(access=AccessSettings(rules=rules, is_open=is_open, owns_names=True), traces=traces)
        self.repository = self.peer("repository:r1", "node")
        self.version = 0

    def charter(
        self, topic: str, owner: str = "owner", *, is_open: bool = False, **grants: Mapping[str, str | None]
    ) -> None:
        """Make a topic reliable, or change who may do what; None takes a grant back."""
        self.version += 1
        values: dict[str, msgspec.Struct | None] = {
            "topic": TopicTerms(owner, open=is_open),
            "member/r1": Membership(principal="node"),
        }
        for role, names in grants.items():
            for name, holder in names.items():
                values[f"grant/{role}/{name}"] = None if holder is None else Grant(holder)
        facts: list[SharedFact] = [(key, self.version, "r1", pack(value)) for key, value in values.items()]
        self.repository.say(AccessFacts(topic=topic, facts=tuple(facts)))

    def delete(self, topic: str) -> None:
        self.version += 1
        self.repository.say(AccessFacts(topic=topic, facts=(("topic", self.version, "r1", b""),)))

    def user(self, principal: str, name: str = "", *attributes: str) -> Peer:
        """A client with a certificate that is no node's."""
        peer = self.peer(name or principal, principal, node=False, attributes=attributes)
        peer.hear()
        return peer

    def node(self, name: str = "node") -> Peer:
        peer = self.peer(name, "node")
        peer.hear()
        return peer

    @property
    def audiences(self) -> int:
        return len(self.broker._forwarder.table.filed._by_pattern)


def bodies(words: list[Any]) -> list[bytes]:
    """The events frames among what was heard; their last bytes are the body."""
    return [word for word in words if isinstance(word, bytes)]


def publish(peer: Peer, topic: str, first: int = 1, numbers: list[int] | None = None) -> list[Any]:
    peer.define(topic)
    return peer.say(peer.events(topic, first, numbers))


SECRETS = [
    "#",
    "+",
    "orders",
    "$to/alice",
    "$to/#",
    "$bundle/orders",
    "$bundle/#",
    "$stentor/#",
    "$stentor/trace",
    "$repositories",
    "$chorus/r1/1/orders",
    "$within/north/orders",
    "$anything/#",
]


@pytest.mark.parametrize("pattern", SECRETS)
@pytest.mark.parametrize("where", ["", "n >= 0"])
def test_who_was_granted_nothing_reads_nothing_and_the_link_goes_on(pattern: str, where: str) -> None:
    stage = Guarded(QUOTES)
    stage.charter("orders", publisher={"shop": "alice"}, subscriber={"billing": "alice"})
    mallory = stage.user("mallory")
    [receipt] = mallory.subscribe(1, pattern, where)
    assert receipt.code is DENIED
    assert receipt.reason
    node, shop = stage.node(), stage.user("alice", "publisher:shop:orders")
    for writer, topic in (
        (shop, "orders"),
        (node, "$to/alice"),
        (node, "$to/mallory:x"),
        (node, "$stentor/trace"),
        (node, "quotes/x"),
        (mallory, "$bundle/orders"),
        (node, "$repositories"),
    ):
        publish(writer, topic, numbers=[1])
    assert mallory.hear() == []
    assert mallory.say(Ping(7)) == [Pong(7)]


@pytest.mark.req("RD-31")
def test_a_repository_is_asked_by_whom_the_topic_names_whatever_else_changes() -> None:
    stage = Guarded(QUOTES)
    keeper, alice, mallory = stage.node("repository:r2"), stage.user("alice"), stage.user("mallory", "mallory:x")
    [receipt] = keeper.subscribe(1, requests_pattern("r2"))
    assert receipt.code is None
    stage.charter("orders", owner="alice", subscriber={"billing": "alice"})
    keeper.hear()
    [refusal] = publish(mallory, request_topic("alice", "r2"))
    assert isinstance(refusal, FlowRefusal)
    assert refusal.code is DENIED
    assert bodies(keeper.hear()) == []
    publish(mallory, request_topic("mallory:x", "r2"))
    publish(alice, request_topic("alice", "r2"))
    publish(alice, request_topic("alice", "r1"))
    heard = keeper.hear()
    assert [word.name for word in heard if isinstance(word, Topic)] == ["$by/mallory:x/r2", "$by/alice/r2"]
    assert len(bodies(heard)) == 2


@pytest.mark.parametrize(
    "topic", ["orders", "quotes/x", "$stentor/trace", "$to/alice", "$chorus/r1/1/orders", "$new/x", "$by/alice/r1"]
)
def test_who_was_granted_nothing_publishes_nothing_is_told_once_and_the_link_goes_on(topic: str) -> None:
    stage = Guarded(QUOTES)
    stage.charter("orders", subscriber={"billing": "alice"})
    readers = [stage.user("alice"), stage.node(), stage.node("repository:r2")]
    for number, pattern in enumerate(("orders", "quotes/#", "$to/alice", "$stentor/trace", "$chorus/r1/1/orders")):
        for reader in readers:
            reader.subscribe(number, pattern)
    mallory = stage.user("mallory")
    [refusal] = publish(mallory, topic)
    assert isinstance(refusal, FlowRefusal)
    assert refusal.topic == topic_id(topic)
    assert refusal.code in (DENIED, Refusal.TOPIC)
    later = [mallory.events(topic, first) for first in range(2, 50)]
    assert mallory.say(*later, Ping(7)) == [Pong(7)]
    assert all(bodies(reader.hear()) == [] for reader in readers)
    assert stage.broker.status(stage.now).dropped == {"not authorised": 49}


def test_a_refused_flow_is_not_sent_to_other_brokers_even_if_all_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Guarded(QUOTES)
    relay, sent = stage.broker.network.relay, []
    flooding = ScopePolicies(("campus", ""), {"": "flooding"})
    monkeypatch.setattr(stage.broker._forwarder.table, "_policies", flooding)
    monkeypatch.setattr(relay._plans, "hops", [None])
    monkeypatch.setattr(relay, "_route_run", lambda *about: sent.append(about))
    publish(stage.user("mallory"), "quotes/x")
    assert sent == []
    publish(stage.user("alice"), "quotes/x")
    assert len(sent) == 1


def test_a_refused_flow_leaves_no_traces() -> None:
    stage = Guarded(QUOTES, traces=True)
    publish(stage.user("mallory"), "quotes/x")
    assert stage.broker._tracer._traces.rows == []
    publish(stage.user("alice"), "quotes/x")
    assert len(stage.broker._tracer._traces.rows) == 1


def test_what_a_line_grants_comes_and_goes_and_a_wildcard_means_no_more() -> None:
    stage = Guarded(QUOTES)
    alice, bob, node = stage.user("alice"), stage.user("bob"), stage.node()
    assert alice.subscribe(1, "#") == [Receipt(SubscriptionId(1))]
    assert alice.subscribe(2, "+/x", "n > 0") == [Receipt(SubscriptionId(2))]
    publish(bob, "quotes/x", numbers=[1])
    assert len(bodies(alice.hear())) == 1
    publish(node, "secrets/x", numbers=[1])
    publish(node, "$stentor/x", numbers=[1])
    assert alice.hear() == []


def test_attributes_of_a_certificate_are_looked_at() -> None:
    stage = Guarded(AccessRule(principals=("OU=trading",), topics=("quotes/#",), subscribe=True))
    assert stage.user("carol", "", "OU=trading").subscribe(1, "quotes/x") == [Receipt(SubscriptionId(1))]
    [refused] = stage.user("dave", "", "OU=sales").subscribe(1, "quotes/x")
    assert refused.code is DENIED


# ---- names


@pytest.mark.parametrize(
    "name", ["alice", "alice:app", "publisher:shop:orders", "subscriber:billing:orders", "billing"]
)
def test_a_greeting_with_somebody_elses_name_is_refused(name: str) -> None:
    stage = Guarded(AccessRule(principals=("alice",), names=("billing",)))
    stage.charter("orders", publisher={"shop": "alice"}, subscriber={"billing": "alice"})
    mallory = stage.peer("", "mallory", node=False)
    [rejection] = mallory.greet(name)
    assert isinstance(rejection, Rejection)
    assert rejection.code is DENIED
    assert mallory.closed is not None
    alice = stage.peer("", "alice", node=False)
    assert isinstance(alice.greet(name)[0], Welcome)


def test_an_end_of_a_topic_that_is_not_known_here_comes_back_later() -> None:
    stage = Guarded()
    peer = stage.peer("", "alice", node=False)
    [rejection] = peer.greet("subscriber:billing:orders")
    assert rejection.code is Refusal.BUSY


# ---- a charter changes


def test_a_grant_begins_and_ends_deliveries_at_once() -> None:
    stage = Guarded()
    stage.charter("orders", publisher={"shop": "shop"}, subscriber={"billing": "alice"})
    shop, alice = stage.user("shop", "publisher:shop:orders"), stage.user("alice", "alice:reader")
    assert alice.subscribe(1, "orders") == [Receipt(SubscriptionId(1))]
    assert alice.subscribe(2, "#", "n > 0") == [Receipt(SubscriptionId(2))]
    shop.define("orders")
    shop.say(shop.events("orders", 1, [1]))
    assert len(bodies(alice.hear())) == 1
    stage.charter("orders", subscriber={"billing": None})
    [revoked] = alice.hear()
    assert (revoked.id, revoked.code) == (1, DENIED)
    assert "stentor topic grant orders --subscriber NAME --principal alice" in revoked.reason
    shop.say(shop.events("orders", 2, [2]))
    assert alice.hear() == []
    stage.charter("orders", subscriber={"audit": "alice"})
    shop.say(shop.events("orders", 3, [3]))
    assert len(bodies(alice.hear())) == 1, "the wildcard means it again"
    assert alice.subscribe(1, "orders") == [Receipt(SubscriptionId(1))]
    shop.say(shop.events("orders", 4, [4]))
    assert len(bodies(alice.hear())) == 1


def test_a_topic_that_becomes_reliable_ends_what_lines_allowed() -> None:
    stage = Guarded(EVERYTHING)
    alice, bob = stage.user("alice"), stage.user("bob")
    alice.subscribe(1, "orders")
    alice.subscribe(2, "orders", "n > 0")
    alice.subscribe(3, "#")
    publish(bob, "orders", numbers=[1])
    assert len(bodies(alice.hear())) == 1
    stage.charter("orders")
    assert {(word.id, word.code) for word in alice.hear()} == {(1, DENIED), (2, DENIED)}
    [refusal] = bob.say(bob.events("orders", 2, [2]))
    assert isinstance(refusal, FlowRefusal)
    assert refusal.code is Refusal.TOPIC
    assert alice.hear() == []
    stage.delete("orders")
    assert bob.say(bob.events("orders", 3, [3])) == []
    assert len(bodies(alice.hear())) == 1


def test_an_end_whose_grant_is_taken_back_is_sent_away_and_one_that_was_refused_may_publish() -> None:
    stage = Guarded()
    stage.charter("orders", publisher={"shop": "shop", "till": "till"}, subscriber={"billing": "alice"})
    shop, end = stage.user("shop", "publisher:shop:orders"), stage.user("alice", "subscriber:billing:orders")
    stage.charter("orders", publisher={"shop": None}, subscriber={"billing": "bob"})
    for peer in (shop, end):
        [rejection] = peer.hear()
        assert rejection.code is DENIED
        assert peer.closed is not None
    till = stage.user("till", "publisher:till:orders")
    assert publish(till, "orders") == []


def test_an_end_that_comes_before_its_charter_reads_nothing_until_it_is_granted() -> None:
    stage = Guarded()
    end, shop = stage.user("alice", "subscriber:alice:orders"), stage.user("shop", "publisher:shop:orders")
    assert end.subscribe(1, "orders", "n > 0") == [Receipt(SubscriptionId(1))]
    assert isinstance(publish(shop, "orders", numbers=[1])[0], FlowRefusal)
    stage.charter("orders", publisher={"shop": "shop"}, subscriber={"alice": "alice"})
    assert shop.say(shop.events("orders", 2, [2])) == []
    assert len(bodies(end.hear())) == 1
    stranger = Guarded()
    end = stranger.user("mallory", "subscriber:mallory:orders")
    end.subscribe(1, "orders")
    stranger.charter("orders", subscriber={"billing": "alice"})
    [rejection] = end.hear()
    assert rejection.code is DENIED


def test_charters_that_change_in_one_step_are_all_looked_at() -> None:
    stage = Guarded(EVERYTHING)
    alice, bob = stage.user("alice"), stage.user("bob")
    for number, topic in enumerate(("a", "b", "c")):
        alice.subscribe(number, topic)
        publish(bob, topic)
    alice.hear()
    member = ("member/r1", 1, "r1", pack(Membership(principal="node")))
    told = [
        AccessFacts(topic=topic, facts=(("topic", 1, "r1", pack(TopicTerms("owner"))), member)) for topic in ("a", "b")
    ]
    stage.repository.say(*told)
    assert [(word.id, word.code) for word in alice.hear()] == [(0, DENIED), (1, DENIED)]
    refused = bob.say(*(bob.events(topic, 2) for topic in ("a", "b", "c")))
    assert [word.topic for word in refused] == [topic_id("a"), topic_id("b")]
    assert len(bodies(alice.hear())) == 1


def test_events_within_a_unit_are_for_publishers_and_subscribers_of_the_topic() -> None:
    stage = Guarded()
    stage.charter("orders", publisher={"shop": "shop"}, subscriber={"billing": "alice"})
    shop, end = stage.user("shop", "publisher:shop:orders"), stage.user("alice", "subscriber:billing:orders")
    within = "$within/campus/orders"
    assert end.subscribe(1, within) == [Receipt(SubscriptionId(1))]
    publish(shop, within)
    assert len(bodies(end.hear())) == 1
    assert isinstance(publish(stage.user("mallory"), within)[0], FlowRefusal)
    stage.charter("orders", subscriber={"billing": None, "other": "alice"})
    assert end.closed is not None
    reader = stage.user("alice")
    assert reader.subscribe(1, within) == [Receipt(SubscriptionId(1))]
    stage.charter("orders", subscriber={"other": None})
    assert [word.code for word in reader.hear()] == [DENIED]


@pytest.mark.req("GE-21")
def test_events_within_another_unit_are_heard_by_nobody_here() -> None:
    stage = Guarded(is_open=True)
    stage.charter("orders", publisher={"shop": "shop"}, subscriber={"billing": "alice"})
    ends = (stage.user("alice", "subscriber:billing:orders"), stage.user("alice"), stage.node("repository:r2"))
    shop = stage.user("shop", "publisher:shop:orders")
    for end in ends:
        assert [word.code for word in end.subscribe(1, "$within/north/orders")] == [DENIED]
        assert [word.code for word in end.subscribe(2, "$within/#")] == [DENIED]
    publish(shop, "$within/north/orders")
    assert [bodies(end.hear()) for end in ends] == [[], [], []]


# ---- nothing is checked per event


def test_subscribers_with_equal_rights_are_one_audience_and_others_another() -> None:
    stage = Guarded(EVERYTHING, AccessRule(principals=("carol",), topics=("a/#",), subscribe=True))
    users = [stage.user(name) for name in ("alice", "bob", "carol")]
    for number, user in enumerate(users):
        for each in range(20):
            user.subscribe(each, "#", f"n > {each + number}")
    assert stage.audiences == 2, "those who read everything, and those who read some"
    for user in users:
        user.subscribe(50, "a/x", "n > 1")
    assert stage.audiences == 3, "a topic that is named was checked when it was asked for"
    stage.charter("orders", subscriber={"billing": "alice"})
    assert stage.audiences == 4
    stage.charter("orders", subscriber={"billing": None})
    assert stage.audiences == 3


def test_where_all_is_open_there_is_one_audience_for_a_pattern() -> None:
    stage = Guarded(is_open=True)
    stage.charter("orders", subscriber={"billing": "alice"})
    for user in (stage.user("alice"), stage.user("bob"), stage.user("carol")):
        user.subscribe(1, "flights/#", "n > 1")
        user.subscribe(2, "orders/+", "n > 1")
    assert stage.audiences == 2


def test_a_filter_that_moves_to_another_audience_keeps_its_counts() -> None:
    stage = Guarded(EVERYTHING)
    alice, bob = stage.user("alice"), stage.user("bob")
    alice.subscribe(1, "#", "n > 1")
    bob.subscribe(1, "#", "n > 1")
    publish(bob, "t", numbers=[1, 2, 3])
    stage.charter("orders", subscriber={"billing": "alice"})
    bob.say(bob.events("t", 4, [1, 2]))
    counted = {each.client: (each.accepted, each.rejected) for each in stage.broker.status(stage.now).interests}
    assert counted == {"alice": (3, 2), "bob": (3, 2)}


def test_an_allowed_flow_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Guarded(QUOTES)
    alice, bob = stage.user("alice"), stage.user("bob")
    alice.subscribe(1, "quotes/#", "n > 0")
    publish(bob, "quotes/x", numbers=[1])
    monkeypatch.setattr(stage.broker._access.policy, "charter_of", None)  # whoever asked would fail
    monkeypatch.setattr(stage.broker._access, "classes", None)
    for first in range(2, 20):
        bob.say(bob.events("quotes/x", first, [1]))
    assert len(bodies(alice.hear())) == 19


PRINCIPALS = ("alice", "bob", "carol")
TOPICS = ("a", "a/b", "orders", "orders/eu", "$stentor/x")
PATTERNS = ("#", "+", "a/#", "orders", "orders/+", "$stentor/#", "a/b")
acts = st.one_of(
    st.tuples(st.just("subscribe"), st.sampled_from(PRINCIPALS), st.sampled_from(PATTERNS), st.booleans()),
    st.tuples(
        st.just("charter"),
        st.sampled_from(TOPICS[:4]),
        st.sampled_from(PRINCIPALS),
        st.dictionaries(st.sampled_from(("x", "y")), st.sampled_from([*PRINCIPALS, "", None]), max_size=2),
    ),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS[:4])),
)
lines = st.builds(
    AccessRule,
    principals=st.sampled_from([("alice",), ("bob", "carol"), ("*",)]),
    topics=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2).map(tuple),
    subscribe=st.just(True),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(lines, max_size=2), st.booleans(), st.lists(acts, max_size=12))
def test_events_go_to_those_who_may_read_them_and_asked_for_them_and_to_nobody_else(
    rules: list[AccessRule], is_open: bool, script: list[tuple[Any, ...]]
) -> None:
    stage = Guarded(*rules, is_open=is_open)
    users = {name: stage.user(name) for name in PRINCIPALS}
    writer = stage.node("repository:r2")
    writer.define(*TOPICS)
    numbers = 0
    for act in script:
        if act[0] == "subscribe":
            numbers += 1
            users[act[1]].subscribe(numbers, act[2], "n > 0" if act[3] else "")
        elif act[0] == "charter":
            stage.charter(act[1], act[2], subscriber=act[3])
        else:
            stage.delete(act[1])
        for topic in TOPICS:
            for user in users.values():
                user.hear()
            numbers += 1
            writer.say(writer.events(topic, numbers, [1]))
            for user in users.values():
                session = stage.broker._sessions[user.link]
                asked = [each for each in session.subscriptions.values() if matches(each.pattern, topic)]
                may = stage.broker._access.policy.may_subscribe(subject_of(session), topic)
                got = bodies([word for word in user.hear() if not isinstance(word, Topic)])
                assert bool(got) is bool(asked and may), (user.name, topic)


# ---- for those who ask


def ask(peer: Peer, principal: str = "", topic: str = "") -> AccessView:
    [report] = peer.say(AccessRequest(token=7, principal=principal, topic=topic))
    assert isinstance(report, AccessReport)
    return msgspec.msgpack.decode(report.report, type=AccessView)


def test_nodes_ask_about_everybody_and_others_about_themselves() -> None:
    stage = Guarded(QUOTES, AccessRule(principals=("carol",), send=True))
    stage.charter("orders", subscriber={"billing": "alice"})
    alice, node = stage.user("alice"), stage.node()
    assert ask(node).rules == (str(QUOTES), '[[access]] principals = ["carol"], send = true')
    assert ask(alice).rules == (str(QUOTES),)
    assert ask(alice).default == "granted"
    about = ask(node, "alice", "orders")
    assert about.reliable == "owner"
    assert [(each.act, each.allowed) for each in about.verdicts] == [
        ("publish", False),
        ("subscribe", True),
        ("be the subscriber billing", True),
    ]
    assert ask(alice, "alice", "orders").verdicts == about.verdicts
    assert ask(alice, "", "quotes/x").principal == "alice"
    curious = ask(alice, "carol", "orders")
    assert curious.topic == ""
    assert [each.allowed for each in curious.verdicts] == [False]
    assert "only nodes and operators" in curious.verdicts[0].reason
    assert not ask(node, "alice", "a/#/b").verdicts[0].allowed
    assert [each.allowed for each in ask(node, "alice", "quotes/#").verdicts] == [True]
