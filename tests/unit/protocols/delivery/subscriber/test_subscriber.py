"""The reliable subscriber, step by step: what is released, asked for and acknowledged, and when it loses patience."""

import pytest
from tests.unit.protocols.delivery.script import Event, events_of, frame, some

from stentor.machine import MILLISECOND, SECOND, Effect, Input, StartTimer, TimerFired
from stentor.model.communication import bundle_of, inbox_of, notice_group_of, repository_name
from stentor.model.control import (
    ControlEvent,
    Denial,
    Migrate,
    Persistent,
    Probe,
    ProbeAnswer,
    Recovery,
    RecoveryResponse,
    Rectify,
    Retransmission,
    SequenceRun,
    StreamRanges,
    SubscriberAck,
    SubscriberEnd,
    SubscriberNak,
    Sync,
)
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation, publisher_id
from stentor.model.stored.span import Span
from stentor.protocols.delivery.endpoint_api import (
    Acknowledged,
    ConfirmDurable,
    DurabilityAwaited,
    EventsRequested,
    Leaving,
    Refuse,
    Release,
    ReleasedBatch,
    ReportSteering,
)
from stentor.protocols.delivery.settings import SubscriberSettings
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber, SubscriberTick
from stentor.protocols.delivery.transport import (
    EventsReceived,
    LetterReceived,
    LinkDown,
    LinkUp,
    Listening,
    SendLetter,
    Subscribe,
    Unsubscribe,
    Vouched,
)
from stentor.wire.block import Block

IDS = {name: publisher_id("keeper", repository_name(name)) for name in ("r", "q")}
LIFE = Incarnation(5)
BUNDLE = bundle_of("t")


