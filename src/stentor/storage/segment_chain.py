"""A chain of segment files: one log that grows at its end and is dropped from its beginning.

A file is named after the position at which it begins. It is filled with zeros ahead of its use, and a dropped one is
used again under a new name, because overwriting is quicker than growing and never finds the disk full. A file is begun
only when all before it is durable, so only the last one can have a torn end.
"""

import errno
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from operator import attrgetter
from typing import Final, NoReturn

from stentor.storage.commit_group import HEADER_SIZE, MAGIC, CommitGroup, read_group, read_header
from stentor.storage.directory import Directory, File
from stentor.storage.ledger import LedgerDamaged, LedgerFailed, LedgerFull

SUFFIX: Final = ".segment"
SPARE: Final = ".spare"
SEGMENT_SIZE: Final = 64 << 20
LARGEST_STEP: Final = 1 << 20  # bytes by which a file grows at once
LARGEST_RESERVE: Final = 64 << 10  # kept for what makes room on a full disk
READ_AHEAD: Final = 256 << 10
PATIENCE: Final = 64  # collections that a spare file is kept for

_SEGMENT_NAME = re.compile(rf"([0-9a-f]{{16}}){re.escape(SUFFIX)}")
_ZEROS: Final = memoryview(bytes(LARGEST_STEP))
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _destroyed(position: int) -> str:
    return f"what was durable at position {position} is destroyed"


class Segment:
    """A file of the chain; `size` is what it takes on the disk."""

    __slots__ = ("base", "size")

    def __init__(self, base: int, size: int) -> None:
        self.base, self.size = base, size

    @property
    def name(self) -> str:
        return f"{self.base:016x}{SUFFIX}"

    @property
    def spare_name(self) -> str:
        return f"{self.base:016x}{SPARE}"


_base = attrgetter("base")


