"""What an application asks for and is handed, as far as repositories must know it.

Repositories tell a subscriber of no events before its application has asked for some. When it ends in good order, the
subscriber says how far it was handed events: what comes again in its next life is marked as redelivered, and nothing
else is.
"""

from collections.abc import Mapping

from stentor.machine import Step
from stentor.model.control import Persistent, Rectify, SubscriberEnd
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation
from stentor.model.stored.record import StreamId
from stentor.protocols.delivery.endpoint_api import ConfirmDurable, Leaving, ReportLoss
from stentor.protocols.delivery.retry_timer import RetryTimer
from stentor.protocols.delivery.settings import SubscriberSettings
from stentor.protocols.delivery.subscriber.ack_tracker import AckTracker
from stentor.protocols.delivery.subscriber.event_buffer import StreamBuffer


class Handing:
    """The asking, and the farewell, which is repeated until the repository has written it down."""

    def __init__(
        self, step: Step, topic: str, name: str, incarnation: Incarnation, settings: SubscriberSettings
    ) -> None:
        self._step = step
        self.asks = False  # the application has asked for events in this life
        self.was_told = False  # a repository has told of some in this life
        self.is_known = False  # enough repositories know that it asks, as the one that steers us says
        self.is_leaving = False  # the application is handed nothing more
        self.was_introduced = False  # the repository that steers us was told of the asking when we asked for that
        self._topic = topic
        self._name = name
        self._incarnation = incarnation
        # The farewell. Invariant: `_repeat` is open only while the application is leaving and waits for `_token`.
        self._repeat = RetryTimer(settings.first_pause, settings.longest_pause)
        self._given: tuple[tuple[int, int, int], ...] = ()
        self._unsubscribes = False
        self._token = 0

    @property
    def is_late(self) -> bool:
        """Whether the application asked after we had told the repository that it had not."""
        return self.asks and not self.was_introduced

    def introduce(self) -> bool:
        """Return whether the application has asked, to be said to a repository."""
        self.was_introduced = self.asks
        return self.asks

    def hear(self, told: Persistent | Rectify, some: bool) -> None:
        """A repository says whether it is known that the application asked, and tells of some events, or that some are
        lost: tell the application of these.
        """
        self.is_known |= told.known
        self.was_told |= some
        if told.lost:
            self._step.emit(ReportLoss(told.lost, told.lost_by))

    def begin_farewell(self, leaving: Leaving, acks: AckTracker, sources: Mapping[StreamId, StreamBuffer]) -> None:
        """Prepare what is to be said: the last number of each stream that was handed out and may not be synced."""
        self._token, self._unsubscribes = leaving.token, leaving.unsubscribes
        self.is_leaving = True
        last = {stream: source.acknowledged for stream, source in sources.items() if source.acknowledged}
        for stream, numbers in acks.owed(leaving.position).items():
            last[stream] = max(last.get(stream, 0), *numbers)
        self._given = tuple((*stream, number) for stream, number in sorted(last.items()))
        self._repeat.ask(self._step.now)
        self._repeat.due = self._step.now

    def farewell(self, attempt: int) -> tuple[SubscriberEnd | None, int]:
        """Return what is to be said now, if anything, and when to look again."""
        if self._repeat.due > self._step.now:
            return None, self._repeat.due
        self._repeat.again(self._step.now)
        end = SubscriberEnd(self._topic, self._name, attempt, self._incarnation, self._given, self._unsubscribes)
        return end, self._repeat.due

    def complete(self) -> None:
        """The farewell is written down, or there is nothing to write: tell the application, if it waits for that."""
        if self._rest():
            self._step.emit(ConfirmDurable(self._token))

    def fail(self) -> None:
        """Nobody is there to write the farewell down: tell the application, if it waits for that. One that unsubscribes
        waits for the next repository.
        """
        if not self._unsubscribes and self._rest():
            self._step.emit(ConfirmDurable(self._token, 0, Refusal.BUSY, "no repository is there to note it"))

    def _rest(self) -> bool:
        was_waiting = self._repeat.open
        self._repeat.rest()
        return was_waiting
