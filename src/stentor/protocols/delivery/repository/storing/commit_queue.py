"""Commit queue: what a repository writes, in groups, and what it does only when that is durable."""

from collections.abc import Sequence
from typing import NamedTuple

from stentor.machine import SECOND, Commit, CommitFailed, Stop
from stentor.model.control import HandedOut, StreamRanges
from stentor.model.stored.record import Entry, Fact, Record, RecordHeader
from stentor.protocols.delivery.repository.deferred import Answer, AwaitSharing, Deferred
from stentor.protocols.delivery.repository.storing.event_log import HORIZON
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.repository.tracer import RepositoryTracer

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


class Durable(NamedTuple):
    """What became durable with some commits: events by their lines, floors of streams, the progress of subscribers."""

    lines: list[RecordHeader]
    marked: list[PublisherStream]
    syncs: dict[str, Noted]


_NOTHING = Noted(0, (), False, HandedOut(), 0)


class CommitQueue:
    """The commits of one ledger. Nothing is said of what is not durable."""

    def __init__(self, state: TopicState, tracer: RepositoryTracer) -> None:
        self._state, self._step = state, state.step
        self._log, self._unwritten = state.log, state.log.unwritten
        self._tracer = tracer
        self.failure = ""  # why nothing is stored at the moment
        self._failed_at = 0  # when that began
        self._noted_horizon = 0  # the horizon that is written down
        self.token = 0  # the last one
        # What waits for the commit that is being put together, for those under way by token, and for nothing any more.
        # Invariant: the keys of `_after`, `_syncs` and `_saving` are the same.
        self._then: list[Deferred] = []
        self._after: dict[int, list[Deferred]] = {}
        self._due: list[Deferred] = []
        self._syncs: dict[int, dict[str, Noted]] = {}
        self._saving: dict[int, Sequence[Entry]] = {}
        self._refused: set[int] = set()  # tokens that were not taken
        self._save_at = 0

    def reopen(self) -> None:
        """Begin with what the ledger holds."""
        self._noted_horizon = self._log.horizon

    def skip(self, upto: int) -> None:
        """Use no token up to this one: it belongs to a machine that failed."""
        self.token = max(self.token, upto)

    def after_commit(self, deferred: Deferred) -> None:
        """Have this carried out when everything is durable that was to be written until now."""
        self._then.append(deferred)

    def after_sharing(self, answer: Answer) -> None:
        """Have this carried out when what is registered is durable, here and at the others that must have it."""
        self.after_commit(AwaitSharing(answer))

    def flush(self) -> list[Deferred]:
        """Ask for everything to be written that a step brought; the progress of subscribers goes with it. Return what
        waits for nothing.
        """
        if self.failure:
            return []
        unwritten = self._unwritten
        syncs: dict[str, Noted] = {}
        if self._state.table.progressed and (unwritten.entries or not any(self._syncs.values())):
            syncs = self._note_progress()
        deferred, self._then = self._then, []
        if not unwritten.entries:
            if not self._saving:
                return deferred
            self._after[max(self._saving)] += deferred  # what they stand for may be in a commit that is under way
            return []
        unwritten.write_remarks()
        horizon = min(self._log.horizon, self._tracer.forgettable_upto)  # what follows it is read, and traced, again
        if horizon - self._noted_horizon >= _HORIZON_EVERY:
            self._noted_horizon = horizon
            unwritten.write(Fact(HORIZON, b"%d" % horizon))
        self.token += 1
        entries = self._saving[self.token] = unwritten.take(self.token)
        self._syncs[self.token] = syncs
        self._after[self.token] = deferred
        self._step.emit(Commit(self._state.topic, self.token, entries))
        return []

    def _note_progress(self) -> dict[str, Noted]:
        syncs: dict[str, Noted] = {}
        for progress in self._state.table.take_progressed():
            progress.abandon_all(self._log.streams.is_over)
            self._unwritten.write(Fact(PROGRESS + progress.name, progress.note()))
            whole = progress.renewed
            registration = progress.registration
            syncs[progress.name] = Noted(progress.sync, progress.take_news(), whole, progress.handed, registration)
        return syncs

    def unwritten_subscribers(self) -> set[str]:
        """Return the subscribers of whom more is known than is durable."""
        return {*self._state.table.progressed, *(name for syncs in self._syncs.values() for name in syncs)}

    def committed(self, upto: int) -> Durable:
        """Return what is durable now, with the commits up to this token."""
        durable = Durable([], [], {})
        tokens = [token for token in self._saving if token <= upto]
        for token in tokens:
            self._tracer.stored(self._saving.pop(token))
            lines, marked = self._log.committed(token)
            durable.lines.extend(lines)
            durable.marked.extend(marked)
            for name, noted in self._syncs.pop(token).items():
                earlier = durable.syncs.get(name, _NOTHING)
                if earlier.registration != noted.registration:
                    earlier = _NOTHING
                whole = earlier.whole or noted.whole
                durable.syncs[name] = noted._replace(done=(*earlier.done, *noted.done), whole=whole)
                self._tracer.progressed(name, noted.done)
            self._due += self._after.pop(token)
        if tokens and self.failure:
            self.failure = ""
            self._state.report("info", "storing again")
        return durable

    def take_due(self) -> list[Deferred]:
        """Remove and return what waited for commits that are durable."""
        due, self._due = self._due, []
        return due

    def failed(self, failed: CommitFailed) -> None:
        """Keep what the disk did not take, and try again later."""
        if failed.fatal:
            self._step.emit(Stop(f"{self._state.topic} cannot be stored: {failed.reason}"))
            return
        if not self.failure:
            self._state.report("error", "nothing is stored or acknowledged", reason=failed.reason)
            self._failed_at = self._step.now
        self.failure = failed.reason
        self._refused.add(failed.token)
        self._save_at = self._step.now + _SAVE_AGAIN

    def retry(self) -> None:
        """Ask for the same again, in the same order, if the disk was full or the database away. That waits until all is
        refused that was asked for: what is still under way must not be asked for twice.
        """
        if self.is_idle:
            self._unwritten.write_remarks()
        if self.failure and self._step.now >= self._save_at and self._refused >= self._saving.keys():
            self._save_at = self._step.now + _SAVE_AGAIN
            self._refused.clear()
            for token, entries in self._saving.items():
                self._step.emit(Commit(self._state.topic, token, entries))

    @property
    def is_stuck(self) -> bool:
        """Whether nothing could be written for a while."""
        return bool(self.failure) and self._step.now - self._failed_at >= _STUCK

    @property
    def is_idle(self) -> bool:
        """Whether all that was to be written is durable."""
        return not self._saving and not self._unwritten.entries

    @property
    def is_full(self) -> bool:
        """Whether more waits for a disk that takes nothing than may wait."""
        if not self.failure:
            return False
        entries = (entry for entries in self._saving.values() for entry in entries)
        size = sum(len(entry.frame) for entry in entries if isinstance(entry, Record))
        return size > self._state.settings.unsaved
