"""Commit queue: what a repository writes down, in groups, and what it says only when that is durable."""

from collections.abc import Callable
from typing import NamedTuple

from stentor.machine import SECOND, Commit, CommitFailed, Report, Stop
from stentor.model.control import HandedOut, StreamRanges
from stentor.model.stored.record import Entry, Fact, Record, RecordHeader
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.event_log import HORIZON, EventLog
from stentor.protocols.delivery.repository.tracer import RepositoryTracer

Action = Callable[[int], None]  # what follows, given the time when it does
PROGRESS = "local/progress/"
_HORIZON_EVERY = 4  # sequence numbers, after which the horizon is written down
_SAVE_AGAIN = SECOND
_STUCK = SECOND  # a disk that takes nothing for so long may take nothing for hours; others have said if theirs does


class Noted(NamedTuple):
    """What is written down of a subscriber's progress: its sync, and what it is done with, or what is new of that."""

    sync: int
    done: tuple[StreamRanges, ...]
    whole: bool
    handed: HandedOut
    registration: int  # of the name, if it is not its first


_NOTHING = Noted(0, (), False, HandedOut(), 0)


class CommitQueue:
    """The commits of one ledger. Nothing is said of what is not durable."""

    def __init__(
        self,
        topic: str,
        store: EventLog,
        table: DisseminationTable,
        feeds: SubscriberFeeds,
        tracer: RepositoryTracer,
        most: int,
    ) -> None:
        self._tracer = tracer
        self._topic, self._log, self._table, self._feeds = topic, store, table, feeds
        self._most = most  # bytes that may wait for a disk that takes nothing
        self.failure = ""  # why nothing is stored at the moment
        self._since = 0  # … and since when
        self.noted = 0  # the horizon that is written down
        self.tokens = 0
        self._then: list[Action] = []  # what follows the commit that is being put together
        self._after: dict[int, list[Action]] = {}  # … and those under way
        self._due: list[Action] = []  # … and those that are durable
        self._syncs: dict[int, dict[str, Noted]] = {}
        self._saving: dict[int, list[Entry]] = {}
        self._refused: set[int] = set()  # tokens that were not taken
        self._save_at = 0

    def after_commit(self, action: Action) -> None:
        """Do this when everything is durable that was to be written until now."""
        self._then.append(action)

    def flush(self, now: int) -> None:
        """Ask for everything to be written that a step brought; the progress of readers goes with it."""
        log = self._log
        if self.failure:
            return
        syncs: dict[str, Noted] = {}
        if self._feeds.progress_changed and (log.entries or not any(self._syncs.values())):
            syncs = self._note_progress()
        if not log.entries:
            actions, self._then = self._then, []
            if self._saving:  # what they stand for may be in a commit that is under way
                self._after[max(self._saving)] += actions
                return
            for action in actions:
                action(now)
            return
        log.entries += log.remarks
        log.remarks = []
        horizon = min(log.horizon, self._tracer.forgettable_upto)  # what follows it is read, and traced, again
        if horizon - self.noted >= _HORIZON_EVERY:
            self.noted = horizon
            log.entries.append(Fact(HORIZON, b"%d" % horizon))
        self.tokens += 1
        entries = self._saving[self.tokens] = log.take_entries(self.tokens)
        self._syncs[self.tokens] = syncs
        self._after[self.tokens], self._then = self._then, []
        self._feeds.effects.append(Commit(self._topic, self.tokens, entries))

    def _note_progress(self) -> dict[str, Noted]:
        syncs: dict[str, Noted] = {}
        for name in self._feeds.progress_changed:
            progress = self._table.destinations.get(name)
            if progress is not None:
                progress.abandon_all(self._log.streams.is_over)
                self._log.entries.append(Fact(PROGRESS + name, progress.note()))
                whole = progress.renewed
                registration = progress.registration
                syncs[name] = Noted(progress.sync, progress.take_news(), whole, progress.handed, registration)
        self._feeds.progress_changed = {}
        return syncs

    def unwritten(self) -> set[str]:
        """The subscribers of whom more is known than is durable."""
        return {*self._feeds.progress_changed, *(name for syncs in self._syncs.values() for name in syncs)}

    def committed(self, now: int, upto: int) -> tuple[list[RecordHeader], dict[str, Noted]]:
        """The lines and the syncs that are durable now, with the commits up to this token."""
        log = self._log
        syncs: dict[str, Noted] = {}
        tokens = [token for token in self._saving if token <= upto]
        if not tokens:
            return [], {}
        for token in tokens:
            self._tracer.stored(now, self._saving.pop(token))
            log.committed(token)
            for name, noted in self._syncs.pop(token).items():
                earlier = syncs.get(name, _NOTHING)
                if earlier.registration != noted.registration:
                    earlier = _NOTHING
                whole = earlier.whole or noted.whole
                syncs[name] = noted._replace(done=(*earlier.done, *noted.done), whole=whole)
                self._tracer.progressed(name, noted.done)
            self._due += self._after.pop(token)
        news, log.news = log.news, []
        if self.failure:
            self.failure = ""
            self._feeds.effects.append(Report("info", "storing again", {"topic": self._topic}))
        return news, syncs

    def finish(self, now: int) -> None:
        """Say what had to wait for these commits."""
        due, self._due = self._due, []
        for action in due:
            action(now)

    def failed(self, now: int, failed: CommitFailed) -> None:
        if failed.fatal:
            self._feeds.effects.append(Stop(f"{self._topic} cannot be stored: {failed.reason}"))
            return
        if not self.failure:
            details: dict[str, str | int | float] = {"topic": self._topic, "reason": failed.reason}
            self._feeds.effects.append(Report("error", "nothing is stored or acknowledged", details))
            self._since = now
        self.failure = failed.reason
        self._refused.add(failed.token)
        self._save_at = now + _SAVE_AGAIN

    def retry(self, now: int) -> None:
        """The disk was full or the database away: ask for the same again, in the same order, once all is refused that
        was asked for: what is still under way must not be asked for twice.
        """
        if self.idle:
            self._log.entries, self._log.remarks = self._log.remarks, []
        if self.failure and now >= self._save_at and self._refused >= self._saving.keys():
            self._save_at = now + _SAVE_AGAIN
            self._refused.clear()
            self._feeds.effects += [Commit(self._topic, token, entries) for token, entries in self._saving.items()]

    def is_stuck(self, now: int) -> bool:
        """Whether nothing could be written for a while."""
        return bool(self.failure) and now - self._since >= _STUCK

    @property
    def idle(self) -> bool:
        """Whether all that was to be written is durable."""
        return not self._saving and not self._log.entries

    @property
    def full(self) -> bool:
        """Whether more waits than may wait."""
        if not self.failure:
            return False
        entries = (entry for entries in self._saving.values() for entry in entries)
        return sum(len(entry.frame) for entry in entries if isinstance(entry, Record)) > self._most
