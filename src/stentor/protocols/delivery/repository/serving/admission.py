"""Admission: who may use a reliable topic, and which clients this repository steers.

A client asks to be steered with a Recovery, again and again until it is answered: after a crash, on another broker, or
because the repository that steered it is silent. It needs no state of its own for that.
"""

from collections.abc import Callable
from typing import Any

from stentor.model.communication import end_name, inbox_of
from stentor.model.control import ControlEvent, Denial, Probe, ProbeAnswer, Recovery
from stentor.model.errors import Refusal, Refused
from stentor.model.ids import publisher_id
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.repository.deferred import AnswerPublisher
from stentor.protocols.delivery.repository.registry import is_within
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.steered_publisher import SteeredPublisher
from stentor.protocols.delivery.repository.serving.steering_answers import SteeringAnswers
from stentor.protocols.delivery.repository.serving.subscriber_admission import SubscriberAdmission
from stentor.protocols.delivery.repository.serving.unit_service import UnitService
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.storing.egress_hold import EgressHold
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.steering import life_of

_LEVELS = 64  # the level of those who serve everyone; finer ones have lower ones
_FOREIGN = 128  # that of a storage for another unit, which has what somebody did not get there


class Admission:
    """The clients of one topic at one repository."""

    def __init__(
        self,
        state: TopicState,
        commits: CommitQueue,
        membership: MembershipView,
        egress: EgressHold,
        lives: PublisherLives,
        holders: NameHolders,
        units: UnitService,
        answers: SteeringAnswers,
        subscribers: SubscriberAdmission,
    ) -> None:
        self._state, self._commits = state, commits
        self._membership, self._egress = membership, egress
        self._lives, self._holders = lives, holders
        self._units, self._answers = units, answers
        self._subscribers = subscribers
        self._topic, self._settings = state.topic, state.settings
        self._registry = state.registry
        self.handlers: dict[type[ControlEvent], Callable[[int, Any], None]] = {
            Probe: self._on_probe,
            Recovery: self._on_recovery,
        }

    def _on_probe(self, _: int, event: Probe) -> None:
        if not self._registry.created or self._state.service.is_leaving:
            return
        registry, settings = self._registry, self._settings
        members = registry.storing_all() if event.role == "publisher" else registry.serving(event.node)
        if event.role == "publisher":
            if self._egress.is_held:
                members = self._egress.storages(event.node) or members  # those who serve everyone say what is wrong
            serves = settings.name in members
        else:
            serves = self._units.can_serve(event.sender) and not self._units.is_kept_elsewhere(event.sender)
        if not serves:
            return
        level = _LEVELS - len(settings.unit.split("/")) * bool(settings.unit)
        if not is_within(event.node, settings.unit):
            level = _FOREIGN
        ready = self._state.service.is_serving and not self._is_outdone
        answer = ProbeAnswer(
            self._topic, settings.name, attempt=event.attempt, ready=ready, members=members, level=level
        )
        self._state.send(inbox_of(end_name(event.role, event.sender, self._topic)), answer)

    @property
    def _is_outdone(self) -> bool:
        """Whether clients are better off elsewhere: we can write nothing, and another one can."""
        others = [peer for peer in self._membership.living if not peer.unit]
        return self._commits.is_stuck and any(peer.is_ready and not peer.stuck for peer in others)

    def _on_recovery(self, sender: int, event: Recovery) -> None:
        end = end_name(event.role, event.sender, self._topic)
        inbox = inbox_of(end)
        if publisher_id(event.principal, end) != sender:
            return  # whoever it names did not send it, and would believe our refusal
        try:
            self._check(event)
            if event.role == "publisher":
                self._egress.check(event.node)
                self._lives.unknown.check(event, sender)
                self._admit_publisher(inbox, event, sender)
            elif not self._units.can_serve(event.sender) or self._units.is_kept_elsewhere(event.sender):
                raise Refused(Refusal.BUSY, f"{self._settings.name} does not have what {event.sender} misses")
            else:
                self._subscribers.admit(inbox, event)
        except Refused as refused:
            newest = 0
            if event.role == "publisher" and refused.code is Refusal.FENCED:
                newest = max(self._holders.newest("publisher", event.sender), self._lives.newest_of(sender))
            denial = Denial(
                self._topic,
                self._settings.name,
                attempt=event.attempt,
                code=refused.code,
                reason=refused.reason,
                newest=newest,
            )
            self._state.send(inbox, denial)

    def _check(self, event: Recovery) -> None:
        """Refuse to steer anybody while we cannot, and whoever is not authorised."""
        name = self._settings.name
        if self._registry.deleted or self._registry.is_ended(event.ended):
            raise Refused(Refusal.BUSY, f"{name} has an earlier {self._topic}, which was deleted")
        if not self._state.service.is_serving:
            raise Refused(Refusal.BUSY, f"{name} is catching up")
        if self._is_outdone:
            raise Refused(Refusal.BUSY, f"{name} can store nothing")
        self._registry.check(event.role, self._topic, event.sender, event.principal)

    def _admit_publisher(self, inbox: str, event: Recovery, sender: int) -> None:
        self._holders.check(event)
        former = self._holders.publishers.get(sender)
        if former is not None and former.attempt == event.attempt and not former.is_answered:
            self._answers.hold_on(inbox, event)
            return
        stream = self._lives.stream(event, sender)
        self._state.register(self._holders.claim(event))
        self._state.register(self._lives.begin(event, sender))
        steered = SteeredPublisher(sender, event.sender, inbox, event.incarnation, event.attempt)
        if former is not None and life_of(former.attempt) < life_of(event.attempt):
            self._holders.turn_away("publisher", event.sender, inbox, former.attempt)
        self._holders.steer(steered)
        self._commits.after_sharing(AnswerPublisher(steered, event))
        self._answers.announce(event)
        if event.last:
            stream.announced.add(1, event.last)
        self._state.log.admit(stream)
        self._state.streams.touch(stream)

    def tick(self) -> None:
        """Send clients to one that is better off, and subscribers to where they are served best."""
        if self._is_outdone:
            self._holders.send_all_away()
        self._units.tick()
