"""Retention: a repository forgets what everyone has, and what nobody will come for."""

from collections.abc import Iterable

from stentor.machine import Collect, Scanned
from stentor.model.stored.record import Record, RecordHeader, RecordKind, StreamId
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.repository.ledger_reads import WeighRecords
from stentor.protocols.delivery.repository.registry import is_within
from stentor.protocols.delivery.repository.serving.dissemination_table import SubscriberProgress
from stentor.protocols.delivery.repository.serving.unit_service import UnitService
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.storing.egress_hold import EgressHold
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.repository.tracer import RepositoryTracer


class Retention:
    """Deletes the oldest records of a topic once nobody needs them.

    A record is deletable when every living repository of the bundle has it, every subscriber it was meant for has
    acknowledged it, every member is here and has registered what is registered here, and the topic's `keep` time is
    over. A member that is away may go on without us and register a subscriber, who must get what is published here from
    then on; but what others have forgotten, and counts as forgotten here, nobody gets any more. `expire` and `most`
    override the last three, with a warning.
    """

    def __init__(
        self,
        state: TopicState,
        membership: MembershipView,
        commits: CommitQueue,
        egress: EgressHold,
        units: UnitService,
        tracer: RepositoryTracer,
    ) -> None:
        self._state, self._membership = state, membership
        self._commits, self._egress = commits, egress
        self._units, self._tracer = units, tracer
        self._unit, self._age_unit = state.settings.unit, state.settings.age_unit
        self._log, self._registry = state.log, state.registry
        self._table = state.table
        self._looked = 0
        self._ahead_since = 0  # when the oldest records were first seen to be stored in the future; 0 if they are not

    def tick(self) -> None:
        """Look at the oldest records from time to time."""
        if self._state.step.now - self._looked > self._state.settings.collect_every:
            self._looked = self._state.step.now
            self._look()

    def _look(self) -> None:
        if self._log.first <= self._upto:
            self._state.reads.scan(WeighRecords(), self._log.first)

    @property
    def _upto(self) -> int:
        """The last sequence number that may be forgotten."""
        return min(self._log.horizon, self._tracer.forgettable_upto)

    def on_scanned(self, scanned: Scanned) -> None:
        """Delete those of the oldest records that nobody needs."""
        if scanned.damaged:
            return  # what is damaged is written down first
        done: list[RecordHeader] = []
        living, knows_all = self._membership.living, self._membership.knows_all
        for record in scanned.records:
            if record.line.end > self._upto or not self._is_deletable(record, living, knows_all):
                break
            done.append(record.line)
        if done:
            self._log.forget(done)
            events = [line for line in done if line.kind is RecordKind.EVENTS]
            if any(self._log.streams[line.stream].unit_floor >= line.last for line in events):
                self._units.send_away_unserved()  # else what we have forgotten would be passed over for them
            if self._registry.terms.open:
                self._abandon(dict.fromkeys(line.stream for line in done))
            self._commits.after_commit(Collect(self._state.topic, done[-1].end))
            if len(done) == len(scanned.records):
                self._look()

    def _abandon(self, streams: Iterable[StreamId]) -> None:
        """Publishers of an open topic come and go: of one that is forgotten nothing is left."""
        for key in streams:
            if self._log.abandon(key):
                for each in self._table.destinations.values():
                    each.abandon(key)

    def _is_deletable(self, record: Record, living: list[PeerRepository], knows_all: bool) -> bool:
        line, terms = record.line, self._registry.terms
        if line.kind is RecordKind.RESERVED:
            return knows_all and self._is_past(record)
        if line.kind is not RecordKind.EVENTS:
            self._pass(line)
            return not (line.kind is RecordKind.SKIPPED and self._is_behind_void(line))
        age = self._age(record)
        stream = self._log.streams[line.stream]
        if not self._log.streams.is_dropped(line) and not self._is_received(stream, line, living):
            return False
        if self._is_behind_void(line):
            return False
        others = [each for each in self._table.destinations.values() if each.served and each.lacks(stream, line.last)]
        concerned = [each for each in others if line.sequence <= each.epoch or each.slot in record.audience]
        lagging = [each for each in concerned if not self._is_cared_for(each, line, stream)]
        expired = bool(terms.expire) and age > terms.expire
        expired = expired or (bool(terms.most) and line.end <= self._log.horizon - terms.most)
        may_be_wanted = line.last > stream.floor and not knows_all  # by whom one that is away has registered
        if not expired and (lagging or may_be_wanted or age <= terms.keep):
            return False
        for each in lagging:
            self._state.report("warning", "events expired", subscriber=each.name, events=line.length)
        for each in [*lagging, *(each for each in others if each not in concerned)]:
            each.mark(line.stream, line.first, line.last)  # others must know that it is not for them
            self._table.note_progress(each.name)
        if len(concerned) > len(lagging):
            stream.unit_floor = max(stream.unit_floor, line.last)
        return True

    def _is_received(self, stream: PublisherStream, line: RecordHeader, living: list[PeerRepository]) -> bool:
        """Whether all others have a record that are to have it."""
        if any(stream.reached_by(peer.name) < line.last for peer in living):
            return False
        if not self._egress.is_received(stream, line.last):
            return False
        coarse = [
            peer for peer in self._state.bundle.peers.values() if not peer.unit
        ]  # they may have been away, and have not got it yet
        return not self._unit or any(stream.reached_by(peer.name) >= line.last for peer in coarse)

    def _is_past(self, record: Record) -> bool:
        """Whether nobody needs what is damaged: everyone had it before, and it would not be kept any longer."""
        line = record.line
        served = (each for each in self._table.destinations.values() if each.served)
        is_had = bool(line.publisher) and all(each.has(line) for each in served)
        return line.is_damaged and is_had and self._age(record) > self._registry.terms.keep

    def _age(self, record: Record) -> int:
        """Return how long ago a record was stored, in the unit of topics. One that a clock ahead of ours has stamped
        ages from the moment when it was the oldest.
        """
        now, stored = self._log.wall, record.stored
        self._ahead_since = (self._ahead_since or now) if stored > now else 0
        return (now - (self._ahead_since or stored)) // self._age_unit

    def _is_behind_void(self, line: RecordHeader) -> bool:
        """Its publisher may still send what is void, and must not be told that it is stored."""
        stream = self._log.streams[line.stream]
        void = stream.voids.within(stream.floor + 1, line.last)
        return bool(void) and self._registry.is_current(*line.stream)

    def _pass(self, line: RecordHeader) -> None:
        """What was skipped is for nobody for whom events were stored then: others must know. That does not hold for
        what was passed over because others had forgotten it.
        """
        stream = self._log.streams[line.stream] if line.kind is RecordKind.SKIPPED else None
        if stream is not None and self._unit and line.last > max(stream.floor, stream.unit_floor):
            for each in self._table.destinations.values():
                if each.served and line.sequence > each.epoch and not each.has(line):
                    each.mark(line.stream, line.first, line.last)
                    self._table.note_progress(each.name)

    def _is_cared_for(self, progress: SubscriberProgress, line: RecordHeader, stream: PublisherStream) -> bool:
        """Whether storages for the unit that a subscriber is in have said that they keep it for it: as many as must
        have an event before it is acknowledged. That they have it is not enough: they may have skipped it.
        """
        home = self._registry.subscriptions[progress.name].home
        keeping = [
            peer
            for peer in self._state.bundle.peers.values()
            if peer.unit != self._unit
            and is_within(peer.unit, self._unit)
            and is_within(home, peer.unit)
            and peer.cares.get(progress.name, {}).get(stream.id, 0) >= line.last
        ]
        return len(keeping) >= self._registry.terms.copies
