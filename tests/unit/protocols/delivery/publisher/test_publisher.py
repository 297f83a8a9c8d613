"""The reliable publisher: numbers and orders, what is kept and sent again, who is told when something is stored."""

import pytest

from stentor.machine import MILLISECOND, SECOND, Effect, Input, StartTimer, TimerFired
from stentor.model.communication import bundle_of, end_name, inbox_of, repository_name
from stentor.model.control import (
    ControlEvent,
    Denial,
    Migrate,
    Probe,
    ProbeAnswer,
    PublisherOrder,
    Recovery,
    RecoveryResponse,
    RepositoryAck,
    RepositoryNak,
    Retransmission,
)
from stentor.model.errors import BodyTooLarge, Refusal, TopicError
from stentor.model.ids import Incarnation, publisher_id, topic_id
from stentor.model.reports.trace import TraceKind
from stentor.protocols.delivery.endpoint_api import (
    ConfirmDurable,
    DrawLife,
    DurabilityAwaited,
    LifeDrawn,
    Refuse,
    ReportSteering,
    ResumePublishing,
    TurnEnded,
)
from stentor.protocols.delivery.publisher.publisher import (
    PublisherSettings,
    PublisherTick,
    ReliablePublisher,
    Resumption,
)
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.transport import LetterReceived, LinkDown, LinkUp, Publish, SendLetter, Vouched
from stentor.wire import letter

REPOSITORY, ANOTHER = (publisher_id("keeper", repository_name(name)) for name in ("r", "s"))
LIFE = Incarnation(3)
BUNDLE = bundle_of("t")


class Bench:
    """A publisher, and the repository `r` as a script."""

    def __init__(self, settings: PublisherSettings | None = None, resumption: Resumption | None = None) -> None:
        self.publisher = ReliablePublisher("t", "me", LIFE, settings, resumption)
        self.timer = 0
        self.now = 0
        self.publisher.step(0, Vouched("t", {"r": "keeper", "s": "keeper"}))

    def step(self, happened: Input) -> list[Effect]:
        """What it does, without timers."""
        effects = self.publisher.step(self.now, happened)
        for effect in effects:
            if isinstance(effect, StartTimer):
                self.timer = effect.at
        return [effect for effect in effects if not isinstance(effect, StartTimer)]

    def wait(self) -> list[Effect]:
        """Until it does something by itself."""
        effects: list[Effect] = []
        while not effects and self.timer > self.now:
            self.now = self.timer
            effects = self.step(TimerFired(PublisherTick()))
        return effects

    def hear(self, *events: ControlEvent, sender: int = REPOSITORY) -> list[Effect]:
        return self.step(LetterReceived(sender, events))

    def link(self) -> list[Effect]:
        return self.step(LinkUp("alice"))

    def steer(self, copies: int = 1, members: tuple[str, ...] = ("r",)) -> list[Effect]:
        attempt = self.publisher.steering.attempt
        self.hear(ProbeAnswer("t", "r", attempt, True, ("r",)))
        return self.hear(RecoveryResponse("t", "r", attempt, copies, members))

    def send(self, *bodies: bytes) -> list[Effect]:
        for body in bodies:
            self.publisher.publish({}, body, 5)
        return self.step(TurnEnded())

    def ack(self, upto: int, singles: tuple[tuple[int, int], ...] = (), copies: tuple[int, ...] = ()) -> list[Effect]:
        return self.hear(RepositoryAck("t", "r", LIFE, upto, singles, copies))


def ready(settings: PublisherSettings | None = None, copies: int = 1) -> Bench:
    bench = Bench(settings)
    bench.link()
    bench.steer(copies)
    return bench


def order(first: int, last: int, acknowledged: int = 0) -> SendLetter:
    return SendLetter(BUNDLE, (PublisherOrder("t", "me", LIFE, first, last, acknowledged),))


def published(effects: list[Effect]) -> list[tuple[int, int]]:
    return [(each.block.catenation, each.block.last()) for each in effects if isinstance(each, Publish)]


def resent(effects: list[Effect]) -> list[list[tuple[int, int]]]:
    return [
        [(block.catenation, block.last()) for block in effect.blocks]
        for effect in effects
        if isinstance(effect, SendLetter) and effect.events == (Retransmission("t", "me"),) and effect.to == BUNDLE
    ]


