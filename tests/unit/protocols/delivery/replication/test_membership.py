"""Which repositories one counts on, and what it may do when they are silent."""

import pytest
from tests.paper.bundle import PaperBundle

from stentor.model.control import RepositoryAck, TopicTask


def settled() -> PaperBundle:
    """Three repositories, of which the third has heard nothing of events 4 to 6, which are acknowledged."""
    bundle = PaperBundle("r1", "r2", "r3")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    bundle.pass_time(1000)
    bundle.deaf.add("r3")
    bundle.publish(4, 3, "r1", "r2")
    assert acknowledged(bundle) == 6
    return bundle


def acknowledged(bundle: PaperBundle) -> int:
    return max(ack.upto for ack in bundle.told(RepositoryAck, "shop"))


def ready(bundle: PaperBundle, name: str) -> bool:
    return bundle.repositories[name].gossip.ready


@pytest.mark.req("RD-15")
def test_one_that_begins_again_alone_waits_for_those_that_may_have_gone_on_without_it() -> None:
    bundle = settled()
    for name in ("r1", "r2", "r3"):
        bundle.kill(name)
    bundle.deaf.clear()
    bundle.start("r3")
    bundle.pass_time(20_000)
    assert not ready(bundle, "r3")
    bundle.start("r1")
    bundle.pass_time(1000)
    assert not ready(bundle, "r3"), "r2 may have gone on without both"
    bundle.start("r2")
    bundle.pass_time(1000)
    assert ready(bundle, "r3")
    assert bundle.ledgers["r3"].numbers()[-1][1] == 4


@pytest.mark.req("RD-20")
def test_one_that_joins_waits_for_members_that_were_never_heard_if_nobody_has_caught_up() -> None:
    bundle = settled()
    for name in ("r1", "r2", "r3"):
        bundle.kill(name)
    bundle.deaf.clear()
    bundle.add("r4")
    bundle.pass_time(10_000)
    bundle.start("r3")
    bundle.owner("r3", TopicTask.ADD_REPOSITORY, repositories=("r4",))
    bundle.pass_time(10_000)
    assert not ready(bundle, "r4"), "r1 and r2 have gone on without the one that it hears"
    bundle.kill("r4")
    bundle.start("r4")
    bundle.pass_time(10_000)
    assert not ready(bundle, "r4"), "it has written down on whom it counts"
    bundle.start("r1")
    bundle.start("r2")
    bundle.pass_time(1000)
    assert ready(bundle, "r4")


def test_it_does_not_wait_for_ever() -> None:
    bundle = settled()
    for name in ("r1", "r2", "r3"):
        bundle.kill(name)
    bundle.deaf.clear()
    bundle.start("r3")
    bundle.pass_time(31_000)
    assert ready(bundle, "r3")


def test_the_last_one_that_went_on_need_not_wait_for_the_others() -> None:
    bundle = settled()
    bundle.kill("r2")
    bundle.kill("r3")
    bundle.pass_time(11_000)
    bundle.kill("r1")
    bundle.start("r1")
    bundle.pass_time(6000)
    assert ready(bundle, "r1")


def test_one_that_went_on_says_so_to_one_that_begins_again() -> None:
    bundle = settled()
    bundle.kill("r2")
    bundle.kill("r3")
    bundle.deaf.clear()
    bundle.pass_time(11_000)
    bundle.start("r3")
    bundle.pass_time(6000)
    assert ready(bundle, "r3"), "r1 has all there is"


def test_fewer_copies_are_enough_only_when_others_are_silent_for_long_and_that_is_written_down() -> None:
    bundle = settled()
    bundle.kill("r2")
    bundle.kill("r3")
    bundle.pass_time(5000)
    bundle.publish(7, 1)
    bundle.pass_time(4000)
    assert acknowledged(bundle) == 6
    bundle.lazy.add("r1")
    bundle.pass_time(3000)
    assert acknowledged(bundle) == 6
    bundle.write("r1")
    bundle.pass_time(1000)
    assert acknowledged(bundle) == 7


def test_a_gap_is_not_given_up_when_one_comes_back_that_may_fill_it() -> None:
    bundle = settled()
    bundle.kill("r1")
    bundle.kill("r2")
    bundle.deaf.clear()
    bundle.publish(7, 1)
    bundle.recover("publisher", "shop", "r3", attempt=2, incarnation=6)
    bundle.pass_time(25_000)
    bundle.start("r1")
    bundle.start("r2")
    bundle.pass_time(1000)
    assert not [report for report in bundle.reports if report.what == "a gap is closed"]
    assert [first for _, first, _ in bundle.ledgers["r3"].numbers()] == [1, 4, 7]
