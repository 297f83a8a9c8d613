"""A simulated repository: a process with a disk that may fail it."""

from collections.abc import Iterable
from random import Random

import numpy as np

from stentor.machine import (
    MILLISECOND,
    SECOND,
    Collect,
    Commit,
    Committed,
    Discard,
    Effect,
    Input,
    Opened,
    Scan,
    Scanned,
)
from stentor.model.communication import inbox_of, notice_group_of, repository_name
from stentor.model.control import (
    GossipSync,
    Persistent,
    RecoveryResponse,
    Rectify,
    Registration,
    RegistrationReceipt,
    RepositoryAck,
    StreamRanges,
    Sync,
    TopicTask,
)
from stentor.model.reports.trace import Trace, TraceKind
from stentor.model.stored.record import Fact, LedgerContents, Record, RecordHeader, RecordKind
from stentor.protocols.delivery.repository.registry import Registry, SubscriptionRecord
from stentor.protocols.delivery.repository.repository import TopicRepository
from stentor.protocols.delivery.repository.serving.dissemination_table import SubscriberProgress
from stentor.protocols.delivery.repository.serving.record_audience import unpack
from stentor.protocols.delivery.repository.storing.commit_queue import PROGRESS
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import LetterReceived, SendLetter, ShareAccess
from stentor.simulation.checkers import trace_checker
from stentor.simulation.checkers.delivery_history import DiskContents, Numbers
from stentor.simulation.checkers.pending_requests import PendingRequests
from stentor.simulation.checkers.stored_times import Arrivals
from stentor.simulation.delivery.process import TOPIC, DeliveryWorld, SimProcess
from stentor.simulation.delivery.rot import rot_anything, rot_body
from stentor.simulation.disk import SimulatedDisk
from stentor.simulation.ledgers import SimulatedLedgers
from stentor.storage.ledger import Excerpt, LedgerDamaged, LedgerError

_DAY = 86_400 * SECOND
YEAR = 365 * _DAY  # after 1970 runs begin, so that no clock that is behind shows nothing


def keeper_of(name: str) -> str:
    """The principal of a repository."""
    return f"keeper of {name}"