@pytest.mark.req("RD-02")
def test_what_a_turn_brings_leaves_with_one_order() -> None:
    bench = ready()
    effects = bench.send(b"one", b"two")
    block = effects[0].block if isinstance(effects[0], Publish) else None
    assert block is not None
    assert block.bodies() == [b"one", b"two"]
    assert (block.catenation, block.incarnation, block.time) == (1, LIFE, 5)
    assert block.publisher == publisher_id("alice", end_name("publisher", "me", "t"))
    block.verify()
    assert effects[1:] == [order(1, 2)]
    bench.publisher.publish({"a": 1}, b"", 0)
    bench.publisher.publish({"a": "text"}, b"", 0)
    effects = bench.step(TurnEnded())
    assert published(effects) == [(3, 3), (4, 4)]
    assert effects[2:] == [order(3, 4)], "one for all frames of the turn"


def test_before_a_repository_steers_it_events_wait() -> None:
    bench = Bench()
    assert bench.send(b"1") == []
    bench.publisher.publish_many({}, [b"2", b"3"], 0)
    assert bench.step(TurnEnded()) == []
    linked = bench.link()
    assert published(linked) == [], "whether all may hear it is not known yet"
    assert [type(event) for each in linked if isinstance(each, SendLetter) for event in each.events] == [Probe]
    effects = bench.steer()
    assert published(effects) == [(1, 1), (2, 3)]
    assert effects[2] == order(1, 3)
    bench.step(LinkDown())
    assert bench.send(b"4") == []
    assert published(bench.link()) == [(4, 4)]


@pytest.mark.req("GE-21")
def test_what_is_held_in_a_unit_is_published_there_only() -> None:
    bench = Bench()
    bench.step(LinkUp("alice", "north/b1"))
    attempt = bench.publisher.steering.attempt
    bench.hear(ProbeAnswer("t", "r", attempt, True, ("r",)))
    bench.hear(RecoveryResponse("t", "r", attempt, 1, ("r",), within="north"))
    (publish,) = [each for each in bench.send(b"1") if isinstance(each, Publish)]
    assert publish.to == "$within/north/t"
    assert publish.block.topic == topic_id("$within/north/t")
    effects = bench.hear(RepositoryNak("t", "r", LIFE, ((1, 1),)))
    assert [(each.to, len(each.blocks)) for each in effects if isinstance(each, SendLetter)] == [
        ("$to/repository:r", 1)
    ]
    bench.step(LinkDown())
    assert published(bench.step(LinkUp("alice", "south/b2"))) == []
    assert published(bench.send(b"2")) == [], "until the storage of this unit steers it"
    assert bench.hear(RepositoryNak("t", "r", LIFE, ((1, 1),))) == []
    bench.hear(Denial("t", "r", attempt, Refusal.BUSY, "not here"))
    bench.wait()
    attempt = bench.publisher.steering.attempt
    bench.hear(ProbeAnswer("t", "s", attempt, True, ("s",)), sender=ANOTHER)
    effects = bench.hear(RecoveryResponse("t", "s", attempt, 1, ("s",), within="south"), sender=ANOTHER)
    assert [each.to for each in effects if isinstance(each, Publish)] == ["$within/south/t"]


def test_wrong_events_change_nothing() -> None:
    with pytest.raises(TopicError):
        ReliablePublisher("t/#", "me", LIFE)
    bench = ready()
    bench.publisher.limit(1 << 20)
    with pytest.raises(BodyTooLarge):
        bench.publisher.publish({}, bytes(1 << 20), 0)
    assert bench.step(TurnEnded()) == []
    bench.publisher.publish({}, bytes(bench.publisher.largest_body), 0)
    block = next(each.block for each in bench.step(TurnEnded()) if isinstance(each, Publish))
    assert len(letter.write([Retransmission("t", "me")], [block])) < 1 << 20, "it can be sent again"


