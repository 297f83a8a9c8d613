"""An epoch is a number of one repository: another one translates it, or says what it knows."""

import pytest
from tests.paper.bundle import TOPIC, PaperBundle, block

from stentor.client.reliable_subscription import since_of
from stentor.model.control import Denial, Persistent, Recovery, Rectify, TopicTask
from stentor.model.errors import InvalidInput, Refusal
from stentor.model.stored.epoch import Epoch
from stentor.model.stored.record import RecordKind

pytestmark = pytest.mark.req("GE-13")

Event = tuple[int, int]  # incarnation and number


def two_orders() -> PaperBundle:
    """Two lives of a publisher, which goes on with both, sent three events each; r1 has stored those of the first life
    first, r2 the others.
    """
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.say("publisher", "shop", Recovery(TOPIC, "shop", "publisher", 1, "", 5, resumes=True), "r1")
    bundle.recover("publisher", "shop", "r1", attempt=2, incarnation=6)
    for name, lives in (("r1", (5, 6)), ("r2", (6, 5))):
        for life in lives:
            bundle.publish(1, 3, name, incarnation=life)
    bundle.pass_time(1000)
    bundle.clear()
    return bundle


def number_of(bundle: PaperBundle, name: str, life: int, number: int) -> int:
    lines = [record.line for record in bundle.ledgers[name].records.values() if record.line.kind is RecordKind.EVENTS]
    (line,) = [each for each in lines if each.incarnation == life and each.first <= number <= each.last]
    return line.sequence + number - line.first


def begin(bundle: PaperBundle, name: str, since: str) -> list[Event]:
    """What a new subscriber is told of by a repository."""
    bundle.recover("subscriber", "audit", name, since=since)
    bundle.pass_time(500)
    told: list[Persistent | Rectify] = [*bundle.told(Persistent, "audit"), *bundle.told(Rectify, "audit")]
    events = (
        (each.incarnation, each.first + offset)
        for event in told
        for each in event.stretches
        for offset in range(each.count)
    )
    return sorted(set(events))


@pytest.mark.parametrize("asked", ["r1", "r2"])
@pytest.mark.parametrize(
    ("life", "number", "expected"),
    [(5, 2, [(5, 2), (5, 3), (6, 1), (6, 2), (6, 3)]), (6, 1, [(6, 1), (6, 2), (6, 3)]), (6, 3, [(6, 3)])],
)
def test_a_new_name_begins_with_the_event_that_has_this_number_wherever_it_asks(
    asked: str, life: int, number: int, expected: list[Event]
) -> None:
    bundle = two_orders()
    assert number_of(bundle, "r1", 6, 1) != number_of(bundle, "r2", 6, 1)
    assert begin(bundle, asked, f"epoch r1:{number_of(bundle, 'r1', life, number)}") == expected


def test_what_the_repository_had_not_stored_yet_is_behind_every_epoch() -> None:
    bundle = two_orders()
    bundle.kill("r1")
    bundle.pass_time(12_000)
    bundle.publish(4, 2, "r2", incarnation=5)
    assert begin(bundle, "r2", f"epoch r1:{number_of(bundle, 'r1', 6, 3)}") == [(5, 4), (5, 5), (6, 3)]


def test_an_event_that_came_late_is_behind_an_epoch_although_its_number_is_low() -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.arrive(block(1))
    bundle.arrive(block(3))
    bundle.order(1, 3)
    bundle.pass_time(35_000)
    assert [report for report in bundle.reports if report.what == "a gap is closed"]
    bundle.retransmit(2, 1)
    bundle.pass_time(1000)
    bundle.clear()
    late = number_of(bundle, "r1", 5, 2)
    assert late > number_of(bundle, "r1", 5, 3)
    assert (5, 2) in begin(bundle, "r2", f"epoch r1:{late}")


def test_a_bare_number_is_refused_where_there_are_several_repositories() -> None:
    bundle = two_orders()
    assert begin(bundle, "r2", "epoch 12") == []
    (denial,) = bundle.told(Denial, "audit")
    assert denial.code is Refusal.PROTOCOL
    assert denial.reason == (
        "12 is a number of which repository? orders is on r1, r2, and each has its own numbers: write r1:12"
    )