class SegmentChain:
    """`recover` comes first; then `end` is where the next group goes, and all in front of `durable` is on the disk."""

    def __init__(self, directory: Directory, name: str, segment_size: int = SEGMENT_SIZE) -> None:
        self.name = name
        self.segments: list[Segment] = []
        self.end = self.durable = 0
        self.segment_size = segment_size
        self._directory = directory
        self._failure = ""
        self._spare: Segment | None = None
        self._idle = 0  # collections since a file was begun
        self._files: dict[int, File] = {}  # by base: the last one, and the one that was read last
        self._reserve = min(LARGEST_RESERVE, segment_size // 16)

    # ---- recovery

    def recover(self) -> Iterator[CommitGroup]:
        """The groups that are there for good, in order; what a power cut tore off is cut off."""
        try:
            names = self._directory.names()
            for name in [name for name in names if name.endswith(SPARE)]:
                self._directory.remove(name)
            bases = sorted(int(found[1], 16) for name in names if (found := _SEGMENT_NAME.fullmatch(name)))
            for base in bases or [0]:
                segment = Segment(base, 0)
                self.segments.append(segment)
                segment.size = self._file(segment).size()
                self._check_version(segment)
            self._directory.sync()
            for segment, following in pairwise(self.segments):
                yield from self._sealed(segment, following.base)
            yield from self._last(self.segments[-1])
        except OSError as error:
            raise self._fail(f"cannot be opened ({error})") from error

    def _check_version(self, segment: Segment) -> None:
        """What a newer program wrote must not be taken for what a power cut tore."""
        begin = self._file(segment).read(0, HEADER_SIZE)
        version = begin[len(MAGIC) - 1] if begin.startswith(MAGIC[:-1]) else 0
        if version <= MAGIC[-1] or read_header(MAGIC + begin[len(MAGIC) :], 0, segment.base) is not None:
            return  # of ours, as it should be or with a rotten version
        raise self._fail(f"{segment.name} has version {version}, this program reads {MAGIC[-1]}: use the newer one")

    def _sealed(self, segment: Segment, end: int) -> Iterator[CommitGroup]:
        position = segment.base
        for group in self._walk(segment.base, end):
            yield self._legible(group)
            position = group.end
        if position != end:
            raise self.condemn(_destroyed(position))

    def _last(self, segment: Segment) -> Iterator[CommitGroup]:
        """A group is torn or damaged; that a later one was written when it was durable proves the latter."""
        self.end = suspect = segment.base
        held: CommitGroup | None = None
        for group in self._walk(segment.base, segment.base + segment.size):
            if held is not None:
                if not held.whole and group.state.durable <= held.position:
                    break
                yield self._legible(held)
                self.end, suspect = held.end, max(suspect, held.state.durable)
            held = group
        if held is not None and held.whole:
            yield held
            self.end, suspect = held.end, max(suspect, held.state.durable)
        self._check_tail(segment)
        file = self._file(segment)
        segment.size = self.end - segment.base
        file.truncate(segment.size)  # or a whole group behind a torn one would be next to the one that comes there now
        # Written again: a page that once failed to sync looks clean to the kernel and would never reach the disk.
        file.write(suspect - segment.base, file.read(suspect - segment.base, self.end - suspect))
        file.sync()
        self.durable = self.end

    def _walk(self, position: int, end: int) -> Iterator[CommitGroup]:
        reader = self.reader(READ_AHEAD)
        while position < end:
            data, at = reader.find(position, HEADER_SIZE)
            header = read_header(data, at, position)
            if header is None:
                return
            data, at = reader.find(position, header.size)
            group = read_group(data[at : at + header.size], position)
            assert group is not None
            yield group
            position = group.end

    def _check_tail(self, segment: Segment) -> None:
        """A later group that was written when more was durable proves that something acknowledged is destroyed."""
        file = self._file(segment)
        for offset in range(self.end - segment.base, segment.size, READ_AHEAD):
            data = file.read(offset, READ_AHEAD + HEADER_SIZE)
            at = data.find(MAGIC)
            while 0 <= at < READ_AHEAD:
                header = read_header(data, at, segment.base + offset + at)
                if header is not None and header.state.durable > self.end:
                    raise self.condemn(_destroyed(self.end))
                at = data.find(MAGIC, at + 1)

    def _legible(self, group: CommitGroup) -> CommitGroup:
        if not group.legible:
            raise self.condemn(_destroyed(group.position))
        return group

    def condemn(self, what: str) -> LedgerDamaged:
        """Something durable is not there any more, and nobody knows what it was: nothing is written any more."""
        self._failure = f"{self.name}: {what}; restore the files, or discard this copy and fill it from another one"
        return LedgerDamaged(self._failure)

    # ---- writing

    def append(self, data: bytes, needed: bool = False) -> None:
        """Returns when it is durable. What is needed to make room may use what is kept for it."""
        self.check()
        try:
            self._make_room(len(data) if needed else len(data) + self._reserve, len(data))
        except OSError as error:
            self._refuse(error)
        segment = self.segments[-1]
        file = self._file(segment)
        try:
            file.write(self.end - segment.base, data)
        except OSError as error:
            self._take_back(file, error)
        self._sync(file)
        self.end += len(data)
        self.durable = self.end

    def mark(self, data: bytes) -> None:
        """Write a group that need not become durable, if that is possible."""
        segment = self.segments[-1]
        if not self._failure:
            with suppress(OSError):
                self._file(segment).write(self.end - segment.base, data)
                self.end += len(data)
                segment.size = max(segment.size, self.end - segment.base)

    def drop(self) -> None:
        """Forget the first file; a group that says so must be durable. One at a time, so that a power cut leaves no
        gap behind.
        """
        self.check()
        segment = self.segments.pop(0)
        self._release(segment.base)
        try:
            if self._spare is None and segment.size >= self.segment_size // 2:
                self._directory.rename(segment.name, segment.spare_name)
                self._spare = segment
            else:
                self._directory.remove(segment.name)
            self._directory.sync()
        except OSError as error:
            raise self._fail(f"{segment.name} cannot be removed ({error}); restart the node") from error

    def rest(self) -> None:
        """Nothing was there to be dropped. A spare file that nobody needed for long is given back."""
        self._idle += 1
        if self._idle > PATIENCE and self._spare is not None:
            with suppress(OSError):
                self._directory.remove(self._spare.spare_name)
                self._spare = None

    def _make_room(self, wanted: int, size: int) -> None:
        segment = self.segments[-1]
        if self.end > segment.base and self.end + size > segment.base + self.segment_size:
            segment = self._begin()
        need = self.end - segment.base + wanted
        if need > segment.size:
            step = min(max(segment.size, self._reserve), LARGEST_STEP)  # small topics stay small
            try:
                self._grow(segment, max(need, min(segment.size + step, self.segment_size)))
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                if need > segment.size:  # there was not even room for this
                    self._drop_spare(error)
                    self._grow(segment, need)

    def _grow(self, segment: Segment, size: int) -> None:
        file = self._file(segment)
        try:
            for start in range(segment.size, size, LARGEST_STEP):
                file.write(start, _ZEROS[: size - start])
        finally:
            segment.size = file.size()

    def _drop_spare(self, error: OSError) -> None:
        if self._spare is None:
            raise error
        self._directory.remove(self._spare.spare_name)
        self._spare = None

    def _begin(self) -> Segment:
        """A new file, or a spare one under a new name."""
        if self.durable < self.end:
            self._sync(self._file(self.segments[-1]))
        segment = Segment(self.end, 0)
        self._idle = 0
        if self._spare is not None:
            self._directory.rename(self._spare.spare_name, segment.name)
            self._spare = None
        self._release(self.segments[-1].base)
        segment.size = self._file(segment).size()
        self.segments.append(segment)
        self._sync(self._directory)
        return segment

    def _sync(self, what: File | Directory) -> None:
        try:
            what.sync()
        except OSError as error:
            raise self._fail(f"the disk did not sync ({error}); restart the node") from error

    def _take_back(self, file: File, error: OSError) -> NoReturn:
        """A write that failed leaves no trace, not even after a power cut, or the log is not used any more."""
        segment = self.segments[-1]
        try:
            file.truncate(self.end - segment.base)
            file.sync()
            segment.size = self.end - segment.base
        except OSError:
            raise self._fail(f"the disk failed a write ({error}); restart the node") from error
        self._refuse(error)

    def _refuse(self, error: OSError) -> NoReturn:
        if error.errno not in _FULL:
            raise self._fail(f"the disk failed ({error}); restart the node") from error
        raise LedgerFull(f"{self.name}: not written ({error})") from error

    def check(self) -> None:
        if self._failure:
            raise LedgerFailed(self._failure)

    def _fail(self, failure: str) -> LedgerFailed:
        self._failure = f"{self.name}: {failure}"
        return LedgerFailed(self._failure)

    # ---- reading

    def reader(self, ahead: int) -> "SegmentReader":
        return SegmentReader(self, ahead)

    def read(self, position: int, size: int) -> bytes:
        """Bytes of one file; fewer if it ends before. Behind what belongs to the chain a file may hold anything."""
        number = bisect_right(self.segments, position, key=_base) - 1
        segment = self.segments[number]
        if number + 1 < len(self.segments):
            size = min(size, self.segments[number + 1].base - position)
        return self._file(segment).read(position - segment.base, size)

    def usage(self) -> int:
        return sum(segment.size for segment in self.segments) + (self._spare.size if self._spare is not None else 0)

    def close(self) -> None:
        for base in list(self._files):
            self._release(base)

    def _file(self, segment: Segment) -> File:
        file = self._files.get(segment.base)
        if file is None:
            for base in [base for base in self._files if base != self.segments[-1].base]:
                self._release(base)
            file = self._files[segment.base] = self._directory.open(segment.name)
        return file

    def _release(self, base: int) -> None:
        file = self._files.pop(base, None)
        if file is not None:
            file.close()


class SegmentReader:
    """Reads forward, some bytes ahead, because what is wanted next mostly lies there."""

    __slots__ = ("_ahead", "_data", "_segments", "_start")

    def __init__(self, chain: SegmentChain, ahead: int) -> None:
        self._segments, self._ahead = chain, ahead
        self._start, self._data = 0, b""

    def find(self, position: int, size: int) -> tuple[bytes, int]:
        """Bytes that hold these, as far as they are there, and where in them they begin."""
        at = position - self._start
        if at < 0 or at + size > len(self._data):
            self._start, self._data = position, self._segments.read(position, max(size, self._ahead))
            at = 0
        return self._data, at
