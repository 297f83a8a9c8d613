"""The registry of a topic: registrations that were made apart are merged to the same, in whatever order they come."""

from itertools import permutations

import msgspec
import pytest

from stentor.model.trust.access import SharedFact, TopicTerms
from stentor.protocols.delivery.repository.registry import Registry, SubscriptionRecord
from stentor.protocols.delivery.repository.registry_records import Holding

_encode = msgspec.msgpack.encode
FIRST, SECOND = SubscriptionRecord("", incarnation=5), SubscriptionRecord("", incarnation=7, again=True)
MOVED = msgspec.structs.replace(FIRST, home="b2")  # a newer life was taken for one of the first registration


def registered(version: int, writer: str, subscription: SubscriptionRecord | None) -> SharedFact:
    return "subscription/billing", version, writer, b"" if subscription is None else _encode(subscription)


def founded(name: str, *facts: SharedFact) -> Registry:
    registry = Registry(name)
    registry.create(TopicTerms("owner"), {"r1": "", "r2": ""})
    registry.merge(facts)
    return registry


def exchange(*registries: Registry) -> None:
    """All tell each other what they know, until that is the same."""
    for _ in range(3):
        for one in registries:
            for other in registries:
                other.merge(one.newer_than(other.versions()))
    assert len({each.digest for each in registries}) == 1


LEFT = "life/left/billing", 5, "r1", _encode(Holding(has_unsubscribed=True))
HELD = "life/subscriber/billing", 7, "r2", _encode(Holding("b2"))
APART = (registered(2, "r1", FIRST), LEFT, registered(3, "r1", None), HELD, registered(3, "r2", MOVED))


@pytest.mark.parametrize("facts", list(permutations(APART)))
def test_a_registration_that_was_left_ends_whoever_has_changed_it_meanwhile(facts: tuple[SharedFact, ...]) -> None:
    registry = founded("r1")
    for fact in facts:
        registry.merge((fact, fact))
        registry.merge(facts[:1])
    assert registry.subscriptions == {}
    assert registry.digest == founded("r1", *APART).digest
    assert registry.life_of("subscriber", "billing") == 7, "a newer life holds the name"
    registry.subscribe("billing", msgspec.structs.replace(SECOND, again=False))
    assert registry.subscriptions == {"billing": SECOND}


@pytest.mark.parametrize("version", [3, 4, 9])
def test_a_registration_is_not_replaced_by_one_that_was_left(version: int) -> None:
    knows = founded("r1", LEFT, registered(4, "r1", SECOND))
    other = founded("r2", registered(2, "r1", FIRST), registered(version, "r2", MOVED))
    third = founded("r3")
    exchange(other, third)
    exchange(knows, other, third)
    assert [each.subscriptions for each in (knows, other, third)] == [{"billing": SECOND}] * 3
    again = Registry("r1")
    again.load({key: _encode(fact) for key, fact in knows._facts.items()})
    assert again.subscriptions == {"billing": SECOND}


def test_a_registration_of_which_it_is_not_known_who_began_it_ends_with_its_fact() -> None:
    """Ledgers of earlier versions have such ones, and mail for names that have never come."""
    registry = founded("r1", registered(2, "r1", SubscriptionRecord("")), LEFT)
    assert "billing" in registry.subscriptions
    registry.leave("billing", 8, by_itself=True)
    assert registry.subscriptions == {}


def test_a_ledger_that_says_that_a_name_is_free_fences_the_life_that_has_left() -> None:
    """Earlier versions had a life hold the name that was one newer."""
    registry = founded("r1", ("life/subscriber/billing", 6, "r1", _encode(["", True])), registered(2, "r1", None))
    assert registry.life_of("subscriber", "billing") == 6
    assert not registry.has_unsubscribed("billing", 5)
