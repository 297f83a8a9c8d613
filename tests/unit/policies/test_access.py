"""Who may publish, subscribe, send and take a name, and what those are told who may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.policies.chartering import ORDERS, Chartered, client, node, policy

from stentor.model.communication import bundle_of, inbox_of, notice_group_of, within_of
from stentor.model.errors import Refusal
from stentor.model.filter import Filter
from stentor.model.mail import MAIL, mail_filter
from stentor.model.topic import check_pattern, check_topic, matches
from stentor.model.trust.request_topic import request_topic, requester_of, requests_pattern
from stentor.policies.access import AccessPolicy, AccessRule, deny_creating
from stentor.policies.subject import Subject
from stentor.policies.system_topics import recipient_of

pytestmark = pytest.mark.req("SC-21")

ALICE, MALLORY = client("alice"), client("mallory")


def why(denied: object) -> str:
    assert denied is not None, "it is allowed"
    return str(denied.reason)  # type: ignore[attr-defined]


# ---- ordinary topics


def test_with_certificates_nobody_may_do_what_no_line_grants_and_is_told_the_line() -> None:
    granted = policy()
    assert why(granted.deny_publishing(ALICE, "quotes/x")) == (
        'alice may not publish on quotes/x: `[[access]] principals = ["alice"], topics = ["quotes/x"], publish = true` '
        "in the configuration would allow it"
    )
    assert "subscribe = true" in why(granted.deny_subscribing(ALICE, "quotes/x"))
    for who in (node(), node("repository:r1")):
        assert granted.may_publish(who, "quotes/x")
        assert granted.may_subscribe(who, "quotes/x")


def test_the_line_that_somebody_is_told_allows_it() -> None:
    line = AccessRule(principals=("alice",), topics=("quotes/x",), publish=True)
    assert str(line) in why(policy().deny_publishing(ALICE, "quotes/x"))
    assert policy(line).may_publish(ALICE, "quotes/x")
    assert not policy(line).may_subscribe(ALICE, "quotes/x")
    assert not policy(line).may_publish(ALICE, "quotes/y")
    assert not policy(line).may_publish(MALLORY, "quotes/x")


@pytest.mark.parametrize(
    ("pattern", "who", "is_meant"),
    [
        ("team-*", client("team-7"), True),
        ("team-*", client("steam-7"), False),
        ("*", ALICE, True),
        ("OU=trading", client("alice", "", "OU=trading", "O=Acme"), True),
        ("OU=trading", client("alice", "", "OU=trading desk"), False),
        ("O=Acme*", client("alice", "", "O=Acme Ltd"), True),
        ("OU=trading", client("OU=trading"), False),
        ("alice", client("mallory", "alice"), False),
        ("alice", client("Alice"), False),
    ],
)
def test_a_line_is_about_names_patterns_and_attributes_of_certificates(
    pattern: str, who: Subject, is_meant: bool
) -> None:
    assert policy(AccessRule(principals=(pattern,), topics=("t",), publish=True)).may_publish(who, "t") is is_meant


def test_where_access_is_open_ordinary_topics_are_everybodys_and_reliable_ones_are_not() -> None:
    opened = policy(is_open=True, owns_names=False, orders=ORDERS)
    assert opened.may_publish(MALLORY, "quotes/x")
    assert opened.may_subscribe(MALLORY, "quotes/x")
    assert not opened.may_publish(MALLORY, "orders")
    assert not opened.may_subscribe(MALLORY, "orders")


def test_a_line_for_all_topics_does_not_mean_those_of_the_system() -> None:
    wide = policy(AccessRule(principals=("*",), topics=("#", "+/#"), publish=True, subscribe=True, send=True))
    for topic in ("$stentor/trace", "$stentor/latency", "$to/bob", "$bundle/orders", "$chorus/r1/1/t", "$new", "$"):
        assert not wide.may_subscribe(MALLORY, topic), topic
    for topic in ("$stentor/trace", "$stentor/latency", "$chorus/r1/1/t", "$new", "$", "$to/publisher:a:t"):
        assert not wide.may_publish(MALLORY, topic), topic


# ---- reliable topics


def test_on_a_reliable_topic_only_holders_of_a_grant_publish_under_its_name() -> None:
    orders = policy(AccessRule(principals=("*",), topics=("orders",), publish=True, subscribe=True), orders=ORDERS)
    assert orders.may_publish(client("shop-principal", "publisher:shop:orders"), "orders")
    assert orders.may_publish(client("mallory", "publisher:any:orders"), "orders")
    assert orders.may_publish(node("repository:r1"), "orders")
    for who in (ALICE, client("owner"), node(), client("shop-principal"), client("x", "publisher:shop:orders:orders")):
        denied = orders.deny_publishing(who, "orders")
        assert denied is not None
        assert not orders.may_publish(who, "orders")
    denied = orders.deny_publishing(ALICE, "orders")
    assert denied is not None
    assert denied.code is Refusal.TOPIC
    assert "use `fabric.publisher('orders', name=…)`" in denied.reason
    taken = why(orders.deny_publishing(client("mallory", "publisher:shop:orders"), "orders"))
    assert "shop is shop-principal, not mallory" in taken
    assert "`stentor topic grant orders --publisher shop --principal mallory`" in taken


def test_a_reliable_topic_is_read_by_its_owner_holders_of_grants_and_nodes() -> None:
    orders = policy(AccessRule(principals=("*",), topics=("orders",), subscribe=True), orders=ORDERS)
    for who in (client("owner"), ALICE, client("carol"), node()):
        assert orders.may_subscribe(who, "orders")
    denied = why(orders.deny_subscribing(MALLORY, "orders"))
    assert "`stentor topic grant orders --subscriber NAME --principal mallory` would allow it" in denied
    anyone = Chartered(owner="owner", subscribers={"all": ""})
    assert policy(news=anyone).may_subscribe(MALLORY, "news")
    assert policy(news=Chartered(owner="owner", open=True)).may_subscribe(MALLORY, "news")
    assert policy(news=Chartered(owner="owner", open=True)).may_publish(MALLORY, "news")


# ---- topics of the system

END = client("alice", "subscriber:billing:orders")
SHOP = client("shop-principal", "publisher:shop:orders")
R1 = node("repository:r1")
FALSE_R1 = client("mallory", "repository:r1")


@pytest.mark.parametrize(
    ("topic", "readers", "writers"),
    [
        (inbox_of("alice"), [ALICE], [ALICE, END, node(), R1]),
        (inbox_of("alice:app"), [], [ALICE, END, node(), R1]),
        (inbox_of("mallory"), [MALLORY], [MALLORY, node(), R1, FALSE_R1]),
        (inbox_of("repository:r1"), [R1, FALSE_R1], "all"),
        (inbox_of("subscriber:billing:orders"), [END], [node(), R1]),
        (inbox_of("publisher:shop:orders"), [SHOP], [node(), R1]),
        ("$to/alice/more", [], []),
        ("$to", [], []),
        (bundle_of("orders"), [R1], "all"),
        ("$bundle", [], []),
        ("$repositories", [R1], "all"),
        ("$repositories/x", [], []),
        (request_topic("alice", "r1"), [], [ALICE]),
        (request_topic("repository:r1", "r2"), [], [R1, FALSE_R1]),
        (request_topic("publisher:shop:orders", "r1"), [], [SHOP]),
        ("$mail", [R1], []),
        ("$mail/alice", [], []),
        ("$by/alice", [], []),
        ("$by/alice/", [], []),
        ("$by/%61lice/r1", [], []),
        (notice_group_of("orders", "r1", 7), [END, node(), R1], [R1]),
        (notice_group_of("orders", "r2", 7), [END, node(), R1], []),
        (notice_group_of("other", "r1", 7), [node(), R1], [R1]),
        ("$chorus/r1/7", [], []),
        (within_of("north", "orders"), [ALICE, END, node(), R1], [SHOP, R1]),
        (within_of("north", "other"), [node(), R1], [node(), R1]),
        ("$within/north", [], []),
        ("$within/north/$to/alice", [], []),
        ("$stentor/trace", [node(), R1], [END, SHOP, node(), R1]),
        ("$stentor/trace/r1", [node(), R1], [node(), R1]),
        ("$stentor/latency", [node(), R1], [node(), R1]),
        ("$stentor", [], []),
        ("$unknown", [], []),
        ("$unknown/x", [], []),
    ],
)
def test_topics_of_the_system_have_fixed_readers_and_writers(
    topic: str, readers: list[Subject], writers: list[Subject] | str
) -> None:
    everybody = [ALICE, MALLORY, END, SHOP, node(), R1, FALSE_R1]
    granted = policy(orders=ORDERS)
    assert [who for who in everybody if granted.may_subscribe(who, topic)] == readers
    expected = everybody if writers == "all" else writers
    assert [who for who in everybody if granted.may_publish(who, topic)] == expected


@pytest.mark.parametrize("place", ["south/b1", "northern/b1", "b1", "north", ""])
def test_what_must_not_leave_a_unit_is_read_by_nobody_outside(place: str) -> None:
    for subject in (ALICE, END, node(), R1, client("owner")):
        for is_open in (False, True):
            outside = policy(orders=ORDERS, is_open=is_open, place=place)
            assert not outside.may_subscribe(subject, within_of("north", "orders"))
            assert policy(orders=ORDERS, is_open=is_open).may_subscribe(subject, within_of("north", "orders"))
            assert policy(orders=ORDERS, place="north/x/b1").may_subscribe(subject, within_of("north", "orders"))


def test_reports_need_a_line_that_names_them_or_an_open_fabric() -> None:
    line = AccessRule(principals=("alice",), topics=("$stentor/#",), publish=True, subscribe=True)
    for topic in ("$stentor/latency", "$stentor/trace", "$stentor/trace/r1"):
        assert policy(line).may_subscribe(ALICE, topic)
        assert not policy(line).may_subscribe(MALLORY, topic)
        assert policy(is_open=True).may_subscribe(MALLORY, topic)
    assert policy(line).may_publish(ALICE, "$stentor/latency")
    assert not policy(line).may_publish(ALICE, "$stentor/trace"), "traces are told by nodes and ends"
    public = AccessPolicy(policy().settings, {"$stentor/trace/r1": Chartered(owner="node", open=True)}.get)
    assert not public.may_subscribe(MALLORY, "$stentor/trace/r1"), "that anybody may tell it makes it nobody's to read"
    kept = Chartered(owner="node", open=True, subscribers={"audit": "alice"})
    granted = AccessPolicy(policy().settings, {"$stentor/trace/r1": kept}.get)
    assert granted.may_subscribe(ALICE, "$stentor/trace/r1")
    assert not granted.may_publish(ALICE, "$stentor/trace/r1")


def test_whoever_may_send_writes_to_others_but_not_to_ends() -> None:
    sender = policy(AccessRule(principals=("alice",), send=True))
    assert sender.may_publish(ALICE, inbox_of("bob"))
    assert not sender.may_publish(ALICE, inbox_of("subscriber:billing:orders"))
    told = why(sender.deny_publishing(MALLORY, inbox_of("bob")))
    assert '`[[access]] principals = ["mallory"], send = true`' in told


@given(st.text(min_size=1, max_size=40).filter(str.isprintable), st.text(min_size=1, max_size=40))
def test_the_inbox_of_a_name_is_nobody_elses_whatever_is_in_it(name: str, forged: str) -> None:
    topic = inbox_of(name)
    check_topic(topic)
    assert topic.count("/") == 1
    assert recipient_of(topic) == name
    granted = policy()
    assert granted.may_subscribe(client("x", name), topic)
    if forged != name and forged.isprintable():
        assert not granted.may_subscribe(client("x", forged), topic)
    written = f"$to/{forged}"
    if recipient_of(written):
        assert inbox_of(recipient_of(written)) == written, "one name has one inbox"


@pytest.mark.parametrize("name", ["+", "#", "$to", "a/#", "$bundle/orders", "../alice", "%61lice", "a%2Fb", "alice#"])
def test_a_name_with_wildcards_or_slashes_in_it_widens_nothing(name: str) -> None:
    topic = inbox_of(name)
    assert check_pattern(topic) == check_topic(topic)
    who = client("x", name)
    for other in ("$to/alice", "$to/+", "$to/#", "$to/a/b", "$bundle/orders", "orders"):
        assert not policy(orders=ORDERS).may_subscribe(who, other) or other == topic


SENDERS = AccessRule(principals=("alice",), send=True, names=("desk-*",))


@pytest.mark.req("GE-23")
def test_mail_is_sent_and_got_under_names_that_one_may_have() -> None:
    fabric = AccessPolicy(policy(SENDERS).settings, {MAIL: Chartered(owner="operator")}.get)
    for name in ("alice", "alice:app", "desk-7"):
        for role in ("publisher", "subscriber"):
            assert fabric.deny_name(client("alice", f"{role}:{name}:$mail")) is None
            assert fabric.deny_name(client("mallory", f"{role}:{name}:$mail")) is not None
    denied = fabric.deny_name(client("mallory", "publisher:mallory:$mail"))
    assert denied is not None
    assert "send = true" in denied.reason, "mallory may not send"
    assert fabric.deny_name(client("mallory", "subscriber:mallory:$mail")) is None
    assert fabric.may_publish(client("alice", "publisher:alice:$mail"), MAIL)
    for principal, name in (("mallory", "publisher:mallory:$mail"), ("alice", ""), ("alice", "subscriber:alice:$mail")):
        assert not fabric.may_publish(client(principal, name), MAIL)


@pytest.mark.req("GE-23")
def test_mail_is_heard_with_the_filter_for_ones_own_name_only() -> None:
    alice = client("alice", "subscriber:alice's:$mail")
    assert policy().deny_filter(alice, MAIL, Filter(mail_filter("alice's"))) is None
    for where in (None, Filter(mail_filter("bob")), Filter("EXISTS to"), Filter(f"{mail_filter(chr(97))} OR TRUE")):
        assert policy(is_open=True).deny_filter(alice, MAIL, where) is not None
    assert policy().deny_filter(R1, MAIL, None) is None
    assert policy().deny_filter(alice, "orders", None) is None


@pytest.mark.req("RD-31")
@given(st.text(min_size=1, max_size=40).filter(str.isprintable), st.text(min_size=1, max_size=40))
def test_whoever_asks_a_repository_is_the_one_whom_the_topic_names(name: str, other: str) -> None:
    topic = request_topic(name, "r1")
    check_topic(topic)
    assert matches(requests_pattern("r1"), topic)
    assert requester_of(topic) == name
    assert policy().may_publish(client("x", name), topic)
    if other != name:
        assert not policy(is_open=True).may_publish(client("x", other), topic)
        assert not policy(is_open=True).may_publish(node(other), topic)


@pytest.mark.parametrize("topic", ["$to/%61lice", "$to/a%2fb", "$to/a%zz", "$to/", "$to/repository%3Ar1"])
def test_an_inbox_that_is_written_in_another_way_is_nobodys(topic: str) -> None:
    assert recipient_of(topic) == ""
    assert not policy(is_open=True).may_publish(node(), topic)


# ---- names


@pytest.mark.parametrize("name", ["alice", "alice:", "alice:app", "alice:host-7-abcdef", "alice:a/b#+$"])
def test_a_principal_has_its_own_name_and_those_that_begin_with_it(name: str) -> None:
    assert policy().deny_name(client("alice", name)) is None
    denied = policy().deny_name(client("mallory", name))
    assert denied is not None
    assert denied.code is Refusal.NOT_AUTHORISED
    assert f'names = ["{name}"]' in denied.reason


def test_names_that_only_look_alike_are_others() -> None:
    for name in ("alicent", "al", "ALICE", " alice", "alice-app", "*", "+", "#"):
        assert policy().deny_name(client("alice", name)) is not None, name


def test_a_line_gives_names_but_never_those_of_nodes_and_ends() -> None:
    given = policy(AccessRule(principals=("alice",), names=("billing", "desk-*", "*")), orders=ORDERS)
    for name in ("billing", "desk-7", "anything"):
        assert given.deny_name(client("alice", name)) is None
    for name in ("repository:r1", "operator:a", "publisher:shop:orders", "subscriber:audit:orders", "subscriber:x:y"):
        assert given.deny_name(client("alice", name)) is not None, name
    for name in ("repository:r1", "operator:a", "node", "node:a"):
        assert given.deny_name(node(name)) is None, name
    assert given.deny_name(client("operator", "operator:a")) is not None


def test_names_of_ends_belong_to_the_holders_of_grants() -> None:
    orders = policy(orders=ORDERS)
    assert orders.deny_name(client("alice", "subscriber:billing:orders")) is None
    assert orders.deny_name(client("shop-principal", "publisher:shop:orders")) is None
    assert orders.deny_name(client("mallory", "publisher:any:orders")) is None
    for name in ("subscriber:billing:orders", "publisher:shop:orders", "subscriber:mallory:orders"):
        denied = orders.deny_name(client("mallory", name))
        assert denied is not None
        assert denied.code is Refusal.NOT_AUTHORISED
        assert "stentor topic grant orders --" in denied.reason


def test_an_end_of_a_topic_that_is_not_known_here_is_its_principals_own_or_comes_back() -> None:
    assert policy().deny_name(client("alice", "subscriber:alice:orders")) is None
    denied = policy().deny_name(client("alice", "subscriber:billing:orders"))
    assert denied is not None
    assert denied.code is Refusal.BUSY


def test_only_ends_of_topics_that_there_are_tell_traces() -> None:
    mail = AccessPolicy(policy().settings, {"$mail": Chartered(owner="operator")}.get)
    for name in ("publisher:mallory:nowhere", "subscriber:mallory:$mail", "publisher:mallory:x:$mail", "mallory"):
        assert not policy().may_publish(client("mallory", name), "$stentor/trace")
        assert not mail.may_publish(client("mallory", name), "$stentor/trace")
    orders = policy(orders=ORDERS)
    assert orders.may_publish(client("alice", "subscriber:billing:orders"), "$stentor/trace")
    assert not orders.may_publish(client("mallory", "subscriber:billing:orders"), "$stentor/trace")


def test_a_topic_that_lines_give_to_some_is_not_created_by_others() -> None:
    rules = (
        AccessRule(principals=("alice",), topics=("quotes/#",), publish=True, subscribe=True),
        AccessRule(principals=("desk-*", "OU=trading"), topics=("quotes/#",), subscribe=True),
        AccessRule(principals=("watch",), topics=("#",), subscribe=True),
    )
    assert deny_creating(rules, "alice", "quotes/ibm") is None
    assert deny_creating(rules, "mallory", "orders") is None
    for other in ("mallory", "desk-1", "watch"):
        line = AccessRule(principals=(other,), topics=("quotes/ibm",), publish=True)
        assert f"`{line}`" in why(deny_creating(rules, other, "quotes/ibm"))
        assert deny_creating((*rules, line), other, "quotes/ibm") is None


def test_a_colon_in_a_name_or_topic_makes_nobody_somebody_else() -> None:
    """`subscriber:a:b:c` is `a` of `b:c`, or `a:b` of `c`: who owns `c` must not get at `b:c` with that."""
    mine = Chartered(owner="mallory", subscribers={"a:b": "mallory"})
    theirs = Chartered(owner="owner", subscribers={"a": "alice"})
    both = AccessPolicy(policy().settings, {"c": mine, "b:c": theirs}.get)
    assert both.deny_name(client("mallory", "subscriber:a:b:c")) is not None
    assert AccessPolicy(policy().settings, {"c": mine}.get).deny_name(client("mallory", "subscriber:a:b:c")) is None


def test_an_open_topics_subscribers_take_any_name_that_nobody_was_granted() -> None:
    news = policy(news=Chartered(owner="owner", open=True, subscribers={"desk": "alice"}))
    assert news.deny_name(client("mallory", "subscriber:me:news")) is None
    assert news.deny_name(client("mallory", "subscriber:desk:news")) is not None


def test_without_certificates_names_are_free_but_for_those_of_nodes() -> None:
    free = policy(is_open=True, owns_names=False, orders=ORDERS)
    for name in ("alice", "publisher:shop:orders", "anything"):
        assert free.deny_name(client("anonymous", name)) is None
    assert free.deny_name(client("anonymous", "repository:r1")) is not None
    assert free.deny_name(node("repository:r1", "anonymous")) is None