class Bench:
    """A subscriber that wants all it can get, and repositories as a script."""

    def __init__(self, settings: SubscriberSettings | None = None) -> None:
        self.subscriber = ReliableSubscriber("t", "s", LIFE, "n > 1", "beginning", settings)
        self.now = 0
        self.timer = 0
        self.repository = "r"
        self.portions: list[ReleasedBatch] = []
        self.greedy = True
        self.subscriber.step(0, Vouched("t", dict.fromkeys(IDS, "keeper")))

    def step(self, happened: Input) -> list[Effect]:
        """What it does, without timers and releases."""
        effects = self.subscriber.step(self.now, happened)
        kept = []
        for effect in effects:
            if isinstance(effect, StartTimer):
                self.timer = effect.at
            elif isinstance(effect, Release):
                self.portions += effect.portions
                kept += self.step(EventsRequested()) if self.greedy else []
            else:
                kept.append(effect)
        return kept

    def wait(self) -> list[Effect]:
        """Until it does something by itself."""
        effects: list[Effect] = []
        while not effects and self.timer > self.now:
            self.now = self.timer
            effects = self.step(TimerFired(SubscriberTick()))
        return effects

    def wait_until(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        while self.now < self.timer <= now:
            self.now = self.timer
            effects += self.step(TimerFired(SubscriberTick()))
        self.now = now
        return effects

    def hear(self, *events: ControlEvent, blocks: tuple[Block, ...] = ()) -> list[Effect]:
        return self.step(LetterReceived(IDS[self.repository], events, blocks))

    def steer(
        self, sync: int = 0, name: str = "r", done: tuple[StreamRanges, ...] = (), chorus: int = 0
    ) -> list[Effect]:
        self.repository = name
        self.hear(ProbeAnswer("t", name, self.attempt, True, (name,)))
        response = RecoveryResponse("t", name, self.attempt, 1, (name,), sync=sync, epoch=3, done=done, chorus=chorus)
        return self.hear(response)

    @property
    def attempt(self) -> int:
        return self.subscriber.steering.attempt

    def arrive(self, *blocks: Block) -> list[Effect]:
        return self.step(EventsReceived(blocks))

    def persistent(self, previous: int, upto: int, *stretches: SequenceRun, redelivered: int = 0) -> list[Effect]:
        event = Persistent("t", self.repository, self.attempt, previous, upto, stretches, redelivered)
        return self.hear(event)

    def rectify(self, sync: int, upto: int, *stretches: SequenceRun) -> list[Effect]:
        return self.hear(Rectify("t", self.repository, self.attempt, sync, upto, stretches))

    def sync(self, upto: int) -> list[Effect]:
        return self.hear(Sync("t", self.repository, self.attempt, upto))

    def again(self, *blocks: Block) -> list[Effect]:
        return self.hear(Retransmission("t", self.repository), blocks=blocks)

    @property
    def released(self) -> list[Event]:
        """Since this was last asked."""
        events = [event for portion in self.portions for event in events_of(portion.block)]
        self.portions.clear()
        return events

    def done(self, *spans: Span) -> list[Effect]:
        return self.step(Acknowledged(spans))

    def nak(self, *missing: Span, after: int | None = None, tuned: bool = False) -> SendLetter:
        asks = after is not None  # questions say so, whatever they are about; requests for events need not
        event = SubscriberNak("t", "s", self.attempt, missing, after, tuned, asks)
        return SendLetter(inbox_of(repository_name(self.repository)), (event,))

    def ack(self, *spans: Span) -> SendLetter:
        return SendLetter(BUNDLE, (SubscriberAck("t", "s", LIFE, self.repository, spans),))

    def probe(self) -> SendLetter:
        return SendLetter(BUNDLE, (Probe("t", "s", "subscriber", self.attempt),))


def ready(settings: SubscriberSettings | None = None, sync: int = 0, done: tuple[StreamRanges, ...] = ()) -> Bench:
    bench = Bench(settings)
    bench.step(LinkUp("alice"))
    bench.step(EventsRequested())
    bench.steer(sync, done=done)
    return bench


def told(sequence: int, count: int = 1, first: int | None = None, publisher: int = 1) -> SequenceRun:
    return SequenceRun(sequence, count, publisher, 1, sequence if first is None else first)


def numbers(*which: int, publisher: int = 1) -> list[Event]:
    return [(publisher, 1, number) for number in which]


# ---- releasing


def test_it_says_who_it_is_and_what_it_wants() -> None:
    bench = Bench()
    assert bench.step(LinkUp("alice")) == [bench.probe()]
    effects = bench.hear(ProbeAnswer("t", "r", bench.attempt, True, ("r",)))
    recovery = Recovery("t", "s", "subscriber", bench.attempt, "alice", LIFE, 0, "n > 1", "beginning")
    assert effects == [SendLetter(inbox_of(repository_name("r")), (recovery,))]
    assert bench.hear(RecoveryResponse("t", "r", bench.attempt, 1, ("r",), sync=4, epoch=9)) == [ReportSteering("r", 9)]


@pytest.mark.req("RD-09")
def test_an_event_is_released_when_it_is_there_and_stored() -> None:
    bench = ready()
    assert bench.arrive(frame(1, 1, 2)) == []
    assert bench.released == []
    assert bench.persistent(0, 2, told(1, 2)) == []
    assert bench.released == numbers(1, 2)
    assert bench.persistent(2, 4, told(3, 2)) == [], "it may be under way"
    assert bench.released == []
    assert bench.arrive(frame(1, 3, 2)) == []
    assert bench.released == numbers(3, 4)


def test_whole_frames_stay_whole() -> None:
    bench = ready()
    first, second = frame(1, 1, 3), some(frame(1, 4, 6), [5, 6, 8])
    bench.arrive(first, second)
    bench.persistent(0, 20, told(1, 3), told(12, 2, 5), told(17, 1, 8))
    assert [portion.block for portion in bench.portions] == [first, second]
    assert [portion[1:-1] for portion in bench.portions] == [(1, False, "r", 1, 3), (4, False, "r", 12, 17)]
    assert [portion.sequences for portion in bench.portions] == [[(1, 3)], [(12, 13), (17, 17)]]


def test_only_what_is_told_of_a_frame_is_released() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 9))
    bench.persistent(0, 4, told(2, 2, 2), told(4, 1, 4))
    assert bench.released == numbers(2, 3, 4)
    bench.persistent(4, 9, told(6, 1, 6), told(8, 1, 8))
    assert bench.released == numbers(6, 8)
    bench.persistent(9, 10, told(10, 1, 9))
    assert bench.released == numbers(9)
    assert bench.subscriber.buffer.size == 0


def test_what_a_frame_lacks_stops_the_chain() -> None:
    bench = ready()
    bench.arrive(some(frame(1, 1, 9), [2, 8]))
    bench.persistent(0, 9, told(2), told(4), told(8))
    assert bench.released == numbers(2)
    bench.again(frame(1, 4, 1))
    assert bench.released == numbers(4, 8)


@pytest.mark.req("RD-26")
def test_the_order_is_that_of_the_chain() -> None:
    bench = ready()
    bench.arrive(frame(2, 1, 2), frame(1, 1, 2))
    bench.persistent(0, 2, told(1, 1, 1), told(2, 1, 1, publisher=2))
    bench.persistent(2, 6, told(3, 1, 2), told(6, 1, 2, publisher=2))
    assert bench.released == [(1, 1, 1), (2, 1, 1), (1, 1, 2), (2, 1, 2)]


