"""When a topic may be closed to its ledger."""

import pytest
from tests.paper.bundle import DAY, TOPIC, PaperBundle
from tests.unit.protocols.delivery.repository.storing.test_life_closing import live

from stentor.machine import Opened, StartTimer, StopTimer
from stentor.model.control import TopicTask
from stentor.nodes.topics.sleeping_topics import SleepingTopics
from stentor.protocols.delivery.repository.repository import TopicRepository, TopicTick
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import LinkUp, Vouched

SETTINGS = RepositorySettings(name="r1")
MINUTE = 60_000  # milliseconds


def sleeper(bundle: PaperBundle) -> TopicRepository:
    return bundle.repositories["r1"]


def can_sleep(bundle: PaperBundle) -> bool:
    return SleepingTopics(SETTINGS).can_take(bundle.now, sleeper(bundle))


def rested(*names: str, keep: int = 0) -> PaperBundle:
    bundle = PaperBundle(*(names or ("r1",)), keep=keep)
    bundle.pass_time(MINUTE, 500)
    return bundle


def test_a_topic_sleeps_when_nothing_has_happened_for_a_while() -> None:
    bundle = PaperBundle("r1")
    assert not can_sleep(bundle)
    bundle.pass_time(MINUTE, 500)
    assert can_sleep(bundle)
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="late")
    assert not can_sleep(bundle)


def test_a_topic_with_other_repositories_does_not_sleep() -> None:
    bundle = rested("r1", "r2")
    assert not can_sleep(bundle)


def test_a_topic_with_a_reader_does_not_sleep() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("subscriber", "billing", "r1")
    bundle.pass_time(MINUTE, 500)
    assert not can_sleep(bundle)


def test_a_topic_sleeps_after_its_lives_are_closed() -> None:
    bundle = PaperBundle("r1", keep=1)
    live(bundle, 5, range(1, 4))
    live(bundle, 6, range(1, 4))
    bundle.pass_time(30_000, 500)
    assert sleeper(bundle).closing.is_due
    assert not can_sleep(bundle)
    bundle.pass_time(2 * MINUTE, 500)
    assert not sleeper(bundle).closing.is_due
    assert can_sleep(bundle)


@pytest.mark.parametrize(("keep", "slept"), [(2 * 86_400, 2 * DAY), (60, DAY // 24)])
def test_a_topic_with_events_wakes_when_they_may_be_too_old(keep: int, slept: int) -> None:
    bundle = PaperBundle("r1", keep=keep)
    assert SleepingTopics(SETTINGS).put(bundle.now, sleeper(bundle)) == StopTimer(TopicTick(TOPIC))
    live(bundle, 5, [1])
    effect = SleepingTopics(SETTINGS).put(bundle.now, sleeper(bundle))
    assert effect == StartTimer(TopicTick(TOPIC), bundle.now + slept)


def test_a_topic_that_wakes_steers_whom_it_steered_and_repeats_nothing_to_brokers() -> None:
    bundle = PaperBundle("r1")
    live(bundle, 5, [1, 2])
    bundle.pass_time(MINUTE, 500)
    sleeping = SleepingTopics(SETTINGS)
    sleeping.put(bundle.now, sleeper(bundle))
    told = [fact for _, facts in sleeping.notices() for fact in facts]
    assert sorted(told) == sorted(sleeper(bundle).registry.access())
    again = bundle.repositories["r1"] = TopicRepository(TOPIC, RepositorySettings(name="r1"))
    sleeping.hand_over(TOPIC, again)
    assert TOPIC not in sleeping
    bundle.step("r1", Opened(TOPIC, bundle.ledgers["r1"].load(), wall=bundle.wall("r1")))
    bundle.step("r1", LinkUp("keeper"))
    assert again.gossip.ready
    assert [each.name for each in again.holders.publishers.values()] == ["shop"]
    assert not again.notices._token
    bundle.step("r1", LinkUp("keeper"))
    assert again.notices._token, "all is told on the next link"


def test_a_topic_wakes_if_it_was_deleted_elsewhere_and_not_for_what_it_knows() -> None:
    bundle = rested()
    sleeping = SleepingTopics(SETTINGS)
    sleeping.put(bundle.now, sleeper(bundle))
    version = sleeper(bundle).registry.version
    assert sleeping.ignores(Vouched(TOPIC, {"r1": "keeper"}, version - 1))
    assert not sleeping.ignores(Vouched(TOPIC, {}, version))
    assert not sleeping.ignores(Vouched("other", {}, 0))
