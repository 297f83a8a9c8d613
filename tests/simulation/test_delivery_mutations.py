"""Break one mechanism of reliable delivery at a time, and a checker must see it. All of them, and how many seeds each
takes, are in docs/protocols/reliable-delivery-proof.md; those that take many are for `make soak`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest
from tests.simulation.killers import find_killer

from stentor.machine import CommitFailed
from stentor.model.communication import bundle_of
from stentor.model.control import ControlEvent, Denial, GossipState, Registration, StreamRanges, SubscriberAck
from stentor.model.ids import publisher_id
from stentor.model.stored.position import Position
from stentor.model.stored.reading import Page, PageRequest, ReaderAck
from stentor.model.stored.record import Record, RecordHeader, RecordKind, StreamId
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery import steering
from stentor.protocols.delivery.authentication import BundleMembers
from stentor.protocols.delivery.homing import Homing
from stentor.protocols.delivery.publisher import publisher
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.replication.own_membership import OwnMembership
from stentor.protocols.delivery.replication.registration_sharing import RegistrationSharing
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository import registry, repository, tracer
from stentor.protocols.delivery.repository.deferred import Deferred
from stentor.protocols.delivery.repository.registry import Registry, SubscriptionRecord
from stentor.protocols.delivery.repository.repository import TopicRepository
from stentor.protocols.delivery.repository.service import TRANSITIONS, ServiceChange, ServiceState
from stentor.protocols.delivery.repository.serving.dissemination_table import SubscriberProgress
from stentor.protocols.delivery.repository.serving.mailboxes import Mailboxes
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.record_audience import Part
from stentor.protocols.delivery.repository.serving.start_positions import StartPositions
from stentor.protocols.delivery.repository.serving.subscriber_cursor import SubscriberCursor
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.serving.subscriber_letters import SubscriberLetters
from stentor.protocols.delivery.repository.storing import commit_queue, event_log, floor_facts
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue, Noted
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.gap_closing import GapClosing
from stentor.protocols.delivery.repository.storing.life_closing import LifeClosing
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.retention import Retention
from stentor.protocols.delivery.repository.storing.stream_floors import StreamFloors
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.steering import Steering
from stentor.protocols.delivery.stored import read_client
from stentor.protocols.delivery.stored.read_client import StoredReadClient
from stentor.protocols.delivery.stored.read_server import StoredReadServer
from stentor.protocols.delivery.subscriber.event_buffer import EventBuffer, StreamBuffer
from stentor.protocols.delivery.subscriber.listen_control import ListenControl
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.trace_sum import TraceSum
from stentor.protocols.delivery.transport import LetterReceived, SendLetter
from stentor.simulation.delivery import owner
from stentor.storage.commit_group import Item
from stentor.wire.block import Block


def always(answer: Any) -> Callable[..., Any]:
    return lambda *_: answer


Mutate = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 400


def batches_are_kept_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(event_log, "cut", lambda audience, count: [Part(0, count - 1, audience)])


def no_gossip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicState, "say", always(None))


def durable_before_it_is(patch: pytest.MonkeyPatch) -> None:
    original = CommitQueue.flush

    def flush(self: CommitQueue) -> Any:
        for line in self._unwritten.lines:
            if line.kind is RecordKind.EVENTS:
                self._log.streams[line.stream].durable.add(line.first, line.last)
        return original(self)

    patch.setattr(CommitQueue, "flush", flush)


def sync_advances_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriberCursor, "skip", lambda self: self._advance(self.scanned_upto))


def acknowledgements_of_some_count_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        SubscriberCursor,
        "acknowledge",
        lambda self, spans: self._advance(min(max(last for _, last in spans), self.announced_upto)),
    )


def shown_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublisherStream, "settled", lambda self, *_: self.stored.last)


def copies_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MembershipView, "copies", property(always(1)))


def no_duplicate_suppression_at_the_repository(patch: pytest.MonkeyPatch) -> None:
    def absent(self: PublisherStream, spans: Iterable[Span], late: bool = False) -> list[Span]:
        return list(spans)

    patch.setattr(PublisherStream, "absent", absent)


def no_duplicate_suppression_at_the_subscriber(patch: pytest.MonkeyPatch) -> None:
    original = EventBuffer.start_over

    def start_over(self: EventBuffer, sync: int) -> None:
        original(self, sync)
        for source in self.sources.values():
            source.released, source.former, source.top = Spans(), Spans(), 0

    patch.setattr(EventBuffer, "start_over", start_over)


def readers_pass_what_is_reserved(patch: pytest.MonkeyPatch) -> None:
    original = EventLog.advance

    def advance(self: EventLog, copies: int, others: Iterable[str]) -> bool:
        moved = original(self, copies, others)
        record = self._recent.at(self.horizon + 1)
        while record is not None and record.line.kind is RecordKind.RESERVED and self._recent.at(record.line.end + 1):
            self._recent.drop(record.line.sequence)
            self._recent.put(record._replace(line=record.line._replace(kind=RecordKind.NOTE)))
            self.horizon = record.line.end
            moved = original(self, copies, others) or moved
            record = self._recent.at(self.horizon + 1)
        return moved

    patch.setattr(EventLog, "advance", advance)


def gaps_are_given_up_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GapClosing, "_expired_gaps", lambda self, stream, missing, awaited: missing)  # noqa: ARG005


def gaps_are_never_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GapClosing, "_expired_gaps", always([]))


def damage_is_given_up_like_a_gap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublisherStream, "undamaged", lambda _, spans: list(spans))


def damage_is_a_gap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordHeader, "is_damaged", property(lambda _: False))


def losses_are_told_to_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriberFeeds, "report_losses", always(None))


def no_retransmission_by_the_publisher(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publisher, "split", always([]))


def no_retransmission_by_the_repository(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriberFeeds, "resend", always(None))


def nobody_asks_for_what_is_missing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GapClosing, "ask", always(False))


def publishers_are_told_the_last_number_of_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublisherStream, "known", property(lambda self: self.stored.last))


def passive_ones_ignore_acknowledgements(patch: pytest.MonkeyPatch) -> None:
    """What repositories tell each other of syncs repairs it, so that is broken too."""
    original = SubscriberLetters._on_ack

    def heard(self: SubscriberLetters, sender: int, event: SubscriberAck) -> None:
        if event.repository == self._state.settings.name:
            original(self, sender, event)

    patch.setattr(SubscriberLetters, "_on_ack", heard)
    patch.setattr(SyncReplication, "on_sync", always(None))


def syncs_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SyncReplication, "tell_all", always(None))


def syncs_are_told_when_one_has_them(patch: pytest.MonkeyPatch) -> None:
    original = SyncReplication._is_agreed
    patch.setattr(SyncReplication, "_is_agreed", lambda self, claim, _: original(self, claim, 1))


def progress_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = SubscriberProgress.recall

    def recall(name: str, known: SubscriptionRecord, note: bytes) -> SubscriberProgress:
        progress = original(name, known, note)
        progress.sync, progress.done = 0, {}
        return progress

    patch.setattr(SubscriberProgress, "recall", recall)


def nothing_is_marked_as_redelivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriberCursor, "doubtful", always(0))


def whatever_a_later_life_gets_is_marked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriberCursor, "given_before", always(None))


def an_end_forgets_what_was_handed_out(patch: pytest.MonkeyPatch) -> None:
    original = SubscriberCursor.testify
    patch.setattr(SubscriberCursor, "testify", lambda self, **_: original(self, ended=bool(_)))


def collection_ignores_those_who_lag(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriberProgress, "lacks", always(False))


def floors_are_not_written_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(floor_facts, "FLOOR", "nobody reads this/")
    original = EventLog.load

    def load(self: EventLog, holdings: Any) -> None:
        facts = {key: value for key, value in holdings.facts.items() if not key.startswith("nobody")}
        original(self, msgspec.structs.replace(holdings, facts=facts))

    patch.setattr(EventLog, "load", load)


def what_others_forgot_is_taken_for_a_gap(patch: pytest.MonkeyPatch) -> None:
    def follow(self: StreamFloors, stream: PublisherStream, held: StreamRanges, living: Any) -> bool:
        for first, last in stream.absent([(1, held.floor)]):
            self._log.void(stream, ((first, last),))
            for spans in (stream.stored, stream.durable, stream.skipped):
                spans.add(first, last)
        return False

    patch.setattr(StreamFloors, "follow", follow)


def one_that_recovers_steers_at_once(patch: pytest.MonkeyPatch) -> None:
    def judge(self: Gossip) -> None:
        if self.membership.since and not self.leaving:
            self._state.service._enter(ServiceState.SERVING)

    patch.setattr(Gossip, "judge", judge)


def what_is_damaged_is_served(patch: pytest.MonkeyPatch) -> None:
    original = Item.__new__

    def sound(cls: type[Item], *args: Any, **kwargs: Any) -> Item:
        return original(cls, *args, **kwargs)._replace(sound=True)

    patch.setattr(Item, "__new__", sound)
    patch.setattr(Block, "verify", always(None))


def what_is_damaged_is_not_fetched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EventLog, "lose", always(False))


def registrations_are_on_one_repository(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RegistrationSharing, "is_shared", always(True))


def answers_come_before_registrations_are_durable(patch: pytest.MonkeyPatch) -> None:
    """They are carried out when the commit is asked for, and not when it is done."""
    hasty: dict[CommitQueue, list[Deferred]] = {}
    original = CommitQueue.flush
    patch.setattr(CommitQueue, "after_sharing", lambda self, answer: hasty.setdefault(self, []).append(answer))
    patch.setattr(CommitQueue, "flush", lambda self: [*original(self), *hasty.pop(self, ())])


def facts_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    original = Gossip._on_state

    def hear(self: Gossip, peer: PeerRepository, state: GossipState) -> None:
        original(self, peer, msgspec.structs.replace(state, facts=self._registry.digest))

    patch.setattr(Gossip, "_on_state", hear)


def ends_of_lives_are_not_fixed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublisherLives, "_known_ends", always({}))


def ends_of_lives_are_not_set_aside(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EventLog, "set_aside", always(None))


def events_do_not_wait_for_the_fact_of_their_life(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registry, "introduces", always(True))
    patch.setattr(EventLog, "is_past_known", always(True))


def clocks_that_were_set_back_end_a_publisher(patch: pytest.MonkeyPatch) -> None:
    def denied(self: Steering, denial: Denial) -> None:
        original(self, msgspec.structs.replace(denial, newest=0))

    original = Steering._on_denial
    patch.setattr(Steering, "_on_denial", denied)


def one_that_is_added_back_goes_on_leaving(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(TRANSITIONS, (ServiceState.LEAVING, ServiceChange.ADDED_AGAIN), ServiceState.LEAVING)


def members_are_invited_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gossip, "_invite", always(None))


def one_that_leaves_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    original = Gossip.hear

    def hear(self: Gossip, sender: int, event: ControlEvent, blocks: Sequence[Block]) -> None:
        peer = self.bundle.peers.get(event.sender)
        if (peer is None or not peer.is_departed) and not self._registry.was_member(event.sender):
            original(self, sender, event, blocks)

    patch.setattr(Gossip, "hear", hear)


def events_wait_for_ever_for_their_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublisherStream, "drop_waiting", always(None))


def letters_to_a_deleted_topic_are_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registry, "is_former", always(False))


def one_leaves_with_what_nobody_else_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OwnMembership, "_is_elsewhere", always(True))


def what_a_full_disk_refused_is_dropped(patch: pytest.MonkeyPatch) -> None:
    def failed(self: CommitQueue, failed: CommitFailed) -> None:
        self._saving.pop(failed.token, None)

    patch.setattr(CommitQueue, "failed", failed)


def two_steer_one_client(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gossip, "_on_steering", always(None))


def subscriber_acknowledges_what_it_releases(patch: pytest.MonkeyPatch) -> None:
    original = ReliableSubscriber._give

    def give(self: ReliableSubscriber, chain: Any, source: StreamBuffer, run: Any, *found: Any) -> int:
        count = original(self, chain, source, run, *found)
        self._count(chain, source, run.span(0, count), count)
        return count

    patch.setattr(ReliableSubscriber, "_give", give)


def publishers_send_again_to_all_units(patch: pytest.MonkeyPatch) -> None:
    def send(self: ReliablePublisher, events: Any, blocks: Any = ()) -> None:
        self._step.emit(SendLetter(bundle_of(self.topic), events, blocks))

    patch.setattr(ReliablePublisher, "_send", send)


def who_moves_listens_to_its_former_unit(patch: pytest.MonkeyPatch) -> None:
    original = ListenControl.enter_unit

    def settle(self: ListenControl, unit: str) -> None:
        if self._name == self._topic:
            original(self, unit)

    def leave(self: ListenControl) -> None:
        self.in_notice_group = False

    patch.setattr(ListenControl, "leave", leave)
    patch.setattr(ListenControl, "enter_unit", settle)


def what_was_acknowledged_is_forgotten_by_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublisherLives, "write_down", always([]))


def lives_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NameHolders, "check", always(None))
    patch.setattr(NameHolders, "claim", always([]))
    patch.setattr(NameHolders, "obey", always(None))


def a_fenced_subscriber_hands_out_what_it_holds(patch: pytest.MonkeyPatch) -> None:
    original = ReliableSubscriber._drop_ready
    patch.setattr(
        ReliableSubscriber, "_drop_ready", lambda self: None if self.steering.ended is not None else original(self)
    )


def clients_stay_where_they_are(patch: pytest.MonkeyPatch) -> None:
    original = Homing.arrive

    def arrive(self: Homing, repository: str) -> None:
        original(self, repository)
        self.rest()

    patch.setattr(Homing, "arrive", arrive)


def who_names_no_filter_gets_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry.Registry, "filter_of", lambda _, event: event.where)


def unsubscribing_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    for name in ("leave", "unsubscribe"):
        patch.setattr(registry.Registry, name, always([]))


def events_leave_a_unit_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    original = EventLog._put

    def put(self: EventLog, record: Any) -> None:
        original(self, record)
        if record.line.kind is RecordKind.EVENTS and self._home:
            self.hasty(record.line)  # type: ignore[attr-defined]

    begin = TopicRepository.__init__

    def init(self: TopicRepository, *given: Any) -> None:
        begin(self, *given)
        self.log.hasty = lambda line: self.egress.pass_on([line], self.holders.publishers)  # type: ignore[attr-defined]

    patch.setattr(EventLog, "_put", put)
    patch.setattr(TopicRepository, "__init__", init)


def releases_are_not_traced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TraceBuffer, "release", always(None))


def sums_forget_what_they_are_about(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TraceSum, "add", always(None))


def traced_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    original = CommitQueue.flush

    def flush(self: CommitQueue) -> Any:
        self._tracer.stored(self._unwritten.entries)
        return original(self)

    patch.setattr(CommitQueue, "flush", flush)


def an_opened_ledger_is_not_traced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tracer.RepositoryTracer, "recall", always(None))


def forgotten_before_its_traces_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_queue, "_HORIZON_EVERY", 1)  # no run has so many events that it is written down otherwise
    patch.setattr(tracer.RepositoryTracer, "forgettable_upto", property(lambda self: self.traced_upto))


def progress_is_traced_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    original = CommitQueue._note_progress

    def note(self: CommitQueue) -> dict[str, Noted]:
        syncs = original(self)
        for name, noted in syncs.items():
            self._tracer.progressed(name, noted.done)
        return syncs

    patch.setattr(CommitQueue, "_note_progress", note)


def pages_claim_more_than_they_hold(patch: pytest.MonkeyPatch) -> None:
    send = StoredReadServer._send

    def claim(
        self: StoredReadServer, event: PageRequest, found: Any, covered: Position, lost: Position | None = None
    ) -> None:
        send(self, event, found, Position.of(event.wanted) if covered.streams else covered, lost)

    patch.setattr(StoredReadServer, "_send", claim)


def the_first_letter_of_a_page_is_enough(patch: pytest.MonkeyPatch) -> None:
    on_page = StoredReadClient._on_page

    def enough(self: StoredReadClient, token: int, search: Any, page: Page, blocks: Any) -> None:
        on_page(self, token, search, msgspec.structs.replace(page, count=1), blocks)

    patch.setattr(StoredReadClient, "_on_page", enough)


class Gullible(BundleMembers):
    """Believes whoever writes the name of a member."""

    def wrote(self, sender: int, name: str) -> bool:  # noqa: ARG002
        return name in self.principals


def ends_believe_strangers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steering, "BundleMembers", Gullible)


def readers_believe_strangers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read_client, "BundleMembers", Gullible)


def repositories_believe_strangers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry, "BundleMembers", Gullible)


def owners_believe_strangers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owner, "BundleMembers", Gullible)


def closed_lives_are_stored_again(patch: pytest.MonkeyPatch) -> None:
    def find(self: Streams, key: StreamId) -> PublisherStream:
        stream = self[key]
        self.unsettled[stream] = None
        return stream

    patch.setattr(Streams, "find", find)


def lives_are_closed_while_others_have_something_of_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublisherStream, "is_forgotten_by", always(True))


def lives_are_never_closed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LifeClosing, "_close", always(None))


def closed_lives_leave_no_word(patch: pytest.MonkeyPatch) -> None:
    original = Registry.close
    patch.setattr(Registry, "close", lambda self, publisher, life, _: original(self, publisher, life, (0, 0)))


def lost_states_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PeerRepository, "follow", always(True))


def streams_are_settled_too_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Streams, "drop_settled", lambda self: self.unsettled.clear())


def repositories_obey_whoever_has_the_id_of_somebody_else(patch: pytest.MonkeyPatch) -> None:
    """As it was before topics named who asks."""

    def is_forged(heard: LetterReceived, event: ControlEvent) -> bool:
        return isinstance(event, Registration | ReaderAck) and heard.sender != publisher_id(
            event.principal, event.sender
        )

    patch.setattr(repository, "is_forged", is_forged)


def age_is_measured_between_events(patch: pytest.MonkeyPatch) -> None:
    newest: dict[EventLog, int] = {}
    original = EventLog._put

    def put(self: EventLog, record: Record) -> None:
        newest[self] = max(newest.get(self, 0), record.time)
        original(self, record)

    def age(self: Retention, record: Record) -> int:
        return (newest.get(self._log, 0) - record.time) // self._age_unit

    patch.setattr(EventLog, "_put", put)
    patch.setattr(Retention, "_age", age)


def what_is_fetched_is_young(patch: pytest.MonkeyPatch) -> None:
    original = EventLog.fetch
    patch.setattr(EventLog, "fetch", lambda self, now, block, whole=False, _=None: original(self, now, block, whole))


def nothing_grows_old(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retention, "_age", always(0))


def mail_is_kept_for_those_who_came(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mailboxes, "take_addressees", always([]))


def an_epoch_is_read_as_our_own_number(patch: pytest.MonkeyPatch) -> None:
    original = StartPositions.locate

    def locate(self: StartPositions, since: str, then: Any) -> Any:
        kind, _, number = since.partition(" ")
        own = f"{kind} {self._own}:{number.rpartition(':')[2]}" if kind == "epoch" else since
        return original(self, own, then)

    patch.setattr(StartPositions, "locate", locate)


def topics_of_one_name_are_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gossip, "_is_about_our_topic", always(True))


def nobody_ends_a_topic_that_was_deleted_elsewhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registry, "is_ended", always(False))


MUTATIONS: list[tuple[Mutate, set[str]]] = [
    (lives_are_never_closed, {"not-converged"}),
    (streams_are_settled_too_soon, {"invalid-state"}),
    (mail_is_kept_for_those_who_came, {"lost-write"}),
    (age_is_measured_between_events, {"forgotten-early"}),
    (what_is_fetched_is_young, {"false-stored-time"}),
    (nothing_grows_old, {"not-converged"}),
    (repositories_obey_whoever_has_the_id_of_somebody_else, {"refused", "lost-write", "not-converged"}),
    (ends_believe_strangers, {"stored-by-nobody", "phantom", "refused"}),
    (readers_believe_strangers, {"garbage-read", "wrong-batch"}),
    (repositories_believe_strangers, {"not-converged", "lost-write", "raised"}),
    (owners_believe_strangers, {"forged-receipt"}),
    (no_gossip, {"not-converged"}),
    (durable_before_it_is, {"acknowledged-before-durable"}),
    (sync_advances_early, {"sync-passed-unacked"}),
    (acknowledgements_of_some_count_for_all, {"sync-passed-unacked"}),
    (shown_before_it_is_durable, {"released-before-persistent"}),
    (copies_are_not_waited_for, {"released-before-persistent"}),
    (no_duplicate_suppression_at_the_repository, {"duplicate", "nonmonotonic-poll", "raised", "not-converged"}),
    (no_duplicate_suppression_at_the_subscriber, {"duplicate"}),
    (readers_pass_what_is_reserved, {"raised", "lost-write", "poll-skip"}),
    (no_retransmission_by_the_publisher, {"not-converged"}),
    (no_retransmission_by_the_repository, {"lost-write", "not-converged"}),
    (nobody_asks_for_what_is_missing, {"lost-write", "not-converged"}),
    (publishers_are_told_the_last_number_of_all, {"acknowledged-before-durable"}),
    (passive_ones_ignore_acknowledgements, {"not-converged"}),
    (syncs_are_told_when_one_has_them, {"synced-before-durable"}),
    (syncs_are_not_compared, {"not-converged"}),
    (answers_come_before_registrations_are_durable, {"answered-before-durable"}),
    (facts_are_not_compared, {"not-converged"}),
    (clocks_that_were_set_back_end_a_publisher, {"refused"}),
    (one_that_leaves_is_not_heard, {"not-converged", "lost-write"}),
    (subscriber_acknowledges_what_it_releases, {"sync-passed-unacked"}),
    (what_a_full_disk_refused_is_dropped, {"lost-write", "not-converged"}),
    (who_names_no_filter_gets_everything, {"filter-lost"}),
    (unsubscribing_is_forgotten, {"kept-in-vain"}),
    (clients_stay_where_they_are, {"strayed"}),
    (events_leave_a_unit_before_they_are_durable, {"left-its-unit"}),
    (publishers_send_again_to_all_units, {"left-its-unit"}),
    (nothing_is_marked_as_redelivered, {"duplicate"}),
    (whatever_a_later_life_gets_is_marked, {"marked-in-vain"}),
    (an_end_forgets_what_was_handed_out, {"duplicate"}),
    (releases_are_not_traced, {"false-trace"}),
    (sums_forget_what_they_are_about, {"false-trace"}),
    (traced_before_it_is_durable, {"false-trace"}),
    (an_opened_ledger_is_not_traced, {"false-trace", "untold"}),
    (progress_is_traced_before_it_is_durable, {"false-trace"}),
    (forgotten_before_its_traces_are_kept, {"untold"}),
    (batches_are_kept_whole, {"kept-in-vain"}),
    (pages_claim_more_than_they_hold, {"wrong-batch"}),
    (the_first_letter_of_a_page_is_enough, {"wrong-batch"}),
]
RARE: list[tuple[Mutate, set[str]]] = [  # seen in every hundredth seed, or so
    (an_epoch_is_read_as_our_own_number, {"began-late", "lost-write"}),
    (collection_ignores_those_who_lag, {"sync-passed-unacked", "lost-write"}),
    (registrations_are_on_one_repository, {"lost-write", "answered-before-durable"}),
    (gaps_are_never_given_up, {"not-converged"}),
    (progress_is_forgotten, {"duplicate", "not-converged"}),
    (floors_are_not_written_down, {"not-converged"}),
    (members_are_invited_once, {"not-converged"}),
    (one_leaves_with_what_nobody_else_has, {"lost-write"}),
    (letters_to_a_deleted_topic_are_stored, {"former-topic"}),
    (events_wait_for_ever_for_their_order, {"not-converged"}),
    (who_moves_listens_to_its_former_unit, {"left-its-unit"}),
    (closed_lives_are_stored_again, {"duplicate", "not-converged"}),
    (lives_are_closed_while_others_have_something_of_them, {"duplicate", "lost-write", "not-converged"}),
    (damage_is_given_up_like_a_gap, {"lost-in-silence"}),
    (damage_is_a_gap, {"lost-in-silence"}),
    (losses_are_told_to_nobody, {"lost-in-silence"}),
    (what_others_forgot_is_taken_for_a_gap, {"told-too-little", "not-forgotten", "not-converged"}),
    (ends_of_lives_are_not_fixed, {"lives-out-of-order"}),
    (ends_of_lives_are_not_set_aside, {"lives-out-of-order"}),
    (events_do_not_wait_for_the_fact_of_their_life, {"lives-out-of-order"}),
    (lost_states_are_not_noticed, {"not-converged"}),
    (one_that_is_added_back_goes_on_leaving, {"left-as-member", "not-converged"}),
    (gaps_are_given_up_at_once, {"nonmonotonic-poll"}),
    (lives_are_not_compared, {"two-holders"}),
    (a_fenced_subscriber_hands_out_what_it_holds, {"handed-out-by-fenced"}),
    (topics_of_one_name_are_one, {"former-topic", "not-converged"}),
    (closed_lives_leave_no_word, {"told-too-little"}),
    (nobody_ends_a_topic_that_was_deleted_elsewhere, {"former-topic"}),
    (what_was_acknowledged_is_forgotten_by_a_restart, {"gave-up-acknowledged"}),
]


def names(mutations: list[tuple[Mutate, set[str]]]) -> list[str]:
    return [mutate.__name__ for mutate, _ in mutations]


@pytest.mark.parametrize(("mutate", "kinds"), MUTATIONS, ids=names(MUTATIONS))
def test_a_broken_mechanism_is_seen(mutate: Mutate, kinds: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    assert find_killer(mutate.__name__, "delivery", kinds, MOST_SEEDS) is not None, "nobody noticed"


@pytest.mark.slow
@pytest.mark.parametrize(("mutate", "kinds"), RARE, ids=names(RARE))
def test_a_broken_mechanism_is_seen_after_a_while(
    mutate: Mutate, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert find_killer(mutate.__name__, "delivery", kinds, 10 * MOST_SEEDS) is not None, "nobody noticed"
