"""Steering: which repository is chosen, and what happens if it, or what is said to it, is lost."""

from typing import Self

import pytest

from stentor.machine import MILLISECOND, SECOND, Effect, Step
from stentor.model.communication import bundle_of, inbox_of, repository_name
from stentor.model.control import Denial, Migrate, Probe, ProbeAnswer, Recovery, RecoveryResponse, RepositoryAck, Sync
from stentor.model.errors import Refusal
from stentor.model.ids import publisher_id
from stentor.protocols.delivery.endpoint_api import Refuse, ReportSteering, ReportTrouble
from stentor.protocols.delivery.retry_timer import NEVER
from stentor.protocols.delivery.steering import Steering
from stentor.protocols.delivery.steering_settings import SteeringSettings
from stentor.protocols.delivery.transport import SendLetter

ALL = ("a", "b", "c")
IDS = {name: publisher_id("keeper", repository_name(name)) for name in ALL}
FIRST = (1 << 15) + 1  # attempt of the first life


def introduction(attempt: int) -> Recovery:
    return Recovery("t", "me", role="subscriber", attempt=attempt, principal="", incarnation=1)


class Bench(Steering):
    """A steering whose steps the test makes."""

    def __init__(self, life: int = 1) -> None:
        self.clock = Step()
        super().__init__(self.clock, "t", "me", "subscriber", life, introduction, SteeringSettings())
        self.vouch(dict.fromkeys(ALL, "keeper"))

    def at(self, now: int) -> Self:
        self.clock.now = now
        return self


def said(steering: Bench) -> list[Effect]:
    return steering.clock.end()


def probe(attempt: int = FIRST) -> SendLetter:
    return SendLetter(bundle_of("t"), (Probe("t", "me", role="subscriber", attempt=attempt),))


def recovery(name: str, attempt: int = FIRST) -> SendLetter:
    return SendLetter(inbox_of(repository_name(name)), (introduction(attempt),))


def answer(
    steering: Bench, now: int, name: str, *, ready: bool = True, level: int = 0, members: tuple[str, ...] = ALL
) -> None:
    event = ProbeAnswer("t", name, attempt=steering.attempt, ready=ready, members=members, level=level)
    assert not steering.at(now).hear(IDS[name], event)


def accept(steering: Bench, now: int, name: str) -> bool:
    return steering.at(now).hear(
        IDS[name], RecoveryResponse("t", name, attempt=steering.attempt, copies=1, members=ALL, epoch=7)
    )


def steered(name: str = "a") -> Bench:
    steering = Bench()
    steering.at(0).link()
    answer(steering, 1, name, members=(name,))
    assert accept(steering, 2, name)
    said(steering)
    return steering


@pytest.mark.req("RD-16")
def test_the_first_to_answer_is_chosen_when_all_have_answered() -> None:
    steering = Bench()
    assert steering.due == NEVER
    steering.at(0).link()
    assert said(steering) == [probe()]
    answer(steering, 1, "b")
    answer(steering, 2, "a")
    assert said(steering) == []
    answer(steering, 3, "c")
    assert said(steering) == [recovery("b")]
    assert not steering.steered
    assert accept(steering, 4, "b")
    assert steering.steered
    assert said(steering) == [ReportSteering("b", 7)]
    assert steering.due == NEVER


@pytest.mark.req("RD-16")
def test_those_that_do_not_answer_are_not_waited_for_long() -> None:
    steering = Bench()
    steering.at(0).link()
    answer(steering, 5 * MILLISECOND, "a", level=2)
    assert steering.due == 25 * MILLISECOND
    answer(steering, 10 * MILLISECOND, "c", level=1)
    steering.at(25 * MILLISECOND).tick()
    assert said(steering) == [probe(), recovery("c")], "the finer level, though it answered later"


def test_one_that_is_not_ready_is_not_chosen() -> None:
    steering = Bench()
    steering.at(0).link()
    answer(steering, 1, "a", ready=False)
    answer(steering, 1, "b", ready=False)
    answer(steering, 1, "c", ready=False)
    assert said(steering) == [probe()]
    steering.at(100 * MILLISECOND).tick()
    assert said(steering) == [probe()]
    answer(steering, 101 * MILLISECOND, "c")
    assert said(steering) == [recovery("c")], "all have answered, now or before"