class SimRepository(SimProcess):
    """One repository of the bundle, or one that may become one."""

    is_repository = True
    asks_for_members = True  # and whether its topic was deleted while it was away

    def __init__(self, world: DeliveryWorld, name: str, settings: RepositorySettings, seed: int) -> None:
        super().__init__(world, repository_name(name), keeper_of(name))
        self.short, self._seed = name, seed
        self.settings = settings
        self.ledgers = SimulatedLedgers(
            world.schedule,
            world.random,
            self.new_disk,
            self.later,
            self.handle,
            self,
        )
        self.repository: TopicRepository | None = None
        self.member = False  # it has been told to manage the topic
        self.has_caught_up = False  # at some time it was ready to serve
        self.dead = False  # for ever
        self.rotten = False  # it may not be able to begin again
        self.joining = False
        self.leaving = False
        self.left = False
        self.returning = False  # it was to leave, and is not to any more
        self.wrong_clocks: Random | None = None  # draws a wrong clock for each life, if it is given
        self._clock_error = 0
        self._came = Arrivals()  # in this life, by its clock
        self.contents = world.history.disks[name] = DiskContents(settings.unit)
        world.history.stored_times.clocks[name] = lambda: self.wall
        self._horizon = 0
        self._requests = PendingRequests()
        self._untold: dict[int, list[RecordHeader]] = {}  # what was written, by commit
        self._traces = trace_checker.KeptTraces()
        self._telling = Random(f"{seed}/traces/{name}")
        self._is_opening = False  # it reads again what an earlier life may not have traced
        self._acts |= {
            Commit: self.ledgers.commit,
            Scan: self.ledgers.scan,
            Collect: self._collect,
            Discard: self._discard,
            SendLetter: self._post,
            ShareAccess: lambda told: world.brokers.share(self, told),
        }

    def new_disk(self, ledger: str) -> SimulatedDisk:  # noqa: ARG002
        return SimulatedDisk(Random(f"{self._seed}/disk/{self.short}"))

    @property
    def disk(self) -> SimulatedDisk:
        return self.ledgers.disk(TOPIC)

    @property
    def wants_events(self) -> bool:
        """Who does not manage the topic yet is told by name."""
        return self.repository is not None and self.repository.registry.created and not self.repository.is_gone

    @property
    def serves(self) -> bool:
        return self.alive and self.member and not self.left

    @property
    def wall(self) -> int:
        return YEAR + self.world.now + self._clock_error

    # ---- lives

    def start(self) -> None:
        if self.alive or self.dead or self.left:
            return
        if self.wrong_clocks is not None and self.wrong_clocks.random() < 0.5:
            self._clock_error = self.wrong_clocks.choice((0, -_DAY, _DAY, -100 * MILLISECOND, 100 * MILLISECOND))
        try:
            contents = self.ledgers.open(TOPIC)
        except LedgerDamaged as damaged:
            self.destroyed(damaged)
            return
        except LedgerError as error:
            self.note(f"cannot be opened: {error}")
            self.world.after(100 * MILLISECOND, self.start)
            return
        self.look_into(contents)
        self.repository = TopicRepository(TOPIC, self.settings, self.traces)
        self.begin(self.repository)
        self.handle(Opened(TOPIC, contents, wall=self.wall))
        if self.repository is None:
            return
        self.forget_dropped(self.repository)
        self.later(self.world.random.randrange(1, 20) * MILLISECOND, self.connect)

    def destroyed(self, damaged: LedgerDamaged) -> None:
        """Sequence numbers must not begin again: its name is not used again."""
        self.note(f"{damaged}")
        self.world.seen["destroyed"] += 1
        self.die()

    def look_into(self, holdings: LedgerContents) -> None:
        """A machine begins with what its ledger holds."""
        self.contents.facts = dict(holdings.facts)
        for key, value in holdings.facts.items():
            self._note_progress(key, value)
        if (lost := self.contents.open(holdings.lines, self.world.now)) is not None:
            self.accuse("lost-commit", f"{self.short} opened its ledger without {lost}")
        self._untold.clear()
        self._requests.clear()
        self._came.clear()
        self._is_opening = True

    def forget_dropped(self, repository: TopicRepository) -> None:
        """A machine knows what its ledger held: what an earlier one was about to throw away is no more."""
        for stream in repository.log.streams.values():
            self.contents.forget(stream.id, stream.floor)
        self._horizon = repository.log.horizon

    def crash(self, why: str = "crash") -> None:
        super().crash(why)
        self.world.history.acknowledgements.crash(self.short, self.world.now)
        self.repository = None
        self._traces.crash()

    def cut_power(self, why: str = "power cut") -> None:
        self.crash(why)
        self.ledgers.cut_power()
        self.world.seen["power-cut"] += 1

    def die(self) -> None:
        """For ever, with its disk."""
        self.crash("dies")
        self.dead = self.contents.dead = True

    def cut_short(self) -> None:
        if self.world.random.random() < 0.5:
            self.cut_power("power cut in a step")
        else:
            super().cut_short()

    def unlinked(self) -> None:
        """A repository need not know: it says what it says until it has a link again."""

    def rot(self, random: Random, *, bodies: bool = False) -> bool:
        """Some bits of what is durable flip, or one of an event's body."""
        entrusted = list(self.world.history.entrusted)
        is_rotten = rot_body(self.disk, random, entrusted) if bodies else rot_anything(self.disk, random)
        if is_rotten:
            for stream, spans in self.contents.durable.items():
                self.contents.doubtful[stream].update(spans)
            self.rotten = True
            self.note("bit rot")
        return is_rotten

    def handle(self, happened: Input) -> None:
        """Note when events come that another repository has not sent. Who manages nothing obeys nobody."""
        if (
            isinstance(happened, LetterReceived)
            and self.repository is not None
            and not self.repository.registry.known
            and any(isinstance(each, Registration) and each.task != TopicTask.CREATE for each in happened.events)
        ):
            return
        self._came.note(happened, self.wall)
        if self.wants_events:
            self.world.history.acknowledgements.hear(self.short, happened, self.world.now)
        super().handle(happened)

    # ---- the ledger

    def did(self, happened: Input, effects: list[Effect]) -> trace_checker.Told:
        did = super().did(happened, effects)
        if isinstance(happened, LetterReceived) and self.repository is not None:
            known = tuple(self.repository.registry.versions())
            for request in (each for each in happened.events if isinstance(each, Registration)):
                self._requests.add(request.token, known)
        if isinstance(happened, Committed):
            did += trace_checker.durable(self._untold.pop(happened.token))
        elif isinstance(happened, Scanned) and self._is_opening:
            did += trace_checker.durable(record.line for record in happened.records)
        return did

    def testify(self, did: trace_checker.Told, rows: list[Trace]) -> None:
        super().testify(did, rows)
        repository = self.repository
        if self._traces.add(rows):
            self.later(self._telling.randrange(10, 400) * MILLISECOND, self._tell_traces)
        self.check_noted(rows)
        if self._is_opening and repository is not None and repository.is_open:
            self._is_opening = False
            if self.link:
                self.world.brokers.greet(self)  # what they told before was not heard
            if missing := self._traces.missing(self.contents):
                self.accuse("untold", f"{self.short} has told of {missing} in none of its lives")

    def check_noted(self, rows: Iterable[Trace]) -> None:
        for row in rows:
            if row.kind is TraceKind.SYNCED and not self._is_noted(row):
                self.accuse("false-trace", f"{self.short} traced {row}, which it has not written down")

    def _is_noted(self, row: Trace) -> bool:
        return self.contents.has_noted(row.subscriber, (row.source_id, row.life), trace_checker.spans_of(row))

    def _tell_traces(self) -> None:
        assert self.repository is not None
        self._traces.tell()
        self.repository.tracer.keep(self.repository.tracer.traced_upto)

    def writing(self, commit: Commit) -> None:
        for entry in commit.entries:
            if isinstance(entry, Record) and entry.line.kind is RecordKind.EVENTS:
                if self.repository is not None and self.repository.registry.terms.after:
                    self.world.history.check_topic(self.short, entry.line)
                self.world.history.stored_times.store(self.short, entry, self._came.get)

    def written(self, commit: Commit) -> None:
        self._untold[commit.token] = [each.line for each in commit.entries if isinstance(each, Record)]
        self.world.history.acknowledgements.check(self.short, self._untold[commit.token])
        self.contents.store(self._untold[commit.token], self.world.now)
        if self.settings.unit and not self.world.history.hold:
            self._check_chosen(entry for entry in commit.entries if isinstance(entry, Record))
        for entry in commit.entries:
            if isinstance(entry, Fact) and entry.value is not None:
                self.contents.facts[entry.key] = entry.value
                self._note_progress(entry.key, entry.value)
                self.world.history.begin(self.short, entry.key, entry.value)
            elif isinstance(entry, Fact) and entry.key.startswith(PROGRESS):
                self.contents.unsubscribe(entry.key.removeprefix(PROGRESS))

    def _check_chosen(self, records: Iterable[Record]) -> None:
        """A storage for a unit keeps no event that nobody there wants."""
        for line, _, audience, *_ in records:
            wanted = [unpack(bits, line.length) for bits in audience.values()]
            if (
                line.kind is RecordKind.EVENTS
                and not np.logical_or.reduce([np.zeros(line.length, np.bool_), *wanted]).all()
            ):
                self.accuse("kept-in-vain", f"{self.short} stores {line}, of which nobody in its unit wants a part")

    def _note_progress(self, key: str, value: bytes) -> None:
        if key.startswith(PROGRESS):
            name = key.removeprefix(PROGRESS)
            done = SubscriberProgress.recall(name, SubscriptionRecord(""), value).done
            self.contents.progress[name] = Numbers(done)
            for stream, spans in done.items():  # what is done with of lives that are closed is not written down again
                self.contents.noted.setdefault(name, Numbers())[stream].update(spans)

    def failed(self, error: AssertionError) -> None:
        self.accuse("raised", f"{self.short} cannot commit: {error}")
        self.crash("raised")

    def power_failed(self) -> None:
        self.world.seen["cut-in-commit"] += 1
        self.cut_power("power cut in a commit")

    def read(self, ledger: str, excerpt: Excerpt) -> None:  # noqa: ARG002
        self.world.seen["damaged"] += len(excerpt.damaged)
        for line in (record.line for record in excerpt.records if record.line.kind is RecordKind.EVENTS):
            self.contents.doubtful[line.stream].remove(line.first, line.last)  # it is as it was

    def _collect(self, collect: Collect) -> None:
        try:
            self.ledgers.collect(collect)
        except LedgerError as error:
            self.note(f"cannot collect: {error}")
        assert self.repository is not None
        for stream in self.repository.log.streams.values():
            self.world.seen["collected"] += len(self.contents.durable[stream.id].within(1, stream.floor))
            self.world.history.collect(self.short, stream.id, stream.floor)

    def _discard(self, discard: Discard) -> None:  # noqa: ARG002
        assert self.repository is not None
        registry = self.repository.registry
        self._traces.tell()  # a node does not end with a topic, and tells them later
        self.crash("discards its ledger")
        self.throw_away(registry)
        if registry.deleted or self.returning:  # its process goes on, and manages nothing until it is invited
            self.left = self.leaving = False
            self.world.after(self.ledgers.draw_delay(), self.start)

    def throw_away(self, registry: Registry) -> None:
        """Throw away all that is stored of the topic, which was deleted or is for others to keep."""
        if registry.created and registry.is_member(self.short):
            self.accuse("left-as-member", f"{self.short} leaves, and knows that it is a member")
        self.ledgers.discard(TOPIC)
        if registry.deleted:
            self.world.seen["deleted"] += 1
            self.contents = self.world.history.disks[self.short] = DiskContents(self.settings.unit)
            self._traces = trace_checker.KeptTraces()
            return
        self.left = True
        self.world.seen["left"] += 1
        self.world.history.leave(self.short)

    # ---- what it says, against what is true

    def _post(self, post: SendLetter) -> None:
        history = self.world.history
        for event in post.events:
            if isinstance(event, RepositoryAck):
                for publisher in self._publishers_at(post.to):
                    history.acknowledge(self.short, publisher, event)
            elif isinstance(event, GossipSync):
                for name, done in event.syncs.items():
                    self.check_sync(name, done)
            elif isinstance(event, Persistent | Rectify):
                for name in self._told_at(post.to):
                    history.announce(self.short, name, event.stretches)
            elif isinstance(event, Sync):
                self._synced(post.to, event)
            elif isinstance(event, RecoveryResponse) and event.epoch:
                name = next(name for name, page in history.pages.items() if inbox_of(page.end) == post.to)
                assert self.repository is not None
                history.answer(self.short, (f"subscription/{name}",), self._required(self.repository))
                self._check_agreement(name, event.sync)
            elif isinstance(event, RecoveryResponse):
                for publisher in self._publishers_at(post.to):
                    self._recovered(publisher, event)
            elif isinstance(event, RegistrationReceipt):
                history.receipts.add((self.short, event.token))
                registered = self._requests.take(event)
                if event.code is None:
                    history.answer(self.short, registered)
        self.world.office.post(self, post)

    def _told_at(self, place: str) -> list[str]:
        """The subscribers that are told what is posted there, alone or together with others."""
        assert self.repository is not None
        readers = self.repository.feeds.cursors.items()
        return [
            name
            for name, cursor in readers
            if place in (cursor.inbox, notice_group_of(TOPIC, self.short, cursor.progress.notice_group))
        ]

    def _publishers_at(self, inbox: str) -> list[int]:
        """One, unless it has another repository by now."""
        assert self.repository is not None
        return [each.id for each in self.repository.holders.publishers.values() if each.inbox == inbox]

    def _recovered(self, publisher: int, response: RecoveryResponse) -> None:
        assert self.repository is not None
        state, asking = self.repository.state, self.repository.holders.publishers[publisher].incarnation
        living = state.bundle.living(self.clock, self.settings.suspicion)
        heard = [self.short, *(peer.name for peer in living if peer.told)]
        self.world.history.recover(self.short, publisher, asking, response, heard)

    def check_sync(self, name: str, done: Iterable[StreamRanges]) -> None:
        assert self.repository is not None
        subscription = self.repository.registry.subscriptions.get(name)
        if subscription is not None and subscription.incarnation >= self.world.history.pages[name].first_life:
            start = {(publisher, incarnation): number for publisher, incarnation, number in subscription.frontier}
            self.world.history.sync(self.short, name, start, done)

    def _synced(self, inbox: str, sync: Sync) -> None:
        assert self.repository is not None
        for name, cursor in self.repository.feeds.cursors.items():
            if cursor.inbox == inbox:
                self._check_agreement(name, sync.upto)
                if sync.upto == cursor.progress.sync:
                    self.check_sync(name, cursor.progress.reached())

    def _check_agreement(self, name: str, sync: int) -> None:
        """What a subscriber need not fear for any more must be written down wherever it has to be."""
        assert self.repository is not None
        history, streams = self.world.history, self.repository.log.streams
        page = history.pages[name]
        for key in [key for key in page.acknowledged if key not in page.synced]:
            stream = streams.get(key[:2])
            place = stream.locate(key[2]) if stream is not None else None
            if place is not None and place[1] + key[2] - place[0] <= sync:
                page.synced[key] = None
                history.confirm_sync(self.short, page, key, self._required(self.repository))

    def observe(self) -> None:
        """What readers may see after a step that they could not see before."""
        repository = self.repository
        if repository is None:
            return
        self.has_caught_up |= repository.gossip.ready and not self.contents.is_former
        if repository.damage.is_found:
            for key, stream in repository.log.streams.items():
                self.contents.told_damaged[key].update(stream.damaged)
        if repository.log.horizon <= self._horizon:
            return
        required = self._required(repository)
        while self._horizon < repository.log.horizon:
            record = repository.log.at(self._horizon + 1)
            if record is None:
                self._horizon = repository.log.horizon
                break
            self.world.history.reveal(self.short, record.line, required)
            self._horizon = record.line.end

    def _required(self, repository: TopicRepository) -> int:
        """How many repositories must have an event: as the owner wants, but for those that are silent."""
        since = self.clock - self.settings.degrade
        mates = [peer for peer in repository.state.bundle.peers.values() if peer.unit == self.settings.unit]
        return min(
            repository.registry.terms.copies, 1 + sum(peer.heard > since and not peer.is_leaving for peer in mates)
        )
