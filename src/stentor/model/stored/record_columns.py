"""Record columns: the headers of many records as columns, so that a million of them need no million steps."""

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stentor.model.stored.record import RecordHeader, RecordKind, StreamId

LONGEST = 4096  # lines

Numbers = NDArray[np.unsignedinteger[Any]]


class RecordColumns(NamedTuple):
    """Lines in the order of their sequence numbers, column by column."""

    sequence: Numbers
    length: Numbers
    publisher: Numbers
    incarnation: Numbers
    first: Numbers
    kind: Numbers
    digest: Numbers

    @classmethod
    def of(cls, lines: Iterable[RecordHeader]) -> "RecordColumns":
        columns = zip(*lines, strict=True)
        return cls(*(np.array(column, kind) for column, kind in zip(columns, _TYPES, strict=True)))

    def line(self, at: int) -> RecordHeader:
        sequence, length, publisher, incarnation, first, kind, digest = (column[at].item() for column in self)
        return RecordHeader(sequence, length, publisher, incarnation, first, RecordKind(kind), digest)

    def lines(self) -> Iterator[RecordHeader]:
        return map(self.line, range(len(self.sequence)))

    def others(self) -> Iterator[RecordHeader]:
        """Those that hold no events."""
        return map(self.line, np.flatnonzero(self.kind != RecordKind.EVENTS).tolist())

    def streams(self) -> Iterator[tuple[StreamId, "RecordColumns"]]:
        """Those that do, stream by stream, each in the order of its catenation numbers."""
        events = self._of(np.flatnonzero(self.kind == RecordKind.EVENTS))
        events = events._of(np.lexsort((events.sequence, events.first, events.incarnation, events.publisher)))
        changes = np.diff(events.publisher) | np.diff(events.incarnation)
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(events.sequence)]
        for start, end in pairwise(bounds):
            if start < end:
                mine = events._of(slice(start, end))
                yield (int(mine.publisher[0]), int(mine.incarnation[0])), mine

    def since(self, sequence: int) -> "RecordColumns":
        """Those from this sequence number on."""
        return self._of(slice(int(np.searchsorted(self.sequence, sequence)), None))

    def _of(self, which: NDArray[np.intp] | slice) -> "RecordColumns":
        return RecordColumns(*(column[which] for column in self))


_TYPES = (np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint8, np.uint64)


@runtime_checkable
class Catalogue(Protocol):
    """Lines that are kept in columns."""

    def chapters(self) -> Iterator[RecordColumns]: ...


def chapters_of(lines: Iterable[RecordHeader]) -> Iterator[RecordColumns]:
    if isinstance(lines, Catalogue):
        yield from lines.chapters()
        return
    rest = iter(lines)
    while found := list(islice(rest, LONGEST)):
        yield RecordColumns.of(found)
