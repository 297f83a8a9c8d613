"""The fake twin of a directory of append-only files: what was synced survives, anything else is up to the seed.

At a power cut each unsynced block is kept, lost, torn or turned into garbage on its own, so a later one may survive
an earlier one. Garbage and zeros appear only where a file has grown: an overwritten block is the old or the new one.
A sync that fails does the same to the disk, yet leaves everything readable in the cache and clean, so that later
syncs do not write it again: what Linux does.
"""

import errno
from collections import Counter
from random import Random

import msgspec

BLOCK = 64  # small, so that small records span several


class DiskFaults(msgspec.Struct, frozen=True, kw_only=True):
    """How often a disk fails; the default never does."""

    sync_error: float = 0.0  # of syncs say EIO
    full: float = 0.0  # of growing writes find no space
    garbage: float = 0.2  # of unsynced blocks turn into garbage at a power cut


SOUND_DISK = DiskFaults()


class _Write:
    __slots__ = ("data", "offset")

    def __init__(self, offset: int, data: bytes) -> None:
        self.offset, self.data = offset, data

    def apply(self, content: bytearray) -> None:
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data


class _Truncation:
    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def apply(self, content: bytearray) -> None:
        del content[self.size :]


class SimulatedFile:
    """One file: the disk's bytes, the cache's, and the changes that are in the cache alone."""

    __slots__ = ("_cache", "_changes", "_disk", "_durable", "entry", "newest")

    def __init__(self, disk: "SimulatedDisk") -> None:
        self._disk = disk
        self._durable = bytearray()
        self._cache = bytearray()
        self._changes: list[_Write | _Truncation] = []
        self.entry = ""  # the name that is durable in its directory, if one is
        self.newest = 0  # where that begins which was synced last: nothing that came later proves that it was

    def read(self, offset: int = 0, size: int = -1) -> bytes:
        return bytes(self._cache[offset:] if size < 0 else self._cache[offset : offset + size])

    def size(self) -> int:
        return len(self._cache)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        disk, data = self._disk, bytes(data)
        grows = offset + len(data) > len(self._cache)
        if grows and disk.chance(disk.faults.full):
            disk.faults_seen["disk-full"] += 1
            self._change(_Write(offset, data[: disk.random.randrange(len(data) + 1)]))
            raise OSError(errno.ENOSPC, "no space left on device")
        self._change(_Write(offset, data))

    def truncate(self, size: int) -> None:
        self._change(_Truncation(size))

    def sync(self) -> None:
        disk = self._disk
        if disk.chance(disk.faults.sync_error):
            disk.faults_seen["sync-error"] += 1
            self._lose_unsynced()
            raise OSError(errno.EIO, "input/output error")
        for change in self._changes:
            change.apply(self._durable)
        self.newest = min((each.offset for each in self._changes if isinstance(each, _Write)), default=self.newest)
        self._changes.clear()

    def close(self) -> None:
        """Closing makes nothing durable."""

    def cut_power(self) -> None:
        """The cache is gone; the disk holds what it holds."""
        self._lose_unsynced()
        self._cache = bytearray(self._durable)

    @property
    def synced(self) -> bytes:
        return bytes(self._durable)

    @property
    def durable(self) -> int:
        """Up to where there is something on the disk that may rot."""
        return len(self._durable.rstrip(b"\0"))

    def rot(self, offset: int) -> None:
        """Damage that no power cut explains: a bit of what was durable flips."""
        self._durable[offset] ^= 1 << self._disk.random.randrange(8)
        self._cache = bytearray(self._durable)

    def _change(self, change: _Write | _Truncation) -> None:
        change.apply(self._cache)
        self._changes.append(change)

    def _lose_unsynced(self) -> None:
        """Decide what became of every change that was not synced."""
        disk = self._disk
        size = len(self._durable)
        in_order = disk.chance(0.4)  # cut off at one instant, rather than scattered
        for change in self._changes:
            if in_order and disk.chance(0.3):
                if isinstance(change, _Write) and disk.chance(0.5):
                    self._tear(change.offset, change.data)
                break
            if isinstance(change, _Write):
                self._settle_write(change, size, in_order)
            elif in_order or disk.chance(0.5):
                change.apply(self._durable)
        self._changes.clear()

    def _settle_write(self, write: _Write, size: int, in_order: bool) -> None:
        disk = self._disk
        position = 0
        while position < len(write.data):
            offset = write.offset + position
            block = write.data[position : position + BLOCK - offset % BLOCK]
            position += len(block)
            grown = offset >= size
            if grown and disk.chance(disk.faults.garbage):
                disk.faults_seen["garbage-block"] += 1
                _Write(offset, disk.random.randbytes(len(block))).apply(self._durable)
            elif in_order or disk.chance(0.5):
                _Write(offset, block).apply(self._durable)
            elif grown and disk.chance(0.5):
                self._tear(offset, block)
            else:
                disk.faults_seen["lost-block"] += 1

    def _tear(self, offset: int, data: bytes) -> None:
        """A part from the beginning reaches the disk."""
        self._disk.faults_seen["torn"] += 1
        _Write(offset, data[: self._disk.random.randrange(len(data) + 1)]).apply(self._durable)


class SimulatedDisk:
    """A directory whose faults come from one seed; it outlives the machine that uses it."""

    def __init__(self, random: Random, faults: DiskFaults = SOUND_DISK) -> None:
        self.random = random
        self.faults = faults
        self.faults_seen: Counter[str] = Counter()
        self._files: dict[str, SimulatedFile] = {}
        self._removed: list[SimulatedFile] = []  # since the directory was synced
        self._replaced: dict[str, SimulatedFile] = {}  # durable files whose name another one took since then

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def names(self) -> list[str]:
        return sorted(self._files)

    def open(self, name: str) -> SimulatedFile:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = SimulatedFile(self)
        return file

    def rename(self, old: str, new: str) -> None:
        assert new not in self._files
        self._files[new] = self._files.pop(old)

    def replace(self, old: str, new: str) -> None:
        former = self._files.pop(new)
        if former.entry == new:
            self._replaced[new] = former
        self._files[new] = self._files.pop(old)

    def remove(self, name: str) -> None:
        self._removed.append(self._files.pop(name))

    def sync(self) -> None:
        self._flush_directory()

    def synced(self, name: str) -> bytes:
        """What a power cut would leave of a file at the worst; nothing if there is none."""
        file = self._replaced.get(name) or self._files.get(name)
        return b"" if file is None or file.entry != name else file.synced

    def cut_power(self) -> None:
        """Whatever was not synced is at the mercy of the seed: a file that is new may be gone, one that was renamed or
        removed may have its old name, and one that was replaced its own.
        """
        for name in self.names():
            file = self._files[name]
            if file.entry != name and self.chance(0.5):
                self.faults_seen["lost-name" if file.entry else "lost-file"] += 1
                del self._files[name]
                if name in self._replaced:
                    self._files[name] = self._replaced[name]
                    self._files[name].cut_power()
                if not file.entry:
                    continue
                self._files[file.entry] = file
            file.cut_power()
        for file in self._removed:
            if file.entry and self.chance(0.5):
                self.faults_seen["file-came-back"] += 1
                self._files[file.entry] = file
                file.cut_power()
        self._flush_directory()

    def _flush_directory(self) -> None:
        """The directory is on the disk as it is in the cache."""
        self._removed.clear()
        self._replaced.clear()
        for name, file in self._files.items():
            file.entry = name
