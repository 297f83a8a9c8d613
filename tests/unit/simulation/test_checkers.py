"""The checkers, and the oracle that they are fed with."""

from random import Random

import pytest

from stentor.model.attribute import Value
from stentor.model.control import RegistrationReceipt
from stentor.model.errors import Refusal
from stentor.model.filter import Filter
from stentor.model.topic import matches
from stentor.simulation.checkers.delivery_oracle import DeliveryOracle, ReceivedEvent, SubscriptionChecker
from stentor.simulation.checkers.pending_requests import PendingRequests
from stentor.simulation.clients.client_history import ActivePeriods
from stentor.simulation.clients.workload import CONDITIONS, PATTERNS, TOPICS, covers, draw_attributes
from stentor.simulation.outcome import Anomaly


class Bench:
    def __init__(self) -> None:
        self.anomalies: list[Anomaly] = []
        self.oracle = DeliveryOracle(self.anomalies)
        self.reader = SubscriptionChecker("reader", lambda topic, attributes: topic == "t" and attributes.get("n") != 9)
        for number in (1, 2, 3):
            self.oracle.publish("p.1", "t", {"n": number}, b"%d" % number, number)

    def deliver(self, number: int, *, topic: str = "t", body: bytes | None = None, n: Value | None = None) -> list[str]:
        """What the ledger finds wrong with the n-th event, changed in some way."""
        self.anomalies.clear()
        attributes = {"n": number if n is None else n}
        self.oracle.deliver(self.reader, ReceivedEvent(topic, attributes, body or b"%d" % number, 7, 1, number))
        return [anomaly.kind for anomaly in self.anomalies]


def test_events_in_order_are_fine_gaps_included() -> None:
    bench = Bench()
    assert bench.deliver(1) == bench.deliver(3) == []
    assert [event.body for event in bench.reader.missing(bench.oracle.events.values())] == [b"2"]


def test_a_changed_topic_attribute_type_or_body_is_corrupt() -> None:
    bench = Bench()
    assert bench.deliver(1, topic="u") == ["corrupt"]
    assert bench.deliver(1, n=2) == ["corrupt"]
    assert bench.deliver(1, n=1.0) == ["corrupt"]
    assert bench.deliver(1, n=True) == ["corrupt"]
    assert bench.deliver(1, body=b"x") == ["corrupt"]


def test_repetition_disorder_and_what_nobody_asked_for_are_told_apart() -> None:
    bench = Bench()
    bench.deliver(1)
    assert bench.deliver(1) == ["duplicate"]
    bench.deliver(3)
    assert bench.deliver(2) == ["nonmonotonic-poll"]
    bench.oracle.publish("p.1", "t", {"n": 9}, b"9", 9)
    assert bench.deliver(9) == ["unasked"]


def test_one_number_for_two_events_is_inconsistent() -> None:
    bench = Bench()
    bench.deliver(1)
    bench.oracle.publish("p.2", "t", {"n": 1}, b"other", 5)
    assert bench.deliver(1, body=b"other") == ["inconsistent-offsets", "nonmonotonic-poll"]


def test_sessions_cover_what_lies_in_one_of_them() -> None:
    sessions = ActivePeriods()
    assert not sessions.open
    sessions.begin(10)
    sessions.end(20)
    sessions.begin(30)
    assert sessions.open
    assert sessions.cover(10, 20)
    assert sessions.cover(30, 99)
    assert not sessions.cover(15, 35)
    assert not sessions.cover(5, 12)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_oracle_of_patterns_agrees_with_the_matching(pattern: str) -> None:
    assert [covers(pattern, topic) for topic in TOPICS] == [matches(pattern, topic) for topic in TOPICS]


@pytest.mark.parametrize("condition", CONDITIONS, ids=[condition.text for condition in CONDITIONS])
def test_the_oracle_of_filters_agrees_with_the_filter(condition: object) -> None:
    assert isinstance(condition, type(CONDITIONS[0]))
    random, where = Random(1), Filter(condition.text)
    drawn = [draw_attributes(random) for _ in range(300)]
    outcomes = [condition.holds(attributes) for attributes in drawn]
    assert outcomes == [where.matches(attributes) for attributes in drawn]
    assert True in outcomes
    assert False in outcomes


def test_a_receipt_is_about_what_was_registered_when_the_owner_asked_for_it_and_not_when_it_asked_again() -> None:
    requests, receipt = PendingRequests(), RegistrationReceipt("t", "r1", token=7)
    requests.add(7, ("member/r2",))
    requests.add(7, ("member/r2", "subscription/billing"))
    assert requests.take(receipt) == ("member/r2",)
    assert requests.take(receipt) == ("member/r2", "subscription/billing"), "the owner has two receipts"


def test_a_refusal_answers_the_last_request() -> None:
    requests = PendingRequests()
    requests.add(7, ("member/r2",))
    requests.add(7, ("member/r2", "subscription/billing"))
    requests.take(RegistrationReceipt("t", "r1", token=7, code=Refusal.BUSY))
    assert requests.take(RegistrationReceipt("t", "r1", token=7)) == ("member/r2",)