@pytest.mark.req("RD-02", "RD-04")
def test_what_is_acknowledged_is_forgotten() -> None:
    bench = ready()
    for body in (b"1", b"2", b"3"):
        bench.send(body)
    bench.ack(0, singles=((2, 2),))
    assert resent(bench.hear(RepositoryNak("t", "r", LIFE, ((1, 3),)))) == [[(1, 1), (3, 3)]]
    bench.ack(3)
    assert bench.publisher.unacked.size == 0
    assert resent(bench.hear(RepositoryNak("t", "r", LIFE, ((1, 3),)))) == []


@pytest.mark.req("RD-04", "RD-17")
def test_exactly_what_is_missing_is_sent_again_to_the_whole_bundle() -> None:
    bench = ready(PublisherSettings(letter=1000))
    for _ in range(6):
        bench.send(*[bytes(200)] * 2)
    effects = bench.hear(RepositoryNak("t", "r", LIFE, ((4, 4), (7, 9))), RepositoryNak("t", "r", LIFE, ((3, 3),)))
    assert resent(effects) == [[(3, 4), (7, 8)], [(9, 10)]], "letters are not too large"
    assert resent(bench.hear(RepositoryNak("t", "r", LIFE - 1, ((1, 2),)))) == [], "of an earlier life"
    assert resent(bench.hear(RepositoryNak("t", "r", LIFE, ((1, 2),)), sender=5)) == [], "somebody else"
    assert resent(bench.hear(RepositoryNak("t", "q", LIFE, ((1, 2),)))) == [], "one that does not steer us"


def test_who_waits_is_told_when_all_before_is_stored() -> None:
    bench = ready(copies=2)
    assert bench.step(DurabilityAwaited(1)) == [ConfirmDurable(1, 0)]
    bench.publisher.publish({}, b"1", 0)
    effects = bench.step(DurabilityAwaited(2))
    assert effects[1:] == [order(1, 1)]
    bench.send(b"2")
    assert bench.step(DurabilityAwaited(3)) == []
    assert bench.step(DurabilityAwaited(4, copies=3)) == []
    assert bench.ack(0, singles=((2, 2),)) == []
    assert bench.ack(1, copies=(2, 1)) == [ConfirmDurable(2, 2)]
    assert bench.ack(2, copies=(2, 2, 1)) == [ConfirmDurable(3, 2)]
    assert bench.ack(2, copies=(2, 2, 2)) == [ConfirmDurable(4, 3)]
    assert bench.step(DurabilityAwaited(5, copies=3)) == [ConfirmDurable(5, 3)]


def test_fewer_copies_than_asked_for_are_told() -> None:
    bench = ready(copies=2)
    bench.send(b"1")
    bench.step(DurabilityAwaited(1))
    assert bench.ack(1, copies=(1, 0)) == [ConfirmDurable(1, 1)]


def test_who_asked_for_more_copies_asks_again() -> None:
    bench = ready()
    bench.send(b"1")
    bench.step(DurabilityAwaited(1, copies=2))
    assert bench.ack(1, copies=(1,)) == []
    assert bench.wait() == [order(1, 1, acknowledged=1)]
    assert bench.ack(1, copies=(1, 1)) == [ConfirmDurable(1, 2)]


def test_what_has_left_is_bounded_and_the_rest_waits() -> None:
    bench = ready(PublisherSettings(window_events=4))
    assert published(bench.send(b"1", b"2", b"3")) == [(1, 3)]
    assert published(bench.send(b"4", b"5")) == [(4, 5)]
    assert published(bench.send(b"6", b"7")) == []
    assert published(bench.send(b"8")) == []
    effects = bench.ack(3)
    assert published(effects) == [(6, 8)]
    assert effects[1:] == [order(6, 8, acknowledged=3)]


def test_a_full_buffer_makes_the_application_wait() -> None:
    bench = ready(PublisherSettings(buffer=10_000, window=4_000))
    sent = 0
    while bench.publisher.room:
        bench.send(bytes(1000))
        sent += 1
    assert 9 <= sent <= 11
    effects: list[Effect] = []
    upto = 0
    while ResumePublishing() not in effects:
        upto += 1
        effects = bench.ack(upto)
    assert 4 <= upto <= sent
    assert bench.publisher.room


