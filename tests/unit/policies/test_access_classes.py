"""Access classes: subscribers with equal rights are one, and a class means just what its subscribers may read."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.policies.chartering import Chartered, client, node

from stentor.model.topic import matches
from stentor.model.trust.request_topic import requests_pattern
from stentor.policies.access import AccessPolicy, AccessRule, AccessSettings
from stentor.policies.access_classes import AccessClasses, overlap

PRINCIPALS = ["alice", "bob", "carol", "anonymous"]
TOPICS = ["a", "a/b", "a/c", "b", "b/c", "$stentor/x", "$stentor/trace/r1", "$to/alice"]
PATTERNS = ["#", "+", "a/#", "+/c", "a/+", "b/#", "$stentor/#", "$stentor/+"]
TEAM = AccessRule(principals=("alice", "bob"), topics=("quotes/#",), subscribe=True)


class World:
    """Charters that change, and the classes that are told."""

    def __init__(self, *rules: AccessRule, is_open: bool = False, owns_names: bool = True) -> None:
        self.charters: dict[str, Chartered] = {}
        chosen = AccessSettings(rules=rules, is_open=is_open, owns_names=owns_names)
        self.policy = AccessPolicy(chosen, self.charters.get)
        self.classes = AccessClasses(self.policy)

    def charter(self, topic: str, **terms: Any) -> frozenset[str]:
        self.charters[topic] = Chartered(**{"owner": "owner", **terms})
        return self.classes.update(topic)

    def are_one(self, one: str, other: str, pattern: str = "#") -> bool:
        return self.classes.class_of(client(one), pattern) is self.classes.class_of(client(other), pattern)


def test_subscribers_with_equal_lines_are_one_class_and_others_another() -> None:
    world = World(TEAM)
    assert world.are_one("alice", "bob")
    assert not world.are_one("alice", "carol")
    assert world.are_one("carol", "dave")
    kept = [world.classes.class_of(client(name), pattern) for name in PRINCIPALS for pattern in ("#", "quotes/+")]
    assert len(set(kept)) == len(world.classes) == 3, "quotes of the team, all of quotes, and nothing"


def test_where_all_are_open_there_is_one_class_until_reliable_topics_differ() -> None:
    world = World(TEAM, is_open=True)
    assert world.are_one("alice", "carol")
    assert world.charter("orders", subscribers={"billing": "alice"}) == {"owner", "alice"}
    assert not world.are_one("alice", "carol")
    assert world.are_one("alice", "carol", "flights/#"), "what the pattern does not mean divides nobody"
    world.charter("orders", subscribers={"billing": "alice", "audit": "carol"})
    assert world.are_one("alice", "carol")


def test_without_certificates_all_clients_stay_in_one_class_whatever_becomes_reliable() -> None:
    world = World(is_open=True, owns_names=False)
    before = world.classes.class_of(client("anonymous"), "#")
    assert before.may_read("orders")
    assert world.charter("orders", owner="anonymous") == set()
    assert world.charter("secrets", owner="somebody") == set()
    assert world.classes.class_of(client("anonymous"), "#") is before
    assert before.may_read("orders")
    assert not before.may_read("secrets")
    del world.charters["secrets"]
    world.classes.update("secrets")
    assert before.may_read("secrets")


def test_a_class_that_loses_one_of_its_subscribers_means_the_same_to_the_others() -> None:
    world = World()
    world.charter("orders", subscribers={"a": "alice", "b": "bob"})
    shared = world.classes.class_of(client("alice"), "#")
    assert shared is world.classes.class_of(client("bob"), "#")
    assert world.charter("orders", subscribers={"b": "bob"}) == {"alice"}
    assert shared.may_read("orders")
    assert world.classes.class_of(client("bob"), "#") is shared
    assert not world.classes.class_of(client("alice"), "#").may_read("orders")


@pytest.mark.parametrize("pattern", ["$to/#", "$to/+", "$bundle/#", "$bundle/+", "$chorus/r1/#", "$within/#", "$x/#"])
def test_topics_of_the_system_are_not_read_with_wildcards(pattern: str) -> None:
    for who in (client("alice"), node("repository:r1")):
        denied = World(is_open=True).classes.deny_pattern(who, pattern)
        assert denied is not None
        assert "one by one" in denied.reason


@pytest.mark.req("RD-31")
def test_a_repository_reads_what_it_is_asked_for_and_nobody_else_does() -> None:
    classes = World(is_open=True).classes
    assert classes.deny_pattern(node("repository:r1"), requests_pattern("r1")) is None
    for who in (client("alice"), node(), node("repository:r2"), client("mallory", "repository:r1")):
        assert classes.deny_pattern(who, requests_pattern("r1")) is not None
    for pattern in ("$by/#", "$by/+/#", "$by/+/+", "$by/alice/#"):
        assert classes.deny_pattern(node("repository:r1"), pattern) is not None


def test_a_pattern_that_may_mean_nothing_at_all_is_refused_with_the_line_that_would_allow_it() -> None:
    world = World(TEAM)
    for pattern in ("#", "orders/#", "$stentor/#"):
        denied = world.classes.deny_pattern(client("carol"), pattern)
        assert denied is not None
        assert f'topics = ["{pattern}"], subscribe = true' in denied.reason
    assert world.classes.deny_pattern(client("alice"), "#") is None
    assert world.classes.deny_pattern(client("alice"), "orders/#") is not None
    world.charter("orders/new", open=True)
    assert world.classes.deny_pattern(client("carol"), "orders/#") is None


names = st.sampled_from(["", *PRINCIPALS])
charters = st.builds(
    Chartered,
    owner=st.sampled_from(PRINCIPALS),
    open=st.booleans(),
    subscribers=st.dictionaries(st.sampled_from(["x", "y"]), names, max_size=2),
)
rules = st.builds(
    AccessRule,
    principals=st.lists(st.sampled_from([*PRINCIPALS, "*", "OU=desk"]), min_size=1, max_size=2).map(tuple),
    topics=st.lists(st.sampled_from([*TOPICS, *PATTERNS]), max_size=2).map(tuple),
    subscribe=st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(rules, max_size=3),
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(TOPICS[:-1]), st.none() | charters), max_size=8),
)
def test_a_class_means_exactly_what_its_subscribers_may_read(
    lines: list[AccessRule], is_open: bool, owns_names: bool, changes: list[tuple[str, Chartered | None]]
) -> None:
    world = World(*lines, is_open=is_open, owns_names=owns_names)
    known = PRINCIPALS if owns_names else ["anonymous"]
    subjects = [client(name) for name in known] + [client(name, "", "OU=desk") for name in known] + [node()]
    held = {(who, pattern): world.classes.class_of(who, pattern) for who in subjects for pattern in PATTERNS}
    for topic, charter in [("a", None), *changes]:
        world.charters.pop(topic, None)
        if charter is not None:
            world.charters[topic] = charter
        others = world.classes.update(topic)
        for (who, pattern), kept in held.items():
            now = world.classes.class_of(who, pattern)
            assert now is kept or who.principal in others, "of others no subscription is looked at"
            held[who, pattern] = now
            for each in TOPICS:
                if matches(pattern, each):
                    assert now.may_read(each) is world.policy.may_subscribe(who, each), (who, pattern, each)


@given(st.sampled_from(PATTERNS + TOPICS), st.sampled_from(PATTERNS + TOPICS))
def test_patterns_overlap_if_a_topic_is_in_both(one: str, other: str) -> None:
    universe = [*TOPICS, "x", "x/c", "a/x", "b/x", "a/b/c", "$stentor/y", "$stentor/trace/r1/x"]
    assert overlap(one, other) is any(matches(one, topic) and matches(other, topic) for topic in universe)
