"""Channels: several kinds of filters in one list, which decide together and may tag."""

import numpy as np
import pytest

from stentor.model.attribute import Kind, Schema, Value
from stentor.model.filter import Filter
from stentor.model.ids import CatenationNumber, Incarnation, LinkId, PublisherId, SubscriptionId, TopicId
from stentor.policies.channel import Channel, Keep
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.interest import ContentFilter, Interest
from stentor.wire import block
from stentor.wire.block import Block, Origin
from stentor.wire.sheaf import Sheaf

SCHEMA = Schema(("n", "price"), (Kind.INTEGER, Kind.DECIMAL))


def events(numbers: list[int], prices: list[float | None]) -> Sheaf:
    origin = Origin(TopicId(1), PublisherId(1), Incarnation(1), CatenationNumber(1), 0)
    columns: list[list[Value | None]] = [list(numbers), list(prices)]
    return Sheaf([Block(block.encode(origin, SCHEMA, columns, [b""] * len(numbers)), SCHEMA)])


class Shedding:
    """Drops what pays least, and tells what share of the price that is: a filter that decides and tags."""

    def __init__(self, lowest: float) -> None:
        self.lowest = lowest
        self.seen: list[dict[str, float]] = []

    def decide(self, sheaf: Sheaf, tags: dict[str, float]) -> Keep:
        self.seen.append(dict(tags))
        prices = np.array([row.get("price", 0.0) for row in sheaf.rows()], np.float64)
        keep = prices >= self.lowest
        local = float(prices[~keep].sum() / prices.sum())
        earlier = tags.get("gain", 0.0)
        tags["gain"] = earlier + (1 - earlier) * local
        return keep


def content(*filters: str) -> tuple[ContentFilter[Outbox], list[Interest[Outbox]]]:
    interests = [
        Interest(number, SubscriptionId(number), Outbox(LinkId(1), 0), "t", Filter(text))
        for number, text in enumerate(filters)
    ]
    return ContentFilter(tuple(interests)), interests


def test_a_channel_without_filters_takes_everything_untagged() -> None:
    keep, tags = Channel([]).decide(events([1, 2], [None, None]))
    assert keep.tolist() == [True, True]
    assert tags == {}


@pytest.mark.req("SC-04")
def test_two_kinds_of_filters_in_one_list_decide_together_and_one_tags() -> None:
    wanted, _ = content("n > 1")
    keep, tags = Channel([wanted, Shedding(2.0)]).decide(events([1, 2, 3, 4], [4.0, 1.0, 2.0, 3.0]))
    assert keep.tolist() == [False, False, True, True]
    assert tags == {"gain": 0.1}


@pytest.mark.req("SC-04")
def test_filters_pass_in_turn_and_a_later_one_sees_the_tags_of_the_earlier() -> None:
    first, second = Shedding(2.0), Shedding(3.0)
    keep, tags = Channel([first, second]).decide(events([1, 2, 3, 4], [4.0, 1.0, 2.0, 3.0]))
    assert keep.tolist() == [True, False, False, True]
    assert first.seen == [{}]
    assert second.seen == [{"gain": 0.1}]
    assert tags["gain"] == pytest.approx(0.1 + 0.9 * 0.3)


def test_the_order_of_filters_that_only_decide_does_not_matter() -> None:
    sheaf = events(list(range(20)), [float(number % 7) for number in range(20)])
    one, two = content("n > 5")[0], content("price < 3.0")[0]
    assert Channel([one, two]).decide(sheaf)[0].tolist() == Channel([two, one]).decide(sheaf)[0].tolist()


@pytest.mark.parametrize("count", [1, 3, 4, 50])
def test_a_content_filter_takes_what_any_interest_wants_and_counts_for_each(count: int) -> None:
    numbers = list(range(count))
    decider, interests = content("n > 1", "n = 0", "EXISTS price", "missing = 1")
    keep = decider.decide(events(numbers, [None] * count), {})
    assert keep.tolist() == [n > 1 or n == 0 for n in numbers]
    assert [each.accepted for each in interests] == [sum(n > 1 for n in numbers), 1, 0, 0]
    assert [each.accepted + each.rejected for each in interests] == [count] * 4


def test_nothing_wanted_is_nothing_kept() -> None:
    keep, _ = Channel([content("n > 100")[0]]).decide(events([1, 2, 3, 4, 5], [None] * 5))
    assert not keep.any()