def test_probes_are_repeated_with_pauses_and_the_application_is_told() -> None:
    steering = Bench()
    steering.at(0).link()
    said(steering)
    times = []
    effects: list[Effect] = []
    while steering.due < 12 * SECOND:
        now = steering.due
        steering.at(now).tick()
        for effect in said(steering):
            if effect == probe():
                times.append(now // MILLISECOND)
            else:
                effects.append(effect)
    assert times == [100, 300, 700, 1500, 3100, 5100, 7100, 9100, 11100]
    assert effects == [ReportTrouble("no repository answers for topic 't': is it created?")] * 2


@pytest.mark.req("RD-13")
def test_a_recovery_is_repeated_then_another_repository_is_tried() -> None:
    steering = Bench()
    steering.at(0).link()
    answer(steering, 0, "a", members=("a", "b"))
    answer(steering, 0, "b", members=("a", "b"))
    assert said(steering) == [probe(), recovery("a")]
    for tick in range(1, 4):
        steering.at(tick * 250 * MILLISECOND).tick()
        assert said(steering) == [recovery("a")]
    steering.at(SECOND).tick()
    assert said(steering) == [probe(FIRST + 1)]
    answer(steering, SECOND, "a", members=("a", "b"))
    assert said(steering) == [], "it may still be the only one"
    answer(steering, SECOND, "b", members=("a", "b"))
    assert said(steering) == [recovery("b", FIRST + 1)]


def test_one_that_was_left_out_is_taken_if_there_is_no_other() -> None:
    steering = steered("a")
    steering.at(0).suspect("it is silent")
    answer(steering, 0, "a", members=("a", "b"))
    assert said(steering) == [probe(FIRST + 1)]
    steering.at(steering.due).tick()  # the second probe
    assert said(steering) == [probe(FIRST + 1)]
    assert steering.due == 250 * MILLISECOND
    steering.at(steering.due).tick()
    assert said(steering) == [recovery("a", FIRST + 1)]


def test_the_only_one_is_taken_again_at_once() -> None:
    steering = steered("a")
    steering.at(0).suspect("it is silent")
    answer(steering, 1, "a", members=("a",))
    assert said(steering) == [probe(FIRST + 1), recovery("a", FIRST + 1)]


def test_answers_to_an_earlier_attempt_are_ignored() -> None:
    steering = Bench()
    steering.at(0).link()
    late = ProbeAnswer("t", "a", attempt=steering.attempt, ready=True, members=("a",))
    answer(steering, 1, "b", members=("b",))
    steering.at(2).suspect("no reason")
    steering.at(3).hear(IDS["a"], late)
    assert steering.repository == ""
    answer(steering, 4, "b", members=("b",))
    assert not steering.at(5).hear(
        IDS["b"], RecoveryResponse("t", "b", attempt=steering.attempt - 1, copies=1, members=ALL)
    )
    assert not steering.steered
    assert accept(steering, 6, "b")
    assert not steering.at(7).hear(IDS["b"], Sync("t", "b", attempt=steering.attempt - 1, upto=5))
    assert steering.at(7).hear(IDS["b"], Sync("t", "b", attempt=steering.attempt, upto=5))


def test_attempts_grow_from_life_to_life() -> None:
    first, second = Bench(), Bench(life=2)
    for _ in range(1000):
        first.at(0).link()
        answer(first, 0, "a", members=("a",))
        first.at(0).suspect("")
    second.at(0).link()
    assert second.attempt > first.attempt


def test_only_the_repository_itself_is_believed() -> None:
    steering = steered("a")
    assert steering.at(1).hear(IDS["a"], RepositoryAck("t", "a", incarnation=1, upto=5))
    assert not steering.at(1).hear(IDS["b"], RepositoryAck("t", "a", incarnation=1, upto=5)), (
        "somebody else under its name"
    )
    assert not steering.at(1).hear(IDS["b"], RepositoryAck("t", "b", incarnation=1, upto=5))
    assert not steering.at(1).hear(
        IDS["b"], Denial("t", "a", attempt=steering.attempt, code=Refusal.NOT_AUTHORISED, reason="no")
    )
    assert steering.ended is None


@pytest.mark.req("RD-01")
def test_who_is_not_authorised_is_told_why_and_ends() -> None:
    steering = Bench()
    steering.at(0).link()
    answer(steering, 0, "a", members=("a",))
    said(steering)
    assert not steering.at(1).hear(
        IDS["a"], Denial("t", "a", attempt=FIRST, code=Refusal.NOT_AUTHORISED, reason="ask the owner")
    )
    assert said(steering) == [Refuse(Refusal.NOT_AUTHORISED, "ask the owner")]
    assert steering.due == NEVER
    steering.at(2).link()
    answer(steering, 3, "a", members=("a",))
    assert said(steering) == []


def test_who_is_revoked_later_is_told_too() -> None:
    steering = steered("a")
    steering.at(1).hear(IDS["a"], Denial("t", "a", attempt=FIRST - 1, code=Refusal.NOT_AUTHORISED, reason="late"))
    assert said(steering) == []
    steering.at(1).hear(IDS["a"], Denial("t", "a", attempt=0, code=Refusal.NOT_AUTHORISED, reason="revoked"))
    assert said(steering) == [Refuse(Refusal.NOT_AUTHORISED, "revoked")]
    assert not steering.steered


def test_one_that_does_not_know_the_topic_is_left_out_and_not_asked_at_once() -> None:
    steering = Bench()
    steering.at(0).link()
    answer(steering, 0, "a", members=("a",))
    said(steering)
    steering.at(1).hear(IDS["a"], Denial("t", "a", attempt=FIRST, code=Refusal.UNKNOWN, reason="no such topic here"))
    assert said(steering) == []
    assert steering.due == 1 + 100 * MILLISECOND
    steering.at(steering.due).tick()
    assert said(steering) == [probe(FIRST + 1)]
    answer(steering, SECOND, "a", members=("a",))
    steering.at(SECOND).hear(
        IDS["a"], Denial("t", "a", attempt=FIRST + 1, code=Refusal.UNKNOWN, reason="no such topic here")
    )
    assert steering.due == SECOND + 200 * MILLISECOND
    while steering.due < 5 * SECOND:
        steering.at(steering.due).tick()
    said(steering)
    steering.at(steering.due).tick()
    assert ReportTrouble("repository a of topic 't': no such topic here") in said(steering)


@pytest.mark.req("RD-21")
def test_a_repository_that_leaves_is_left() -> None:
    steering = steered("a")
    assert not steering.at(0).hear(IDS["a"], Migrate("t", "a"))
    assert said(steering) == [probe(FIRST + 1)]
    answer(steering, 1, "a")
    answer(steering, 2, "b")
    answer(steering, 3, "c")
    assert said(steering) == [recovery("b", FIRST + 1)]


def test_a_new_link_repeats_what_may_be_lost() -> None:
    steering = Bench()
    steering.at(0).link()
    steering.unlink()
    assert steering.due == NEVER
    steering.at(1).link()
    assert said(steering) == [probe(), probe()]
    answer(steering, 2, "a", members=("a",))
    steering.at(3).link()
    assert said(steering) == [recovery("a"), recovery("a")]
    assert accept(steering, 4, "a")
    said(steering)
    steering.unlink()
    steering.at(5).link()
    assert said(steering) == [recovery("a")], "it may have forgotten us"
    assert steering.steered
    assert accept(steering, 6, "a")
    assert said(steering) == []
    assert steering.due == NEVER


def test_one_that_says_that_it_is_there_is_waited_for() -> None:
    steering = Bench()
    steering.at(0).link()
    answer(steering, 1, "a", members=("a",))
    for turn in range(1, 20):
        now = 1 + turn * 250 * MILLISECOND
        steering.at(now).tick()
        assert steering.repository == "a"
        answer(steering, now + 1, "a")
    assert accept(steering, 20 * SECOND, "a")


# ---- going back


def moved(steering: Bench, now: int, name: str) -> None:
    """The repository that steers it fails, and another one takes its place."""
    steering.at(now).suspect("it is dead")
    steering.at(steering.due).tick()
    answer(steering, now, name, members=(name,))
    assert accept(steering, now, name)
    said(steering)


def look(steering: Bench, *answers: tuple[str, int]) -> list[Effect]:
    """It looks around: these answer, after so many milliseconds each. What it does about it."""
    now = steering.due
    steering.at(now).tick()
    assert said(steering) == [probe(steering.attempt)]
    for name, delay in answers:
        answer(steering, now + delay * MILLISECOND, name)
    steering.at(steering.due).tick()
    return said(steering)


@pytest.mark.req("RD-16")
def test_it_goes_back_to_its_first_choice_once_that_one_is_well_again() -> None:
    steering = steered("a")
    moved(steering, SECOND, "b")
    assert 11 * SECOND <= steering.due < 16 * SECOND, "not all clients look around at once"
    before = steering.due
    assert look(steering, ("b", 1)) == [], "a is silent"
    assert steering.due - before > 20 * SECOND, "it may be so for long"
    assert look(steering, ("b", 1), ("a", 2)) == []
    assert look(steering, ("a", 1), ("b", 2)) == []
    assert look(steering, ("b", 1), ("a", 2)) == [recovery("a", FIRST + 2)], "as near, three times in a row"
    assert accept(steering, steering.due, "a")
    assert steering.due == NEVER


def test_one_that_comes_and_goes_does_not_take_its_clients_with_it() -> None:
    steering = steered("a")
    moved(steering, SECOND, "b")
    for answers in (("a", "b"), ("a", "b"), ("b",), ("a", "b"), ("a", "b")):
        assert look(steering, *((name, 1) for name in answers)) == []
    (again,) = look(steering, ("a", 1), ("b", 1))
    assert again == recovery("a", FIRST + 2)
    now = steering.due
    assert accept(steering, now, "a")
    moved(steering, now, "b")
    assert steering.due >= now + 20 * SECOND, "it stays away longer than before"


def test_one_that_is_nearer_or_finer_by_now_becomes_its_first_choice() -> None:
    for delay, level in ((50, 0), (1, 2)):
        steering = steered("a")
        moved(steering, SECOND, "b")
        for _ in range(3):
            now = steering.due
            steering.at(now).tick()
            answer(steering, now + MILLISECOND, "b", level=0)
            answer(steering, now + delay * MILLISECOND, "a", level=level)
            steering.at(steering.due).tick()
        assert steering.repository == "b"
        assert steering.due == NEVER


def test_one_that_is_far_or_silent_each_time_is_its_first_choice_no_longer() -> None:
    """An answer that comes too late for a look is like none: a home so far away must not be looked for without end."""
    steering = steered("a")
    moved(steering, SECOND, "b")
    for delays in ((50,), (), (50,), (), (50,)):
        assert steering.due != NEVER
        assert look(steering, ("b", 1), *(("a", delay) for delay in delays)) == []
    assert steering.due == NEVER


def test_it_does_not_look_for_one_that_is_no_member_any_more() -> None:
    steering = steered("a")
    moved(steering, SECOND, "b")
    steering.at(2 * SECOND).vouch({"b": "keeper", "c": "keeper"})
    assert steering.due == NEVER


def test_who_is_moved_by_hand_goes_there_and_stays() -> None:
    steering = steered("a")
    assert not steering.at(0).hear(IDS["a"], Migrate("t", "a", "c"))
    assert said(steering) == [recovery("c", FIRST + 1)]
    assert accept(steering, 1, "c")
    assert steering.due == NEVER
    assert not steering.at(2).hear(IDS["c"], Migrate("t", "c", "stranger"))
    assert said(steering) == [ReportSteering("c", 7), probe(FIRST + 2)], "nobody vouches for that one"