def test_nothing_is_given_out_that_nobody_wants() -> None:
    bench = ready(SubscriberSettings(batch=2000))
    bench.greedy = False
    for number in range(1, 11):
        bench.arrive(frame(1, number, 1, size=1000))
    bench.persistent(0, 10, told(1, 10))
    assert len(bench.portions) == 2, "one batch at a time"
    bench.step(EventsRequested())
    assert len(bench.portions) == 4
    bench.step(EventsRequested())
    assert bench.released == numbers(*range(1, 7))


def test_strangers_and_former_attempts_are_not_believed() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 1), frame(1, 2, 1, topic="u"))
    bench.step(LetterReceived(5, [Persistent("t", "r", bench.attempt, 0, 1, (told(1),))]))
    bench.hear(Persistent("t", "r", bench.attempt - 1, 0, 1, (told(1),)))
    bench.hear(Persistent("t", "q", bench.attempt, 0, 1, (told(1),)))
    bench.step(LetterReceived(5, [Retransmission("t", "r")], [frame(1, 2, 1)]))
    assert bench.released == []
    bench.persistent(0, 2, told(1, 2))
    assert bench.released == numbers(1)


# ---- gaps in the chain


@pytest.mark.req("RD-12", "RD-26")
def test_a_gap_in_the_chain_stops_it_until_it_is_rectified() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 9))
    bench.persistent(0, 2, told(1, 2))
    assert bench.released == numbers(1, 2)
    assert bench.persistent(4, 6, told(5, 2)) == [bench.nak(after=2)]
    assert bench.persistent(6, 7, told(7)) == [], "it is asked already"
    assert bench.released == []
    assert bench.rectify(0, 7, told(1, 2), told(3, 5)) == []
    assert bench.released == numbers(3, 4, 5, 6, 7)
    bench.persistent(7, 8, told(8))
    bench.persistent(5, 9, told(6), told(8, 2))
    assert bench.released == numbers(8, 9), "what is known does not come again"


@pytest.mark.req("RD-19")
def test_a_repository_that_does_not_mend_the_chain_is_left() -> None:
    bench = ready()
    bench.persistent(4, 6, told(5, 2))
    assert bench.wait() == [bench.nak(after=0)]
    assert bench.wait() == [bench.nak(after=0)]
    before = bench.attempt
    assert bench.wait() == [bench.probe()]
    assert bench.attempt == before + 1
    assert bench.now == 750 * MILLISECOND


@pytest.mark.req("RD-19")
def test_events_without_news_of_them_make_doubt() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 1))
    assert bench.wait() == [bench.nak(after=0)]
    assert bench.now == 250 * MILLISECOND
    bench.wait()
    bench.wait()
    assert bench.wait() == [bench.probe()], "after one second"
    assert bench.now == SECOND


def test_one_that_answers_is_not_left_though_it_knows_nothing() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 1))
    asked = []
    for _ in range(8):
        assert bench.wait() == [bench.nak(after=0)]
        asked.append(bench.now // MILLISECOND)
        bench.rectify(0, 0)
        if not bench.subscriber.buffer.size:
            break
    assert asked[:3] == [250, 750, 1750]
    assert bench.subscriber.buffer.size == 0, "nobody may have published it: it is dropped in the end"


def test_a_quiet_repository_is_asked_now_and_then() -> None:
    bench = ready()
    assert bench.wait() == [bench.nak(after=0)]
    assert bench.now == 10 * SECOND
    bench.rectify(0, 0)
    assert bench.wait() == [bench.nak(after=0)]
    assert bench.now == 30 * SECOND


def test_a_chain_that_gets_too_long_is_cut_and_asked_for_later() -> None:
    bench = ready(SubscriberSettings(chain=4, asked_events=1))
    runs = [told(2 * place, 1, 3 * place) for place in range(1, 4)]
    others = [told(6 + place, 1, place, publisher=2 + place % 2) for place in range(1, 5)]
    effects = bench.persistent(0, 10, *runs, *others)
    assert bench.nak(after=6) not in effects
    assert bench.subscriber.chain is not None
    assert bench.subscriber.chain.upto == 6
    bench.again(frame(1, 3, 1))
    assert bench.nak(after=6) in bench.again(frame(1, 6, 1))
    bench.again(frame(1, 9, 1))
    bench.rectify(0, 10, *runs, *others)
    for place in range(1, 5):
        bench.again(frame(2 + place % 2, place, 1))
    assert len(bench.released) == 7


# ---- events that do not come


@pytest.mark.req("RD-10")
def test_an_event_that_does_not_come_is_asked_for() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 1))
    bench.persistent(0, 4, told(1, 4))
    assert bench.wait() == [bench.nak((2, 4))]
    assert bench.now == 50 * MILLISECOND
    assert bench.wait_until(349 * MILLISECOND) == []
    assert bench.wait() == [bench.nak((2, 4))]
    assert bench.now == 350 * MILLISECOND
    assert bench.again(frame(1, 2, 3)) == []
    assert bench.released == numbers(1, 2, 3, 4)


