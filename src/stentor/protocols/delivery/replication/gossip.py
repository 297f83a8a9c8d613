"""Gossip: the repositories of a bundle tell each other what they have, and send each other what is missing.

Recovery after a crash, joining, merging after a partition and catching up are one thing: whoever hears that another
one has more asks for it. What is missing has its sequence numbers set aside as soon as later events are stored.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from stentor.machine import MILLISECOND, Report
from stentor.model.communication import bundle_of, inbox_of, repository_name
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
    GossipVoid,
    Retransmission,
    StreamRanges,
)
from stentor.model.stored.record import Fact, Kind, RecordHeader
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.authentication import introduced
from stentor.protocols.delivery.replication.bundle import Bundle, PeerRepository
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.replication.record_verification import RecordVerification
from stentor.protocols.delivery.replication.repair_responder import ANSWER, RepairResponder
from stentor.protocols.delivery.repository.registry import LIFE, Registry, after_in, is_within
from stentor.protocols.delivery.repository.service import Change, Service, State
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable, run_of
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.stream_floors import StreamFloors
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import SendLetter
from stentor.wire.block import Block

_ANSWER_WITHIN = 500 * MILLISECOND
_FEWEST, _MOST = 64, 16_384  # events that are asked for at once
_THOROUGH_EVERY = 10  # states, of which one also tells what costs more to compare


class Gossip:
    """One repository's part in the gossip of its bundle."""

    def __init__(
        self,
        topic: str,
        settings: RepositorySettings,
        store: EventLog,
        registry: Registry,
        table: DisseminationTable,
        feeds: SubscriberFeeds,
    ) -> None:
        self._topic, self._settings = topic, settings
        self._log, self._registry, self._table, self._feeds = store, registry, table, feeds
        self._has_joined: bool | None = None  # the bundle was there before us; None until our ledger is read
        self.bundle = Bundle(settings.name, settings.unit)
        self.membership = MembershipView(settings, store, self.bundle)
        self.verification = RecordVerification(store, feeds)
        self._floors = StreamFloors(settings, store, table)
        self._responder = RepairResponder(topic, settings.name, store, feeds)
        self.principal = ""  # under which we are connected
        self.service = Service()
        self.learnt: list[Fact] = []  # registrations heard of, to be written down and acted upon
        self.touched: dict[PublisherStream, None] = {}  # of which somebody has more than before
        self.stolen: list[GossipSteering] = []  # clients that another one steers now
        self.offered: list[str] = []  # subscribers that one closer to them would steer
        self.facts = 0  # the digest of all registrations that are durable here
        self._shared = 0  # … and on all others that live
        self._registered = 0  # how much was registered when it was last on as many others as must have it
        self.sharing: list[Callable[[int], None]] = []  # what follows when others have them too
        self.cares: Callable[[], tuple[str, ...]] = tuple  # for whom we have all that they have not got
        self.stuck: Callable[[], bool] = lambda: False  # whether nothing can be written here
        self.awaits: Callable[[int], bool] = lambda _: False  # whether something acknowledged is not here
        self.cared = False  # what storages for units have is forgotten elsewhere: some may not be steered here any more
        self._mean = 1024  # bytes of an event, roughly
        self._told = 0  # when our state was last told
        self._states = 0  # that were told since all of it was
        self._number = 0  # of the last one that was told to the bundle: who sees a gap in them asks for all
        # of which others must be told something, since our state was last told
        self.changed: dict[PublisherStream, None] = {}
        self.differ: Callable[[PeerRepository], None] = lambda _: None  # one that knows something else of subscribers
        self.handlers: dict[type[ControlEvent], Callable[[int, PeerRepository, Any], None]] = {
            GossipState: self._hear_state,
            GossipAck: self._hear_rows,
            GossipFacts: self._hear_facts,
            FactsRequest: self._tell_facts,
            GossipRequest: lambda _, peer, request: self._responder.answer(peer.name, request),
            GossipVoid: self._hear_voids,
            GossipSteering: self._hear_steering,
            GossipOffer: self._hear_offer,
            GossipLeave: self._forget,
        }

    @property
    def ready(self) -> bool:
        return self.service.state is State.SERVING

    @property
    def leaving(self) -> bool:
        return self.service.state is State.LEAVING

    # ---- saying

    def say(self, event: ControlEvent, to: PeerRepository | str | None = None, *more: ControlEvent) -> None:
        """To the whole bundle, or to one repository; all in one letter, which comes or is lost as a whole."""
        if to is None and not self.bundle.peers:
            return
        name = to.name if isinstance(to, PeerRepository) else to
        topic = bundle_of(self._topic) if name is None else inbox_of(repository_name(name))
        self._feeds.effects.append(SendLetter(topic, (event, *more)))

    def linked(self, now: int, principal: str) -> None:
        self.principal = principal
        self.membership.since = now
        self.tell_all(now)

    def admit(self, now: int, units: Mapping[str, str]) -> list[str]:
        """These are the repositories of the topic now; returns who is none any more."""
        before = len(self.bundle.peers)
        gone = self.bundle.admit(units)
        had_joined, self._has_joined = self._has_joined, self._registry.has_joined(self._settings.name)
        if self._has_joined and had_joined is False:
            self.membership.join(now)
        if len(self.bundle.peers) > before:
            self.tell_all(now)
            self.say(GossipFacts(self._topic, self._settings.name, self._registry.newer_than({})))
        return gone

    def stored(self, lines: Iterable[RecordHeader]) -> None:
        """These are durable here."""
        lines = list(lines)
        for line in lines:
            self.changed[self._log.streams[line.stream]] = None
        if lines and self.bundle.peers:
            runs = tuple(run_of(line) for line in lines)
            digests = tuple(line.digest for line in lines)
            skipped = tuple((line.sequence, line.end) for line in lines if line.kind is Kind.SKIPPED)
            self.say(GossipAck(self._topic, self._settings.name, runs, digests, skipped))

    def lost(self, stream: PublisherStream) -> None:
        """Some of this turned out to be damaged: others must not count on it."""
        self.changed[stream] = None
        self._ask_floors(stream)

    def _ask_floors(self, stream: PublisherStream) -> None:
        """Have those who have forgotten more of a stream than we say so again: then it is forgotten here, too."""
        for peer in self.bundle.peers.values():
            if stream.peer_floors.get(peer.name, 0) > stream.floor:
                peer.told = False

    def tell_all(self, now: int) -> None:
        """Tell the bundle all that we have."""
        self._states = 0
        self.tell_state(now)

    def tell_state(self, now: int, to: PeerRepository | None = None) -> None:
        """To the bundle, of what has changed; to one of it, all that we have."""
        if not self.membership.since:
            return
        thorough = to is not None or self._states % _THOROUGH_EVERY == 0
        whole = to is not None or self._states == 0 or (thorough and bool(self._settings.unit))
        untold = [peer for peer in self.bundle.peers.values() if not peer.retold]
        lately = now - self._settings.suspicion  # nobody else would answer, unless it is that we have heard nobody yet
        asking = to is None and any(peer.heard > lately or not self.ready for peer in untold)
        streams = [each for each in (self._log.streams.values() if whole else self.changed) if each.end]
        if to is None:
            self._told, self.changed = now, {}
            self._states += 1
            self._number += 1
        state = GossipState(
            self._topic, self._settings.name, self.ready, tuple(map(_held, streams)), self.facts, self.leaving, whole,
            asking, "", self._table.digest if thorough else 0, self._settings.unit,
            self.cares() if whole and self.facts == self._registry.digest else (), tuple(self.verification.done),
            self.stuck(), number=self._number, version=self._registry.version, after=self._registry.terms.after,
            damaged=tuple(StreamRanges(*each.id, 0, each.damaged.pairs()) for each in streams if each.damaged),
            recalls=self._settings.lake,
        )  # fmt: skip
        voids = tuple(StreamRanges(*stream.id, 0, stream.voids.pairs()) for stream in streams if stream.voids)
        lost = tuple(StreamRanges(*each.id, 0, each.written_off.pairs()) for each in streams if each.written_off)
        told = ((lost, True), (voids, False))
        self.say(state, to, *(GossipVoid(self._topic, self._settings.name, *each) for each in told if each[0]))
        if thorough and to is None:
            self._invite(now)
            for peer in self.bundle.peers.values():
                if peer.unit:  # it may have missed whom we steer since then
                    self._tell_steering(peer)

    def _invite(self, now: int) -> None:
        """Those who are silent may not know yet that they are members: tell them by name."""
        living = self.living(now)
        for peer in self.bundle.peers.values():
            if peer not in living and not peer.leaving and self._registry.created:
                self.say(self.invitation(), peer)

    def invitation(self) -> GossipFacts:
        return GossipFacts(self._topic, self._settings.name, self._registry.newer_than({}))

    def knows(self, sender: int) -> bool:
        """Whether this id is that of a member."""
        return self._registry.believed.include(sender)

    # ---- hearing

    def hear(self, now: int, sender: int, event: ControlEvent, blocks: Iterable[Block]) -> None:
        """Something that a repository said; nothing is heard of those that are no members."""
        if not self._is_believed(sender, event):
            return
        peer = self.bundle.peers.get(event.sender)
        if peer is None:
            if isinstance(event, GossipFacts) and not self._registry.created:
                self.learnt += self._registry.merge(event.facts)  # a repository of the topic says that we are one too
            if not self._registry.was_member(event.sender):
                return
            peer = self.bundle.dismiss(event.sender)
        if not self._is_about_our_topic(peer, event):
            return
        peer.hear(now, self._settings.suspicion)
        if isinstance(event, Retransmission):
            self._take(now, peer, event, blocks)
        elif isinstance(event, EgressRelease):
            self._let_in(now, peer, event, blocks)
        elif (handler := self.handlers.get(type(event))) is not None:
            handler(now, peer, event)

    def _is_about_our_topic(self, peer: PeerRepository, event: ControlEvent) -> bool:
        """Whether another one does not speak of a topic of the same name that was deleted. What it stores of that, what
        it knows of subscribers there and whom it steers must not count here; and the other way round.
        """
        registry = self._registry
        if isinstance(event, GossipState | GossipFacts):
            ended = event.after if isinstance(event, GossipState) else after_in(event.facts)
            if registry.is_ended(ended):
                self.learnt += registry.end(ended)
                return False
        if isinstance(event, GossipState):
            peer.version = event.version
            if 0 < event.version <= registry.terms.after:
                self.say(self.invitation(), peer)  # it was away while that was deleted
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

    def _take(self, now: int, peer: PeerRepository, answer: Retransmission, blocks: Iterable[Block]) -> None:
        blocks = list(blocks)
        times = answer.stored if len(answer.stored) == len(blocks) else [block.time for block in blocks]
        for block, stored in zip(blocks, times, strict=True):  # older repositories do not tell when they stored it
            self._log.fetch(now, block, peer.unit == self._settings.unit, stored)
            self._mean = (7 * self._mean + len(block.frame) // block.count) // 8 + 1
        peer.asked = now if answer.more else 0
        if not answer.more:
            self.ask(now, peer, at_once=True)

    def _let_in(self, now: int, peer: PeerRepository, passage: EgressRelease, blocks: Iterable[Block]) -> None:
        """Events from another unit. If its numbers tell that some did not come, it is asked what it has."""
        for block in blocks:
            self._log.fetch(now, block, peer.unit == self._settings.unit)
        if peer.passed and passage.previous > peer.passed:
            peer.told = False
            self._told = 0  # do not wait until it is time to say what we have
        peer.passed = max(peer.passed, passage.upto)

    def _hear_facts(self, now: int, peer: PeerRepository, gossip: GossipFacts) -> None:  # noqa: ARG002
        facts = gossip.facts
        if 0 < self._registry.terms.after >= peer.version:  # lives may be newer than the end of the topic that they had
            facts = tuple(fact for fact in facts if not fact[0].startswith(LIFE))
        self.learnt += self._registry.merge(facts)

    def _tell_facts(self, now: int, peer: PeerRepository, request: FactsRequest) -> None:  # noqa: ARG002
        registry, digest = self._registry, request.digest
        facts = registry.registered_since(digest) if digest else registry.newer_than(request.versions)
        if facts:
            self.say(GossipFacts(self._topic, self._settings.name, facts), peer)

    def _hear_voids(self, now: int, peer: PeerRepository, gossip: GossipVoid) -> None:  # noqa: ARG002
        for held in self._log.streams.current(gossip.voids):
            stream = self._log.streams[held.publisher, held.incarnation]
            if gossip.lost and held.spans and self._log.is_introduced(stream.id):
                self._log.set_aside(stream, held.spans[-1][1])  # so that it is written down, and readers are told
            spans = held.spans if gossip.lost else stream.readable(held.spans)
            if self._log.void(stream, spans, lost=gossip.lost) or self._log.give_up_skipped(stream, spans):
                self.touched[stream] = self.changed[stream] = None

    def _hear_steering(self, now: int, peer: PeerRepository, gossip: GossipSteering) -> None:  # noqa: ARG002
        self.stolen.append(gossip)

    def _hear_offer(self, now: int, peer: PeerRepository, gossip: GossipOffer) -> None:  # noqa: ARG002
        if is_within(peer.unit, self._settings.unit) and peer.unit != self._settings.unit:
            self.offered += gossip.names

    def _hear_state(self, now: int, peer: PeerRepository, state: GossipState) -> None:
        if not peer.follow(state):
            state = msgspec.structs.replace(state, held=())  # we have heard newer ones
        current = self._log.streams.current(state.held)
        if len(current) < len(state.held):  # what a member stored of a life before it heard that it is closed counts
            late = [] if peer.departed else [each for each in state.held if each.spans and each not in current]
            state = msgspec.structs.replace(state, held=(*current, *late))
        self.bundle.take_state(peer, state, self._log.streams)
        if state.asking and now - peer.answered >= self._settings.interval // 2:
            peer.answered = now
            self._tell_steering(peer)
            self.tell_state(now, peer)
        for held in state.held:
            stream = self._log.streams[held.publisher, held.incarnation]
            self.touched[stream] = self._log.streams.unsettled[stream] = None
            if not peer.unit:
                if held.floor > stream.floor:
                    self.changed[stream] = None
                self._floors.begin(stream, held)
                self.cared |= self._floors.follow(stream, held, self.living(now))
        if state.facts != self._registry.digest:
            self._ask_facts(peer)
        self.are_facts_shared(now)
        if (state.whole or state.syncs or state.leaving) and state.syncs != self._table.digest:
            self.differ(peer)
        self.ask(now, peer)

    def _ask_facts(self, peer: PeerRepository) -> None:
        """Ask what is registered elsewhere; one that may not have heard our principal believes us if we name it."""
        mine = self._registry.introduction(self._settings.name)
        if mine:
            self.say(GossipFacts(self._topic, self._settings.name, mine), peer)
        digest, asked = self._registry.digest, peer.facts_asked
        if self._registry.registered_since(peer.facts) is None:  # else it lacks something, and asks us
            peer.facts_asked = digest, peer.facts
            has_asked = peer.facts_asked == asked  # … what was registered since then, and it could not tell
            versions, since = (self._registry.versions(), 0) if has_asked else ({}, digest)
            self.say(FactsRequest(self._topic, self._settings.name, versions, since), peer)

    def _tell_steering(self, peer: PeerRepository) -> None:
        """A storage for a unit must know whom others steer, or it cannot offer to do it."""
        if self._feeds.cursors:
            said = tuple(
                GossipSteering(self._topic, self._settings.name, "subscriber", name, cursor.incarnation, cursor.attempt)
                for name, cursor in self._feeds.cursors.items()
            )
            self._feeds.effects.append(SendLetter(inbox_of(repository_name(peer.name)), said))

    def _hear_rows(self, now: int, peer: PeerRepository, gossip: GossipAck) -> None:
        rows = self.bundle.take_rows(peer, gossip, self._log.streams)
        self._log.remarks += rows
        skipped = Spans(gossip.skipped)
        for line in [row.line for row in rows]:
            stream = self._log.streams[line.stream]
            if not stream.announced.covers(line.first, line.last):
                stream.changed_at = now  # it is on its way to us too, most likely
            stream.learn(peer.name, ((line.first, line.last),))
            self.touched[stream] = self._log.streams.unsettled[stream] = None
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
                self._log.clashes.append(line)

    def _forget(self, now: int, peer: PeerRepository, gossip: GossipLeave) -> None:  # noqa: ARG002
        for stream in self._log.streams.values():
            stream.dismiss(peer.name)
        peer.leaving = True
        if peer.departed:
            del self.bundle.peers[peer.name]

    # ---- sending each other what is missing

    def ask(self, now: int, peer: PeerRepository, at_once: bool = False) -> None:
        """Ask another one for what it has and we lack, unless it may be on its way."""
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
            self.say(GossipRequest(self._topic, self._settings.name, wanted), peer)

    def ask_all(self, now: int) -> None:
        for peer in self.living(now):
            self.ask(now, peer)

    # ---- time

    def living(self, now: int) -> list[PeerRepository]:
        return self.membership.living(now)

    def copies(self, now: int) -> int:
        """How many repositories must have an event before it is acknowledged: fewer than wished for if too few live."""
        return max(1, min(self._registry.terms.copies, 1 + len(self.membership.same_unit_peers(now))))

    def noted(self, now: int, digest: int) -> None:
        """Registrations are durable here: others may rely on it."""
        self.facts = digest
        self.tell_state(now)

    def are_facts_shared(self, now: int) -> bool:
        """Whether all others that live have what is registered here: else it could be lost with us, and one that does
        not know a subscriber would let it begin anew. One that can write nothing has heard it, and is not waited for.
        """
        if self._shared != self._registry.digest:
            living = [peer for peer in self.living(now) if not peer.stuck]
            agreeing = self.facts == self._registry.digest and all(peer.facts == self.facts for peer in living)
            are_enough = len(living) >= self.copies(now) - 1
            if not agreeing or not (are_enough or self._registered == self._registry.registrations):
                return False
            self._shared = self.facts
            if are_enough:
                self._registered = self._registry.registrations
        return True

    def knows_all(self, now: int) -> bool:
        """Whether every member is here, has told all that it has, and has registered what is registered here."""
        members = [peer for peer in self.bundle.peers.values() if not peer.departed]
        return self.membership.is_here(now) and all(peer.facts == self._registry.digest for peer in members)

    def tick(self, now: int) -> bool:
        """Whether something is awaited soon."""
        self.ask_all(now)
        living, unsettled = self.living(now), self._log.streams.unsettled
        self._floors.rise(unsettled)
        for stream in [each for each in unsettled if self._floors.is_orphaned(each, living)]:
            self._ask_floors(stream)
        leaving = (peer.name for peer in self.bundle.peers.values() if peer.leaving)
        if self.verification.look(leaving) or now - self._told >= self._settings.interval:
            self.tell_state(now)
        return any(peer.asked for peer in living)

    def judge(self, now: int) -> None:
        """Whether we may steer clients: once we have all that any living member has."""
        if self.ready or self.leaving or not self.membership.since or not self._registry.created:
            return
        living = self.living(now)
        if self.membership.is_awaited(now):
            return
        streams = self._log.streams.unsettled
        if any(stream.wanted_from(peer.name) for peer in living for stream in streams):
            return
        if any(not peer.told or peer.facts != self._registry.digest for peer in living) or self.awaits(now):
            return
        self.service.change(Change.CAUGHT_UP)
        self._feeds.effects.append(Report("info", "repository is ready", {"topic": self._topic, "others": len(living)}))
        self.tell_state(now)


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
