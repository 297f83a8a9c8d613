"""Steering: which repository is chosen, and what happens if it, or what is said to it, is lost."""

import pytest

from stentor.machine import MILLISECOND, SECOND, Effect
from stentor.model.communication import bundle_of, inbox_of, repository_name
from stentor.model.control import Denial, Migrate, Probe, ProbeAnswer, Recovery, RecoveryResponse, RepositoryAck, Sync
from stentor.model.errors import Refusal
from stentor.model.ids import publisher_id
from stentor.protocols.delivery.endpoint_api import Forbid, ReportSteering, ReportTrouble
from stentor.protocols.delivery.retry_timer import NEVER
from stentor.protocols.delivery.steering import Steering
from stentor.protocols.delivery.steering_settings import SteeringSettings
from stentor.protocols.delivery.transport import SendLetter

ALL = ("a", "b", "c")
IDS = {name: publisher_id("keeper", repository_name(name)) for name in ALL}
FIRST = (1 << 15) + 1  # attempt of the first life


def introduction(attempt: int) -> Recovery:
    return Recovery("t", "me", "subscriber", attempt, "", 1)


def made() -> Steering:
    return vouched(Steering("t", "me", "subscriber", 1, introduction, SteeringSettings()))


def vouched(steering: Steering) -> Steering:
    steering.vouch(0, dict.fromkeys(ALL, "keeper"))
    return steering


def said(steering: Steering) -> list[Effect]:
    effects, steering.effects = steering.effects, []
    return effects


def probe(attempt: int = FIRST) -> SendLetter:
    return SendLetter(bundle_of("t"), (Probe("t", "me", "subscriber", attempt),))


def recovery(name: str, attempt: int = FIRST) -> SendLetter:
    return SendLetter(inbox_of(repository_name(name)), (introduction(attempt),))


def answer(
    steering: Steering, now: int, name: str, *, ready: bool = True, level: int = 0, members: tuple[str, ...] = ALL
) -> None:
    event = ProbeAnswer("t", name, steering.attempt, ready, members, level)
    assert not steering.hear(now, IDS[name], event)


def accept(steering: Steering, now: int, name: str) -> bool:
    return steering.hear(now, IDS[name], RecoveryResponse("t", name, steering.attempt, 1, ALL, epoch=7))


def steered(name: str = "a") -> Steering:
    steering = made()
    steering.link(0)
    answer(steering, 1, name, members=(name,))
    assert accept(steering, 2, name)
    said(steering)
    return steering


@pytest.mark.req("RD-16")
def test_the_first_to_answer_is_chosen_when_all_have_answered() -> None:
    steering = made()
    assert steering.due == NEVER
    steering.link(0)
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
    steering = made()
    steering.link(0)
    answer(steering, 5 * MILLISECOND, "a", level=2)
    assert steering.due == 25 * MILLISECOND
    answer(steering, 10 * MILLISECOND, "c", level=1)
    steering.tick(25 * MILLISECOND)
    assert said(steering) == [probe(), recovery("c")], "the finer level, though it answered later"


def test_one_that_is_not_ready_is_not_chosen() -> None:
    steering = made()
    steering.link(0)
    answer(steering, 1, "a", ready=False)
    answer(steering, 1, "b", ready=False)
    answer(steering, 1, "c", ready=False)
    assert said(steering) == [probe()]
    steering.tick(100 * MILLISECOND)
    assert said(steering) == [probe()]
    answer(steering, 101 * MILLISECOND, "c")
    assert said(steering) == [recovery("c")], "all have answered, now or before"


