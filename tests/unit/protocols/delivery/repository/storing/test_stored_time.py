"""How old events are is a matter of when they were stored, by the clocks of repositories, whatever publishers say."""

import pytest
from tests.paper.bundle import DAY, YEAR, PaperBundle, block

from stentor.machine import SECOND
from stentor.model.control import Retransmission, TopicTask

pytestmark = pytest.mark.req("GE-15")

LOOK = 6_000  # milliseconds, within which a repository looks at what may be forgotten


def absent_subscriber(*names: str, expire: int) -> PaperBundle:
    """A bundle with a publisher, and a subscriber that came once and is away."""
    bundle = PaperBundle(*names, expire=expire)
    bundle.recover("publisher", "shop", names[0])
    bundle.recover("subscriber", "billing", names[0])
    bundle.pass_time(500)
    return bundle


def kept(bundle: PaperBundle, name: str) -> int:
    return bundle.repositories[name].log.streams.event_count


def test_an_event_dated_ahead_makes_no_other_event_old() -> None:
    bundle = absent_subscriber("r1", expire=86_400)
    for number in range(1, 51):
        bundle.arrive(block(number, time=bundle.wall("r1")))
    bundle.arrive(block(51, time=bundle.wall("r1") + 2 * DAY))
    bundle.order(1, 51)
    bundle.pass_time(LOOK)
    assert kept(bundle, "r1") == 51
    assert not [report for report in bundle.reports if report.what == "events expired"]


@pytest.mark.parametrize("time", [YEAR - 300 * DAY, YEAR + 300 * DAY])
def test_events_of_a_quiet_topic_expire_when_they_are_old_enough_whatever_their_publisher_says(time: int) -> None:
    bundle = absent_subscriber("r1", expire=86_400)
    bundle.arrive(block(1, 20, time=time))
    bundle.order(1, 20)
    bundle.now += DAY - 60 * SECOND
    bundle.pass_time(LOOK)
    assert kept(bundle, "r1") == 20
    bundle.now += 60 * SECOND
    bundle.pass_time(LOOK)
    assert kept(bundle, "r1") == 0
    assert [report.details["subscriber"] for report in bundle.reports if report.what == "events expired"] == ["billing"]


def test_what_a_newcomer_fetches_is_as_old_as_it_was() -> None:
    bundle = absent_subscriber("r1", expire=86_400)
    bundle.publish(1, 20)
    bundle.now += DAY // 2
    bundle.add("r2")
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("r2",))
    bundle.pass_time(LOOK)
    assert kept(bundle, "r2") == 20
    assert stored_at(bundle, "r2") == stored_at(bundle, "r1")
    bundle.now += DAY // 2
    bundle.pass_time(2 * LOOK)
    assert (kept(bundle, "r1"), kept(bundle, "r2")) == (0, 0)


def stored_at(bundle: PaperBundle, name: str) -> set[int]:
    return {record.stored for record in bundle.ledgers[name].records.values() if record.frame}


def test_nothing_is_fetched_from_the_future() -> None:
    bundle = PaperBundle("r1")
    bundle.clocks["r1"] = 10 * DAY
    bundle.pass_time(500)
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 5)
    bundle.add("r2")
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("r2",))
    bundle.pass_time(LOOK)
    assert max(stored_at(bundle, "r2")) <= bundle.wall("r2") < min(stored_at(bundle, "r1"))


def test_what_an_older_repository_sends_is_as_old_as_its_events() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.deaf.add("r2")
    bundle.arrive(block(1, 5, time=YEAR - DAY), "r1")
    bundle.arrive(block(6, 5, time=YEAR + DAY), "r1")
    bundle.order(1, 10, "r1")
    for sequence, record in bundle.ledgers["r1"].records.items():
        bundle.ledgers["r1"].records[sequence] = record._replace(stored=record.time)  # as it reads its ledger
    bundle.kill("r1")
    bundle.deaf.clear()
    bundle.start("r1")
    bundle.pass_time(LOOK)
    by_first = {record.line.first: record.stored for record in bundle.ledgers["r2"].records.values() if record.frame}
    assert by_first[1] == YEAR - DAY
    assert YEAR < by_first[6] <= bundle.wall("r2"), "at most now"


def test_events_that_a_clock_ahead_has_stamped_age_once_they_are_the_oldest() -> None:
    bundle = absent_subscriber("r1", expire=86_400)
    bundle.clocks["r1"] = 300 * DAY
    bundle.pass_time(100)
    bundle.publish(1, 5)
    bundle.clocks["r1"] = 0
    bundle.now += DAY - 60 * SECOND
    bundle.pass_time(LOOK)
    assert kept(bundle, "r1") == 5
    bundle.now += DAY
    bundle.pass_time(LOOK)
    assert kept(bundle, "r1") == 0


def test_a_letter_between_repositories_names_a_stored_time_for_each_of_its_frames() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.deaf.add("r2")
    for number in range(1, 40):
        bundle.publish(number, 1, "r1")
        bundle.now += SECOND
    bundle.deaf.clear()
    bundle.clear()
    bundle.pass_time(LOOK)
    letters = [event for _, event in bundle.said if isinstance(event, Retransmission)]
    assert sum(len(letter.stored) for letter in letters) == 39
    assert stored_at(bundle, "r2") == stored_at(bundle, "r1")
    assert len(stored_at(bundle, "r2")) == 39
