"""Damage: what a repository stored and cannot read is an error until it is mended, or an operator accepts it."""

import pytest
from tests.paper.bundle import TOPIC, PaperBundle
from tests.unit.storage.records import events

from stentor.machine import Opened, Scanned
from stentor.model.control import Persistent, RegistrationReceipt, TopicTask
from stentor.model.stored.record import LedgerContents, RecordHeader, RecordKind
from stentor.protocols.delivery.repository.service import ServiceState
from stentor.protocols.delivery.repository.storing.event_log import HORIZON
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream

HOUR = 3_600_000  # milliseconds


def lone() -> PaperBundle:
    """One repository, with five events of which the third is damaged when it begins again; nobody has got any."""
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    bundle.end("billing", "r1")
    for number in range(1, 6):
        bundle.publish(number, 1)
    rot(bundle, "r1", 3)
    return bundle


def rot(bundle: PaperBundle, name: str, number: int) -> None:
    """The record of one number rots, and the repository begins again."""
    bundle.kill(name)
    ledger = bundle.ledgers[name]
    ledger.damaged.add(next(sequence for sequence, first, _ in ledger.numbers() if first == number))
    bundle.start(name)
    bundle.pass_time(3000)


def delivered(bundle: PaperBundle, name: str = "billing") -> list[int]:
    told = [run for event in bundle.told(Persistent, name) for run in event.stretches]
    return [run.first + at for run in told for at in range(run.count)]


def lost(bundle: PaperBundle, name: str = "billing") -> set[tuple[int, int]]:
    return {span for event in bundle.told(Persistent, name) for held in event.lost for span in held.spans}


def stream_of(bundle: PaperBundle, name: str = "r1") -> PublisherStream:
    (stream,) = [each for each in bundle.repositories[name].log.streams.values() if each.highest_numbered]
    return stream


def test_readers_stop_in_front_of_what_is_damaged_and_nobody_gives_it_up() -> None:
    bundle = lone()
    bundle.clear()
    bundle.recover("subscriber", "billing", "r1", attempt=2, incarnation=6)
    bundle.pass_time(HOUR, 60_000)
    assert delivered(bundle) == [1, 2]
    repository = bundle.repositories["r1"]
    assert repository.health.damaged == 1
    assert "3 of shop" in repository.health.trouble
    assert "stentor repository accept-loss r1 --topic orders" in repository.health.trouble
    (report,) = repository.status(bundle.now)["damage"]
    assert (report.publisher, report.numbers) == ("shop", ((3, 3),))
    assert not [each for each in bundle.reports if each.what == "a gap is closed"]


def test_publishers_go_on_while_something_is_damaged() -> None:
    bundle = lone()
    bundle.recover("publisher", "shop", "r1", attempt=2, incarnation=9)
    bundle.publish(1, 2, incarnation=9)
    assert bundle.repositories["r1"].log.streams.event_count == 6


def test_damage_is_known_after_a_restart_too() -> None:
    bundle = lone()
    for _ in range(2):
        bundle.kill("r1")
        assert not bundle.ledgers["r1"].damaged, "what is left of it is written down"
        bundle.start("r1")
        bundle.pass_time(HOUR, 60_000)
        assert bundle.repositories["r1"].health.damaged == 1


def test_what_an_operator_accepts_is_passed_and_its_readers_are_told() -> None:
    bundle = lone()
    bundle.clear()
    bundle.recover("subscriber", "billing", "r1", attempt=2, incarnation=6)
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    bundle.pass_time(1000)
    assert [receipt.code for receipt in bundle.told(RegistrationReceipt)] == [None]
    assert delivered(bundle) == [1, 2, 4, 5]
    assert lost(bundle) == {(3, 3)}
    assert not bundle.repositories["r1"].health.trouble
    bundle.clear()
    bundle.kill("r1")
    bundle.start("r1")
    bundle.pass_time(3000)
    assert not bundle.repositories["r1"].health.trouble
    bundle.recover("subscriber", "billing", "r1", attempt=3, incarnation=7)
    assert lost(bundle) == {(3, 3)}, "its next life is told again"
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    assert "nothing of orders is damaged" in bundle.told(RegistrationReceipt)[-1].reason


def test_who_had_it_is_not_told_that_it_is_lost() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    for number in range(1, 6):
        bundle.publish(number, 1)
    bundle.acknowledge("billing", "r1", (1, bundle.repositories["r1"].log.horizon))
    rot(bundle, "r1", 3)
    bundle.recover("subscriber", "audit", "r1", since="beginning")
    assert bundle.repositories["r1"].health.damaged == 1
    bundle.clear()
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    bundle.recover("subscriber", "billing", "r1", attempt=2, incarnation=6)
    bundle.pass_time(1000)
    assert lost(bundle) == set()
    assert lost(bundle, "audit") == {(3, 3)}


def test_another_repository_mends_it_and_the_trouble_goes_by_itself() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    for number in range(1, 6):
        bundle.publish(number, 1)
    bundle.deaf.add("r2")
    rot(bundle, "r1", 3)
    assert bundle.repositories["r1"].health.damaged == 1
    bundle.deaf.clear()
    bundle.pass_time(3000)
    assert not bundle.repositories["r1"].health.damaged
    assert not bundle.repositories["r1"].health.trouble
    assert stream_of(bundle).durable.covers(1, 5)


def test_what_another_one_can_mend_is_not_given_up() -> None:
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 1)
    bundle.lazy.add("r1")
    stream = stream_of(bundle)
    record = next(each for each in bundle.ledgers["r1"].records.values() if each.line.kind is RecordKind.EVENTS)
    bundle.repositories["r1"].damage.on_scanned(Scanned(TOPIC, 0, [], [record.line]))
    assert stream.damaged.covers(1, 1)
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    assert "r2 can mend what is damaged" in bundle.told(RegistrationReceipt)[-1].reason


