"""Break one mechanism of reliable delivery at a time, and a checker must see it. All of them, and how many seeds each
takes, are in docs/protocols/reliable-delivery-proof.md; those that take many are for `make soak`.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from tests.simulation.test_seeds import OPEN

from stentor.machine import CommitFailed
from stentor.model.communication import bundle_of
from stentor.model.control import ControlEvent, Denial, GossipState, Held, Registration, SubscriberAck
from stentor.model.ids import publisher_id
from stentor.model.position import Position
from stentor.model.reading import Page, PageRequest, ReaderAck
from stentor.model.record import Kind, Line, Record, StreamId
from stentor.model.span import Span, Spans
from stentor.protocols.delivery import commits, floor_facts, registry, repository, retrieval, steering, store, testimony
from stentor.protocols.delivery.agreement import Agreement
from stentor.protocols.delivery.attendance import Attendance
from stentor.protocols.delivery.audience import Part
from stentor.protocols.delivery.authentication import BundleMembers
from stentor.protocols.delivery.beginnings import Beginnings
from stentor.protocols.delivery.bodies import Bodies, Source
from stentor.protocols.delivery.bundle import Peer
from stentor.protocols.delivery.closing import LifeClosing
from stentor.protocols.delivery.collection import Collection
from stentor.protocols.delivery.commits import Commits, Noted
from stentor.protocols.delivery.cursor import Reader
from stentor.protocols.delivery.destination import Destination
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.enrolment import Enrolment
from stentor.protocols.delivery.floors import Floors
from stentor.protocols.delivery.gaps import Gaps
from stentor.protocols.delivery.gossip import Gossip
from stentor.protocols.delivery.holders import Holders
from stentor.protocols.delivery.homing import Homing
from stentor.protocols.delivery.lives import Lives
from stentor.protocols.delivery.mailboxes import Mailboxes
from stentor.protocols.delivery.membership import OwnMembership
from stentor.protocols.delivery.post import Heard, Post
from stentor.protocols.delivery.reading import Reading
from stentor.protocols.delivery.registry import KnownSubscription, Registry
from stentor.protocols.delivery.reliable_publisher import ReliablePublisher
from stentor.protocols.delivery.reliable_subscriber import ReliableSubscriber
from stentor.protocols.delivery.repository import Repository
from stentor.protocols.delivery.retrieval import Retrieval
from stentor.protocols.delivery.service import TRANSITIONS, Change, State
from stentor.protocols.delivery.steering import Steering
from stentor.protocols.delivery.store import Store
from stentor.protocols.delivery.stream import Stream
from stentor.protocols.delivery.streams import Streams
from stentor.protocols.delivery.subscriber_letters import SubscriberLetters
from stentor.protocols.delivery.trace_sum import TraceSum
from stentor.protocols.delivery.trail import Trail
from stentor.simulation.delivery import owner
from stentor.simulation.scenarios import SCENARIOS
from stentor.storage.group import Item
from stentor.wire.block import Block


def always(answer: Any) -> Callable[..., Any]:
    return lambda *_: answer


Mutate = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 400


def batches_are_kept_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(store, "cut", lambda audience, count: [Part(0, count - 1, audience)])


def no_gossip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gossip, "say", always(None))


def durable_before_it_is(patch: pytest.MonkeyPatch) -> None:
    original = Store.take_entries

    def take_entries(self: Store, token: int) -> Any:
        for line in self.lines:
            if line.kind is Kind.EVENTS:
                self.streams[line.stream].durable.add(line.first, line.last)
        return original(self, token)

    patch.setattr(Store, "take_entries", take_entries)


def sync_advances_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reader, "skip", lambda self: self._advance(self.sent))


def acknowledgements_of_some_count_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Reader, "acknowledge", lambda self, spans: self._advance(min(max(last for _, last in spans), self.told))
    )


def shown_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "settled", lambda self, *_: self.held.last)


def copies_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gossip, "copies", always(1))


def no_duplicate_suppression_at_the_repository(patch: pytest.MonkeyPatch) -> None:
    def absent(self: Stream, spans: Iterable[Span], late: bool = False) -> list[Span]:
        return list(spans)

    patch.setattr(Stream, "absent", absent)


def no_duplicate_suppression_at_the_subscriber(patch: pytest.MonkeyPatch) -> None:
    original = Bodies.start_over

    def start_over(self: Bodies, sync: int) -> None:
        original(self, sync)
        for source in self.sources.values():
            source.released, source.former, source.top = Spans(), Spans(), 0

    patch.setattr(Bodies, "start_over", start_over)


def readers_pass_what_is_reserved(patch: pytest.MonkeyPatch) -> None:
    original = Store.advance

    def advance(self: Store, copies: int, others: Iterable[str]) -> bool:
        moved = original(self, copies, others)
        record = self._tail.at(self.horizon + 1)
        while record is not None and record.line.kind is Kind.RESERVED and self._tail.at(record.line.end + 1):
            self._tail.drop(record.line.sequence)
            self._tail.put(record._replace(line=record.line._replace(kind=Kind.NOTE)))
            self.horizon = record.line.end
            moved = original(self, copies, others) or moved
            record = self._tail.at(self.horizon + 1)
        return moved

    patch.setattr(Store, "advance", advance)


def gaps_are_given_up_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gaps, "_hopeless", lambda self, now, stream, missing, awaited: missing)  # noqa: ARG005


def gaps_are_never_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gaps, "_hopeless", always([]))


def damage_is_given_up_like_a_gap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "undamaged", lambda _, spans: list(spans))


def damage_is_a_gap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Line, "is_damaged", property(lambda _: False))


def losses_are_told_to_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Dispatch, "report_losses", always(None))


def no_retransmission_by_the_publisher(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReliablePublisher, "_letters", always([]))


def no_retransmission_by_the_repository(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Dispatch, "resend", always(None))


def nobody_asks_for_what_is_missing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gaps, "ask", always(False))


def publishers_are_told_the_last_number_of_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "known", property(lambda self: self.held.last))


def passive_ones_ignore_acknowledgements(patch: pytest.MonkeyPatch) -> None:
    """What repositories tell each other of syncs repairs it, so that is broken too."""
    original = SubscriberLetters._on_ack

    def heard(self: SubscriberLetters, now: int, sender: int, event: SubscriberAck) -> None:
        if event.repository == self._repository:
            original(self, now, sender, event)

    patch.setattr(SubscriberLetters, "_on_ack", heard)
    patch.setattr(Agreement, "_hear", always(None))


def syncs_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Agreement, "_tell_all", always(None))


def syncs_are_told_when_one_has_them(patch: pytest.MonkeyPatch) -> None:
    original = Agreement._is_agreed
    patch.setattr(Agreement, "_is_agreed", lambda self, now, claim, _: original(self, now, claim, 1))


def progress_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = Destination.recall

    def recall(name: str, known: KnownSubscription, note: bytes) -> Destination:
        destination = original(name, known, note)
        destination.sync, destination.done = 0, {}
        return destination

    patch.setattr(Destination, "recall", recall)


def nothing_is_marked_as_redelivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reader, "doubtful", always(0))


def whatever_a_later_life_gets_is_marked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reader, "given_before", always(None))


def an_end_forgets_what_was_handed_out(patch: pytest.MonkeyPatch) -> None:
    original = Reader.testify
    patch.setattr(Reader, "testify", lambda self, **_: original(self, ended=bool(_)))


def collection_ignores_those_who_lag(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Destination, "lacks", always(False))


def floors_are_not_written_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(floor_facts, "FLOOR", "nobody reads this/")
    original = Store.load

    def load(self: Store, holdings: Any) -> None:
        facts = {key: value for key, value in holdings.facts.items() if not key.startswith("nobody")}
        original(self, msgspec.structs.replace(holdings, facts=facts))

    patch.setattr(Store, "load", load)


def what_others_forgot_is_taken_for_a_gap(patch: pytest.MonkeyPatch) -> None:
    def follow(self: Floors, stream: Stream, held: Held, living: Any) -> bool:
        for first, last in stream.absent([(1, held.floor)]):
            self._store.void(stream, ((first, last),))
            for spans in (stream.held, stream.durable, stream.skipped):
                spans.add(first, last)
        return False

    patch.setattr(Floors, "follow", follow)


def one_that_recovers_steers_at_once(patch: pytest.MonkeyPatch) -> None:
    def judge(self: Gossip, now: int) -> None:
        if self.company.since and not self.leaving:
            self.service.state = State.SERVING

    patch.setattr(Gossip, "judge", judge)


def what_is_damaged_is_served(patch: pytest.MonkeyPatch) -> None:
    original = Item.__new__

    def sound(cls: type[Item], *args: Any, **kwargs: Any) -> Item:
        return original(cls, *args, **kwargs)._replace(sound=True)

    patch.setattr(Item, "__new__", sound)
    patch.setattr(Block, "verify", always(None))


def what_is_damaged_is_not_fetched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "lose", always(False))


def registrations_are_on_one_repository(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gossip, "are_facts_shared", always(True))


def answers_come_before_registrations_are_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Enrolment, "when_safe", lambda *given: given[-1](0))


def facts_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    original = Gossip._hear_state

    def hear(self: Gossip, now: int, peer: Peer, state: GossipState) -> None:
        original(self, now, peer, msgspec.structs.replace(state, facts=self._registry.digest))

    patch.setattr(Gossip, "_hear_state", hear)


def ends_of_lives_are_not_fixed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lives, "_known_ends", always({}))


def ends_of_lives_are_not_set_aside(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "set_aside", always(None))


def events_do_not_wait_for_the_fact_of_their_life(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lives, "_is_introduced", always(True))


def clocks_that_were_set_back_end_a_publisher(patch: pytest.MonkeyPatch) -> None:
    def denied(self: Steering, now: int, denial: Denial) -> None:
        original(self, now, msgspec.structs.replace(denial, newest=0))

    original = Steering._denied
    patch.setattr(Steering, "_denied", denied)


def one_that_is_added_back_goes_on_leaving(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(TRANSITIONS, (State.LEAVING, Change.ADDED_AGAIN), State.LEAVING)


def members_are_invited_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gossip, "_invite", always(None))


def one_that_leaves_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    original = Gossip.hear

    def hear(self: Gossip, now: int, sender: int, event: ControlEvent, blocks: Iterable[Block]) -> None:
        peer = self.bundle.peers.get(event.sender)
        if (peer is None or not peer.departed) and not self._registry.was_member(event.sender):
            original(self, now, sender, event, blocks)

    patch.setattr(Gossip, "hear", hear)


def events_wait_for_ever_for_their_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "drop_waiting", always(None))


def letters_to_a_deleted_topic_are_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registry, "is_former", always(False))


def one_leaves_with_what_nobody_else_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OwnMembership, "_is_elsewhere", always(True))


def what_a_full_disk_refused_is_dropped(patch: pytest.MonkeyPatch) -> None:
    def failed(self: Commits, now: int, failed: CommitFailed) -> None:
        self._saving.pop(failed.token, None)

    patch.setattr(Commits, "failed", failed)


def two_steer_one_client(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gossip, "_hear_steering", always(None))


def subscriber_acknowledges_what_it_releases(patch: pytest.MonkeyPatch) -> None:
    original = ReliableSubscriber._give

    def give(self: ReliableSubscriber, chain: Any, source: Source, run: Any, *found: Any) -> int:
        count = original(self, chain, source, run, *found)
        self._count(chain, source, run.span(0, count), count)
        return count

    patch.setattr(ReliableSubscriber, "_give", give)


def publishers_send_again_to_all_units(patch: pytest.MonkeyPatch) -> None:
    def post(self: ReliablePublisher, events: Any, blocks: Any = ()) -> None:
        self._effects.append(Post(bundle_of(self.topic), events, blocks))

    patch.setattr(ReliablePublisher, "_post", post)


def who_moves_listens_to_its_former_unit(patch: pytest.MonkeyPatch) -> None:
    original = Attendance.settle

    def settle(self: Attendance, unit: str) -> None:
        if self._name == self._topic:
            original(self, unit)

    patch.setattr(Attendance, "leave", always(None))
    patch.setattr(Attendance, "settle", settle)


def lives_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holders, "claim", always([]))
    patch.setattr(Holders, "obey", always(None))


def a_fenced_subscriber_hands_out_what_it_holds(patch: pytest.MonkeyPatch) -> None:
    original = ReliableSubscriber._drop_ready
    patch.setattr(
        ReliableSubscriber, "_drop_ready", lambda self: None if self.steering.ended is not None else original(self)
    )


def clients_stay_where_they_are(patch: pytest.MonkeyPatch) -> None:
    original = Homing.arrive

    def arrive(self: Homing, now: int, repository: str) -> None:
        original(self, now, repository)
        self.rest()

    patch.setattr(Homing, "arrive", arrive)


def who_names_no_filter_gets_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry.Registry, "filter_of", lambda _, event: event.where)


def unsubscribing_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry.Registry, "unsubscribe", always([]))


def events_leave_a_unit_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    original = Store._put

    def put(self: Store, record: Any) -> None:
        original(self, record)
        if record.line.kind is Kind.EVENTS and self.keeps_all:
            self.hasty(record.line)  # type: ignore[attr-defined]

    begin = Repository.__init__

    def init(self: Repository, *given: Any) -> None:
        begin(self, *given)
        self.store.hasty = lambda line: self.border.pass_on([line], self.enrolment.publishers)  # type: ignore[attr-defined]

    patch.setattr(Store, "_put", put)
    patch.setattr(Repository, "__init__", init)


def releases_are_not_traced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Trail, "release", always(None))


def sums_forget_what_they_are_about(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TraceSum, "add", always(None))


def traced_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    original = Commits.flush

    def flush(self: Commits, now: int) -> None:
        self._testimony.stored(0, self._store.entries)
        original(self, now)

    patch.setattr(Commits, "flush", flush)


def an_opened_ledger_is_not_traced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(testimony.Testimony, "recall", always(None))


def forgotten_before_its_traces_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits, "_HORIZON_EVERY", 1)  # no run has so many events that it is written down otherwise
    patch.setattr(testimony.Testimony, "forgettable_upto", property(lambda self: self.traced_upto))


def progress_is_traced_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    original = Commits._note_progress

    def note(self: Commits) -> dict[str, Noted]:
        syncs = original(self)
        for name, noted in syncs.items():
            self._testimony.progressed(name, noted.done)
        return syncs

    patch.setattr(Commits, "_note_progress", note)


def pages_claim_more_than_they_hold(patch: pytest.MonkeyPatch) -> None:
    send = Reading._send

    def claim(self: Reading, event: PageRequest, found: Any, covered: Position, lost: Position | None = None) -> None:
        send(self, event, found, Position.of(event.wanted) if covered.streams else covered, lost)

    patch.setattr(Reading, "_send", claim)


def the_first_letter_of_a_page_is_enough(patch: pytest.MonkeyPatch) -> None:
    turned = Retrieval._turned

    def enough(self: Retrieval, now: int, token: int, search: Any, page: Page, blocks: Any) -> None:
        turned(self, now, token, search, msgspec.structs.replace(page, count=1), blocks)

    patch.setattr(Retrieval, "_turned", enough)


class Gullible(BundleMembers):
    """Believes whoever writes the name of a member."""

    def wrote(self, sender: int, name: str) -> bool:  # noqa: ARG002
        return name in self.principals


def ends_believe_strangers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steering, "BundleMembers", Gullible)


def readers_believe_strangers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retrieval, "BundleMembers", Gullible)


def repositories_believe_strangers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry, "BundleMembers", Gullible)


def owners_believe_strangers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owner, "BundleMembers", Gullible)


def closed_lives_are_stored_again(patch: pytest.MonkeyPatch) -> None:
    def find(self: Streams, key: StreamId) -> Stream:
        stream = self[key]
        self.unsettled[stream] = None
        return stream

    patch.setattr(Streams, "find", find)


def lives_are_closed_while_others_have_something_of_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "is_forgotten_by", always(True))


def lives_are_never_closed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LifeClosing, "_close", always(None))


def closed_lives_leave_no_word(patch: pytest.MonkeyPatch) -> None:
    original = Registry.close
    patch.setattr(Registry, "close", lambda self, publisher, life, _: original(self, publisher, life, (0, 0)))


def lost_states_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peer, "follow", always(True))


def streams_are_settled_too_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Streams, "settle", lambda self: self.unsettled.clear())


def repositories_obey_whoever_has_the_id_of_somebody_else(patch: pytest.MonkeyPatch) -> None:
    """As it was before topics named who asks."""

    def is_forged(heard: Heard, event: ControlEvent) -> bool:
        return isinstance(event, Registration | ReaderAck) and heard.sender != publisher_id(
            event.principal, event.sender
        )

    patch.setattr(repository, "is_forged", is_forged)


def age_is_measured_between_events(patch: pytest.MonkeyPatch) -> None:
    newest: dict[Store, int] = {}
    original = Store._put

    def put(self: Store, record: Record) -> None:
        newest[self] = max(newest.get(self, 0), record.time)
        original(self, record)

    def age(self: Collection, record: Record) -> int:
        return (newest.get(self._store, 0) - record.time) // self._age_unit

    patch.setattr(Store, "_put", put)
    patch.setattr(Collection, "_age", age)


def what_is_fetched_is_young(patch: pytest.MonkeyPatch) -> None:
    original = Store.fetch
    patch.setattr(Store, "fetch", lambda self, now, block, whole=False, _=None: original(self, now, block, whole))


def nothing_grows_old(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Collection, "_age", always(0))


def mail_is_kept_for_those_who_came(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mailboxes, "enlist", always(None))


def an_epoch_is_read_as_our_own_number(patch: pytest.MonkeyPatch) -> None:
    original = Beginnings.locate

    def locate(self: Beginnings, now: int, since: str, then: Any) -> None:
        kind, _, number = since.partition(" ")
        own = f"{kind} {self._own}:{number.rpartition(':')[2]}" if kind == "epoch" else since
        original(self, now, own, then)

    patch.setattr(Beginnings, "locate", locate)


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
]


def names(mutations: list[tuple[Mutate, set[str]]]) -> list[str]:
    return [mutate.__name__ for mutate, _ in mutations]


@pytest.mark.parametrize(("mutate", "kinds"), MUTATIONS, ids=names(MUTATIONS))
def test_a_broken_mechanism_is_seen(mutate: Mutate, kinds: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    look_for(kinds, MOST_SEEDS)


def look_for(kinds: set[str], seeds: int) -> None:
    for seed in range(seeds):
        if ("delivery", seed) in OPEN:
            continue  # it fails by itself
        if kinds & {anomaly.kind for anomaly in SCENARIOS["delivery"].run(seed).anomalies}:
            return
    pytest.fail(f"nobody noticed within {seeds} seeds")


@pytest.mark.slow
@pytest.mark.parametrize(("mutate", "kinds"), RARE, ids=names(RARE))
def test_a_broken_mechanism_is_seen_after_a_while(
    mutate: Mutate, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    look_for(kinds, 10 * MOST_SEEDS)
