"""What an application asks for and is handed, as far as repositories must know it.

They tell a subscriber of no events before its application has asked for some. When it ends in good order, the
subscriber says how far it was handed events: what comes again in its next life is marked as redelivered, and nothing
else is.
"""

from collections.abc import Mapping

from stentor.machine import Effect
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
    """The asking, and the farewell: that is repeated until the repository has written it down."""

    def __init__(self, topic: str, name: str, incarnation: Incarnation, settings: SubscriberSettings) -> None:
        self.asks = False  # the application has asked for events in this life
        self.was_told = False  # … and a repository has told of some
        self.is_known = False  # enough repositories know, as the one that steers us says
        self.is_leaving = False  # it is handed nothing more
        self.was_introduced = False  # the repository that steers us was told of the asking when we asked for that
        self._topic, self._name, self._incarnation = topic, name, incarnation
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

    def hear(self, told: Persistent | Rectify, some: bool) -> list[Effect]:
        """A repository says whether it is known that the application asked, and tells of some events, or that some are
        lost: return what tells the application.
        """
        self.is_known |= told.known
        self.was_told |= some
        return [ReportLoss(told.lost, told.lost_by)] if told.lost else []

    def begin_farewell(
        self, now: int, leaving: Leaving, acks: AckTracker, sources: Mapping[StreamId, StreamBuffer]
    ) -> None:
        """Prepare what is to be said: the last number of each stream that was handed out and may not be synced."""
        self._token, self._unsubscribes = leaving.token, leaving.unsubscribes
        self.is_leaving = True
        last = {stream: source.acknowledged for stream, source in sources.items() if source.acknowledged}
        for stream, numbers in acks.owed(leaving.position).items():
            last[stream] = max(last.get(stream, 0), *numbers)
        self._given = tuple((*stream, number) for stream, number in sorted(last.items()))
        self._repeat.ask(now)
        self._repeat.due = now

    def farewell(self, now: int, attempt: int) -> tuple[SubscriberEnd | None, int]:
        """Return what is to be said now, if anything, and when to look again."""
        if self._repeat.due > now:
            return None, self._repeat.due
        self._repeat.again(now)
        end = SubscriberEnd(self._topic, self._name, attempt, self._incarnation, self._given, self._unsubscribes)
        return end, self._repeat.due

    def noted(self) -> list[Effect]:
        """The farewell is written down, or there is nothing to write: return what tells the application."""
        return [ConfirmDurable(self._token)] if self._rest() else []

    def fail(self) -> list[Effect]:
        """Nobody is there to write the farewell down: return what tells the application, if it waits for that. One that
        unsubscribes waits for the next repository.
        """
        if self._unsubscribes:
            return []
        return (
            [ConfirmDurable(self._token, 0, Refusal.BUSY, "no repository is there to note it")] if self._rest() else []
        )

    def _rest(self) -> bool:
        waited = self._repeat.open
        self._repeat.rest()
        return waited
