"""When a subscriber says what its application has acknowledged, and says it again until that is synced."""

from stentor.machine import Step
from stentor.model.stored.span import Span
from stentor.protocols.delivery.retry_timer import NEVER, RetryTimer
from stentor.protocols.delivery.settings import SubscriberSettings
from stentor.protocols.delivery.subscriber.persistent_chain import PersistentChain


class AckReports:
    """The reports of one subscriber to the repositories. They leave together, unless somebody waits for them."""

    def __init__(self, step: Step, settings: SubscriberSettings) -> None:
        self._step = step
        self._settings = settings
        self._repeat = RetryTimer(settings.first_pause, settings.longest_pause)
        self._due = NEVER  # when what is unsent leaves at the latest
        self._reported = 0  # up to where all was acknowledged when that was last said
        self.unsent = 0  # acknowledgements

    def begin(self, sync: int) -> None:
        """A repository says up to where it knows of acknowledgements."""
        self._reported = sync

    def relink(self) -> None:
        """What was said on an earlier link may be lost."""
        self._repeat.rest()
        self._reported = 0

    def forget(self) -> None:
        """Nobody steers us: what is acknowledged is said to the next one."""
        self._repeat.rest()
        self.unsent = 0
        self._due = NEVER

    def on_sync(self, is_news: bool) -> None:
        """The repository has told a sync."""
        if is_news:
            self._repeat.rest()  # it is asked for the first time again if something is left
        else:
            self._repeat.tries = min(self._repeat.tries, 1)  # it is there: others must have it too

    def is_ignored(self, chain: PersistentChain) -> bool:
        """Return whether something was said again and again, and is not synced."""
        if chain.frontier <= chain.sync:
            self._repeat.rest()
        elif not self._repeat.open and self._reported > chain.sync:
            self._repeat.ask(self._step.now)
        return self._repeat.due <= self._step.now and self._repeat.tries >= self._settings.tries

    def take(self, chain: PersistentChain, is_awaited: bool) -> tuple[tuple[Span, ...], int]:
        """Return what is to be said now, and when to look again."""
        now, repeat, frontier = self._step.now, self._repeat, chain.frontier
        if not self.unsent and frontier <= max(chain.sync, self._reported):
            self._due = NEVER
        elif self._due == NEVER:
            self._due = now + self._settings.ack_after
        is_urgent = self.unsent >= self._settings.ack_events or (is_awaited and self._due != NEVER)
        if repeat.due <= now:
            repeat.again(now)
        elif not is_urgent and self._due > now:
            return (), min(self._due, repeat.due)
        elif not repeat.open and frontier > chain.sync:
            repeat.ask(now)
        self._due = NEVER
        self.unsent = 0
        self._reported = frontier
        return chain.report(self._settings.asked_events), repeat.due