def forgotten_elsewhere() -> PaperBundle:
    """Billing lacks all of five events at r1, which has them; r2 has forgotten them. Then r1 cannot read the third."""
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    for number in range(1, 6):
        bundle.publish(number, 1)
    there = stream_of(bundle, "r2")
    there.forget(5)
    there.durable_floor = 5
    bundle.repositories["r2"].gossip.tell_all()
    bundle.pass_time(3000)
    stream = stream_of(bundle)
    assert (stream.floor, stream.peer_floors["r2"]) == (0, 5)
    record = next(each for each in bundle.ledgers["r1"].records.values() if each.line.first == 3)
    bundle.ledgers["r1"].damaged.add(record.line.sequence)
    bundle.repositories["r1"].damage.on_scanned(Scanned(TOPIC, 0, [], [record.line]))
    assert stream.damaged.pairs() == ((3, 3),)
    return bundle


def test_what_is_damaged_and_others_have_forgotten_is_passed() -> None:
    bundle = forgotten_elsewhere()
    bundle.pass_time(3000)
    stream = stream_of(bundle)
    assert not stream.damaged
    assert stream.skipped.covers(3, 3)
    assert not bundle.repositories["r1"].health.trouble


def test_whoever_has_forgotten_what_is_damaged_cannot_mend_it() -> None:
    bundle = forgotten_elsewhere()
    bundle.repositories["r1"].damage.accept()
    assert stream_of(bundle).written_off.pairs() == ((3, 3),)


@pytest.mark.parametrize("number", [1, 2])  # behind which the other one has something, or nothing
def test_others_do_not_give_up_what_one_has_damaged_until_it_is_accepted(number: int) -> None:
    bundle = PaperBundle("r1", "r2", copies=1)
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r2")
    bundle.deaf.add("r2")
    bundle.publish(1, 1, "r1")
    bundle.publish(2, 1, "r1")
    rot(bundle, "r1", number)
    bundle.deaf.clear()
    bundle.pass_time(60_000, 200)
    assert not stream_of(bundle, "r2").voids
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    bundle.pass_time(3000)
    for name in ("r1", "r2"):
        assert stream_of(bundle, name).voids.pairs() == ((number, number),)
    assert lost(bundle) == {(number, number)}, "readers at another repository are told as well"


def test_what_nobody_needs_any_more_is_no_trouble() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    for number in range(1, 6):
        bundle.publish(number, 1)
    bundle.acknowledge("billing", "r1", (1, bundle.repositories["r1"].log.horizon))
    rot(bundle, "r1", 1)
    assert bundle.repositories["r1"].health.damaged == 1, "it would be kept for a day"
    bundle.pass_time(26 * HOUR, 60_000)
    assert stream_of(bundle).floor == 5
    assert not bundle.repositories["r1"].health.trouble


def test_readers_pass_what_is_damaged_and_forgotten_elsewhere() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    for number in range(1, 6):
        bundle.publish(number, 1)
    log, stream = bundle.repositories["r1"].log, stream_of(bundle)
    stream.forget(3)
    log.unwritten.mark_floor(stream)
    bundle.publish(6, 1)
    ledger = bundle.ledgers["r1"]
    ledger.facts[HORIZON] = b"%d" % (ledger.numbers()[0][0])  # as if others had not had more until then
    rot(bundle, "r1", 3)
    log = bundle.repositories["r1"].log
    assert log.horizon == log.next - 1
    assert not ledger.damaged, "it is not found again and again"
    assert not bundle.repositories["r1"].health.trouble


def test_a_record_of_which_nothing_is_left_stops_readers_until_it_is_accepted() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    bundle.end("billing", "r1")
    for number in range(1, 6):
        bundle.publish(number, 1)
    bundle.kill("r1")
    ledger = bundle.ledgers["r1"]
    sequence = ledger.numbers()[2][0]
    ledger.records[sequence] = events(sequence)._replace(line=RecordHeader(sequence, 1, 0, 0, 0, RecordKind.RESERVED))
    bundle.start("r1")
    bundle.pass_time(HOUR, 60_000)
    bundle.clear()
    bundle.recover("subscriber", "billing", "r1", attempt=2, incarnation=6)
    assert delivered(bundle) == [1, 2]
    assert f"sequence {sequence}" in bundle.repositories["r1"].health.trouble
    bundle.owner("r1", TopicTask.ACCEPT_LOSS)
    bundle.pass_time(1000)
    assert delivered(bundle) == [1, 2, 4, 5]
    assert lost(bundle) == {(3, 3)}
    assert not bundle.repositories["r1"].health.trouble


def test_a_ledger_that_cannot_be_read_is_a_trouble_and_is_tried_again() -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    repository = bundle.repositories["r1"]
    repository.damage.on_scanned(Scanned(TOPIC, 0, [], [], "malformed"))
    assert repository.health.trouble == "malformed"
    repository.damage.on_scanned(Scanned(TOPIC, 0, [], []))
    assert not repository.health.trouble


@pytest.mark.parametrize("reason", ["malformed"])
def test_a_tail_that_cannot_be_read_is_read_later(reason: str) -> None:
    bundle = PaperBundle("r1")
    bundle.recover("publisher", "shop", "r1")
    bundle.publish(1, 3)
    contents = bundle.ledgers["r1"].load()
    contents.facts.pop("local/horizon", None)
    bundle.start("r1")
    repository = bundle.repositories["r1"]
    repository.state.service._enter(ServiceState.OPENING)
    repository.step(bundle.now, Opened(TOPIC, LedgerContents(), reason))
    assert repository.health.trouble == reason
    bundle.pass_time(100)
    assert repository.is_open
    assert not repository.health.trouble