@pytest.mark.req("RD-19")
def test_silence_repeats_the_order_then_another_repository_is_looked_for() -> None:
    bench = ready()
    bench.send(b"1")
    bench.send(b"2")
    assert bench.wait() == [order(1, 2)]
    assert bench.now == 300 * MILLISECOND
    assert bench.wait() == [order(1, 2)]
    assert bench.now == 900 * MILLISECOND
    attempt = bench.publisher.steering.attempt
    assert bench.wait() == [SendLetter(BUNDLE, (Probe("t", "me", "publisher", attempt + 1),))]
    assert bench.now == 2100 * MILLISECOND
    bench.ack(2)
    assert bench.publisher.unacked.events == 2, "it does not steer us any more"
    assert bench.steer() == [ReportSteering("r"), order(1, 2)][::-1], "RD-28: so that it notices what it lacks"


def test_progress_makes_patient() -> None:
    bench = ready()
    bench.send(b"1", b"2", b"3")
    bench.wait()
    bench.wait()
    bench.hear(RepositoryNak("t", "r", LIFE, ((3, 3),)))
    assert bench.wait() == [order(1, 3)], "it is there, at least"
    bench.ack(2)
    start = bench.now
    assert bench.wait() == [order(3, 3, acknowledged=2)]
    assert bench.now == start + 300 * MILLISECOND
    bench.ack(3)
    assert bench.wait() == []


@pytest.mark.req("RD-13", "RD-28")
def test_a_recovery_tells_where_the_publisher_was_and_makes_the_repository_compare() -> None:
    bench = ready()
    bench.send(b"1", b"2")
    bench.hear(Migrate("t", "r"))
    bench.wait()
    attempt = bench.publisher.steering.attempt
    effects = bench.hear(ProbeAnswer("t", "r", attempt, True, ("r",)))
    effects = effects or bench.wait()
    assert effects == [
        SendLetter(
            inbox_of(repository_name("r")),
            (Recovery("t", "me", "publisher", attempt, "alice", LIFE, 2, answered=True),),
        )
    ]
    effects = bench.hear(RecoveryResponse("t", "r", attempt, 2, ("r", "q"), LIFE - 1, 17))
    assert effects == [order(1, 2), ReportSteering("r")]
    assert bench.publisher.recovered == (LIFE - 1, 17)
    assert bench.publisher.unacked.upto == 0
    assert bench.publisher.steering.members == ("r", "q")


def test_a_new_link_asks_the_repository_again() -> None:
    bench = ready()
    bench.send(b"1")
    bench.step(LinkDown())
    bench.now = 10 * SECOND
    assert bench.step(TimerFired(PublisherTick())) == []
    effects = bench.link()
    assert [type(event) for each in effects if isinstance(each, SendLetter) for event in each.events] == [Recovery]
    attempt = bench.publisher.steering.attempt
    assert bench.hear(RecoveryResponse("t", "r", attempt, 1, ("r",))) == [order(1, 1)]


@pytest.mark.req("RD-01")
def test_who_is_refused_is_told_and_so_is_everyone_who_waits() -> None:
    bench = ready()
    bench.send(b"1")
    bench.step(DurabilityAwaited(1))
    bench.step(DurabilityAwaited(2, copies=2))
    attempt = bench.publisher.steering.attempt
    effects = bench.hear(Denial("t", "r", attempt, Refusal.NOT_AUTHORISED, "revoked"))
    over = (0, Refusal.NOT_AUTHORISED, "revoked")
    assert effects == [ConfirmDurable(1, *over), ConfirmDurable(2, *over), Refuse(Refusal.NOT_AUTHORISED, "revoked")]
    assert bench.send(b"2") == []
    assert bench.step(DurabilityAwaited(3)) == [ConfirmDurable(3, *over)]


def test_another_principal_cannot_go_on_with_the_same_events() -> None:
    bench = ready()
    effects = bench.step(LinkUp("bob"))
    assert effects == [Refuse(Refusal.UNAUTHENTICATED, "this publisher was 'alice' and is 'bob' now")]


FORMER = Resumption(Incarnation(2), 10)


def resumed() -> Bench:
    bench = Bench(resumption=FORMER)
    bench.link()
    bench.steer()
    return bench


