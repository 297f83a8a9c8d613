"""Whoever mail is sent to is a subscriber from then on, in the commit that makes the mail durable."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stentor.machine import SECOND, Commit, Committed, Effect, Input, Opened, Report, Scan, Scanned, TimerFired
from stentor.model.attribute import Kind, Schema
from stentor.model.communication import Role, end_name
from stentor.model.control import (
    ControlEvent,
    Persistent,
    PublisherOrder,
    Recovery,
    RepositoryAck,
    Retransmission,
    SubscriberNak,
)
from stentor.model.errors import Refused
from stentor.model.filter import Filter
from stentor.model.ids import CatenationNumber, Incarnation, publisher_id, topic_id
from stentor.model.mail import MAIL, address_of, mail_filter, recipients_of
from stentor.model.stored.record import Fact, Record
from stentor.model.trust.access import TopicTerms
from stentor.protocols.delivery.repository.repository import TopicRepository, TopicTick
from stentor.protocols.delivery.repository.serving import mailboxes
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import (
    AccessShared,
    EventsReceived,
    Founded,
    LetterReceived,
    LinkUp,
    SendLetter,
    ShareAccess,
)
from stentor.simulation.disk import SimulatedDisk
from stentor.storage.segments import SegmentLedger
from stentor.wire.block import Block, Origin, encode

pytestmark = pytest.mark.req("GE-23")

SCHEMA = Schema(("to",), (Kind.STRING,))
SHOP = publisher_id("", end_name("publisher", "shop", MAIL))


class Office:
    """One repository that keeps mail, and whose disk does at once what it is told."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.now = SECOND
        self.commits: list[Commit] = []
        self.begin()
        self.say(
            "publisher",
            "shop",
            Recovery(MAIL, "shop", role="publisher", attempt=1, principal="", incarnation=Incarnation(1)),
        )
        self.wait(3)

    def begin(self) -> None:
        """A life of it."""
        self.ledger = SegmentLedger(self.disk, MAIL, 64 << 10)
        self.repository = TopicRepository(MAIL, RepositorySettings(name="r"))
        self.tell(Opened(MAIL, self.ledger.load()), LinkUp("keeper"), Founded(TopicTerms("keeper", 1)))
        self.wait(3)

    def tell(self, *happened: Input) -> list[Effect]:
        queue, rest = list(happened), list[Effect]()
        while queue:
            for effect in self.repository.step(self.now, queue.pop(0)):
                if isinstance(effect, Commit):
                    self.commits.append(effect)
                    self.ledger.commit(effect.entries)
                    queue.append(Committed(MAIL, effect.token))
                elif isinstance(effect, Scan):
                    found = self.ledger.scan(effect.first, effect.budget)
                    queue.append(Scanned(MAIL, effect.token, found.records, found.damaged))
                elif isinstance(effect, ShareAccess):
                    queue.append(AccessShared(effect.topic, effect.token))
                else:
                    rest.append(effect)
        return rest

    def wait(self, seconds: int = 1) -> list[Effect]:
        self.now += seconds * SECOND
        return self.tell(TimerFired(TopicTick(MAIL)))

    def say(self, role: Role, name: str, event: ControlEvent) -> list[SendLetter]:
        sender = publisher_id("", end_name(role, name, MAIL))
        said = [*self.tell(LetterReceived(sender, [event])), *self.wait()]
        return [post for post in said if isinstance(post, SendLetter)]

    def send(self, first: int, *to: str) -> list[Effect]:
        """The shop sends events to these names."""
        origin = Origin(topic_id(MAIL), SHOP, Incarnation(1), CatenationNumber(first), 5)
        addresses = [address_of(name) for name in to]
        block = Block(encode(origin, SCHEMA, [addresses], [name.encode() for name in to]), SCHEMA)
        order = PublisherOrder(MAIL, "shop", incarnation=1, first=first, last=first + len(to) - 1)
        return [*self.tell(EventsReceived([block]), LetterReceived(SHOP, [order])), *self.wait()]

    def come(self, name: str, where: str = "") -> list[SendLetter]:
        recovery = Recovery(
            MAIL,
            name,
            role="subscriber",
            attempt=1,
            principal="",
            incarnation=Incarnation(1),
            where=where,
            since="beginning",
            asks=True,
        )
        return self.say("subscriber", name, recovery)


