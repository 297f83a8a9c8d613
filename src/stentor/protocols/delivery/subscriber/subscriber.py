"""The reliable subscriber of one topic: releases an event when it is there and known to be stored, once and in order.

Events come by themselves; that they are stored is told by the steering repository, as a chain. What of the chain is
missing is asked for, and so are events that do not come; sections 3.8 to 3.11 of the paper.
"""

from collections.abc import Callable, Iterable
from typing import Any

from stentor.machine import Effect, Input, StartTimer, Step, Timer, TimerFired
from stentor.model.communication import bundle_of, inbox_of, repository_name
from stentor.model.control import (
    ControlEvent,
    Persistent,
    Recovery,
    RecoveryResponse,
    Rectify,
    Retransmission,
    SubscriberAck,
    SubscriberNak,
    Sync,
)
from stentor.model.ids import Incarnation
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Span
from stentor.model.topic import check_topic
from stentor.protocols.delivery import endpoint_api, transport
from stentor.protocols.delivery.repository.registry import top_of
from stentor.protocols.delivery.retry_timer import NEVER, RetryTimer
from stentor.protocols.delivery.settings import SubscriberSettings
from stentor.protocols.delivery.steering import Steering
from stentor.protocols.delivery.subscriber.ack_reports import AckReports
from stentor.protocols.delivery.subscriber.ack_tracker import AckedRun, AckTracker
from stentor.protocols.delivery.subscriber.event_buffer import EventBuffer, StreamBuffer
from stentor.protocols.delivery.subscriber.handing import Handing
from stentor.protocols.delivery.subscriber.listen_control import ListenControl
from stentor.protocols.delivery.subscriber.persistent_chain import (
    ChainRun,
    Numbers,
    PersistentChain,
    rank,
    to_array,
    to_spans,
)
from stentor.protocols.delivery.subscriber.repair_requests import RepairRequests
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.wire.block import Block


class SubscriberTick(Timer, frozen=True, gc=False, tag="reliable subscriber"):
    """Something that a subscriber waits for is late, or due."""


