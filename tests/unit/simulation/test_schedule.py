"""Virtual time and the clocks of nodes."""

import pytest

from stentor.machine import SECOND
from stentor.simulation.clock import Clock
from stentor.simulation.schedule import Schedule


def test_things_happen_in_order_and_ties_in_the_order_of_asking() -> None:
    schedule, seen = Schedule(), []
    for time, name in ((30, "d"), (10, "a"), (20, "b"), (20, "c")):
        schedule.at(time, lambda name=name: seen.append((schedule.now, name)))  # type: ignore[misc]
    schedule.run(25)
    assert seen == [(10, "a"), (20, "b"), (20, "c")]
    assert schedule.now == 25
    schedule.run(30)
    assert seen[-1] == (30, "d")


def test_what_is_cancelled_does_not_happen_and_what_is_late_happens_now() -> None:
    schedule = Schedule()
    seen: list[int] = []

    def ask_for_the_past() -> None:
        schedule.at(5, lambda: seen.append(schedule.now))

    schedule.at(10, lambda: seen.append(-1)).cancel()
    schedule.at(10, ask_for_the_past)
    schedule.run(100)
    assert seen == [10]


@pytest.mark.parametrize("drift", [-1000, 0, 7, 250_000])
def test_a_clock_drifts_jumps_forward_and_never_goes_back(drift: int) -> None:
    clock = Clock(drift, base=500, since=100)
    assert clock.read(100) == 500
    assert clock.read(100 + SECOND) == 500 + SECOND + SECOND * drift // 1_000_000
    before = clock.read(2 * SECOND)
    clock.jump(2 * SECOND, 3 * SECOND)
    assert clock.read(2 * SECOND) == before + 3 * SECOND


@pytest.mark.parametrize("drift", [-1000, 0, 7, 250_000])
@pytest.mark.parametrize("shown", [10**9, 123_456_789_123, 10**12 + 1])
def test_a_timer_is_due_at_the_first_instant_at_which_the_clock_shows_it(drift: int, shown: int) -> None:
    clock = Clock(drift, base=17)
    due = clock.when(shown)
    assert clock.read(due) >= shown > clock.read(due - 1)
