"""A ledger in segment files: a commit is one group at the end of a log, one write and one sync.

The directory may be the real one or the simulated one. What lies where is kept in arrays, the contents are read from
the files. When records are forgotten, files at the beginning of the log that hold little else are given back, after
what is still valid in them was written once more at its end.
"""

import errno
from collections.abc import Iterable, Sequence

import numpy as np

from stentor.model.stored.record import Entry, Fact, LedgerContents, Record, RecordHeader, RecordKind, Row
from stentor.storage.commit_group import (
    FACT,
    GONE,
    LABEL_SIZE,
    NO_FACT,
    RECORD,
    CommitGroup,
    Gone,
    Item,
    LogState,
    Place,
    encode,
    read_item,
)
from stentor.storage.directory import Directory
from stentor.storage.ledger import Excerpt, LedgerFailed
from stentor.storage.record_index import RecordIndex, RepositoryTable, StreamNumbers, weigh
from stentor.storage.segment_chain import SEGMENT_SIZE, SegmentChain

_READ_AHEAD = 64 << 10


class SegmentLedger:
    """A ledger in segment files, which are not read before `load`."""

    def __init__(self, directory: Directory, name: str, segment_size: int = SEGMENT_SIZE) -> None:
        self._name = name
        self._segments = SegmentChain(directory, name, segment_size)
        streams = StreamNumbers()
        self._records = RecordIndex(streams)
        self._rows = RepositoryTable(streams)
        self._facts: dict[str, tuple[bytes, Place]] = {}
        self._gone: list[Gone] = []  # to be told with the next group
        self._next, self._floor = 1, 0

    def load(self) -> LedgerContents:
        start = 0
        items = 1
        for group in self._segments.recover():
            self._replay(group)
            start, items = group.state.start, len(group.items)
        if self._segments.segments[0].base > start:
            raise self._segments.condemn(f"the files in front of {self._segments.segments[0].name} are missing")
        if items:
            self._mark()
        facts = {key: value for key, (value, _) in self._facts.items()}
        return LedgerContents(facts, self._records, self._rows, self._next)

    def commit(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if isinstance(entry, Record):
                self._check(entry.line)
        self._append(entries)

    def scan(self, first: int, budget: int) -> Excerpt:
        found = Excerpt([], [])
        records = self._records
        reader = self._segments.reader(min(budget, _READ_AHEAD))
        for at in range(records.locate(first), len(records)):
            position, size = records.place(at)
            if found.records and size - LABEL_SIZE > budget:
                break
            item = None
            if not records.is_damaged(at):
                try:
                    data, offset = reader.find(position, size)
                    item = read_item(data, offset, position)
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise LedgerFailed(f"{self._name}: cannot be read ({error})") from error
            if item is None or not item.sound:
                records.spoil(at)
                found.damaged.append(records.line(at))
                continue
            budget -= size - LABEL_SIZE
            found.records.append(item.record())
        return found

    def find(self, time: int) -> int:
        found = self._records.find(time)
        return self._next if found is None else found

    def rows(self, repository: str, first: int, last: int) -> list[Row]:
        return self._rows.overlapping(repository, first, last)

    def collect(self, end: int) -> None:
        self._segments.check()
        gone = self._records.forget(end)
        self._floor = max(self._floor, min(end, self._next - 1))
        affected = self._rows.forget(gone, self._records)
        self._gone += [Gone(*stream, gone[stream]) for stream in affected]
        self._rows.drop_unused_streams(self._records)
        self._give_back()

    def usage(self) -> int:
        return self._segments.usage()

    def close(self) -> None:
        if self._segments.end:
            self._mark()
        self._segments.close()

    # ---- writing

    def _check(self, line: RecordHeader) -> None:
        """Only what is reserved may be replaced: anything else would be two records under one number."""
        if line.sequence < self._next:
            start, end = self._records.overlapped(line)
            taken = [
                each for each in map(self._records.line, range(start, end)) if each.kind is not RecordKind.RESERVED
            ]
            assert not taken, f"{line} would replace {taken[0]}"

    def _append(self, entries: Iterable[Entry], start: int = 0) -> None:
        """Write a group; `start` is where the log begins from then on."""
        told: list[Entry | Gone] = [*self._gone, *entries]
        following = max([self._next, *(entry.line.end + 1 for entry in entries if isinstance(entry, Record))])
        state = LogState(self._segments.durable, start or self._segments.segments[0].base, self._floor, following)
        data, places = encode(told, self._segments.end, state)
        self._segments.append(data, needed=start > 0)
        self._gone.clear()
        self._next = following
        for entry, place in zip(told, places, strict=True):
            self._apply(entry, place)

    def _apply(self, entry: Entry | Gone, place: Place) -> None:
        match entry:
            case Record(line, _, _, time, _):
                self._records.put(line, place, time)
            case Row():
                self._rows.put(entry, place)
            case Fact(key, value) if value is not None:
                self._facts[key] = value, place
            case Fact(key):
                self._facts.pop(key, None)

    def _mark(self) -> None:
        """A group without items proves that all in front of it was durable: damage is not taken for a power cut."""
        segments = self._segments
        state = LogState(segments.durable, segments.segments[0].base, self._floor, self._next)
        segments.mark(encode((), segments.end, state)[0])

    def _give_back(self) -> None:
        """Drop files at the beginning that hold little, or at any cost if more than half of all is of no use."""
        segments = self._segments
        if len(segments.segments) == 1:
            segments.rest()
            return
        used = self._weights()
        sizes = [segment.size for segment in segments.segments]
        count = moved = 0
        while count < len(sizes) - 1 and moved <= segments.segment_size // 2:
            mostly_free = 2 * used[count] <= sizes[count]
            if not mostly_free and 2 * sum(used[count:]) > sum(sizes[count:]):
                break
            moved += used[count]
            count += 1
        if count:
            start, end = segments.segments[0].base, segments.segments[count].base
            self._append(self._still_valid(start, end), end)
            for _ in range(count):
                segments.drop()
        else:
            segments.rest()

    def _weights(self) -> list[int]:
        """How many bytes of each segment are in use."""
        bases = np.array([segment.base for segment in self._segments.segments], np.uint64)
        used = self._records.weights(bases)
        for lines in self._rows.repositories.values():
            used += lines.weights(bases)
        places = np.array([place for _, place in self._facts.values()], np.uint64).reshape(-1, 2)
        used += weigh(bases, places[:, 0], places[:, 1])
        weights: list[int] = used.astype(int).tolist()
        return weights

    def _still_valid(self, start: int, end: int) -> list[Entry]:
        """What is in use between these positions."""
        entries: list[Entry] = [
            Fact(key, value) for key, (value, (position, _)) in self._facts.items() if start <= position < end
        ]
        for repository, lines in self._rows.repositories.items():
            entries += [Row(repository, lines.line(at)) for at in lines.within(start, end)]
        for at in self._records.within(start, end):
            position, size = self._records.place(at)
            item = read_item(self._segments.read(position, size), 0, position)
            entries.append(item.record() if item is not None and item.sound else Record(self._records.line(at)))
        return entries

    # ---- recovery

    def _replay(self, group: CommitGroup) -> None:
        state = group.state
        if state.floor > self._floor:
            self._records.forget(state.floor)
            self._floor = state.floor
        gone = {item.line.stream: item.line.first for item in group.items if item.type == GONE}
        if gone:
            self._rows.forget(gone, self._records)
            self._rows.drop_unused_streams(self._records)
        for item in group.items:
            self._replay_item(item)
        self._next = max(self._next, state.next)

    def _replay_item(self, item: Item) -> None:
        place = item.position, item.size
        if item.type == RECORD:
            self._records.put(item.line, place, item.time, not item.sound)
        elif item.sound:
            self._apply(item.entry(), place)
        else:
            what = "a fact" if item.type in (FACT, NO_FACT) else "a row"
            raise self._segments.condemn(f"{what} at position {item.position} is destroyed")