def test_what_was_before_us_or_is_lost_for_sure_is_asked_for_at_once() -> None:
    bench = ready()
    assert bench.rectify(0, 3, told(1, 3)) == [bench.nak((1, 3))]
    bench.again(frame(1, 1, 3))
    bench.arrive(frame(1, 6, 2))
    assert bench.persistent(3, 7, told(4, 4)) == [bench.nak((4, 5))], "later ones have come"
    bench.again(frame(1, 4, 2))
    assert bench.released == numbers(*range(1, 8))
    bench.step(LinkUp("alice"))
    assert bench.persistent(7, 8, told(8)) == [bench.nak((8, 8))], "nothing of it came on this link"


def test_exactly_what_is_missing_is_asked_for() -> None:
    bench = ready()
    bench.arrive(some(frame(1, 1, 9), [2, 8]), frame(1, 10, 1))
    runs = [told(10 * number, 1, number) for number in (1, 2, 3, 4, 8)]
    assert bench.persistent(0, 90, *runs) == [bench.nak((10, 10), (30, 30), (40, 40))]
    bench.again(frame(1, 1, 5))
    assert bench.released == numbers(1, 2, 3, 4, 8)


def test_a_repository_that_does_not_send_what_is_missing_is_left() -> None:
    bench = ready()
    bench.persistent(0, 2, told(1, 2))
    effects = bench.wait_until(3 * SECOND)
    assert effects.count(bench.nak((1, 2))) == 0
    assert (
        effects[:2]
        == [SendLetter(inbox_of(repository_name("r")), (SubscriberNak("t", "s", bench.attempt - 1, ((1, 2),)),))] * 2
    )
    assert effects[2] == bench.probe()


def test_a_long_way_behind_it_asks_for_a_little_at_a_time() -> None:
    bench = ready(SubscriberSettings(asked_events=100))
    effects = bench.rectify(0, 1_000_000, told(1, 1_000_000))
    assert effects == [bench.nak((1, 100))]
    assert bench.again(frame(1, 1, 40)) == []
    assert bench.again(frame(1, 41, 20)) == [bench.nak((101, 160))], "half has come"
    assert bench.again(frame(1, 61, 40), frame(1, 101, 60)) == [bench.nak((161, 260))]
    assert bench.again(frame(1, 201, 60)) == [], "the rest was lost"
    assert bench.wait_until(bench.now + 99 * MILLISECOND) == []
    effects = bench.wait_until(bench.now + SECOND)
    assert effects[0] == bench.nak((161, 200), (261, 320))
    assert bench.subscriber.buffer.size < 10_000


def test_how_much_is_asked_for_depends_on_how_large_events_are() -> None:
    bench = ready(SubscriberSettings(asked=100_000))
    assert bench.rectify(0, 10_000, told(1, 10_000)) == [bench.nak((1, 97))]
    asked = 97
    for _ in range(20):
        effects = bench.again(*[frame(1, number, 1, size=20_000) for number in range(asked - 96, asked + 1)])
        if effects:
            break
    assert isinstance(effects[0], SendLetter)
    nak = effects[0].events[0]
    assert isinstance(nak, SubscriberNak)
    assert nak.missing[0][1] - nak.missing[0][0] < 20


def test_a_full_buffer_drops_what_is_furthest_ahead_and_asks_for_it_again() -> None:
    bench = ready(SubscriberSettings(buffer=10_000, missing=0))
    effects = bench.arrive(*[frame(1, number, 1, size=900) for number in range(2, 30)])
    assert effects[-1] == Unsubscribe("t"), "who cannot keep up gets events from the repository alone"
    assert bench.subscriber.buffer.size <= 10_000
    assert bench.subscriber.buffer.dropped == 18
    assert bench.persistent(0, 29, told(1, 29))[0] == bench.nak((1, 1), (12, 14)), "as much as the buffer takes"
    assert bench.again(frame(1, 1, 1, size=900)) == [bench.nak((11, 14))], "one had to go for it"
    assert bench.released == numbers(*range(1, 11))
    effects = [effect for number in range(11, 30) for effect in bench.again(frame(1, number, 1, size=900))]
    assert effects.count(Subscribe("t", letters=False, where="n > 1")) == 1, "it has caught up"
    assert bench.released == numbers(*range(11, 30))


