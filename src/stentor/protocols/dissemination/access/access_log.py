"""What a broker knows of reliable topics, on its disk.

Everything that is learnt gets a number, and one write at a time makes all durable that was learnt before it began. A
write that fails is tried again with the next news, or after a while; until then the facts hold in memory. The log is
rewritten when most of what it holds has been replaced.
"""

from collections.abc import Iterable

import msgspec

from stentor.machine import Append, Rewrite, Step
from stentor.model.errors import FrameError
from stentor.model.trust.access import SharedFact
from stentor.protocols.dissemination.access.charters import Charters

LOG = "access"
_SLACK = 1000  # facts that may be out of date while the node runs: rewriting costs more than appending
_FACTS_PER_RECORD = 1000  # of a log that is rewritten

_Batch = list[tuple[str, list[SharedFact]]]
_encode = msgspec.msgpack.Encoder().encode
_batch = msgspec.msgpack.Decoder(_Batch)


class AccessLog:
    """The log of one broker. Invariant: durable ≤ covered ≤ noted."""

    def __init__(self, charters: Charters, step: Step) -> None:
        self._charters = charters
        self._step = step
        self.noted = 0  # the number of the last news
        self.durable = 0  # that of the last news that will survive
        self._covered = 0  # that of the last news that the last write holds
        self._unwritten: dict[str, dict[str, None]] = {}  # topics and keys of news that no write holds
        self._writing: dict[str, dict[str, None]] = {}  # and that the write under way holds
        self._stored = 0  # facts in the log, those that are out of date too
        self._slack = _SLACK
        self._under_way = False
        self._has_failed = False  # the last write did
        self._is_resting = False  # since then there was no reason to try again

    def recall(self, records: Iterable[bytes]) -> None:
        """Learn what the log held when this node started."""
        for record in records:
            try:
                batch = _batch.decode(record)
            except msgspec.MsgspecError as error:
                self._step.report("warning", "access facts not understood", log=LOG, reason=str(error))
                continue
            for topic, facts in batch:
                self._stored += len(facts)
                self._relearn(topic, facts)
        self._slack = 0  # a node that starts has the time

    def _relearn(self, topic: str, facts: list[SharedFact]) -> None:
        try:
            self._charters.learn(topic, facts)
        except FrameError as error:
            self._step.report("warning", "access facts not understood", log=LOG, reason=str(error))

    def note(self, topic: str, keys: Iterable[str]) -> None:
        """These facts are news, to be written at the end of this step."""
        self.noted += 1
        self._unwritten.setdefault(topic, {}).update(dict.fromkeys(keys))
        self._is_resting = False

    def retry(self) -> None:
        """Some time has passed: a disk that was full may have space again."""
        self._is_resting = False

    def begin_write(self) -> None:
        """Begin a write if there is something to be written and none is under way."""
        if self._under_way or self._is_resting:
            return
        rewrites = self._stored > 2 * self._charters.facts + self._slack
        if not self._unwritten and not rewrites:
            return
        self._under_way = True
        self._covered = self.noted
        self._slack = _SLACK
        self._writing, self._unwritten = self._unwritten, {}
        if rewrites:
            self._stored = self._charters.facts
            self._step.emit(Rewrite(LOG, self._covered, tuple(_encode(batch) for batch in self._batches())))
            return
        batch = [(topic, self._charters.facts_of(topic, list(keys))) for topic, keys in self._writing.items()]
        self._stored += sum(len(facts) for _, facts in batch)
        self._step.emit(Append(LOG, self._covered, (_encode(batch),)))

    def _batches(self) -> Iterable[_Batch]:
        batch: _Batch = []
        size = 0
        for topic in self._charters:
            facts = self._charters.facts_of(topic)
            batch.append((topic, facts))
            size += len(facts)
            if size >= _FACTS_PER_RECORD:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def appended(self) -> None:
        self._under_way = False
        self._writing = {}
        self.durable = self._covered
        if self._has_failed:
            self._has_failed = False
            self._step.report("info", "access facts are written again", log=LOG)

    def failed(self, reason: str) -> None:
        """The facts hold, and are written with the next ones."""
        self._under_way, self._is_resting = False, True
        for topic, keys in self._writing.items():
            self._unwritten.setdefault(topic, {}).update(keys)
        self._writing = {}
        if not self._has_failed:
            self._has_failed = True
            self._step.report("warning", "cannot write access facts", log=LOG, reason=reason)
