"""Which topics may be published on at best effort: asked once, then beside the events."""

import asyncio

import pytest

from stentor.best_effort import BestEffort
from stentor.model.errors import LinkBroken, Refused, TopicError

SECOND = 10**9


class Broker:
    """Answers whether a topic is heard, and counts the questions."""

    def __init__(self) -> None:
        self.heard: set[str] = set()
        self.asked: list[str] = []
        self.is_away = False

    async def is_heard(self, topic: str) -> bool:
        self.asked.append(topic)
        await asyncio.sleep(0)
        if self.is_away:
            raise LinkBroken("gone")
        return topic in self.heard


def test_a_topic_is_asked_for_once_before_its_first_event_and_again_beside_later_ones() -> None:
    async def main() -> None:
        broker = Broker()
        topics = BestEffort(broker.is_heard)
        assert not topics.is_known("news", SECOND)
        await topics.check("news", SECOND)
        assert topics.is_known("news", 2 * SECOND)
        assert broker.asked == ["$bundle/news"]
        broker.heard.add("$bundle/news")  # it has become reliable
        assert not topics.is_known("news", 60 * SECOND)
        await topics.check("news", 60 * SECOND)  # this event does not wait for the answer …
        await asyncio.gather(*topics._asking)
        assert not topics.is_known("news", 61 * SECOND)
        with pytest.raises(Refused, match="news is a reliable topic"):  # … the next one is refused
            await topics.check("news", 61 * SECOND)
        broker.heard.clear()  # it was deleted
        await topics.check("news", 62 * SECOND)
        assert topics.is_known("news", 63 * SECOND)

    asyncio.run(main())


def test_a_broker_that_cannot_be_asked_holds_nothing_up_and_is_asked_again() -> None:
    async def main() -> None:
        broker = Broker()
        topics = BestEffort(broker.is_heard)
        broker.is_away = True
        await topics.check("orders", SECOND)
        assert topics.is_known("orders", SECOND), "only the first event waits"
        broker.is_away = False
        broker.heard.add("$bundle/orders")
        await topics.check("orders", 60 * SECOND)
        await asyncio.gather(*topics._asking)
        with pytest.raises(Refused):
            await topics.check("orders", 60 * SECOND)


def test_a_topic_that_is_none_is_not_asked_for() -> None:
    broker = Broker()
    with pytest.raises(TopicError):
        asyncio.run(BestEffort(broker.is_heard).check("a/\ud800", SECOND))
    assert broker.asked == []


def test_topics_of_the_system_are_not_asked_for_and_no_more_are_remembered_than_may_be() -> None:
    async def main() -> None:
        broker = Broker()
        topics = BestEffort(broker.is_heard)
        await topics.check("$to/alice", SECOND)
        assert broker.asked == []
        for number in range(10_001):
            await topics.check(f"t/{number}", SECOND)
        assert not topics.is_known("t/0", SECOND)
        assert topics.is_known("t/10000", SECOND)

    asyncio.run(main())
