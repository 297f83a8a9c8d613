"""The parts of a topic's repository. Each knows the state that all share, and those of its siblings that it calls. What
waited for a commit, a scan or other repositories is handed to the part that it is for.
"""

from typing import assert_never

from stentor.machine import Effect, Recalled, Scanned
from stentor.model.stored.position import Position
from stentor.model.stored.reading import StockRequest
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.replication.own_membership import OwnMembership
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository.access_notices import AccessNotices
from stentor.protocols.delivery.repository.deferred import (
    AnswerOwner,
    AnswerPublisher,
    AnswerStockRequest,
    AnswerSubscriber,
    AwaitSharing,
    CountOn,
    Deferred,
    TellAccess,
    TellRegistrations,
)
from stentor.protocols.delivery.repository.ledger_reads import (
    AnswerPeer,
    CompareBlock,
    FeedCursor,
    FillPage,
    LakeSearch,
    NewSubscriber,
    PartPurpose,
    RecallPurpose,
    ResendWanted,
    StartSearch,
    VerifyRecords,
    WeighRecords,
)
from stentor.protocols.delivery.repository.owner_requests import OwnerRequests
from stentor.protocols.delivery.repository.registry import Frontier
from stentor.protocols.delivery.repository.serving.admission import Admission
from stentor.protocols.delivery.repository.serving.departures import Departures
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.start_positions import StartPositions
from stentor.protocols.delivery.repository.serving.steering_answers import SteeringAnswers
from stentor.protocols.delivery.repository.serving.subscriber_admission import SubscriberAdmission
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.serving.subscriber_letters import SubscriberLetters
from stentor.protocols.delivery.repository.serving.subscriptions import TopicSubscriptions
from stentor.protocols.delivery.repository.serving.unit_service import UnitService
from stentor.protocols.delivery.repository.serving.unknown_lives import UnknownLives
from stentor.protocols.delivery.repository.status import TopicStatus
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.storing.conflicts import Conflicts
from stentor.protocols.delivery.repository.storing.damage import Damage
from stentor.protocols.delivery.repository.storing.egress_hold import EgressHold
from stentor.protocols.delivery.repository.storing.gap_closing import GapClosing
from stentor.protocols.delivery.repository.storing.life_closing import LifeClosing
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.repository.storing.retention import Retention
from stentor.protocols.delivery.repository.tick_interval import TickInterval
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.repository.tracer import RepositoryTracer
from stentor.protocols.delivery.stored.read_server import StoredReadServer
from stentor.protocols.delivery.trace_buffer import TraceBuffer


class TopicParts:
    """Those of one topic at one repository, in the order in which they need each other."""

    def __init__(self, state: TopicState, traces: TraceBuffer) -> None:
        self.state = state
        self.feeds = feeds = SubscriberFeeds(state)
        self.tracer = tracer = RepositoryTracer(state, traces)
        self.commits = commits = CommitQueue(state, tracer)
        self.members = members = MembershipView(state, commits)
        self.lives = lives = PublisherLives(state, UnknownLives(state, members))
        self.egress = egress = EgressHold(state)
        self.holders = holders = NameHolders(state, feeds)
        self.units = units = UnitService(state, feeds, members)
        self.answers = answers = SteeringAnswers(state, feeds, holders, commits, egress, lives)
        self.syncs = syncs = SyncReplication(state, feeds, members, commits, answers)
        self.gossip = gossip = Gossip(state, feeds, commits, members, syncs, lives, units)
        self.subscriptions = subscriptions = TopicSubscriptions(state, units, syncs)
        self.starts = starts = StartPositions(state)
        self.subscribers = SubscriberAdmission(state, feeds, members, holders, subscriptions, starts, syncs, answers)
        self.admission = Admission(state, commits, members, egress, lives, holders, units, answers, self.subscribers)
        self.membership = OwnMembership(state, gossip, holders, syncs)
        self.notices = AccessNotices(state)
        self.damage = damage = Damage(state, feeds, gossip)
        self.retention = Retention(state, members, commits, egress, units, tracer)
        self.closing = LifeClosing(state, gossip, syncs, tracer)
        self.gap_closing = gaps = GapClosing(state, gossip, holders, egress, lives)
        self.reporter = reporter = TopicStatus(state, feeds, holders, commits, lives, damage)
        self.read_server = StoredReadServer(state, members, commits, subscriptions, starts)
        self.conflicts = Conflicts(state)
        self.interval = TickInterval(state, feeds, commits, self.notices)
        self.departures = Departures(state, feeds, holders, commits, members, subscriptions)
        self.letter_handlers = {
            **self.admission.handlers,
            **self.departures.handlers,
            **SubscriberLetters(state, feeds, holders).handlers,
            **OwnerRequests(state, gossip, commits, holders, damage, gaps, reporter).handlers,
            **self.read_server.handlers,
        }

    def carry_out(self, deferred: Deferred) -> None:
        """Do what waited until something was durable, here or elsewhere."""
        match deferred:
            case Effect():
                self.state.step.emit(deferred)
            case AwaitSharing():
                self.gossip.sharing.wait(deferred.answer)
            case AnswerPublisher():
                self.answers.answer_publisher(deferred)
            case AnswerSubscriber():
                self.answers.answer_subscriber(deferred)
            case AnswerOwner():
                self.notices.answer(deferred.to, deferred.receipt)
            case AnswerStockRequest():
                self.read_server.answer(deferred.event, deferred.done)
            case TellRegistrations():
                self.gossip.tell_registrations(deferred.digest)
            case TellAccess():
                self.notices.tell(deferred.facts, anew=deferred.is_all)
            case CountOn():
                self.members.count_on(deferred.names)
            case _:
                assert_never(deferred)

    def use_scanned(self, purpose: PartPurpose, scanned: Scanned) -> None:
        """Hand what was read from the ledger to the part that asked for it."""
        match purpose:
            case FeedCursor():
                self.feeds.on_scanned(purpose.cursor, scanned)
            case ResendWanted():
                self.feeds.on_wanted_scanned(purpose.cursor, scanned)
            case AnswerPeer():
                self.gossip.responder.on_scanned(purpose, scanned)
            case VerifyRecords():
                self.gossip.verification.on_scanned(purpose.leaving, scanned)
            case WeighRecords():
                self.retention.on_scanned(scanned)
            case CompareBlock():
                self.conflicts.on_scanned(purpose.block, scanned)
            case FillPage():
                self.read_server.on_scanned(purpose, scanned)
            case StartSearch():
                self._on_start_found(purpose.then, self.starts.on_scanned(purpose, scanned))
            case _:
                assert_never(purpose)

    def use_recalled(self, purpose: RecallPurpose, recalled: Recalled) -> None:
        """Hand what was read from the lake to the part that asked for it."""
        if isinstance(purpose, LakeSearch):
            self._on_start_found(purpose.then, self.starts.on_recalled(purpose, recalled))
        else:
            self.read_server.on_recalled(purpose, recalled)

    def _on_start_found(self, then: NewSubscriber | StockRequest, frontier: Frontier | None) -> None:
        """Begin with what somebody wants from there on; None if it is still looked for."""
        if frontier is None:
            return
        if isinstance(then, NewSubscriber):
            self.subscribers.register(then, frontier)
        else:
            self.read_server.begin(then, Position.before(frontier))
