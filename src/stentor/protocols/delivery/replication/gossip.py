"""Gossip: the repositories of a bundle tell each other what they have, and send each other what is missing.

Recovery after a crash, joining, merging after a partition and catching up are one thing: whoever hears that another
one has more asks for it. What is missing has its sequence numbers set aside as soon as later events are stored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from stentor.machine import MILLISECOND
from stentor.model.communication import inbox_of, repository_name
from stentor.model.control import (
    ControlEvent,
    EgressRelease,
    FactsRequest,
    GossipAck,
    GossipFacts,
    GossipLeave,
    GossipOffer,
    GossipRequest,
    GossipState,
    GossipSteering,
    GossipSync,
    GossipVoid,
    Retransmission,
    StreamRanges,
)
from stentor.model.stored.record import Fact, RecordHeader, RecordKind
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.authentication import introduced
from stentor.protocols.delivery.replication.bundle import PeerChange, PeerRepository
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.replication.record_verification import RecordVerification
from stentor.protocols.delivery.replication.registration_sharing import RegistrationSharing
from stentor.protocols.delivery.replication.repair_responder import ANSWER, RepairResponder
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository.registry import LIFE, after_in, is_within
from stentor.protocols.delivery.repository.service import ServiceChange
from stentor.protocols.delivery.repository.serving.dissemination_table import run_of
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.serving.unit_service import UnitService
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.stream_floors import StreamFloors
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.wire.block import Block

_ANSWER_WITHIN = 500 * MILLISECOND
_FEWEST, _MOST = 64, 16_384  # events that are asked for at once
_THOROUGH_EVERY = 10  # states, of which one also tells what costs more to compare


class GossipNews(msgspec.Struct):
    """What other repositories said that parts beside gossip act upon, once all of a letter is heard."""

    learnt: list[Fact] = []  # registrations to be written down
    steered: list[GossipSteering] = []  # clients that another one steers now
    offered: tuple[str, ...] = ()  # subscribers that one closer to them would steer
    is_passed_over: bool = False  # storages for units alone have something: some may not be steered here any more


class Gossip:
    """One repository's part in the gossip of its bundle."""

    def __init__(
        self,
        state: TopicState,
        feeds: SubscriberFeeds,
        commits: CommitQueue,
        membership: MembershipView,
        syncs: SyncReplication,
        lives: PublisherLives,
        units: UnitService,
    ) -> None:
        self._state, self._step = state, state.step
        self._topic, self._settings = state.topic, state.settings
        self._log, self._registry = state.log, state.registry
        self._table, self.bundle = state.table, state.bundle
        self._feeds, self._commits = feeds, commits
        self.membership, self._syncs = membership, syncs
        self._lives, self._units = lives, units
        self.sharing = RegistrationSharing(state, membership)
        self.verification = RecordVerification(state)
        self.responder = RepairResponder(state)
        self._floors = StreamFloors(state)
        self._has_joined: bool | None = None  # the bundle was there before us; None until our ledger is read
        self.principal = ""  # under which we are connected
        self._news = GossipNews()
        self._mean = 1024  # bytes of an event, roughly
        self._told = 0  # when our state was last told
        self._states = 0  # that were told since all of it was
        self._number = 0  # of the last one that was told to the bundle: who sees a gap in them asks for all
        self._changed: dict[PublisherStream, None] = {}  # of which others must be told something with our next state
        self._handlers: dict[type[ControlEvent], Callable[[PeerRepository, Any], None]] = {
            GossipState: self._on_state,
            GossipAck: self._on_ack,
            GossipFacts: self._on_facts,
            FactsRequest: self._on_facts_request,
            GossipRequest: self._on_request,
            GossipVoid: self._on_void,
            GossipSteering: self._on_steering,
            GossipSync: self._syncs.on_sync,
            GossipOffer: self._on_offer,
            GossipLeave: self._on_leave,
        }

    @property
    def ready(self) -> bool:
        return self._state.service.is_serving

    @property
    def leaving(self) -> bool:
        return self._state.service.is_leaving

    @property
    def are_registrations_durable(self) -> bool:
        return self.sharing.durable_digest == self._registry.digest

    def take_news(self) -> GossipNews:
        """Remove and return what others said since this was last asked."""
        news, self._news = self._news, GossipNews()
        return news

    def note_change(self, stream: PublisherStream) -> None:
        """Tell others of a stream with our next state."""
        self._changed[stream] = None

    def reopen(self, facts: Mapping[str, bytes]) -> None:
        """Begin with what the ledger holds."""
        self.sharing.note_durable(self._registry.digest)
        self.membership.recall(facts)

    # ---- saying

    def linked(self, principal: str) -> None:
        self.principal = principal
        self.membership.begin()
        self.tell_all()

    def admit(self) -> list[str]:
        """Take the members from the registry; return who is none any more."""
        before = len(self.bundle.peers)
        gone = self.bundle.admit(self._registry.units)
        had_joined, self._has_joined = self._has_joined, self._registry.has_joined(self._settings.name)
        if self._has_joined and had_joined is False:
            self.membership.join()
        if len(self.bundle.peers) > before:
            self.tell_all()
            self._state.say(GossipFacts(self._topic, self._settings.name, facts=self._registry.newer_than({})))
        return gone

    def stored(self, lines: Sequence[RecordHeader]) -> None:
        """Tell the bundle what is durable here."""
        for line in lines:
            self.note_change(self._log.streams[line.stream])
        if lines and self.bundle.peers:
            runs = tuple(run_of(line) for line in lines)
            digests = tuple(line.digest for line in lines)
            skipped = tuple((line.sequence, line.end) for line in lines if line.kind is RecordKind.SKIPPED)
            me = self._settings.name
            self._state.say(GossipAck(self._topic, me, stretches=runs, digests=digests, skipped=skipped))

    def lost(self, stream: PublisherStream) -> None:
        """Note that some of a stream turned out to be damaged: others must not count on it."""
        self.note_change(stream)
        self._ask_floors(stream)

    def _ask_floors(self, stream: PublisherStream) -> None:
        """Have those who have forgotten more of a stream than we say so again: then it is forgotten here, too."""
        for peer in self.bundle.peers.values():
            if stream.peer_floors.get(peer.name, 0) > stream.floor:
                peer.told = False

    def tell_all(self) -> None:
        """Tell the bundle all that we have."""
        self._states = 0
        self.tell_state()

    def tell_state(self, to: PeerRepository | None = None) -> None:
        """Tell the bundle what has changed, or one of it all that we have."""
        if not self.membership.since:
            return
        thorough = to is not None or self._states % _THOROUGH_EVERY == 0
        whole = to is not None or self._states == 0 or (thorough and bool(self._settings.unit))
        untold = [peer for peer in self.bundle.peers.values() if not peer.retold]
        lately = self._step.now - self._settings.suspicion  # nobody else would answer, unless we have heard nobody yet
        asking = to is None and any(peer.heard > lately or not self.ready for peer in untold)
        streams = [each for each in (self._log.streams.values() if whole else self._changed) if each.end]
        if to is None:
            self._told, self._changed = self._step.now, {}
            self._states += 1
            self._number += 1
        state = GossipState(
            self._topic,
            self._settings.name,
            ready=self.ready,
            held=tuple(map(_held, streams)),
            facts=self.sharing.durable_digest,
            leaving=self.leaving,
            whole=whole,
            asking=asking,
            syncs=self._table.digest if thorough else 0,
            unit=self._settings.unit,
            cares=self._units.cared_for() if whole and self.are_registrations_durable else (),
            inspected=tuple(self.verification.done),
            stuck=bool(self._commits.failure),
            number=self._number,
            version=self._registry.version,
            after=self._registry.terms.after,
            damaged=tuple(StreamRanges(*each.id, 0, each.damaged.pairs()) for each in streams if each.damaged),
            recalls=self._settings.lake,
        )
        voids = tuple(StreamRanges(*stream.id, 0, stream.voids.pairs()) for stream in streams if stream.voids)
        lost = tuple(StreamRanges(*each.id, 0, each.written_off.pairs()) for each in streams if each.written_off)
        me, gone = self._settings.name, ((lost, True), (voids, False))
        news = [GossipVoid(self._topic, me, voids=each, lost=is_lost) for each, is_lost in gone if each]
        self._state.say(state, to, *news)
        if thorough and to is None:
            self._invite()
            for peer in self.bundle.peers.values():
                if peer.unit:  # it may have missed whom we steer since then
                    self._tell_steering(peer)

    def _invite(self) -> None:
        """Tell those who are silent, by name, that they are members: they may not know it yet."""
        living = self.membership.living
        for peer in self.bundle.peers.values():
            if peer not in living and not peer.is_leaving and self._registry.created:
                self._state.say(self.invitation(), peer)

    def invitation(self) -> GossipFacts:
        return GossipFacts(self._topic, self._settings.name, facts=self._registry.newer_than({}))

    def knows(self, sender: int) -> bool:
        """Whether this id is that of a member."""
        return self._registry.believed.include(sender)

    # ---- hearing

    def hear(self, sender: int, event: ControlEvent, blocks: Sequence[Block]) -> None:
        """Act upon what a repository said, if it is a member, or was one."""
        if not self._is_believed(sender, event):
            return
        peer = self.bundle.peers.get(event.sender)
        if peer is None:
            if isinstance(event, GossipFacts) and not self._registry.created:
                # A repository of the topic says that we are one too.
                self._news.learnt += self._registry.merge(event.facts)
            if not self._registry.was_member(event.sender):
                return
            peer = self.bundle.dismiss(event.sender)
        if not self._is_about_our_topic(peer, event):
            return
        peer.hear(self._step.now, self._settings.suspicion)
        if isinstance(event, Retransmission):
            self._on_retransmission(peer, event, blocks)
        elif isinstance(event, EgressRelease):
            self._on_egress(peer, event, blocks)
        elif (handler := self._handlers.get(type(event))) is not None:
            handler(peer, event)

    def _is_about_our_topic(self, peer: PeerRepository, event: ControlEvent) -> bool:
        """Whether another one does not speak of a topic of the same name that was deleted. What it stores of that, what
        it knows of subscribers there and whom it steers must not count here; and the other way round.
        """
        registry = self._registry
        if isinstance(event, GossipState | GossipFacts):
            ended = event.after if isinstance(event, GossipState) else after_in(event.facts)
            if registry.is_ended(ended):
                self._news.learnt += registry.end(ended)
                return False
        if isinstance(event, GossipState):
            peer.version = event.version
            if 0 < event.version <= registry.terms.after:
                self._state.say(self.invitation(), peer)  # it was away while that was deleted
        is_said = isinstance(event, GossipFacts | FactsRequest)  # facts have versions of their own
        return is_said or peer.version == 0 or peer.version > registry.terms.after

    def _is_believed(self, sender: int, event: ControlEvent) -> bool:
        """Whether the repository has sent this that it names. Of one whose principal is not written down, because we
        know nothing of the topic or it is older than principals, facts are believed that name the one under which it
        sends them: brokers let only nodes be called repositories.
        """
        believed = self._registry.believed
        if isinstance(event, GossipFacts) and not self._registry.principal_of(event.sender):
            believed = introduced(event.facts)
        return believed.wrote(sender, event.sender)

    def _on_retransmission(self, peer: PeerRepository, answer: Retransmission, blocks: Sequence[Block]) -> None:
        times = answer.stored if len(answer.stored) == len(blocks) else [block.time for block in blocks]
        for block, stored in zip(blocks, times, strict=True):  # older repositories do not tell when they stored it
            self._log.fetch(self._step.now, block, peer.unit == self._settings.unit, stored)
            self._mean = (7 * self._mean + len(block.frame) // block.count) // 8 + 1
        peer.asked = self._step.now if answer.more else 0
        if not answer.more:
            self.ask(peer, at_once=True)

    def _on_egress(self, peer: PeerRepository, passage: EgressRelease, blocks: Sequence[Block]) -> None:
        """Store events from another unit. If its numbers tell that some did not come, it is asked what it has."""
        for block in blocks:
            self._log.fetch(self._step.now, block, peer.unit == self._settings.unit)
        if peer.passed and passage.previous > peer.passed:
            peer.told = False
            self._told = 0  # do not wait until it is time to say what we have
        peer.passed = max(peer.passed, passage.upto)

    def _on_facts(self, peer: PeerRepository, gossip: GossipFacts) -> None:
        facts = gossip.facts
        if 0 < self._registry.terms.after >= peer.version:  # lives may be newer than the end of the topic that they had
            facts = tuple(fact for fact in facts if not fact[0].startswith(LIFE))
        self._news.learnt += self._registry.merge(facts)

    def _on_facts_request(self, peer: PeerRepository, request: FactsRequest) -> None:
        registry, digest = self._registry, request.digest
        facts = registry.registered_since(digest) if digest else registry.newer_than(request.versions)
        if facts:
            self._state.say(GossipFacts(self._topic, self._settings.name, facts=facts), peer)

    def _on_request(self, peer: PeerRepository, request: GossipRequest) -> None:
        self.responder.answer(peer.name, request)

    def _on_void(self, _: PeerRepository, gossip: GossipVoid) -> None:
        for held in self._log.streams.current(gossip.voids):
            stream = self._log.streams[held.publisher, held.incarnation]
            if gossip.lost and held.spans and self._log.is_introduced(stream.id):
                self._log.set_aside(stream, held.spans[-1][1])  # so that it is written down, and readers are told
            spans = held.spans if gossip.lost else self._lives.hopeless(stream, held.spans)
            if self._log.void(stream, spans, lost=gossip.lost) or self._log.give_up_skipped(stream, spans):
                self._log.streams.touch(stream)
                self.note_change(stream)

    def _on_steering(self, _: PeerRepository, gossip: GossipSteering) -> None:
        self._news.steered.append(gossip)

    def _on_offer(self, peer: PeerRepository, gossip: GossipOffer) -> None:
        if is_within(peer.unit, self._settings.unit) and peer.unit != self._settings.unit:
            self._news.offered += gossip.names

    def _on_state(self, peer: PeerRepository, state: GossipState) -> None:
        if not peer.follow(state):
            state = msgspec.structs.replace(state, held=())  # we have heard newer ones
        current = self._log.streams.current(state.held)
        if len(current) < len(state.held):  # what a member stored of a life before it heard that it is closed counts
            late = [] if peer.is_departed else [each for each in state.held if each.spans and each not in current]
            state = msgspec.structs.replace(state, held=(*current, *late))
        self.bundle.take_state(peer, state, self._log.streams, is_agreed=state.facts == self._registry.digest)
        if state.asking and self._step.now - peer.answered >= self._settings.interval // 2:
            peer.answered = self._step.now
            self._tell_steering(peer)
            self.tell_state(peer)
        for held in state.held:
            stream = self._log.streams[held.publisher, held.incarnation]
            self._log.streams.touch(stream)
            self._log.streams.unsettle(stream)
            if not peer.unit:
                if held.floor > stream.floor:
                    self.note_change(stream)
                self._floors.begin(stream, held)
                self._news.is_passed_over |= self._floors.follow(stream, held, self.membership.living)
        if state.facts != self._registry.digest:
            self._ask_facts(peer)
        else:
            peer.is_asked_by_digest = False
        self.sharing.is_shared()
        if (state.whole or state.syncs or state.leaving) and state.syncs != self._table.digest:
            self._syncs.tell_all(peer)
        self.ask(peer)

    def _ask_facts(self, peer: PeerRepository) -> None:
        """Ask what is registered elsewhere; one that may not have heard our principal believes us if we name it."""
        mine = self._registry.introduction(self._settings.name)
        if mine:
            self._state.say(GossipFacts(self._topic, self._settings.name, facts=mine), peer)
        if self._registry.registered_since(peer.facts) is None:  # else it lacks something, and asks us
            # Every second time in a row, since it could not tell: the digests may change without end meanwhile.
            versions, since = (self._registry.versions(), 0) if peer.is_asked_by_digest else ({}, self._registry.digest)
            peer.is_asked_by_digest = not peer.is_asked_by_digest
            self._state.say(FactsRequest(self._topic, self._settings.name, versions=versions, digest=since), peer)

    def _tell_steering(self, peer: PeerRepository) -> None:
        """A storage for a unit must know whom others steer, or it cannot offer to do it."""
        if self._feeds.cursors:
            said = tuple(
                GossipSteering(
                    self._topic,
                    self._settings.name,
                    role="subscriber",
                    name=name,
                    incarnation=cursor.incarnation,
                    attempt=cursor.attempt,
                )
                for name, cursor in self._feeds.cursors.items()
            )
            self._state.send(inbox_of(repository_name(peer.name)), *said)

    def _on_ack(self, peer: PeerRepository, gossip: GossipAck) -> None:
        rows = self.bundle.take_rows(peer, gossip, self._log.streams)
        self._log.unwritten.remark(rows)
        skipped = Spans(gossip.skipped)
        for line in [row.line for row in rows]:
            stream = self._log.streams[line.stream]
            if not stream.announced.covers(line.first, line.last):
                stream.changed_at = self._step.now  # it is on its way to us too, most likely
            stream.learn(peer.name, ((line.first, line.last),))
            self._log.streams.touch(stream)
            self._log.streams.unsettle(stream)
            if line.sequence in skipped:  # what it does not have, it cannot contradict
                stream.peer_skipped.setdefault(peer.name, Spans()).add(line.first, line.last)
            else:
                self._compare(stream, line)
            if stream.waiting:
                self._log.admit(stream)

    def _compare(self, stream: PublisherStream, line: RecordHeader) -> None:
        """Note a clash if the record that begins here with the same number is another one than somebody else's."""
        known, place = stream.digest_at(line.first), stream.locate(line.first)
        may_differ = self._registry.is_resumed(*line.stream)  # the same events, cut otherwise in another life
        if known is not None and known != line.digest and place is not None and not may_differ:
            record = self._log.at(place[1])
            if record is not None and record.line.length == line.length:
                self._log.note_clash(line)

    def _on_leave(self, peer: PeerRepository, _: GossipLeave) -> None:
        for stream in self._log.streams.values():
            stream.dismiss(peer.name)
        peer.change(PeerChange.SAID_LEAVING)
        if peer.is_departed:
            self.bundle.forget(peer)

    # ---- sending each other what is missing

    def ask(self, peer: PeerRepository, at_once: bool = False) -> None:
        """Ask another one for what it has and we lack, unless it may be on its way."""
        now = self._step.now
        if peer.asked and now - peer.asked < _ANSWER_WITHIN:
            return
        settled = now if at_once else now - self._settings.patience
        most = min(max(ANSWER // self._mean, _FEWEST), _MOST)
        is_agreed = peer.facts == self._registry.digest  # else it may know what came before a life that is new to us
        unsettled, is_introduced = self._log.streams.unsettled, self._log.is_introduced
        known = [each for each in unsettled if (each.highest_numbered or is_agreed) and is_introduced(each.id)]
        wanted = self.bundle.wants(peer, known, settled, most, now - _ANSWER_WITHIN)
        peer.asked = now if wanted else 0
        if wanted:
            self._state.say(GossipRequest(self._topic, self._settings.name, wanted), peer)

    def ask_all(self) -> None:
        for peer in self.membership.living:
            self.ask(peer)

    # ---- time

    def tell_registrations(self, digest: int) -> None:
        """Tell others that they may rely on these registrations, which are durable here."""
        self.sharing.note_durable(digest)
        self.tell_state()

    def tick(self) -> bool:
        """Ask for what is missing, and say what we have; return whether something is awaited soon."""
        self.ask_all()
        living, unsettled = self.membership.living, self._log.streams.unsettled
        self._floors.rise(unsettled)
        for stream in [each for each in unsettled if self._floors.is_orphaned(each, living)]:
            self._ask_floors(stream)
        leaving = (peer.name for peer in self.bundle.peers.values() if peer.is_leaving)
        if self.verification.look(leaving) or self._step.now - self._told >= self._settings.interval:
            self.tell_state()
        return any(peer.asked for peer in living)

    def judge(self) -> None:
        """Steer clients once we have all that any living member has."""
        if self.ready or self.leaving or not self.membership.since or not self._registry.created:
            return
        living = self.membership.living
        if self.membership.is_awaited:
            return
        streams = self._log.streams.unsettled
        if any(stream.wanted_from(peer.name) for peer in living for stream in streams):
            return
        if any(not peer.told or peer.facts != self._registry.digest for peer in living) or self._lives.is_waiting:
            return
        self._state.service.change(ServiceChange.CAUGHT_UP)
        self._state.report("info", "repository is ready", others=len(living))
        self.tell_state()


def _held(stream: PublisherStream) -> StreamRanges:
    """What is told of a stream."""
    return StreamRanges(
        *stream.id,
        stream.durable_floor,
        tuple(stream.durable.within(stream.durable_floor + 1, stream.durable.last)),
        stream.unit_floor,
        tuple(stream.skipped.within(stream.durable_floor + 1, stream.skipped.last)),
        tuple(stream.voids.within(1, stream.durable_floor)),
    )