def test_probes_are_repeated_with_pauses_and_the_application_is_told() -> None:
    steering = made()
    steering.link(0)
    said(steering)
    times = []
    effects: list[Effect] = []
    while steering.due < 12 * SECOND:
        now = steering.due
        steering.tick(now)
        for effect in said(steering):
            if effect == probe():
                times.append(now // MILLISECOND)
            else:
                effects.append(effect)
    assert times == [100, 300, 700, 1500, 3100, 5100, 7100, 9100, 11100]
    assert effects == [ReportTrouble("no repository answers for topic 't': is it created?")] * 2


@pytest.mark.req("RD-13")
def test_a_recovery_is_repeated_then_another_repository_is_tried() -> None:
    steering = made()
    steering.link(0)
    answer(steering, 0, "a", members=("a", "b"))
    answer(steering, 0, "b", members=("a", "b"))
    assert said(steering) == [probe(), recovery("a")]
    for tick in range(1, 4):
        steering.tick(tick * 250 * MILLISECOND)
        assert said(steering) == [recovery("a")]
    steering.tick(SECOND)
    assert said(steering) == [probe(FIRST + 1)]
    answer(steering, SECOND, "a", members=("a", "b"))
    assert said(steering) == [], "it may still be the only one"
    answer(steering, SECOND, "b", members=("a", "b"))
    assert said(steering) == [recovery("b", FIRST + 1)]


def test_one_that_was_left_out_is_taken_if_there_is_no_other() -> None:
    steering = steered("a")
    steering.suspect(0, "it is silent")
    answer(steering, 0, "a", members=("a", "b"))
    assert said(steering) == [probe(FIRST + 1)]
    steering.tick(steering.due)  # the second probe
    assert said(steering) == [probe(FIRST + 1)]
    assert steering.due == 250 * MILLISECOND
    steering.tick(steering.due)
    assert said(steering) == [recovery("a", FIRST + 1)]


def test_the_only_one_is_taken_again_at_once() -> None:
    steering = steered("a")
    steering.suspect(0, "it is silent")
    answer(steering, 1, "a", members=("a",))
    assert said(steering) == [probe(FIRST + 1), recovery("a", FIRST + 1)]


def test_answers_to_an_earlier_attempt_are_ignored() -> None:
    steering = made()
    steering.link(0)
    late = ProbeAnswer("t", "a", steering.attempt, True, ("a",))
    answer(steering, 1, "b", members=("b",))
    steering.suspect(2, "no reason")
    steering.hear(3, IDS["a"], late)
    assert steering.repository == ""
    answer(steering, 4, "b", members=("b",))
    assert not steering.hear(5, IDS["b"], RecoveryResponse("t", "b", steering.attempt - 1, 1, ALL))
    assert not steering.steered
    assert accept(steering, 6, "b")
    assert not steering.hear(7, IDS["b"], Sync("t", "b", steering.attempt - 1, 5))
    assert steering.hear(7, IDS["b"], Sync("t", "b", steering.attempt, 5))


def test_attempts_grow_from_life_to_life() -> None:
    first, second = made(), vouched(Steering("t", "me", "subscriber", 2, introduction, SteeringSettings()))
    for _ in range(1000):
        first.link(0)
        answer(first, 0, "a", members=("a",))
        first.suspect(0, "")
    second.link(0)
    assert second.attempt > first.attempt


def test_only_the_repository_itself_is_believed() -> None:
    steering = steered("a")
    assert steering.hear(1, IDS["a"], RepositoryAck("t", "a", 1, 5))
    assert not steering.hear(1, IDS["b"], RepositoryAck("t", "a", 1, 5)), "somebody else under its name"
    assert not steering.hear(1, IDS["b"], RepositoryAck("t", "b", 1, 5))
    assert not steering.hear(1, IDS["b"], Denial("t", "a", steering.attempt, Refusal.NOT_AUTHORISED, "no"))
    assert steering.ended is None


@pytest.mark.req("RD-01")
def test_who_is_not_authorised_is_told_why_and_ends() -> None:
    steering = made()
    steering.link(0)
    answer(steering, 0, "a", members=("a",))
    said(steering)
    assert not steering.hear(1, IDS["a"], Denial("t", "a", FIRST, Refusal.NOT_AUTHORISED, "ask the owner"))
    assert said(steering) == [Forbid(Refusal.NOT_AUTHORISED, "ask the owner")]
    assert steering.due == NEVER
    steering.link(2)
    answer(steering, 3, "a", members=("a",))
    assert said(steering) == []


def test_who_is_revoked_later_is_told_too() -> None:
    steering = steered("a")
    steering.hear(1, IDS["a"], Denial("t", "a", FIRST - 1, Refusal.NOT_AUTHORISED, "late"))
    assert said(steering) == []
    steering.hear(1, IDS["a"], Denial("t", "a", 0, Refusal.NOT_AUTHORISED, "revoked"))
    assert said(steering) == [Forbid(Refusal.NOT_AUTHORISED, "revoked")]
    assert not steering.steered


def test_one_that_does_not_know_the_topic_is_left_out_and_not_asked_at_once() -> None:
    steering = made()
    steering.link(0)
    answer(steering, 0, "a", members=("a",))
    said(steering)
    steering.hear(1, IDS["a"], Denial("t", "a", FIRST, Refusal.UNKNOWN, "no such topic here"))
    assert said(steering) == []
    assert steering.due == 1 + 100 * MILLISECOND
    steering.tick(steering.due)
    assert said(steering) == [probe(FIRST + 1)]
    answer(steering, SECOND, "a", members=("a",))
    steering.hear(SECOND, IDS["a"], Denial("t", "a", FIRST + 1, Refusal.UNKNOWN, "no such topic here"))
    assert steering.due == SECOND + 200 * MILLISECOND
    while steering.due < 5 * SECOND:
        steering.tick(steering.due)
    said(steering)
    steering.tick(steering.due)
    assert ReportTrouble("repository a of topic 't': no such topic here") in said(steering)


@pytest.mark.req("RD-21")
def test_a_repository_that_leaves_is_left() -> None:
    steering = steered("a")
    assert not steering.hear(0, IDS["a"], Migrate("t", "a"))
    assert said(steering) == [probe(FIRST + 1)]
    answer(steering, 1, "a")
    answer(steering, 2, "b")
    answer(steering, 3, "c")
    assert said(steering) == [recovery("b", FIRST + 1)]


def test_a_new_link_repeats_what_may_be_lost() -> None:
    steering = made()
    steering.link(0)
    steering.unlink()
    assert steering.due == NEVER
    steering.link(1)
    assert said(steering) == [probe(), probe()]
    answer(steering, 2, "a", members=("a",))
    steering.link(3)
    assert said(steering) == [recovery("a"), recovery("a")]
    assert accept(steering, 4, "a")
    said(steering)
    steering.unlink()
    steering.link(5)
    assert said(steering) == [recovery("a")], "it may have forgotten us"
    assert steering.steered
    assert accept(steering, 6, "a")
    assert said(steering) == []
    assert steering.due == NEVER


def test_one_that_says_that_it_is_there_is_waited_for() -> None:
    steering = made()
    steering.link(0)
    answer(steering, 1, "a", members=("a",))
    for turn in range(1, 20):
        now = 1 + turn * 250 * MILLISECOND
        steering.tick(now)
        assert steering.repository == "a"
        answer(steering, now + 1, "a")
    assert accept(steering, 20 * SECOND, "a")


# ---- going back


def moved(steering: Steering, now: int, name: str) -> None:
    """The repository that steers it fails, and another one takes its place."""
    steering.suspect(now, "it is dead")
    steering.tick(steering.due)
    answer(steering, now, name, members=(name,))
    assert accept(steering, now, name)
    said(steering)


def look(steering: Steering, *answers: tuple[str, int]) -> list[Effect]:
    """It looks around: these answer, after so many milliseconds each. What it does about it."""
    now = steering.due
    steering.tick(now)
    assert said(steering) == [probe(steering.attempt)]
    for name, delay in answers:
        answer(steering, now + delay * MILLISECOND, name)
    steering.tick(steering.due)
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
            steering.tick(now)
            answer(steering, now + MILLISECOND, "b", level=0)
            answer(steering, now + delay * MILLISECOND, "a", level=level)
            steering.tick(steering.due)
        assert steering.repository == "b"
        assert steering.due == NEVER


def test_it_does_not_look_for_one_that_is_no_member_any_more() -> None:
    steering = steered("a")
    moved(steering, SECOND, "b")
    steering.vouch(2 * SECOND, {"b": "keeper", "c": "keeper"})
    assert steering.due == NEVER


def test_who_is_moved_by_hand_goes_there_and_stays() -> None:
    steering = steered("a")
    assert not steering.hear(0, IDS["a"], Migrate("t", "a", "c"))
    assert said(steering) == [recovery("c", FIRST + 1)]
    assert accept(steering, 1, "c")
    assert steering.due == NEVER
    assert not steering.hear(2, IDS["c"], Migrate("t", "c", "stranger"))
    assert said(steering) == [ReportSteering("c", 7), probe(FIRST + 2)], "nobody vouches for that one"
