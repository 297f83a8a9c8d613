"""What is held leaves in order, is bounded, and is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.protocols.dissemination.held_parcels import HeldParcels, HeldRun


def run(body: bytes, events: int = 1, level: int = 1, colours: tuple[int, ...] = (0, 1)) -> HeldRun[str]:
    return HeldRun(level, colours, (), {level: 1}, {}, body, events, "history")


def bodies(runs: list[HeldRun[str]]) -> list[bytes]:
    return [each.inner for each in runs]


def test_what_is_held_is_taken_out_in_order_and_as_a_whole() -> None:
    held: HeldParcels[str] = HeldParcels(100)
    for body, events in ((b"one", 1), (b"two", 5), (b"three", 2)):
        held.append(run(body, events))
    assert (held.size, held.waiting, held.held) == (11, 8, 8)
    assert bodies(held.take()) == [b"one", b"two", b"three"]
    assert (held.size, held.waiting, held.take()) == (0, 0, [])
    assert held.held == 8
    held.validate()


def test_those_that_have_waited_longest_are_dropped_and_counted_if_there_is_no_room() -> None:
    held: HeldParcels[str] = HeldParcels(10)
    held.append(run(b"12345", 3))
    held.append(run(b"67890", 2))
    assert held.dropped == 0
    held.append(run(b"x", 1))
    assert (held.dropped, held.size, held.waiting, held.held) == (3, 6, 3, 6)
    held.append(run(bytes(11), 4))  # more than there is room for at all
    assert (held.dropped, held.size, held.waiting) == (10, 0, 0)
    assert held.take() == []


def test_half_full_is_more_than_half_of_the_bound() -> None:
    held: HeldParcels[str] = HeldParcels(10)
    held.append(run(bytes(5)))
    assert not held.is_half_full
    held.append(run(b"x"))
    assert held.is_half_full
    held.take()
    assert not held.is_half_full


def test_runs_count_for_the_colours_that_they_have_for_good() -> None:
    # Colours below a run's level are given to it when it leaves: whatever stands there now is under way by none.
    held: HeldParcels[str] = HeldParcels()
    held.append(run(b"a", 7, level=0, colours=(1, 2)))
    held.append(run(b"b", 7, level=1, colours=(1, 2)))
    held.append(run(b"c", 7, level=2, colours=(1, 2)))
    assert [held.count(0, colour) for colour in range(3)] == [0, 1, 0]
    assert [held.count(1, colour) for colour in range(3)] == [0, 0, 2]


@given(st.lists(st.tuples(st.binary(max_size=12), st.integers(1, 9)), max_size=30))
def test_nothing_is_lost_without_being_counted(drawn: list[tuple[bytes, int]]) -> None:
    held: HeldParcels[str] = HeldParcels(20)
    for body, events in drawn:
        held.append(run(body, events))
        held.validate()
        assert held.size <= 20
        assert held.waiting + held.dropped == held.held
    kept = held.take()
    assert held.held == sum(events for _, events in drawn)
    assert bodies(kept) == [body for body, _ in drawn][len(drawn) - len(kept) :]


@pytest.mark.req("CO-01")
@pytest.mark.parametrize("size", [-1, 1 << 60])
def test_a_count_that_is_damaged_holds_nothing_up_and_is_right_after_all_was_taken(size: int) -> None:
    held: HeldParcels[str] = HeldParcels(1000)
    held.append(run(bytes(100)))
    held.size = size
    held.append(run(bytes(100)))
    held.take()
    held.append(run(bytes(100)))
    held.validate()
    assert held.waiting == 1
