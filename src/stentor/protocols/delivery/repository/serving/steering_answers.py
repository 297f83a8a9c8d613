"""What clients are told once they are steered here. What they changed is durable by then, and the bundle knows it."""

from typing import Any

from stentor.model.communication import within_of
from stentor.model.control import GossipSteering, ProbeAnswer, Recovery, RecoveryResponse
from stentor.model.ids import topic_id
from stentor.protocols.delivery.repository.deferred import AnswerPublisher, AnswerSubscriber
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.subscriber_cursor import CursorChange, SubscriberCursor
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.storing.egress_hold import EgressHold
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.repository.topic_state import TopicState


class SteeringAnswers:
    """Those of one repository in one topic."""

    def __init__(
        self,
        state: TopicState,
        feeds: SubscriberFeeds,
        holders: NameHolders,
        commits: CommitQueue,
        egress: EgressHold,
        lives: PublisherLives,
    ) -> None:
        self._state, self._feeds = state, feeds
        self._holders, self._commits = holders, commits
        self._egress, self._lives = egress, lives
        self._topic, self._name = state.topic, state.settings.name

    def respond(self, inbox: str, event: Recovery, **details: Any) -> None:
        """Tell a client that it is steered here."""
        registry = self._state.registry
        response = RecoveryResponse(
            self._topic,
            self._name,
            attempt=event.attempt,
            copies=registry.terms.copies,
            members=registry.members,
            within=self._egress.unit_of(event.node),
            version=registry.version,
            **details,
        )
        self._state.send(inbox, response)

    def hold_on(self, inbox: str, event: Recovery) -> None:
        """Have a client wait that asks again while others are asked about it."""
        members = self._state.registry.members
        self._state.send(
            inbox, ProbeAnswer(self._topic, self._name, attempt=event.attempt, ready=True, members=members)
        )

    def announce(self, event: Recovery) -> None:
        """Tell the other repositories whom we steer."""
        self._state.say(
            GossipSteering(
                self._topic,
                self._name,
                role=event.role,
                name=event.sender,
                incarnation=event.incarnation,
                attempt=event.attempt,
            )
        )

    # ---- publishers

    def answer_publisher(self, answer: AnswerPublisher) -> None:
        """Tell a publisher what is stored of it by now, unless it is steered otherwise since."""
        publisher, event = answer.publisher, answer.event
        if self._holders.publishers.get(publisher.id) is publisher:
            publisher.is_answered = True
            incarnation, last = self._lives.newest(publisher.id, event.incarnation)
            self.respond(publisher.inbox, event, incarnation=incarnation, last=last)

    # ---- subscribers

    def begin(self, cursor: SubscriberCursor, event: Recovery) -> None:
        """Welcome a subscriber of which others have told what they know, unless they knew of a newer life."""
        if self._holders.newest("subscriber", event.sender) > event.incarnation:
            self._feeds.drop(event.sender)
            self._holders.turn_away("subscriber", event.sender, cursor.inbox, event.attempt)
            return
        if cursor.has_asked:
            self._feeds.ask(cursor)
        self.welcome(cursor, event)

    def welcome(self, cursor: SubscriberCursor, event: Recovery) -> None:
        """Have a subscriber told that we steer it, before it is told anything else."""
        cursor.live = topic_id(within_of(self._egress.unit_of(event.node), self._topic))
        self._commits.after_sharing(AnswerSubscriber(cursor, event))

    def answer_subscriber(self, answer: AnswerSubscriber) -> None:
        """Tell a subscriber where it is, and then what there is for it, unless it is steered otherwise since."""
        cursor, progress = answer.cursor, answer.cursor.progress
        known = self._state.registry.subscriptions.get(progress.name)
        if known is None or self._feeds.cursors.get(progress.name) is not cursor:
            return
        self.respond(
            cursor.inbox,
            answer.event,
            sync=cursor.safe,
            epoch=progress.epoch,
            done=progress.reached(),
            chorus=progress.notice_group,
            past=known.past,
            where=known.where,
        )
        cursor.rewind()
        self._feeds.report_losses(cursor)
        cursor.change(CursorChange.WELCOMED)
        cursor.in_notice_group = False
        self._feeds.feed(cursor)