def test_what_is_next_is_never_dropped() -> None:
    bench = ready(SubscriberSettings(buffer=4_000, missing=0))
    bench.persistent(0, 20, told(1, 20))
    for number in range(20, 0, -1):
        bench.again(frame(1, number, 1, size=900))
        assert bench.subscriber.buffer.size <= 5_000
    assert bench.released[:1] == numbers(1)
    bench = ready(SubscriberSettings(buffer=500))
    bench.persistent(0, 1, told(1))
    bench.again(frame(1, 1, 1, size=900))
    assert bench.released == numbers(1), "however large it is"


# ---- with others who want the same


def test_it_hears_what_is_told_to_all_who_want_the_same() -> None:
    bench = Bench()
    bench.step(LinkUp("alice"))
    bench.step(EventsRequested())
    topic = notice_group_of("t", "r", 9)
    assert bench.steer(chorus=9) == [ReportSteering("r", 3), Subscribe(topic)]
    assert bench.step(Listening(topic)) == [bench.nak(after=0, tuned=True)]
    assert bench.arrive(frame(1, 1, 2), frame(1, 3, 2)) == []
    bench.hear(Persistent("t", "r", -9, 0, 2, (told(1, 2),)))
    assert bench.released == [], "not before it is known that the application has asked"
    bench.hear(Persistent("t", "r", bench.attempt, 0, 0, (), known=True))
    bench.hear(Persistent("t", "r", -9, 0, 2, (told(1, 2),)))
    assert bench.released == numbers(1, 2)
    bench.hear(Persistent("t", "r", -8, 2, 4, (told(3, 2),)))
    bench.hear(Persistent("t", "r", 0, 2, 4, (told(3, 2),)))
    assert bench.released == [], "others want something else"
    bench.persistent(2, 4, told(3, 2))
    assert bench.released == numbers(3, 4)


def test_it_hears_the_chorus_of_the_repository_that_steers_it_alone() -> None:
    bench = Bench()
    bench.step(LinkUp("alice"))
    bench.step(EventsRequested())
    bench.steer(chorus=9)
    bench.step(Listening(notice_group_of("t", "r", 9)))
    bench.step(LinkDown())
    bench.step(LinkUp("alice"))
    assert bench.hear(RecoveryResponse("t", "r", bench.attempt, 1, ("r",), chorus=9)) == [], "the link is new"
    assert bench.step(Listening(notice_group_of("t", "r", 9))) == [bench.nak(after=0, tuned=True)]
    bench.hear(Migrate("t", "r"))
    effects = bench.steer(name="q", chorus=9)
    assert effects == [
        ReportSteering("q", 3),
        Unsubscribe(notice_group_of("t", "r", 9)),
        Subscribe(notice_group_of("t", "q", 9)),
    ]
    assert bench.step(Listening(notice_group_of("t", "r", 9))) == [], "that was long ago"


# ---- acknowledgements


@pytest.mark.req("RD-10", "RD-11", "RD-17")
def test_acknowledgements_gather_and_are_repeated_until_they_are_synced() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 9))
    bench.persistent(0, 9, told(1, 9))
    assert bench.done((1, 4)) == []
    assert bench.done((5, 5)) == []
    assert bench.wait() == [bench.ack((1, 5))]
    assert bench.now == 100 * MILLISECOND
    assert bench.wait() == [bench.ack((1, 5))]
    assert bench.now == 400 * MILLISECOND
    bench.sync(3)
    assert bench.wait() == [bench.ack((4, 5))]
    assert bench.now == 700 * MILLISECOND
    bench.sync(2)
    assert bench.subscriber.chain is not None
    assert bench.subscriber.chain.sync == 3, "it only ever advances"
    bench.sync(5)
    assert bench.wait_until(5 * SECOND) == []
    assert not bench.subscriber.chain.acked


def test_many_acknowledgements_leave_at_once() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 1000))
    bench.persistent(0, 1000, told(1, 1000))
    assert bench.done((1, 255)) == []
    assert bench.done((1, 255)) == [], "these are the same"
    assert bench.done((256, 256)) == [bench.ack((1, 256))]


