"""Subscriptions: in force, refused with a reason, counted, withdrawn."""

import pytest

from stentor.model.errors import Refusal
from stentor.model.ids import LinkId, SubscriptionId
from stentor.model.limits import Limits
from stentor.model.messages import Receipt, Subscription, Unsubscription
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.routes import RouteTable
from stentor.protocols.dissemination.subscriptions import SubscriptionList, Subscriptions


class Desk:
    """The subscriptions of a broker, and two clients who ask."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.table: RouteTable[Outbox] = RouteTable()
        self.subscriptions = Subscriptions(self.table, limits or Limits())
        self.outboxes = [Outbox(LinkId(number), 1000) for number in (0, 1)]
        self.wishes: list[SubscriptionList[Outbox]] = [SubscriptionList(), SubscriptionList()]

    def subscribe(self, number: int, pattern: str, where: str = "", client: int = 0) -> Receipt:
        message = Subscription(SubscriptionId(number), pattern, where)
        return self.subscriptions.subscribe(self.wishes[client], self.outboxes[client], message)

    def withdraw(self, client: int) -> None:
        self.subscriptions.withdraw(self.wishes[client], self.outboxes[client])

    def unsubscribe(self, number: int, client: int = 0) -> Receipt:
        return self.subscriptions.unsubscribe(self.wishes[client], Unsubscription(SubscriptionId(number)))


def test_a_subscription_is_confirmed_and_becomes_an_interest() -> None:
    desk = Desk()
    assert desk.subscribe(7, "a/#", "n > 1") == Receipt(SubscriptionId(7))
    (subscription,) = desk.table.subscriptions.values()
    assert (subscription.id, subscription.pattern, str(subscription.filter)) == (7, "a/#", "n > 1")
    assert subscription.destination is desk.outboxes[0]


def test_two_clients_may_use_one_number_each_for_its_own() -> None:
    desk = Desk()
    desk.subscribe(1, "a")
    assert desk.subscribe(1, "b", client=1).code is None
    assert sorted(each.pattern for each in desk.table.subscriptions.values()) == ["a", "b"]
    assert len({each.number for each in desk.table.subscriptions.values()}) == 2


@pytest.mark.parametrize(
    ("pattern", "where", "code", "reason"),
    [
        ("", "", Refusal.TOPIC, "must not be empty"),
        ("a/#/b", "", Refusal.TOPIC, "last level"),
        ("x" * 2000, "", Refusal.TOPIC, "at most"),
        ("a", "n >", Refusal.FILTER, "n >"),
        ("a", "a = 1 AND b = 2 OR c = 3", Refusal.FILTER, "parentheses"),
        ("a", "'" * 10_000, Refusal.FILTER, ""),
        ("a", "(" * 1000, Refusal.FILTER, ""),
    ],
)
def test_a_bad_one_is_refused_with_the_reason_and_leaves_nothing(
    pattern: str, where: str, code: Refusal, reason: str
) -> None:
    desk = Desk()
    receipt = desk.subscribe(3, pattern, where)
    assert (receipt.id, receipt.code) == (3, code)
    assert reason in receipt.reason
    assert desk.wishes[0] == {}
    assert desk.table.subscriptions == {}
    assert desk.subscriptions.refused == {code: 1}


def test_the_same_said_twice_is_in_force_once() -> None:
    desk = Desk()
    desk.subscribe(1, "a", "n > 1")
    assert desk.subscribe(1, "a", "n > 1") == Receipt(SubscriptionId(1))
    assert len(desk.table.subscriptions) == 1


def test_a_clients_last_word_on_a_number_counts() -> None:
    desk = Desk()
    desk.subscribe(1, "a")
    for pattern, where in (("b", ""), ("a", "n > 1")):
        assert desk.subscribe(1, pattern, where) == Receipt(SubscriptionId(1))
        (subscription,) = desk.table.subscriptions.values()
        assert (subscription.pattern, str(subscription.filter or "")) == (pattern, where)
    assert desk.subscribe(1, "a/#/b").code is Refusal.TOPIC
    assert len(desk.table.subscriptions) == 1, "what cannot be ends nothing"


def test_one_client_cannot_have_too_many() -> None:
    desk = Desk(Limits(subscriptions_per_client=2))
    assert [desk.subscribe(number, "a").code for number in (1, 2, 3)] == [None, None, Refusal.TOO_MANY]
    assert desk.subscribe(1, "a", client=1).code is None, "others are undisturbed"
    desk.unsubscribe(1)
    assert desk.subscribe(3, "a").code is None


def test_all_clients_together_cannot_have_too_many() -> None:
    desk = Desk(Limits(subscriptions=2))
    assert [desk.subscribe(1, "a", client=client).code for client in (0, 1)] == [None, None]
    assert desk.subscribe(2, "a").code is Refusal.TOO_MANY
    desk.withdraw(1)
    assert desk.subscribe(2, "a").code is None


def test_unsubscribing_is_confirmed_even_if_there_was_nothing() -> None:
    desk = Desk()
    desk.subscribe(1, "a/+")
    assert desk.unsubscribe(1) == Receipt(SubscriptionId(1))
    assert desk.table.subscriptions == {}
    assert desk.unsubscribe(1) == Receipt(SubscriptionId(1))
    assert desk.unsubscribe(99) == Receipt(SubscriptionId(99))


def test_a_client_that_is_gone_takes_its_wishes_with_it_and_no_others() -> None:
    desk = Desk()
    desk.subscribe(1, "a")
    desk.subscribe(2, "b/#")
    desk.subscribe(1, "c", client=1)
    desk.withdraw(0)
    assert desk.wishes[0] == {}
    assert [each.pattern for each in desk.table.subscriptions.values()] == ["c"]


def test_many_filters_of_a_client_that_is_gone_go_little_by_little() -> None:
    desk = Desk()
    for number in range(100):
        desk.subscribe(number, "a", f"n > {number}")
    desk.subscribe(200, "a")
    desk.withdraw(0)
    assert desk.wishes[0] == {}
    assert len(desk.table.subscriptions) == 68
    assert desk.subscriptions.tidy(60)
    assert not desk.subscriptions.tidy(60)
    assert desk.table.subscriptions == {}


@pytest.mark.parametrize("where", ["EXISTS 5.", "EXISTS 5.5a", "a = 'x", "\x00", "((((", "a LIKE 5", "5.5.5"])
def test_whatever_a_filter_is_not_it_is_refused(where: str) -> None:
    assert Desk().subscribe(1, "a", where).code is Refusal.FILTER


def like(first: int, count: int) -> list[str]:
    return [f"name LIKE '%x{number}%'" for number in range(first, first + count)]


def taken(desk: Desk, first: int, count: int, client: int = 0) -> int:
    """How many of so many filters are taken that have to be evaluated; the first that are, and no others."""
    wishes = like(first, count)
    codes = [desk.subscribe(first + number, "t", where, client).code for number, where in enumerate(wishes)]
    some = codes.count(None)
    assert codes == [None] * some + [Refusal.TOO_MANY] * (count - some)
    return some


def test_too_many_filters_that_are_evaluated_for_the_same_events_are_refused() -> None:
    desk = Desk(Limits(evaluation=0.002))
    assert 0 < taken(desk, 0, 300) < 300
    assert desk.subscribe(1000, "t", "name = 'x'").code is None, "what has a key needs no evaluation"
    assert desk.subscribe(1001, "t", like(5, 1)[0]).code is None, "what is evaluated anyway costs nothing more"
    desk.unsubscribe(2)
    desk.unsubscribe(3)
    assert desk.subscribe(2000, "t", like(1000, 1)[0]).code is None
    desk.withdraw(0)
    while desk.subscriptions.tidy(1):
        pass
    filed = desk.table.filed
    assert (filed.evaluated, filed.evaluated_for, filed.is_loaded) == (0, {}, False)


def test_one_client_leaves_others_their_share_of_evaluation() -> None:
    desk = Desk(Limits(evaluation=0.002))
    mine = taken(desk, 0, 300)
    theirs = taken(desk, 500, 300, client=1)
    assert 0.8 * mine <= theirs <= mine
    desk.withdraw(0)
    while desk.subscriptions.tidy(1):
        pass
    refusal = desk.subscribe(1, "t", like(999, 1)[0], client=1)
    assert refusal.code is Refusal.TOO_MANY, "it has its half"
    assert "evaluation in [limits]" in refusal.reason
    assert taken(desk, 0, 300) >= 0.8 * mine