def test_a_stream_is_resumed_after_a_number() -> None:
    bench = Bench(resumption=FORMER)
    bench.link()
    attempt = bench.publisher.steering.attempt
    assert attempt >> 15 == LIFE, "this life is newer than the stream"
    said = bench.hear(ProbeAnswer("t", "r", attempt, True, ("r",)))
    recovery = Recovery("t", "me", "publisher", attempt, "alice", 2, 10, resumes=True)
    assert SendLetter(inbox_of(repository_name("r")), (recovery,)) in said
    bench.hear(RecoveryResponse("t", "r", attempt, 1, ("r",), incarnation=2, last=12))
    assert bench.publisher.recovered == (2, 12)
    effects = bench.send(b"eleven", b"twelve")
    assert [(each.block.incarnation, each.block.catenation) for each in effects if isinstance(each, Publish)] == [
        (2, 11)
    ]
    assert effects[1:] == [SendLetter(BUNDLE, (PublisherOrder("t", "me", 2, 11, 12, 10),))]


def test_what_an_earlier_life_has_stored_is_not_sent_again() -> None:
    bench = resumed()
    assert bench.step(DurabilityAwaited(1)) == [ConfirmDurable(1, 1)], "all up to the number is stored"
    bench.hear(RepositoryAck("t", "r", Incarnation(2), 13, (), (13,)))
    assert published(bench.send(b"eleven", b"twelve")) == []
    assert bench.step(DurabilityAwaited(2)) == [ConfirmDurable(2, 1)]
    assert published(bench.send(b"thirteen", b"fourteen")) == [(13, 14)], "a frame goes whole"
    assert bench.step(DurabilityAwaited(3)) == []
    assert ConfirmDurable(3, 1) in bench.hear(RepositoryAck("t", "r", Incarnation(2), 14, (), (14,)))
    assert bench.publisher.unacked.size == 0


def test_what_an_earlier_life_has_stored_is_not_traced_as_published() -> None:
    bench = resumed()
    bench.publisher.traces = TraceBuffer()
    bench.hear(RepositoryAck("t", "r", Incarnation(2), 12, (), (12,)))
    bench.send(b"eleven", b"twelve")
    assert bench.publisher.traces.take(0) == []
    bench.send(b"thirteen")
    assert [(row.kind, row.first, row.last) for row in bench.publisher.traces.take(0)] == [
        (TraceKind.PUBLISHED, 13, 13)
    ]


def denied(bench: Bench, newest: int) -> list[Effect]:
    attempt = bench.publisher.steering.attempt
    bench.hear(ProbeAnswer("t", "r", attempt, True, ("r",)))
    return bench.hear(Denial("t", "r", attempt, Refusal.FENCED, "a newer one", newest))


@pytest.mark.req("RD-25")
@pytest.mark.parametrize("resumption", [None, Resumption(Incarnation(2), 0)])
def test_a_publisher_whose_clock_was_set_back_takes_the_next_life(resumption: Resumption | None) -> None:
    bench = Bench(resumption=resumption)
    bench.link()
    bench.step(DurabilityAwaited(1))
    effects = denied(bench, newest=9)
    assert DrawLife() in effects
    assert not [effect for effect in effects if isinstance(effect, Refuse)], "nothing is given up"
    bench.step(LifeDrawn(7))
    bench.wait()
    bench.hear(ProbeAnswer("t", "r", bench.publisher.steering.attempt, True, ("r",)))
    assert bench.publisher.steering.attempt >> 15 == 10
    assert bench.publisher.incarnation == (2 if resumption else 10)


@pytest.mark.req("RD-16", "RD-25")
def test_a_publisher_that_began_before_the_newest_one_is_fenced() -> None:
    bench = Bench()
    bench.link()
    assert DrawLife() in denied(bench, newest=9)
    assert Refuse(Refusal.FENCED, "a newer one") in bench.step(LifeDrawn(12))


@pytest.mark.req("RD-16", "RD-25")
def test_a_publisher_that_was_steered_is_fenced_whatever_its_clock_says() -> None:
    bench = ready()
    bench.hear(Migrate("t", "r"))
    bench.wait()
    assert Refuse(Refusal.FENCED, "a newer one") in denied(bench, newest=9)