@pytest.mark.req("RD-26")
def test_what_is_not_ours_is_acknowledged_with_what_is() -> None:
    bench = ready(SubscriberSettings(ack_events=1), sync=10)
    bench.arrive(some(frame(1, 1, 90), [5, 20, 50]))
    bench.persistent(10, 60, told(15, 1, 5), told(30, 1, 20), told(55, 1, 50))
    assert bench.done((2, 2)) == [bench.ack((16, 30))]
    assert bench.done((1, 1)) == [bench.ack((11, 30))]
    assert bench.done((3, 3)) == [bench.ack((11, 60))], "up to the end of the chain"


def test_nothing_ours_is_acknowledged_too() -> None:
    bench = ready()
    bench.persistent(0, 40)
    assert bench.wait() == [bench.ack((1, 40))]
    bench.sync(40)
    bench.persistent(40, 50)
    bench.sync(60)
    assert bench.wait_until(5 * SECOND) == []
    bench.arrive(frame(1, 1, 1))
    assert bench.persistent(50, 61, told(61, 1, 1)) == [], "a sync beyond the chain goes on with it"
    assert bench.released == numbers(1)


@pytest.mark.req("RD-19")
def test_a_repository_that_does_not_sync_is_left() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 1))
    bench.persistent(0, 1, told(1))
    bench.done((1, 1))
    assert [bench.wait() for _ in range(3)] == [[bench.ack((1, 1))]] * 3
    assert bench.wait() == [bench.probe()]
    assert bench.now == 2200 * MILLISECOND


def test_a_reader_that_begins_anew_is_told_again_what_is_acknowledged() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 5))
    bench.persistent(0, 5, told(1, 5))
    bench.done((2, 5))
    assert bench.wait() == [bench.ack((2, 5))]
    assert bench.wait_until(2 * SECOND) == [], "it cannot be synced, so it is said once"
    bench.rectify(0, 5, told(1))
    assert bench.wait_until(4 * SECOND) == []
    bench.rectify(0, 5, told(1, 5))
    assert bench.wait() == [bench.ack((2, 5))]


def test_whoever_waits_is_told_when_all_is_synced() -> None:
    bench = ready()
    assert bench.step(DurabilityAwaited(1)) == [ConfirmDurable(1)]
    bench.arrive(frame(1, 1, 5))
    bench.persistent(0, 5, told(1, 5))
    bench.done((1, 3))
    assert bench.step(DurabilityAwaited(2)) == [bench.ack((1, 3))], "it does not wait for more"
    assert bench.sync(2) == []
    assert bench.sync(3) == [ConfirmDurable(2)]
    bench.done((5, 5))
    assert bench.step(DurabilityAwaited(3)) == [bench.ack((5, 5)), ConfirmDurable(3)], (
        "beyond a hole nothing can be synced"
    )


# ---- another repository


@pytest.mark.req("RD-05", "RD-16", "RD-19")
def test_under_another_repository_nothing_comes_twice_and_acknowledgements_go_on() -> None:
    bench = ready(SubscriberSettings(ack_events=1))
    bench.arrive(frame(1, 1, 6), frame(2, 1, 2))
    bench.persistent(0, 8, told(1, 4), told(5, 2, 1, publisher=2), told(7, 2, 5))
    assert bench.released == [*numbers(1, 2, 3, 4), *numbers(1, 2, publisher=2), *numbers(5, 6)]
    bench.done((1, 2), (6, 6))
    assert bench.hear(Migrate("t", "r")) == [bench.probe()]
    assert bench.done((3, 3)) == [], "nobody to tell"
    assert bench.steer(sync=100, name="q") == [ReportSteering("q", 3)]
    effects = bench.rectify(100, 111, told(101, 2, 1, publisher=2), told(104, 6, 1))
    assert effects == [bench.ack((102, 106))]
    assert bench.released == []
    assert bench.done((5, 5)) == [bench.ack((101, 106))]
    assert bench.done((7, 8)) == [bench.ack((101, 106), (108, 109))]
    assert bench.done((4, 4)) == [bench.ack((101, 111))]
    bench.arrive(frame(1, 7, 1))
    bench.persistent(111, 112, told(112, 1, 7))
    assert bench.released == numbers(7)


def test_what_an_earlier_life_had_of_a_stream_is_acknowledged() -> None:
    bench = ready(SubscriberSettings(ack_events=1), done=(StreamRanges(1, 1, 4, ()),))
    bench.arrive(frame(1, 5, 1))
    bench.persistent(0, 1, told(1, 1, 5))
    bench.hear(Migrate("t", "r"))
    bench.steer(name="q")
    assert bench.rectify(0, 5, told(1, 5)) == [bench.ack((1, 4))]
    assert bench.done((1, 1)) == [bench.ack((1, 5))]
    assert bench.released == numbers(5)