def test_a_bare_number_is_that_of_the_only_repository() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    assert begin(bundle, "r1", f"epoch {number_of(bundle, 'r1', 5, 2)}") == [(5, 2), (5, 3)]


@pytest.mark.parametrize("since", ["epoch r1:1", "time 1"])
def test_what_waits_to_be_written_is_behind_every_beginning(since: str) -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.lazy.add("r1")
    bundle.publish(1, 3)
    bundle.recover("subscriber", "audit", "r1", since=since)
    bundle.lazy.clear()
    bundle.write("r1")
    assert begin(bundle, "r1", since) == [(5, 1), (5, 2), (5, 3)]


@pytest.mark.parametrize("beginning", ["epoch r1:{}", "time 1"])
def test_what_is_found_to_be_damaged_is_not_left_out_of_a_beginning(beginning: str) -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    for number in range(1, 4):
        bundle.publish(number, 1)
    bundle.clear()
    first = number_of(bundle, "r1", 5, 1)
    bundle.ledgers["r1"].damaged.add(first)
    assert begin(bundle, "r1", beginning.format(first)) == [(5, 1), (5, 2), (5, 3)]


def test_a_beginning_is_not_guessed_if_the_ledger_cannot_be_read() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    bundle.unreadable.add("r1")
    assert begin(bundle, "r1", "epoch r1:1") == []
    bundle.unreadable.clear()
    assert begin(bundle, "r1", "epoch r1:1") == [(5, 1), (5, 2), (5, 3)]


def test_a_number_that_was_not_given_yet_is_refused() -> None:
    bundle = two_orders()
    begin(bundle, "r1", "epoch r1:100")
    (denial,) = bundle.told(Denial, "audit")
    assert denial.reason == f"r1:100 is none yet: the next number of r1 is {bundle.repositories['r1'].log.next}"


def test_a_number_of_a_repository_that_is_none_is_refused() -> None:
    bundle = two_orders()
    begin(bundle, "r2", "epoch r9:12")
    assert [denial.reason for denial in bundle.told(Denial, "audit")] == ["r9 is no repository of orders: r1, r2"]


def joined_later() -> PaperBundle:
    """r1 has five events, and r2 got them from it."""
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 5)
    bundle.add("r2")
    bundle.owner("r1", TopicTask.ADD_REPOSITORY, repositories=("r2",))
    bundle.pass_time(6000)
    return bundle


@pytest.mark.req("GE-11")
def test_who_takes_events_over_knows_their_epochs() -> None:
    bundle = joined_later()
    assert begin(bundle, "r2", f"epoch r1:{number_of(bundle, 'r1', 5, 3)}") == [(5, 3), (5, 4), (5, 5)]


def test_one_that_has_forgotten_the_numbers_of_others_says_which_it_knows() -> None:
    bundle = joined_later()
    bundle.kill("r2")
    bundle.start("r2")  # whose ledger has no repository table
    bundle.pass_time(6000)
    begin(bundle, "r2", f"epoch r1:{number_of(bundle, 'r1', 5, 3)}")
    bundle.publish(6, 2)
    bundle.recover("subscriber", "audit", "r2", attempt=2, since=f"epoch r1:{number_of(bundle, 'r1', 5, 3)}")
    nothing, something = [denial.reason for denial in bundle.told(Denial, "audit")]
    first, last = (number_of(bundle, "r1", 5, number) for number in (6, 7))
    assert nothing.endswith("of the numbers of r1 it knows none")
    assert something.endswith(f"of the numbers of r1 it knows those from {first} to {last}")
    bundle.clear()
    assert begin(bundle, "r2", f"epoch r1:{last}") == [(5, 7)]


@pytest.mark.parametrize("from_", ["r1:107", "107", 107])
def test_programs_name_epochs_as_they_are_printed(from_: str | int) -> None:
    assert since_of(from_) == f"epoch {from_}"
    assert str(Epoch.parse(str(from_))) == str(from_)


@pytest.mark.parametrize("from_", ["r1:", ":107", "r1:107:2", "later", True, -3, "r/1:7"])
def test_what_is_no_beginning_is_refused_with_the_form_that_is_one(from_: str | int) -> None:
    with pytest.raises(InvalidInput, match="an epoch such as 'r1:107'"):
        since_of(from_)
