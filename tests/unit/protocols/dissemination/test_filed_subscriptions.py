"""What an audit finds of subscriptions that are not where they belong, and that it files them again."""

from collections.abc import Callable

import pytest
from tests.unit.protocols.dissemination.test_routes import A, B, interest

from stentor.matching.topic_tree import PatternMap
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.filed_subscriptions import FiledSubscriptions
from stentor.protocols.dissemination.filtered_subscriptions import FilteredSubscriptions

Filed = FiledSubscriptions[Outbox]


def subscriptions() -> list[BrokerSubscription[Outbox]]:
    return [
        interest(1, "a/#"),
        interest(2, "a/b", B),
        interest(3, "a/+", A, "n > 1"),
        interest(4, "a/+", B, "n > 5"),
        interest(5, "a/b", A, "m = 2"),
    ]


def filed() -> Filed:
    made: Filed = FiledSubscriptions()
    for each in subscriptions():
        made.add(each)
    return made


def audience(of: Filed, pattern: str) -> FilteredSubscriptions[Outbox]:
    return of._by_pattern[pattern, None]


def audit(found: Filed) -> bool:
    """Look at everything once; return whether anything was wrong."""
    wrong = [found.repair(each) for each in list(found.by_number.values())]
    changed = found.drop_strays()
    found.renew(100)
    return any(wrong) or bool(changed)


def seen(found: Filed) -> object:
    """What an event finds: who takes it, here by their numbers."""
    whole, audiences = found.covering("a/b")
    some = [sorted(map(id, each.wanting({"n": 9, "m": 2}))) for each in audiences]
    return [each.number for each in whole], [each.pattern for each in audiences], some


def lose_trees(found: Filed) -> None:
    found._whole, found._audiences = PatternMap(), PatternMap()


def swap_places(found: Filed) -> None:
    one, other = found.by_number[3], found.by_number[5]
    one.place, other.place = other.place, one.place


def lose_an_audience(found: Filed) -> None:
    del found._by_pattern["a/b", None]


def forget_a_filter(found: Filed) -> None:
    audience(found, "a/+")._index._filters.pop(found.by_number[3].place)


def give_a_place_to_another(found: Filed) -> None:
    found.slots._owners[found.by_number[4].place] = found.slots._numbers[A]


def forget_whose_places_are(found: Filed) -> None:
    found.slots._destinations.clear()


def lose_what_is_indexed(found: Filed) -> None:
    for each in found._by_pattern.values():
        for group in each._index._filed.groups:
            group.buckets.clear()


DAMAGES: list[Callable[[Filed], None]] = [
    lose_trees,
    swap_places,
    lose_an_audience,
    forget_a_filter,
    give_a_place_to_another,
    forget_whose_places_are,
]


@pytest.mark.req("CO-01")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_mended(damage: Callable[[Filed], None]) -> None:
    found, sound = filed(), filed()
    damage(found)
    assert audit(found)
    assert seen(found) == seen(sound)
    assert not audit(found)
    found.validate()


@pytest.mark.req("CO-01")
def test_an_index_of_filters_is_made_anew_without_being_compared() -> None:
    found = filed()
    for number in range(10, 20):
        found.add(interest(number, "a/+", A, f"n > {number}"))
    lose_what_is_indexed(found)
    found.renew(100)
    assert sorted(audience(found, "a/+").wanting({"n": 12}), key=id) == sorted([A, A, A, B], key=id)


def test_nothing_is_wrong_with_what_was_never_damaged() -> None:
    assert not audit(filed())


def test_what_is_found_and_was_never_filed_counts_for_nothing() -> None:
    found, sound = filed(), filed()
    found._whole.add("a/b", 9, interest(9, "a/b"))
    found._whole.add("a/b", 77, found.by_number[1])  # once more, under another number
    stranger = FilteredSubscriptions(9, "a/b", found.slots)
    found._audiences.add("a/b", 9, stranger)
    found._audiences.add("a/#", 10, audience(found, "a/b"))
    assert seen(found) == seen(sound)


def test_who_is_filed_under_a_pattern_that_is_not_its_own_does_not_get_its_events() -> None:
    found = filed()
    found._whole.add("x/y", 1, found.by_number[1])
    assert found.covering("x/y") == ([], [])


@pytest.mark.parametrize("damage", [*DAMAGES, lose_what_is_indexed])
def test_whatever_is_damaged_can_be_removed(damage: Callable[[Filed], None]) -> None:
    found = filed()
    damage(found)
    for each in list(found.by_number.values()):
        found.remove(each)
    found.drop_strays()
    assert (found.by_number, found._by_pattern, found.covering("a/b")) == ({}, {}, ([], []))
    found.validate()


def test_sums_of_costs_are_counted_anew() -> None:
    found = filed()
    found.evaluated = 5
    found.evaluated_for.update({A: 3})
    found.drop_strays()
    found.validate()


def test_a_free_place_that_is_none_is_given_to_nobody() -> None:
    found = filed()
    found.slots._free.append(found.by_number[3].place)
    found.slots._free.append(-1)
    found.slots._free.append(1 << 40)
    newcomer = interest(6, "c", A, "n > 0")
    found.add(newcomer)
    assert newcomer.place not in {
        each.place for each in found.by_number.values() if each is not newcomer and each.filter
    }
    found.validate()
