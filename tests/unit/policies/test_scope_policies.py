"""Which policies hold for a topic in a scope."""

import pytest

from stentor.model.errors import InvalidInput
from stentor.policies.channel import ChannelSettings
from stentor.policies.forwarding import FORWARDING
from stentor.policies.scope_policies import ScopePolicies, TopicPolicy

CONTENT, FLOODING = FORWARDING["content"], FORWARDING["flooding"]


@pytest.mark.req("SC-02")
@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("", "content"),
        ("a", "flooding"),
        ("a/b", "flooding"),
        ("a/c", "content"),
        ("a/c/d", "content"),
        ("b", "content"),
    ],
)
def test_a_scope_has_the_policy_of_the_nearest_around_it_that_sets_one(scope: str, expected: str) -> None:
    policies = ScopePolicies((scope,), {"": "content", "a": "flooding", "a/c": "content"})
    assert policies.forwarding_in(scope) == expected
    assert policies.forwarding_of("t") == (FORWARDING[expected],)


def test_without_any_setting_content_decides() -> None:
    assert ScopePolicies(("a/b", "a", "")).forwarding_of("t") == (CONTENT, CONTENT, CONTENT)


def test_the_most_specific_pattern_of_the_nearest_scope_decides() -> None:
    topics = (
        TopicPolicy(scope="a", topics="news/#", forwarding="flooding"),
        TopicPolicy(scope="a", topics="news/+/old", forwarding="content"),
        TopicPolicy(scope="", topics="news/sport/old", forwarding="flooding"),
        TopicPolicy(scope="", topics="$to/x", forwarding="flooding"),
    )
    policies = ScopePolicies(("a", ""), {"": "content"}, topics)
    assert policies.forwarding_of("news") == (FLOODING, CONTENT)
    assert policies.forwarding_of("news/sport") == (FLOODING, CONTENT)
    assert policies.forwarding_of("news/sport/old") == (CONTENT, FLOODING)
    assert policies.forwarding_of("$to/x") == (FLOODING, FLOODING), "a scope that says nothing asks the one around it"
    assert policies.forwarding_of("$to/y") == (CONTENT, CONTENT)
    assert policies.forwarding_in("a") == "content", "what is said of some topics is not said of all"


def test_what_a_scope_says_of_all_topics_is_nearer_than_a_pattern_further_out() -> None:
    topics = (TopicPolicy(scope="", topics="news/#", forwarding="flooding"),)
    assert ScopePolicies(("a", ""), {"a": "content"}, topics).forwarding_of("news") == (CONTENT, FLOODING)


def test_a_policy_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"no forwarding policy 'gossip': use one of content, flooding, coloured"):
        ScopePolicies(("a",), {"": "gossip"})
    with pytest.raises(InvalidInput, match="no forwarding policy"):
        ScopePolicies(("a",), topics=(TopicPolicy(scope="", topics="#", forwarding="gossip"),))


def test_a_channel_is_that_between_two_units() -> None:
    policies = ScopePolicies(("a", ""), channels=(ChannelSettings(source="a", target="b", where=("n > 1",)),))
    assert policies.channel("a", "b") is not None
    assert policies.channel("b", "a") is None


@pytest.mark.req("SC-02")
def test_a_scope_goes_by_its_tree_if_the_nearest_scope_that_says_anything_does() -> None:
    policies = ScopePolicies(("a/b", "a", ""), {"": "content", "a": "coloured"})
    assert [policies.goes_by_tree(scope) for scope in ("a/b", "a", "")] == [True, True, False]
    flooded = (TopicPolicy(scope="a", topics="news/#", forwarding="flooding"),)
    policies = ScopePolicies(("a",), {"a": "coloured"}, flooded)
    assert policies.forwarding_of("news/x") == (FLOODING,), "who gets an event is for a topic to say"
    assert policies.goes_by_tree("a"), "and by which way is not"


def test_a_policy_of_a_topic_cannot_say_that_its_events_go_by_the_tree() -> None:
    topics = (TopicPolicy(scope="a", topics="news/#", forwarding="coloured"),)
    with pytest.raises(InvalidInput, match=r"'coloured' holds for a scope, not for 'news/#' alone"):
        ScopePolicies(("a", ""), topics=topics)