def test_what_another_repository_knows_us_to_have_is_acknowledged() -> None:
    bench = ready(SubscriberSettings(ack_events=1))
    bench.hear(Migrate("t", "r"))
    bench.steer(name="q", done=(StreamRanges(1, 1, 2, ((4, 4),)),))
    assert bench.rectify(0, 5, told(1, 5)) == [bench.nak((3, 3), (5, 5)), bench.ack((1, 2))]
    bench.again(frame(1, 3, 3))
    assert bench.released == numbers(3, 5)


def test_what_turns_up_late_is_released_and_acknowledged_on_its_own() -> None:
    bench = ready(SubscriberSettings(ack_events=1))
    bench.arrive(frame(1, 3, 1))
    bench.persistent(0, 1, told(1, 1, 3))
    bench.persistent(1, 3, told(2, 2, 1))
    bench.again(frame(1, 1, 2))
    assert bench.released == numbers(3, 1, 2)
    assert bench.done((1, 1)) == [bench.ack((1, 1))], "what came late is not meant"
    assert bench.done((2, 3)) == [bench.ack((1, 3))]
    bench.hear(Migrate("t", "r"))
    bench.steer(name="q")
    assert bench.rectify(0, 3, told(1, 3)) == [bench.ack((1, 3))], "it is known by its number"
    assert bench.released == []


def test_what_turns_up_late_between_others_of_a_frame_is_acknowledged_on_its_own() -> None:
    bench = ready(SubscriberSettings(ack_events=1))
    bench.arrive(some(frame(1, 1, 20), [3, 9, 15]))
    bench.persistent(0, 30, told(3, 1, 3), told(9, 1, 9), told(15, 1, 15))
    bench.persistent(30, 31, told(31, 1, 5))
    bench.again(frame(1, 5, 1))
    assert bench.released == numbers(3, 9, 15, 5)
    assert bench.done((1, 2)) == [bench.ack((1, 9))]
    assert bench.done((3, 3)) == [bench.ack((1, 15))]
    assert bench.done((4, 4)) == [bench.ack((1, 31))]


def test_what_another_repository_has_found_again_is_released_late() -> None:
    bench = ready(SubscriberSettings(ack_events=1))
    bench.arrive(frame(1, 1, 2), frame(1, 5, 1))
    bench.persistent(0, 3, told(1, 2), told(3, 1, 5))
    assert bench.persistent(3, 4, told(4, 1, 4)) == [bench.nak((4, 4))], "it was thought to be lost"
    bench.again(frame(1, 4, 1))
    assert bench.released == numbers(1, 2, 5, 4)
    bench.done((1, 3))
    bench.hear(Migrate("t", "r"))
    bench.steer(name="q")
    assert bench.rectify(0, 5, told(1, 5)) == [bench.nak((3, 3)), bench.ack((1, 2))], "of which it has only these"
    assert bench.again(frame(1, 3, 1)) == [bench.ack((1, 2), (5, 5))]
    assert bench.released == numbers(3)
    assert bench.done((4, 4)) == [bench.ack((1, 2), (4, 5))]
    assert bench.done((5, 5)) == [bench.ack((1, 5))]


def test_bodies_wait_for_the_next_repository() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 3))
    bench.hear(Migrate("t", "r"))
    bench.arrive(frame(1, 4, 1))
    bench.steer(name="q")
    assert bench.wait() == [bench.nak(after=0)], "it has not told of them"
    assert bench.rectify(0, 4, told(1, 4)) == []
    assert bench.released == numbers(1, 2, 3, 4)


def test_whoever_waits_waits_for_the_next_repository_too() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 3))
    bench.persistent(0, 3, told(1, 3))
    bench.done((1, 3))
    bench.hear(Migrate("t", "r"))
    assert bench.step(DurabilityAwaited(1)) == []
    assert bench.steer(name="q") == [ReportSteering("q", 3)], "it has not told yet what it lacks"
    assert bench.wait() == [bench.nak(after=0)]
    assert bench.rectify(0, 3, told(1, 3)) == [bench.ack((1, 3))]
    assert bench.sync(3) == [ConfirmDurable(1)]


@pytest.mark.req("RD-13")
def test_what_an_earlier_life_may_have_had_is_marked() -> None:
    bench = ready()
    whole = frame(1, 1, 5)
    bench.arrive(whole, frame(1, 6, 1))
    bench.persistent(0, 6, told(1, 6), redelivered=3)
    assert [(portion.redelivered, portion.first, portion.last) for portion in bench.portions] == [
        (True, 1, 3),
        (False, 4, 5),
        (False, 6, 6),
    ]
    assert bench.released == numbers(1, 2, 3, 4, 5, 6)