class ReliableSubscriber:
    """A machine: `LinkUp`, `LinkDown`, `Vouched`, events, letters and what an application says go in."""

    def __init__(
        self,
        topic: str,
        name: str,
        incarnation: Incarnation,
        where: str | None = "",
        since: str = "now",
        settings: SubscriberSettings | None = None,
    ) -> None:
        """`where` is a filter, "" for all events; None if the filter that is registered holds."""
        self.topic = check_topic(topic)
        self.name = name
        self._incarnation = incarnation
        self._where = where
        self._since = since
        self._settings = settings = settings or SubscriberSettings()
        self._step = step = Step()
        self.steering = Steering(step, topic, name, "subscriber", incarnation, self._introduce, settings.steering)
        self.buffer = EventBuffer(settings.buffer)
        self.listening = ListenControl(step, topic, where, settings.buffer)
        # None if no repository steers us. Invariant: between steps, its attempt is that of the steering.
        self.chain: PersistentChain | None = None
        self.traces = TraceBuffer(on=False)
        self._principal = ""
        self._linked = False
        self._acks = AckTracker()
        self._owed: dict[StreamId, dict[int, int]] = {}  # positions that an earlier chain gave, by number
        self._again: dict[int, Span] = {}  # their sequence numbers in this chain, as far as they are told
        # What is stable and was not handed out. Invariant: `_ready_size` is the sum of the sizes of its frames.
        self._ready: list[endpoint_api.ReleasedBatch] = []
        self._ready_size = 0
        self._wants_more = False
        self._handing = Handing(step, topic, name, incarnation, settings)
        self._dropped = 0  # events for which there was no room
        self._repairs = RepairRequests(step, settings)
        self._asking = RetryTimer(settings.first_pause, settings.longest_pause)  # for events that are missing
        self._stuck = 0  # where the chain was when it was asked
        self._inquiring = RetryTimer(settings.doubt, settings.doubt)  # what there is after what we know
        self._heard_at = 0  # when the repository last told something
        self._doubt, self._quiet = settings.doubt, settings.quiet
        self._reports = AckReports(step, settings)
        self._waiting: list[int] = []  # tokens
        self._unsafe = False  # whether something is acknowledged and not known to be synced
        self._timer = NEVER
        self._inputs: dict[type[Input], Callable[[Any], None]] = {
            transport.LinkUp: self._on_link_up,
            transport.LinkDown: self._on_link_down,
            transport.Vouched: lambda vouched: self.steering.vouch(vouched.members, vouched.ended),
            transport.EventsReceived: lambda received: self._keep(received.blocks, live=True),
            transport.LetterReceived: self._on_letter,
            transport.Listening: self._on_listening,
            endpoint_api.Acknowledged: self._on_acknowledged,
            endpoint_api.EventsRequested: self._on_more_requested,
            endpoint_api.DurabilityAwaited: lambda awaited: self._waiting.append(awaited.token),
            endpoint_api.Leaving: self._on_leaving,
            TimerFired: self._on_timer,
        }

    def step(self, now: int, happened: Input) -> list[Effect]:
        step = self._step
        step.now = now
        self._inputs[type(happened)](happened)
        if self.chain is not None and (self.chain.attempt != self.steering.attempt or self.steering.ended):
            self._drop_chain()
        if self.steering.ended is not None:
            self._drop_ready()
        self._advance()
        if self._wants_more and self._ready:
            step.emit(endpoint_api.Release(self._ready))
            self.traces.release(now, self.topic, self.name, self._ready)
            self._drop_ready()
            self._advance()
        if not self.listening.live and self.chain is not None:
            self.listening.catch_up(self.buffer.size, self.buffer.pending, self._repairs.mean)
        due = NEVER
        if self._linked:
            due = min(self._seek(), self._inquire(), self._report(), self._part(), self.steering.due)
        self._confirm_waiting()
        if due < self._timer:  # one that fires too early does no harm
            self._timer = due
            step.emit_last(StartTimer(SubscriberTick(), due))
        return step.end()

    def _drop_ready(self) -> None:
        """What is ready is handed out, or never will be: another life may be handed the same by now."""
        self._wants_more = False
        self._ready = []
        self._ready_size = 0

    # ---- the link and the repository

    def _on_link_up(self, linked: transport.LinkUp) -> None:
        self._principal = linked.principal
        self._linked = True
        self._heard_at = self._step.now
        self.buffer.relink()
        self._asking.rest()
        self._inquiring.rest()
        self._repairs.forget()
        self._reports.relink()
        self.steering.link(linked.node)

    def _on_link_down(self, _: transport.LinkDown) -> None:
        self._linked = False
        self.listening.leave()
        self.steering.unlink()
        self._handing.fail()

    def _introduce(self, attempt: int) -> Recovery:
        return Recovery(
            topic=self.topic,
            sender=self.name,
            role="subscriber",
            attempt=attempt,
            principal=self._principal,
            incarnation=self._incarnation,
            where=self._where or "",
            since=self._since,
            node=self.steering.node,
            asks=self._handing.introduce(),
            told=self._handing.was_told,
            keeps=self._where is None,
        )

    def _keep(self, blocks: Iterable[Block], *, live: bool) -> None:
        """Keep events until their turn comes; `live` are those that came as they were published."""
        sync = self.chain.sync if self.chain is not None else 0
        number = self.listening.number
        if self.chain is not None and self.chain.runs:
            self.buffer.next = (self.chain.runs[0].stream, self.chain.runs[0].first)
        for block in blocks:
            if (not live or block.topic == number) and not self.buffer.add(self._step.now, block, sync, live=live):
                self._repairs.forget()  # what was asked for may have been dropped
        if self.buffer.dropped > self._dropped:
            self._dropped = self.buffer.dropped
            self.listening.fall_behind()
            self.buffer.relink()  # nothing comes by itself any more

    def _on_listening(self, listening: transport.Listening) -> None:
        if self.listening.on_listening(listening.to):
            self._tune_in()

    def _tune_in(self) -> None:
        if self.chain is not None and (self.listening.in_notice_group or self._handing.is_late):
            self._explore(self.chain, tuned=self.listening.in_notice_group)

    def _explore(self, chain: PersistentChain, *, tuned: bool = False) -> None:
        """Ask what there is after what we know."""
        self._send(SubscriberNak(self.topic, self.name, chain.attempt, (), chain.upto, tuned, self._handing.asks))

    def _on_letter(self, letter: transport.LetterReceived) -> None:
        for event in letter.events:
            if not self.steering.hear(letter.sender, event):
                continue
            if isinstance(event, RecoveryResponse):
                self._on_recovery_response(event)
            elif isinstance(event, Retransmission):
                self._repairs.learn(letter.blocks)
                self._keep(letter.blocks, live=False)
            elif self.chain is None:
                continue
            elif isinstance(event, Persistent):
                if event.attempt >= 0 or self._handing.is_known:
                    self._extend(self.chain, event, event.previous)
            elif isinstance(event, Rectify):
                self._on_rectify(self.chain, event)
            elif isinstance(event, Sync):
                self._on_sync(self.chain, event.upto)
                if event.ended:
                    self._handing.complete()

    def _on_recovery_response(self, response: RecoveryResponse) -> None:
        if self.chain is None or self.chain.attempt != response.attempt:
            self._drop_chain()
            self.chain = PersistentChain(self.steering.repository, response.attempt, response.sync)
            self.buffer.recall(response.done)
            self._heard_at = self._step.now
            self._reports.begin(response.sync)
            self.buffer.recheck(self._step.now)
            self._owed = self._acks.owed()
        else:
            self._on_sync(self.chain, response.sync)
        if response.within in ("", top_of(self.steering.node)):  # else we have moved since we asked
            if self._where is None:
                self.listening.where = response.where
            self.listening.enter_unit(response.within)
        self.listening.join(self.steering.repository, response.chorus)
        self._tune_in()

    def _drop_chain(self) -> None:
        if self.chain is not None:
            self.buffer.start_over(self.chain.sync)
        self.chain = None
        self._owed, self._again = {}, {}
        self._handing.is_known = False
        self._repairs.forget()
        self._asking.rest()
        self._inquiring.rest()
        self._reports.forget()

    def _suspect(self, reason: str) -> int:
        """Leave the repository; return when to look again at what was asked of it."""
        self.steering.suspect(reason)
        self._drop_chain()
        return NEVER

    def _send(self, event: ControlEvent) -> None:
        """Send a letter to the repository that steers us."""
        assert self.chain is not None
        self._step.emit(transport.SendLetter(inbox_of(repository_name(self.chain.repository)), (event,)))

    # ---- the chain

    def _extend(self, chain: PersistentChain, told: Persistent | Rectify, previous: int) -> bool:
        """Add to the chain what was told; return whether it has news."""
        now = self._step.now
        new = chain.extend(now, previous, told.upto, told.stretches, told.redelivered, self._settings.chain)
        if new is None:
            return False
        self.listening.left = told.left
        self._handing.hear(told, bool(new))
        for run in new:
            self.buffer.announce(self.buffer.source(run.stream, chain.sync), run)
        self._heard_at = now
        self._inquiring.rest()
        if new:
            self._doubt, self._quiet = self._settings.doubt, self._settings.quiet
        return bool(new)

    def _on_rectify(self, chain: PersistentChain, rectify: Rectify) -> None:
        self._on_sync(chain, rectify.sync)
        if chain.forgets(rectify):
            self._reports.unsent += 1  # an acknowledgement was lost, or its reader began anew
        if not self._extend(chain, rectify, min(rectify.sync, chain.upto)):
            self._doubt = min(2 * self._doubt, self._settings.longest_quiet)
            self._quiet = min(2 * self._quiet, self._settings.longest_quiet)

    def _on_sync(self, chain: PersistentChain, sync: int) -> None:
        self._heard_at = self._step.now
        self._reports.on_sync(chain.confirm(sync))

    def _inquire(self) -> int:
        """Ask what there is after what we know, if there is a doubt; return when to look again."""
        now, chain, asking = self._step.now, self.chain, self._inquiring
        if chain is None:
            return NEVER
        if not asking.open:
            due = self._doubtful(chain)
            if due > now:
                return due
            self.buffer.discard(now - self._settings.strange)
            asking.ask(now)
        elif asking.due > now:
            return asking.due
        elif asking.tries >= self._settings.tries:
            return self._suspect("it does not tell what is stored")
        else:
            asking.again(now)
        self._explore(chain)
        return asking.due

    def _doubtful(self, chain: PersistentChain) -> int:
        """Return when it is time to ask."""
        if not self._handing.asks:
            return self._heard_at + self._quiet  # nothing was told, and nothing is missed
        if chain.torn and 2 * chain.weight <= self._settings.chain:
            return 0
        if self._waiting and not chain.explored:
            return self._heard_at + self._doubt
        if self.buffer.strange:
            # with much that is not acknowledged a repository has a reason to say nothing
            doubt = self._doubt if chain.frontier >= chain.tail else max(self._doubt, self._settings.patience)
            return max(self._heard_at, next(iter(self.buffer.strange.values()))) + doubt
        return self._heard_at + self._quiet

    # ---- releasing

    def _advance(self) -> None:
        """Move what is stable from the chain and the buffer to what is ready."""
        chain = self.chain
        if chain is None:
            return
        while chain.runs and self._ready_size < self._settings.batch:
            run = chain.runs[0]
            source = self.buffer.source(run.stream, chain.sync)
            known, upto = source.former.same(run.first)
            count = len(run) if upto is None else rank(run.numbers, upto)
            if known:
                self._repeat(chain, source, run.part(0, count))
            else:
                found = source.serve(run.numbers[:count])
                if found is None:
                    return
                count = self._give(chain, source, run, *found)
            chain.take(count)

    def _give(
        self, chain: PersistentChain, source: StreamBuffer, run: ChainRun, block: Block, rows: Numbers, count: int
    ) -> int:
        """Make some events ready; return how many."""
        again = rank(run.sequences[:count], run.redelivered)
        if 0 < again < count:
            count, rows = again, rows[:again]
        if count < block.count:
            block = Block(block.excerpt(to_array(rows)), block.schema)
        part = run.part(0, count)
        position = self._acks.give(part, chain.attempt)
        first, last, all_of_them = int(part.sequences[0]), int(part.sequences[-1]), to_spans(part.sequences)
        self._ready.append(
            endpoint_api.ReleasedBatch(block, position, again > 0, chain.repository, first, last, all_of_them)
        )
        self._ready_size += len(block.frame)
        self.buffer.release(source, part.numbers)
        return count

    def _repeat(self, chain: PersistentChain, source: StreamBuffer, run: ChainRun) -> None:
        """Acknowledge events that were released before, under other sequence numbers, under these."""
        owed = self._owed.get(run.stream)
        if not owed:
            self._count(chain, source, run.span(0, len(run)), len(run))
        else:
            for at, number in enumerate(map(int, run.numbers)):
                position = owed.get(number)
                if position is None:
                    self._count(chain, source, run.span(at, at + 1), 1)
                else:
                    self._again[position] = run.span(at, at + 1)
        self.buffer.taken(source, len(run))

    def _count(self, chain: PersistentChain, source: StreamBuffer, span: Span, events: int) -> None:
        chain.acknowledge(span)
        source.settled = max(source.settled if source.settled != NEVER else 0, span[1])
        self._reports.unsent += events

    # ---- what is missing

    def _seek(self) -> int:
        """Ask for events that are stored and not here; return when to look again."""
        now, chain, asking = self._step.now, self.chain, self._asking
        if chain is None or not chain.runs or self._ready_size >= self._settings.batch:
            asking.rest()
            return NEVER
        if chain.taken >= self._repairs.reached:
            asking.rest()  # all have come
        elif asking.open and chain.taken > self._stuck:
            asking.ask(now)  # some have come
        self._stuck = chain.taken
        if asking.due <= now:
            if asking.tries >= self._settings.tries:
                return self._suspect("it does not send what is missing")
            asking.again(now)
            self._repairs.forget()
        spans, due = self._repairs.find(chain, self.buffer)
        if spans:
            if not asking.open:
                asking.ask(now)
            self._send(SubscriberNak(self.topic, self.name, chain.attempt, tuple(spans)))
        return min(due, asking.due)

    # ---- the application

    def _on_more_requested(self, _: endpoint_api.EventsRequested) -> None:
        self._wants_more = not self._handing.is_leaving
        if not self._handing.asks:
            self._handing.asks = True
            if self.chain is not None:
                self._explore(self.chain)
                self._inquiring.ask(self._step.now)

    def _on_leaving(self, leaving: endpoint_api.Leaving) -> None:
        self._wants_more = False
        self._handing.begin_farewell(leaving, self._acks, self.buffer.sources)
        if not (self._handing.asks or leaving.unsubscribes):
            self._handing.complete()  # there is nothing to write down
        elif not self._linked:
            self._handing.fail()

    def _part(self) -> int:
        """Say farewell, and again until it is answered; return when to look again."""
        if self.chain is None:
            self._handing.fail()
            return NEVER
        farewell, due = self._handing.farewell(self.chain.attempt)
        if farewell is not None:
            self._send(farewell)
        return due

    def _on_acknowledged(self, acknowledged: endpoint_api.Acknowledged) -> None:
        for first, last in acknowledged.spans:
            for done in self._acks.acknowledge(first, last):
                self._book(done)
                spans = to_spans(done.run.numbers[done.start : done.end])
                self.traces.acknowledge(self._step.now, self.topic, self.name, done.run.stream, spans)

    def _book(self, done: AckedRun) -> None:
        """Note for the repository what the application is done with."""
        self._unsafe = True
        run, events = done.run, done.end - done.start
        source = self.buffer.sources[run.stream]  # it is not forgotten as long as this is not done
        source.unacked -= events
        source.acknowledged = max(source.acknowledged, int(run.numbers[done.end - 1]))
        chain = self.chain
        if chain is not None and chain.attempt == done.attempt:
            self._count(chain, source, run.span(done.start, done.end), events)
            return
        owed = self._owed.get(run.stream, {})
        for position, number in enumerate(map(int, run.numbers[done.start : done.end]), done.position):
            owed.pop(number, None)
            span = self._again.pop(position, None)
            if span is not None and chain is not None:
                self._count(chain, source, span, 1)

    def _report(self) -> int:
        """Say what is acknowledged, and again until it is synced; return when to look again."""
        chain = self.chain
        if chain is None:
            return NEVER
        if self._reports.is_ignored(chain):
            return self._suspect("it does not sync what is acknowledged")
        spans, due = self._reports.take(chain, bool(self._waiting))
        if spans:
            ack = SubscriberAck(self.topic, self.name, self._incarnation, chain.repository, spans)
            self._step.emit(transport.SendLetter(bundle_of(self.topic), (ack,)))
        return due

    def _confirm_waiting(self) -> None:
        """Tell those who wait that all they acknowledged is synced. What comes after a hole cannot be."""
        chain, ended = self.chain, self.steering.ended
        if chain is not None and chain.explored and not self._reports.unsent and chain.frontier <= chain.sync:
            self._unsafe = False
        if not self._waiting or (self._unsafe and ended is None):
            return
        for token in self._waiting:
            if self._unsafe and ended is not None:
                self._step.emit(endpoint_api.ConfirmDurable(token, 0, ended.code, ended.reason))
            else:
                self._step.emit(endpoint_api.ConfirmDurable(token))
        self._waiting = []

    def _on_timer(self, fired: TimerFired) -> None:
        if isinstance(fired.timer, SubscriberTick):
            self._timer = NEVER
            self.steering.tick()
