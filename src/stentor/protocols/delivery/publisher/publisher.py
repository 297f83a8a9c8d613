"""The reliable publisher of one topic: keeps what it sends until a repository has acknowledged it.

Events are checked and batched as at best effort. What leaves in a turn is followed by an order with its numbers, so
that the repositories of the bundle notice what they miss; sections 3.4 to 3.6 of the paper.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stentor.machine import MILLISECOND, SECOND, Effect, Input, StartTimer, Step, Timer, TimerFired
from stentor.model.attribute import LARGEST_ATTRIBUTES, Value
from stentor.model.communication import bundle_of, end_name, inbox_of, repository_name, within_of
from stentor.model.control import (
    ControlEvent,
    PublisherOrder,
    Recovery,
    RecoveryResponse,
    RepositoryAck,
    RepositoryNak,
    Retransmission,
)
from stentor.model.errors import Refusal
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, publisher_id, topic_id
from stentor.model.stored.span import Span
from stentor.model.topic import check_topic
from stentor.protocols.delivery.besteffort.publish_queue import PublishQueue
from stentor.protocols.delivery.endpoint_api import (
    ConfirmDurable,
    DurabilityAwaited,
    LifeDrawn,
    Refuse,
    ResumePublishing,
    TurnEnded,
)
from stentor.protocols.delivery.publisher.unacked_blocks import UnackedBlocks
from stentor.protocols.delivery.repository.registry import top_of
from stentor.protocols.delivery.retry_timer import NEVER, RetryTimer
from stentor.protocols.delivery.steering import Steering
from stentor.protocols.delivery.steering_settings import SteeringSettings
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.transport import LetterReceived, LinkDown, LinkUp, Publish, SendLetter, Vouched
from stentor.wire.block import Block, Origin
from stentor.wire.letter import SOFT_LETTER, split

_MOST_SINGLES = 64  # spans in one order
_LETTER_OVERHEAD = 64 << 10  # what a schema and a header add to a frame that is sent again in a letter


class PublisherTick(Timer, frozen=True, gc=False, tag="reliable publisher"):
    """Something that a publisher waits for is late, or due."""


class PublisherSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much a publisher keeps, and how long it waits; sizes in bytes, times in nanoseconds."""

    buffer: int = 16 << 20  # of events that wait or are not acknowledged
    window: int = 8 << 20  # of events that have left and are not acknowledged
    window_events: int = 65_536
    letter: int = SOFT_LETTER  # of events that are sent again in one letter
    first_silence: int = 300 * MILLISECOND  # without an acknowledgement, until the order is repeated
    longest_silence: int = 5 * SECOND
    rounds: int = 3  # of silence, until another repository is looked for
    steering: SteeringSettings = SteeringSettings()


class Recovered(NamedTuple):
    """The newest stream of this publisher that its repository knew, and the last number of it that is stored."""

    incarnation: int
    last: int


class Resumption(NamedTuple):
    """A stream that outlives its publisher, and the last number of it that is not sent any more.

    Whoever comes back and sends the same events under the same numbers has them stored once, whatever an earlier life
    had sent of them.
    """

    incarnation: Incarnation
    after: int


class _Waiting(NamedTuple):
    token: int
    number: int
    copies: int


