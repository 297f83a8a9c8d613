"""The recent records of all topics of a repository share one budget of memory."""

from collections.abc import Sequence

from stentor.model.stored.record import Record, RecordHeader, RecordKind
from stentor.protocols.delivery.repository.storing.recent_records import Budget, RecentRecords

RECORD = 1024  # bytes that one of these takes
BUDGET = 64 * RECORD


def put(tail: RecentRecords, numbers: Sequence[int]) -> None:
    """Records that are stored, and shown to readers at once."""
    for number in numbers:
        tail.put(Record(RecordHeader(number, 1, 1, 1, number, RecordKind.EVENTS), bytes(RECORD - 256)))
        tail.trim(number)


def kept(tail: RecentRecords, last: int) -> int:
    return sum(tail.at(number) is not None for number in range(1, last + 1))


def test_topics_share_the_budget_and_those_that_are_idle_give_way() -> None:
    budget = Budget(BUDGET)
    idle, busy = RecentRecords(1, budget), RecentRecords(1, budget)
    put(idle, range(1, 61))
    assert kept(idle, 60) == 60
    put(busy, range(1, 1001))
    assert idle.size + busy.size <= BUDGET
    assert kept(busy, 1000) >= 40
    assert kept(idle, 60) <= 4
    assert busy.at(1000) is not None
    assert busy.at(busy.start) is not None, "there is no gap from its start on"


def test_many_topics_take_no_more_than_one() -> None:
    budget = Budget(BUDGET)
    recents = [RecentRecords(1, budget) for _ in range(500)]
    for recent in recents:
        put(recent, range(1, 4))
    assert sum(recent.size for recent in recents) <= BUDGET
    assert kept(recents[-1], 3) == 3


def test_what_readers_were_not_shown_stays_whatever_it_takes() -> None:
    budget = Budget(BUDGET)
    waiting, other = RecentRecords(1, budget), RecentRecords(1, budget)
    for number in range(1, 101):
        waiting.put(Record(RecordHeader(number, 1, 1, 1, number, RecordKind.EVENTS), bytes(RECORD - 256)))
    put(other, range(1, 11))
    assert kept(waiting, 100) == 100


def test_a_topic_that_is_gone_leaves_its_part_to_others() -> None:
    budget = Budget(BUDGET)
    gone, other = RecentRecords(1, budget), RecentRecords(1, budget)
    put(gone, range(1, 61))
    gone.release()
    put(other, range(1, 61))
    assert kept(other, 60) == 60


def test_what_is_forgotten_takes_no_memory() -> None:
    budget = Budget(BUDGET)
    recent = RecentRecords(1, budget)
    put(recent, range(1, 31))
    recent.put(Record(RecordHeader(31, 1, 1, 1, 31, RecordKind.EVENTS), bytes(RECORD - 256)))
    recent.forget(20)
    assert (recent.size, recent.start) == (11 * RECORD, 21)
    assert [recent.at(number) is not None for number in (20, 21, 31)] == [False, True, True]
    recent.forget(31)
    assert recent.size == RECORD, "readers have not been shown the last one"
