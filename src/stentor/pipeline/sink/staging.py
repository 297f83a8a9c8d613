"""Staging: what tasks have written and a driver will publish, so that a crash at any moment changes nothing.

query.json      which stream these events are, written once
rows/*.arrow    rows of a task's attempt, under a name of its own
<batch>.begun   the manifest of a batch, written once: these files, in this order, under these numbers
<batch>.done    the same, when all of it is stored
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TypeVar
from uuid import uuid4

import msgspec
import pyarrow as pa

from stentor.model.errors import InvalidInput
from stentor.pipeline.sink.folder import Folder

_QUERY = "query.json"
_BEGUN, _DONE = ".begun", ".done"
_MOST_OPEN = 32  # files that a task writes at a time


class Staged(msgspec.Struct, frozen=True):
    """A file of rows, all for one topic."""

    name: str
    topic: str
    rows: int


class Manifest(msgspec.Struct, frozen=True):
    """What a batch is, whoever computes it again: these files in this order, each topic's rows after a number."""

    batch: int
    time: int  # of its events, in nanoseconds since 1970
    files: tuple[Staged, ...]
    after: dict[str, int]  # by topic, all that this query ever published on, before this batch

    @property
    def upto(self) -> dict[str, int]:
        """The last number of each topic, with this batch."""
        numbers = dict(self.after)
        for each in self.files:
            numbers[each.topic] = numbers.get(each.topic, 0) + each.rows
        return numbers

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.topic for each in self.files))


class Identity(msgspec.Struct, frozen=True):
    """Whose events are staged here, and where they go."""

    topic: str  # "" is what rows say
    publisher: str
    incarnation: int
    query: str  # Spark's id of it
    largest: int  # body that the broker took when it began; 0 is not known


_identity = msgspec.json.Decoder(Identity)
_manifest = msgspec.json.Decoder(Manifest)
T = TypeVar("T")


class Staging:
    """The staged batches of one query. Tasks have it too, as it is pickled."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._rows = folder, folder.within("rows")

    # ---- the query

    def identity(self) -> Identity | None:
        content = self._folder.read(_QUERY)
        return None if content is None else self._decode(_QUERY, content, _identity)

    def begin(self, identity: Identity) -> Identity:
        """The first one counts."""
        self._rows.make()
        self._folder.write_once(_QUERY, msgspec.json.encode(identity))
        found = self.identity()
        assert found is not None
        return found

    def _decode(self, name: str, content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
        try:
            return decoder.decode(content)
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"{self._folder.uri}/{name} is not what this sink has written: {error}") from None

    # ---- tasks

    def write(self, events: Iterable[tuple[str, pa.RecordBatch]]) -> tuple[Staged, ...]:
        """Write rows of topics to files that nobody else writes to; they are durable when it returns."""
        self._rows.make()
        staged: list[Staged] = []
        drafts: dict[str, _Draft] = {}
        with ExitStack() as aborted:
            for topic, batch in events:
                draft = drafts.pop(topic, None)
                if draft is not None and draft.schema != batch.schema:
                    staged[draft.place] = draft.finish()
                    draft = None
                if draft is None:
                    draft = _Draft(self._rows, topic, batch.schema, len(staged))
                    staged.append(Staged(draft.name, topic, 0))
                    aborted.callback(draft.close)
                drafts[topic] = draft  # the one that was used last is the last
                draft.add(batch)
                if len(drafts) > _MOST_OPEN:
                    oldest = drafts.pop(next(iter(drafts)))
                    staged[oldest.place] = oldest.finish()
            for draft in drafts.values():
                staged[draft.place] = draft.finish()
        return tuple(staged)

    def discard(self, files: Iterable[Staged]) -> None:
        self._rows.remove(*(each.name for each in files))

    # ---- the driver

    def newest(self) -> tuple[Manifest | None, bool]:
        """The last batch that was written down, and whether it is done."""
        names = [name for name in self._folder.names() if name.endswith((_BEGUN, _DONE)) and not name.startswith(".")]
        if not names:
            return None, False
        name = max(names)  # of two of one batch, the one that is done
        content = self._folder.read(name)
        if content is None:  # somebody has just finished it
            return self.newest()
        return self._decode(name, content, _manifest), name.endswith(_DONE)

    def note(self, batch: int, time: int, files: Iterable[Staged], after: dict[str, int]) -> bool:
        """Write down what a batch is, unless that is known already; whether it is new."""
        manifest = Manifest(batch, time, tuple(each for each in files if each.rows), after)
        return self._folder.write_once(_name(batch, _BEGUN), msgspec.json.encode(manifest))

    def withdraw(self, manifest: Manifest) -> None:
        """A batch of which nothing was sent shall be written down again."""
        self._folder.remove(_name(manifest.batch, _BEGUN))

    def batches(self, staged: Staged) -> Iterator[pa.RecordBatch]:
        return self._rows.batches(staged.name)

    def finish(self, manifest: Manifest) -> None:
        """All of it is stored: forget its rows, what failed attempts left, and what came before."""
        self._folder.rename(_name(manifest.batch, _BEGUN), _name(manifest.batch, _DONE))
        self.sweep()

    def sweep(self) -> None:
        """Micro-batches come one after the other: whatever lies here when one is done belongs to nobody."""
        self._rows.remove(*self._rows.names())
        manifests = [name for name in self._folder.names() if name.endswith((_BEGUN, _DONE))]
        self._folder.remove(*sorted(manifests)[:-1])

    def clear(self) -> None:
        self._folder.clear()


class _Draft:
    """A file that a task is writing."""

    def __init__(self, folder: Folder, topic: str, schema: pa.Schema, place: int) -> None:
        self.schema, self.place = schema, place
        self.name = f"{uuid4().hex}.arrow"
        self._topic, self._count = topic, 0
        self._stack = ExitStack()
        self._writer = self._stack.enter_context(folder.rows(self.name, schema))

    def add(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self._count += batch.num_rows

    def finish(self) -> Staged:
        self._stack.close()
        return Staged(self.name, self._topic, self._count)

    def close(self) -> None:
        self._stack.close()


def _name(batch: int, state: str) -> str:
    return f"{batch:020d}{state}"
