"""Which topics may be published on at best effort: the first event on a topic waits for what the broker says."""

import asyncio

import pytest

from stentor.client.connection.best_effort import BestEffort
from stentor.model.errors import Refusal, Refused, TopicError
from stentor.model.ids import topic_id
from stentor.nodes.client_api import RefuseFlow


class Broker:
    """Takes in what was published, or refuses some of it first."""

    def __init__(self) -> None:
        self.topics = BestEffort(self.confirm)
        self.refused: list[str] = []
        self.asked = 0

    async def confirm(self) -> None:
        self.asked += 1
        await asyncio.sleep(0)
        for topic in self.refused:
            self.refuse(topic)

    def refuse(self, topic: str) -> None:
        self.topics.refuse(RefuseFlow(topic_id(topic), Refusal.NOT_AUTHORISED, f"not on {topic}"))

    async def publish(self, topic: str) -> None:
        """As a client does."""
        if not self.topics.is_taken(topic):
            await self.topics.confirm(topic)


def test_the_first_event_on_a_topic_waits_for_the_broker_and_no_other_one() -> None:
    async def main() -> None:
        broker = Broker()
        for _ in range(3):
            await broker.publish("news")
        assert broker.asked == 1
        await broker.publish("sports")
        assert broker.asked == 2

    asyncio.run(main())


def test_a_refused_topic_stays_refused_until_there_is_another_link() -> None:
    async def main() -> None:
        broker = Broker()
        broker.refused = ["orders"]
        for _ in range(2):
            with pytest.raises(Refused, match="not on orders") as caught:
                await broker.publish("orders")
            assert caught.value.code is Refusal.NOT_AUTHORISED
        assert broker.asked == 1, "who was refused is not asked again"
        await broker.publish("news")
        broker.topics.forget()
        broker.refused = []
        await broker.publish("orders")

    asyncio.run(main())


def test_a_topic_that_was_taken_may_be_refused_later() -> None:
    async def main() -> None:
        broker = Broker()
        await broker.publish("news")
        broker.refuse("news")
        with pytest.raises(Refused, match="not on news"):
            await broker.publish("news")

    asyncio.run(main())


def test_a_topic_that_is_none_is_not_asked_for() -> None:
    broker = Broker()
    with pytest.raises(TopicError):
        asyncio.run(broker.publish("a/\ud800"))
    assert broker.asked == 0


def test_no_more_topics_are_remembered_than_may_be() -> None:
    async def main() -> None:
        broker = Broker()
        for number in range(10_001):
            await broker.publish(f"t/{number}")
            broker.refuse(f"x/{number}")
        assert not broker.topics.is_taken("t/0")
        assert broker.topics.is_taken("t/10000")
        assert not broker.topics.is_taken("x/0")
        with pytest.raises(Refused):
            broker.topics.is_taken("x/10000")

    asyncio.run(main())