# ---- links, ends and bounds


def test_a_new_link_goes_on_where_the_old_one_ended() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 2))
    bench.persistent(0, 2, told(1, 2))
    bench.done((1, 1))
    bench.step(LinkDown())
    bench.now += 10 * SECOND
    assert bench.step(TimerFired(SubscriberTick())) == []
    effects = bench.step(LinkUp("alice"))
    assert [type(event) for each in effects if isinstance(each, SendLetter) for event in each.events] == [
        SubscriberAck,
        Recovery,
    ]
    bench.hear(RecoveryResponse("t", "r", bench.attempt, 1, ("r",), sync=0))
    bench.rectify(0, 3, told(1, 3))
    bench.again(frame(1, 3, 1))
    assert bench.released == numbers(1, 2, 3)
    assert bench.ack((1, 1)) in bench.wait_until(bench.now + SECOND)


@pytest.mark.req("RD-01")
def test_who_is_refused_is_told_and_so_is_everyone_who_waits() -> None:
    bench = ready()
    bench.arrive(frame(1, 1, 2))
    bench.persistent(0, 2, told(1, 2))
    bench.done((1, 1))
    bench.step(DurabilityAwaited(1))
    effects = bench.hear(Denial("t", "r", bench.attempt, Refusal.NOT_AUTHORISED, "revoked"))
    assert effects == [
        ConfirmDurable(1, 0, Refusal.NOT_AUTHORISED, "revoked"),
        Refuse(Refusal.NOT_AUTHORISED, "revoked"),
    ]
    assert bench.wait_until(bench.now + 60 * SECOND) == []


@pytest.mark.req("RD-25")
def test_who_has_lost_its_name_hands_out_nothing_more() -> None:
    bench = ready()
    bench.greedy = False
    bench.step(EventsRequested())
    bench.arrive(frame(1, 1, 2))
    bench.persistent(0, 1, told(1))
    assert bench.released == numbers(1)
    bench.persistent(1, 2, told(2))
    reason = "a newer s is a subscriber of t already"
    assert Refuse(Refusal.FENCED, reason) in bench.hear(Denial("t", "r", bench.attempt, Refusal.FENCED, reason))
    bench.step(EventsRequested())
    assert bench.released == [], "the newer one is handed the second event"
    assert bench.done((1, 1)) == []
    assert bench.wait_until(bench.now + 60 * SECOND) == [], "nor is anything acknowledged"


@pytest.mark.req("RD-13")
def test_without_a_filter_it_hears_events_once_it_knows_what_is_registered() -> None:
    subscriber = ReliableSubscriber("t", "s", LIFE, None)
    subscriber.step(0, Vouched("t", dict.fromkeys(IDS, "keeper")))
    subscriber.step(0, LinkUp("alice"))
    attempt = subscriber.steering.attempt
    (asked,) = subscriber.step(0, LetterReceived(IDS["r"], [ProbeAnswer("t", "r", attempt, True, ("r",))]))[:1]
    assert isinstance(asked, SendLetter)
    (recovery,) = asked.events
    assert isinstance(recovery, Recovery)
    assert (recovery.where, recovery.keeps) == ("", True)
    response = RecoveryResponse("t", "r", attempt, 1, ("r",), where="n > 1")
    effects = subscriber.step(0, LetterReceived(IDS["r"], [response]))
    assert ReportSteering("r", where="n > 1") in effects
    assert Subscribe("t", letters=False, where="n > 1") in effects


@pytest.mark.req("RD-32")
def test_who_unsubscribes_says_so_until_it_is_answered_also_to_the_next_repository() -> None:
    bench = ready()
    bench.step(Leaving(9, 0, unsubscribes=True))
    bench.hear(Migrate("t", "r"))
    bench.steer(name="q")
    posts = [effect for effect in bench.wait_until(bench.now + SECOND) if isinstance(effect, SendLetter)]
    assert any(SubscriberEnd("t", "s", bench.attempt, LIFE, (), True) in post.events for post in posts)
    assert bench.hear(Sync("t", "q", bench.attempt, 0, ended=True)) == [ConfirmDurable(9)]


def test_streams_of_the_past_are_forgotten() -> None:
    bench = ready(SubscriberSettings(ack_events=1))
    for number in range(1, 3001):
        bench.arrive(frame(number, 1, 1))
        bench.persistent(number - 1, number, told(number, 1, 1, publisher=number))
        bench.done((number, number))
        bench.sync(number)
    assert len(bench.released) == 3000
    assert len(bench.subscriber.buffer.sources) < 600