def bodies(posts: list[SendLetter]) -> list[bytes]:
    return [body for post in posts for block in post.blocks for body in block.bodies()]


def told(posts: list[SendLetter]) -> list[int]:
    """The sequence numbers that somebody is told of."""
    events = [event for post in posts for event in post.events if isinstance(event, Persistent)]
    return [each.sequence + place for event in events for each in event.stretches for place in range(each.count)]


def test_a_recipient_is_written_down_with_the_first_mail_for_it() -> None:
    office = Office()
    office.commits.clear()
    office.send(1, "alice", "bob")
    committed = [[*each.entries] for each in office.commits]
    (entries,) = [each for each in committed if any(isinstance(entry, Record) and entry.frame for entry in each)]
    facts = {entry.key for entry in entries if isinstance(entry, Fact)}
    assert {"subscription/alice", "subscription/bob"} <= facts
    known = office.repository.registry.subscriptions
    office.send(3, "alice")
    assert office.repository.registry.subscriptions == known


def test_who_comes_later_or_after_a_restart_is_told_of_its_own_mail() -> None:
    office = Office()
    office.send(1, "alice", "bob", "alice")
    office.begin()
    posts = office.come("alice")
    mine = told(posts)
    assert len(mine) == 2
    nak = SubscriberNak(MAIL, "alice", attempt=1, missing=((mine[0], mine[-1]),))
    assert bodies(office.say("subscriber", "alice", nak)) == [b"alice", b"alice"], "what lies between is not for her"


@pytest.mark.parametrize("where", ["", "EXISTS to", mail_filter("bob")])
def test_whatever_a_recipient_asks_for_it_gets_its_own(where: str) -> None:
    office = Office()
    office.send(1, "bob", "alice", "bob")
    (mine,) = told(office.come("alice", where))
    every = SubscriberNak(MAIL, "alice", attempt=1, missing=((1, mine + 5),))
    posts = office.say("subscriber", "alice", every)
    assert [event for post in posts for event in post.events if isinstance(event, Retransmission)]
    assert bodies(posts) == [b"alice"]


def test_mail_for_more_names_than_can_be_kept_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailboxes, "MOST_NAMES", 3)
    office = Office()
    assert acknowledged(office.send(1, "alice", "bob", "carol")) == [3]
    effects = office.send(4, "dave")
    assert [each.what for each in effects if isinstance(each, Report) and each.level == "error"]
    assert not acknowledged(effects)
    assert sorted(office.repository.registry.subscriptions) == ["alice", "bob", "carol"]


def acknowledged(effects: list[Effect]) -> list[int]:
    events = [event for post in effects if isinstance(post, SendLetter) for event in post.events]
    return [event.upto for event in events if isinstance(event, RepositoryAck)][-1:]


def test_mail_is_not_read_at_rest_under_a_name() -> None:
    registry = Office().repository.registry
    with pytest.raises(Refused, match="read by whom it is for"):
        registry.check_reader(MAIL, "alice", "alice")
    registry.check_reader(MAIL, "", "keeper")  # who runs it can read its disk as well


@given(st.text(min_size=1, max_size=30).filter(str.isprintable), st.text(min_size=1, max_size=30))
def test_an_address_is_that_of_one_name_and_its_filter_takes_no_other(name: str, other: str) -> None:
    assert recipients_of([address_of(name)]) == {name: None}
    matches = Filter(mail_filter(name)).matches
    assert matches({"to": address_of(name)})
    assert name == other or not matches({"to": address_of(other)})


def test_what_is_no_address_is_for_nobody() -> None:
    assert recipients_of(["%61lice", None, 5, "", "x" * 300, "a%00b", "bob"]) == {"bob": None}
