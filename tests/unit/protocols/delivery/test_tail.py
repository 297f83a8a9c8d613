"""The recent records of all topics of a repository share one budget of memory."""

from collections.abc import Sequence

from stentor.model.record import Kind, Line, Record
from stentor.protocols.delivery.tail import Tail, TailBudget

RECORD = 1024  # bytes that one of these takes
BUDGET = 64 * RECORD


def put(tail: Tail, numbers: Sequence[int]) -> None:
    """Records that are stored, and shown to readers at once."""
    for number in numbers:
        tail.put(Record(Line(number, 1, 1, 1, number, Kind.EVENTS), bytes(RECORD - 256)))
        tail.trim(number)


def kept(tail: Tail, last: int) -> int:
    return sum(tail.at(number) is not None for number in range(1, last + 1))


def test_topics_share_the_budget_and_those_that_are_idle_give_way() -> None:
    budget = TailBudget(BUDGET)
    idle, busy = Tail(1, budget), Tail(1, budget)
    put(idle, range(1, 61))
    assert kept(idle, 60) == 60
    put(busy, range(1, 1001))
    assert idle.size + busy.size <= BUDGET
    assert kept(busy, 1000) >= 40
    assert kept(idle, 60) <= 4
    assert busy.at(1000) is not None
    assert busy.at(busy.start) is not None, "there is no gap from its start on"


def test_many_topics_take_no_more_than_one() -> None:
    budget = TailBudget(BUDGET)
    tails = [Tail(1, budget) for _ in range(500)]
    for tail in tails:
        put(tail, range(1, 4))
    assert sum(tail.size for tail in tails) <= BUDGET
    assert kept(tails[-1], 3) == 3


def test_what_readers_were_not_shown_stays_whatever_it_takes() -> None:
    budget = TailBudget(BUDGET)
    waiting, other = Tail(1, budget), Tail(1, budget)
    for number in range(1, 101):
        waiting.put(Record(Line(number, 1, 1, 1, number, Kind.EVENTS), bytes(RECORD - 256)))
    put(other, range(1, 11))
    assert kept(waiting, 100) == 100


def test_a_topic_that_is_gone_leaves_its_part_to_others() -> None:
    budget = TailBudget(BUDGET)
    gone, other = Tail(1, budget), Tail(1, budget)
    put(gone, range(1, 61))
    gone.release()
    put(other, range(1, 61))
    assert kept(other, 60) == 60


def test_what_is_forgotten_takes_no_memory() -> None:
    budget = TailBudget(BUDGET)
    tail = Tail(1, budget)
    put(tail, range(1, 31))
    tail.put(Record(Line(31, 1, 1, 1, 31, Kind.EVENTS), bytes(RECORD - 256)))
    tail.forget(20)
    assert (tail.size, tail.start) == (11 * RECORD, 21)
    assert [tail.at(number) is not None for number in (20, 21, 31)] == [False, True, True]
    tail.forget(31)
    assert tail.size == RECORD, "readers have not been shown the last one"