class ReliablePublisher:
    """A machine: `LinkUp`, `LinkDown`, `Vouched`, `LetterReceived` and what an application says go in."""

    def __init__(
        self,
        topic: str,
        name: str,
        life: Incarnation,
        settings: PublisherSettings | None = None,
        resumption: Resumption | None = None,
    ) -> None:
        """A life begins a stream of its own unless it resumes one."""
        self.topic = check_topic(topic)
        self.name = name
        self._resumes = resumption is not None
        self.incarnation, self._after = resumption or Resumption(life, 0)
        self._settings = settings = settings or PublisherSettings()
        self._step = Step()
        self.steering = Steering(self._step, topic, name, "publisher", life, self._introduce, settings.steering)
        self.unacked = UnackedBlocks(self._after)
        # Up to this number all is stored, as a repository says. Invariant: `unacked.upto` is not beyond it; the numbers
        # between the two have not been sent by this life yet.
        self._stored_upto = self._after
        self.recovered: Recovered | None = None
        self.traces = TraceBuffer(on=False)
        self._queue = PublishQueue(self._after)
        # Invariant: both are set with the first link, and stay: what was sent carries them.
        self._principal = ""
        self._publisher: PublisherId | None = None
        self._linked = False
        self._full = False
        self.version = 0  # of the topic, as a repository has told: letters name it
        self._unit: str | None = None  # within which events are held until they are stored; None: not told yet
        self._topic_copies = 1  # that the topic asks for
        self._stored_on: tuple[int, ...] = ()  # up to these numbers all is on 1, 2, 3 … repositories
        self._waiting: deque[_Waiting] = deque()  # for what the topic asks for, in order
        self._demanding: list[_Waiting] = []  # for more copies than that
        self._silence = RetryTimer(settings.first_silence, settings.longest_silence)
        self._timer = NEVER
        self._inputs: dict[type[Input], Callable[[Any], None]] = {
            TurnEnded: lambda _: None,
            DurabilityAwaited: self._on_durability_awaited,
            LifeDrawn: self._on_life_drawn,
            LinkUp: self._on_link_up,
            LinkDown: self._on_link_down,
            Vouched: lambda vouched: self.steering.vouch(vouched.members, vouched.ended),
            LetterReceived: self._on_letter,
            TimerFired: self._on_timer,
        }

    def step(self, now: int, happened: Input) -> list[Effect]:
        step = self._step
        step.now = now
        self._inputs[type(happened)](happened)
        self._publish()
        self._watch()
        self._confirm_waiting()
        if self._full and 2 * self._held <= self._settings.buffer:
            self._full = False
            step.emit(ResumePublishing())
        self._arm()
        return step.end()

    @property
    def room(self) -> bool:
        """Whether an application need not wait."""
        if self._held > self._settings.buffer:
            self._full = True
        return not self._full

    @property
    def _held(self) -> int:
        return self._queue.pending + self.unacked.size

    @property
    def stored(self) -> int:
        """How many of its events are stored, without a gap."""
        return self.unacked.upto - self._after

    @property
    def largest_body(self) -> int:
        return self._queue.largest_body

    def limit(self, largest_body: int) -> None:
        """A broker takes bodies of this size: a letter with an event in it must still be one."""
        self._queue.largest_body = max(largest_body - LARGEST_ATTRIBUTES - _LETTER_OVERHEAD, 1)

    # ---- the application

    def publish(self, attributes: Mapping[str, Value], body: bytes, time: int) -> None:
        """Take an event in, which leaves when the turn ends; `time` is nanoseconds since 1970.

        Raises InvalidInput, with nothing changed, if the event cannot be published.
        """
        self._queue.offer(self.topic, attributes, body, time)

    def publish_many(self, columns: Mapping[str, Sequence[Value | None]], bodies: Sequence[bytes], time: int) -> None:
        """Take many events in, or none; each attribute is a column as long as `bodies`."""
        self._queue.offer_many(self.topic, columns, bodies, time)

    def _on_durability_awaited(self, awaited: DurabilityAwaited) -> None:
        waiting = _Waiting(awaited.token, self._queue.published, awaited.copies)
        if waiting.copies > self._topic_copies:
            self._demanding.append(waiting)
        else:
            self._waiting.append(waiting)

    def _on_life_drawn(self, drawn: LifeDrawn) -> None:
        life = self.steering.renew(drawn.life)
        if life is not None and not self._resumes:
            self.incarnation = Incarnation(life)

    def _confirm_waiting(self) -> None:
        """Tell those whose events are all stored; nobody before what went before it is."""
        upto, ended = self.unacked.upto, self.steering.ended
        while self._waiting and (self._waiting[0].number <= upto or ended is not None):
            waiting = self._waiting.popleft()
            self._confirm(waiting, ended if waiting.number > upto else None)
        for waiting in self._demanding.copy():
            enough = waiting.number <= min(upto, self._copied_upto(waiting.copies))
            if enough or ended is not None:
                self._demanding.remove(waiting)
                self._confirm(waiting, None if enough else ended)

    def _confirm(self, waiting: _Waiting, ended: Refuse | None) -> None:
        if ended is not None:
            self._step.emit(ConfirmDurable(waiting.token, 0, ended.code, ended.reason))
        else:
            copies = sum(number >= waiting.number for number in self._stored_on)
            self._step.emit(ConfirmDurable(waiting.token, max(copies, 1) if waiting.number else 0))

    def _copied_upto(self, copies: int) -> int:
        """Return up to where all is on so many repositories."""
        if copies <= self._topic_copies:
            return self.unacked.upto
        return self._stored_on[copies - 1] if copies <= len(self._stored_on) else 0

    # ---- the link

    def _on_link_up(self, linked: LinkUp) -> None:
        if self._publisher is None:
            self._principal = linked.principal
            self._publisher = publisher_id(linked.principal, end_name("publisher", self.name, self.topic))
        elif linked.principal != self._principal:
            self.steering.end(
                Refusal.UNAUTHENTICATED, f"this publisher was {self._principal!r} and is {linked.principal!r} now"
            )
        self._linked = True
        self._silence.rest()
        self.steering.link(linked.node)

    def _on_link_down(self, _: LinkDown) -> None:
        self._linked = False
        self.steering.unlink()

    def _introduce(self, attempt: int) -> Recovery:
        return Recovery(
            topic=self.topic,
            sender=self.name,
            role="publisher",
            attempt=attempt,
            principal=self._principal,
            incarnation=self.incarnation,
            last=self.unacked.last,
            node=self.steering.node,
            resumes=self._resumes,
            answered=self.recovered is not None,
        )

    @property
    def _may_speak(self) -> bool:
        """Whether we know that nobody hears us who must not: a repository has told us, and we are still there."""
        return self._linked and self._unit is not None and self._unit in ("", top_of(self.steering.node))

    def _publish(self) -> None:
        """Let out what the window takes, then its order."""
        if not self._may_speak or self.steering.ended is not None:
            return
        settings, unacked, queue = self._settings, self.unacked, self._queue
        first, before = unacked.last + 1, unacked.size
        left = born = 0  # the number and the time of the first event that leaves
        while not queue.idle and unacked.size < settings.window and unacked.events < settings.window_events:
            block = self._seal()
            unacked.add(block)
            if unacked.last > self._stored_upto:
                left, born = left or block.catenation, born or block.time
                self._step.emit(Publish(block, self._stage))
            else:  # an earlier life has sent it
                unacked.acknowledge(self._stored_upto, ())
        if unacked.last >= first:
            self._order(first)
        if left:
            stream, span = (self._publisher or 0, self.incarnation), (left, unacked.last)
            self.traces.publish(self._step.now, self.topic, self.name, stream, span, unacked.size - before, born)

    def _seal(self) -> Block:
        assert self._publisher is not None, "who may speak has had a link"
        draft = self._queue.take()
        first = CatenationNumber(self.unacked.last + 1)
        origin = Origin(topic_id(self._stage), self._publisher, self.incarnation, first, draft.time)
        return Block(draft.encode(origin), draft.schema)

    def _order(self, first: int) -> None:
        order = PublisherOrder(
            topic=self.topic,
            sender=self.name,
            incarnation=self.incarnation,
            first=first,
            last=self.unacked.last,
            acknowledged=self.unacked.upto,
            singles=tuple(self.unacked.singles)[:_MOST_SINGLES],
            version=self.version,
        )
        self._send((order,))

    @property
    def _stage(self) -> str:
        """The topic on which we publish."""
        return within_of(self._unit, self.topic) if self._unit else self.topic

    def _send(self, events: Sequence[ControlEvent], blocks: Sequence[Block] = ()) -> None:
        to = bundle_of(self.topic)
        if blocks and self._unit:
            to = inbox_of(repository_name(self.steering.repository))  # others are in other units
        self._step.emit(SendLetter(to, events, blocks))

    # ---- the repository

    def _on_letter(self, letter: LetterReceived) -> None:
        missing: list[Span] = []
        for event in letter.events:
            if not self.steering.hear(letter.sender, event):
                continue
            if isinstance(event, RecoveryResponse):
                self._on_recovery_response(event)
            elif isinstance(event, RepositoryAck):
                self._on_ack(event)
            elif isinstance(event, RepositoryNak) and event.incarnation == self.incarnation:
                self._silence.tries = min(self._silence.tries, 1)
                missing += event.missing
        for blocks in split(self.unacked.overlapping(missing if self._may_speak else ()), self._settings.letter):
            self._send((Retransmission(self.topic, self.name, version=self.version),), blocks)

    def _on_recovery_response(self, response: RecoveryResponse) -> None:
        self.recovered = Recovered(response.incarnation, response.last)
        self._topic_copies = max(response.copies, 1)
        self._unit, self.version = response.within, response.version
        if self._unit not in ("", top_of(self.steering.node)):
            self.steering.suspect(f"it answers for {self._unit}, where we are not any more")
            return
        self._ask_again()
        self._silence.ask(self._step.now)

    def _ask_again(self) -> None:
        """Say what is not acknowledged, so that it is acknowledged or missed."""
        if self._pending:
            self._order(min(self.unacked.upto + 1, self.unacked.last))

    @property
    def _pending(self) -> bool:
        return self.unacked.events > 0 or any(each.number <= self.unacked.upto for each in self._demanding)

    def _on_ack(self, ack: RepositoryAck) -> None:
        if ack.incarnation != self.incarnation:
            return
        self._silence.tries = min(self._silence.tries, 1)
        more = [0] * max(len(ack.copies) - len(self._stored_on), 0)
        copies = tuple(map(max, [*self._stored_on, *more], ack.copies)) + self._stored_on[len(ack.copies) :]
        is_news = copies != self._stored_on
        self._stored_on = copies
        self._stored_upto = max(self._stored_upto, ack.upto)
        if self.unacked.acknowledge(ack.upto, ack.singles) or is_news:
            self._silence.rest()  # it is asked for the first time again if something is left

    # ---- time

    def _watch(self) -> None:
        """A repository that steers us must be heard as long as something is not acknowledged."""
        silence = self._silence
        if not (self._linked and self.steering.steered and self._pending):
            silence.rest()
        elif not silence.open:
            silence.ask(self._step.now)

    def _on_timer(self, fired: TimerFired) -> None:
        if not isinstance(fired.timer, PublisherTick):
            return
        self._timer = NEVER
        if self._silence.due <= self._step.now:
            if self._silence.tries >= self._settings.rounds:
                self.steering.suspect("it does not acknowledge")
            else:
                self._silence.again(self._step.now)
                self._ask_again()
        self.steering.tick()

    def _arm(self) -> None:
        due = min(self._silence.due, self.steering.due)
        if due < self._timer:  # one that fires too early does no harm
            self._timer = due
            self._step.emit_last(StartTimer(PublisherTick(), due))
