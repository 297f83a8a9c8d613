"""The ledger in segment files against a model, on a disk that fails, runs full and loses power at any operation."""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from tests.unit.storage.records import EVERYTHING, events, other
from xxhash import xxh3_64_intdigest

from stentor.model.stored.record import Entry, Fact, Record, RecordKind, Row
from stentor.simulation.disk import SOUND_DISK, DiskFaults, SimulatedDisk
from stentor.storage.commit_group import CommitGroup
from stentor.storage.ledger import LedgerDamaged, LedgerFailed, LedgerFull
from stentor.storage.segment_chain import Segment, SegmentChain
from stentor.storage.segments import SegmentLedger

pytestmark = pytest.mark.req("RD-23")


class PowerLost(Exception):
    """The power went in the middle of an operation."""


class FusedFile:
    """A file that tells its directory before and after everything that changes it."""

    def __init__(self, fuse: "FusedDisk", file: Any) -> None:
        self._fuse, self._file = fuse, file
        self.read, self.size, self.close = file.read, file.size, file.close

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self._fuse.do(lambda: self._file.write(offset, data))

    def truncate(self, size: int) -> None:
        self._fuse.do(lambda: self._file.truncate(size))

    def sync(self) -> None:
        self._fuse.do(self._file.sync)


class FusedDisk:
    """A simulated disk whose power goes when the fuse has burnt down."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk, self.fuse = disk, -1
        self.names = disk.names

    def do(self, action: Callable[[], None]) -> None:
        self.fuse -= 1
        if self.fuse == 0 and self.disk.random.random() < 0.5:
            raise PowerLost
        action()
        if self.fuse == 0:
            raise PowerLost

    def open(self, name: str) -> FusedFile:
        return FusedFile(self, self.disk.open(name))

    def rename(self, old: str, new: str) -> None:
        self.do(lambda: self.disk.rename(old, new))

    def replace(self, old: str, new: str) -> None:
        self.do(lambda: self.disk.replace(old, new))

    def remove(self, name: str) -> None:
        self.do(lambda: self.disk.remove(name))

    def sync(self) -> None:
        self.do(self.disk.sync)


class Model:
    """What a ledger is, in a few lines."""

    def __init__(self) -> None:
        self.facts: dict[str, bytes] = {}
        self.records: dict[int, Record] = {}
        self.rows: dict[tuple[str, int], Row] = {}
        self.next, self.floor = 1, 0

    def copy(self) -> "Model":
        copy = Model()
        copy.facts, copy.records, copy.rows = dict(self.facts), dict(self.records), dict(self.rows)
        copy.next, copy.floor = self.next, self.floor
        return copy

    def commit(self, entries: list[Entry]) -> "Model":
        for entry in entries:
            if isinstance(entry, Record):
                line = entry.line
                for each in [each.line for each in self.records.values()]:
                    if each.sequence <= line.end and line.sequence <= each.end:
                        assert each.kind is RecordKind.RESERVED
                        del self.records[each.sequence]
                self.records[line.sequence] = entry
                self.next = max(self.next, line.end + 1)
            elif isinstance(entry, Row):
                self.rows[entry.repository, entry.line.sequence] = entry
            elif entry.value is None:
                self.facts.pop(entry.key, None)
            else:
                self.facts[entry.key] = entry.value
        return self

    def accepts(self, found: "Model") -> bool:
        """Is it this? What was forgotten may have come back, as it was."""
        return (
            (found.facts, found.next) == (self.facts, self.next)
            and all(
                there == wanted or (there is not None and wanted is None and sequence <= self.floor)
                for sequence in self.records.keys() | found.records.keys()
                for there, wanted in [(found.records.get(sequence), self._live(sequence))]
            )
            and {key: row for key, row in found.rows.items() if row.line.last > self.floor}
            == {key: row for key, row in self.rows.items() if row.line.last > self.floor}
        )

    def _live(self, sequence: int) -> Record | None:
        record = self.records.get(sequence)
        return record if record is not None and record.line.end > self.floor else None


class Run:
    """Random commits, collections, kills and power cuts from one seed."""

    def __init__(self, seed: int, faults: DiskFaults) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(Random(f"{seed}/disk"), faults)
        self.fused = FusedDisk(self.disk)
        self.model = Model()
        self.doubtful: Model | None = None  # with a commit of which nobody knows
        self.happened: Counter[str] = Counter()
        self.number = 0
        self.ledger = self.open()

    def open(self) -> SegmentLedger:
        for attempt in range(30):
            if attempt == 20:
                self.disk.faults = SOUND_DISK
            ledger = SegmentLedger(self.fused, "topic", 2048)
            if self.random.random() < 0.2:
                self.fused.fuse = self.random.randrange(1, 12)
            try:
                contents = ledger.load()
            except LedgerDamaged:
                raise
            except (LedgerFailed, PowerLost) as failure:
                self.happened[f"load: {type(failure).__name__}"] += 1
                if isinstance(failure, PowerLost) or self.random.random() < 0.3:
                    self.disk.cut_power()
                continue
            finally:
                self.fused.fuse = -1
            found = Model()
            excerpt = ledger.scan(0, EVERYTHING)
            assert not excerpt.damaged
            assert [record.line for record in excerpt.records] == list(contents.lines)
            found.records = {record.line.sequence: record for record in excerpt.records}
            found.rows = {(row.repository, row.line.sequence): row for row in contents.rows}
            found.facts, found.next = contents.facts, contents.next
            self.compare(found)
            return ledger
        raise AssertionError("a sound disk opens")

    def compare(self, found: Model) -> None:
        if self.doubtful is not None and self.doubtful.accepts(found):
            self.happened["doubtful commit kept"] += 1
        else:
            assert self.model.accepts(found), "exactly what was acknowledged"
        self.doubtful = None
        found.floor = 0
        self.model = found

    def entries(self) -> list[Entry]:
        random = self.random
        found: list[Entry] = []
        following = self.model.next
        for _ in range(random.randrange(1, 4)):
            dice = random.random()
            self.number += 1
            if dice < 0.5:
                record = events(following, random.choice((1, 1, 4)), size=random.choice((10, 100, 400)))
                if random.random() < 0.3:
                    record = other(following, random.choice((1, 5)), random.choice(list(RecordKind)[1:]))
                found.append(record)
                following = record.line.end + 1
            elif dice < 0.8:
                value = None if random.random() < 0.3 else random.randbytes(random.choice((0, 5, 90)))
                found.append(Fact(f"key {random.randrange(12)}", value))
            else:
                found.append(Row(random.choice(("near", "far")), events(self.number, first=following).line))
        return found + self.fill()

    def fill(self) -> list[Entry]:
        """Sometimes a part of what was reserved."""
        gaps = [record.line for record in self.model.records.values() if record.line.kind is RecordKind.RESERVED]
        if not gaps or self.random.random() < 0.5:
            return []
        gap = self.random.choice(gaps)
        length = self.random.randint(1, gap.length)
        rest = [other(gap.sequence + length, gap.length - length)] if length < gap.length else []
        return [events(gap.sequence, length, size=50), *rest]

    def step(self) -> None:
        dice = self.random.random()
        self.fused.fuse = self.random.randrange(1, 8) if self.random.random() < (0.3 if dice > 0.75 else 0.1) else -1
        try:
            if dice < 0.75:
                self.commit()
            elif dice < 0.95:
                self.collect()
            else:
                self.ledger.close() if self.random.random() < 0.5 else None
                self.crash(self.random.random() < 0.5)
        except PowerLost:
            self.crash(power=True)

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.crash(power=True)

    def commit(self) -> None:
        entries = self.entries()
        self.doubtful = self.model.copy().commit(entries)
        try:
            self.ledger.commit(entries)
        except LedgerFull:
            self.happened["full"] += 1
            self.doubtful = None
        except LedgerFailed:
            self.happened["failed"] += 1
            self.disk.faults, faults = SOUND_DISK, self.disk.faults
            with pytest.raises(LedgerFailed):
                self.ledger.commit([])
            self.disk.faults = faults
            self.crash(self.random.random() < 0.5)
        else:
            self.happened["committed"] += 1
            self.model, self.doubtful = self.doubtful, None

    def collect(self) -> None:
        end = self.random.randrange(self.model.next)
        self.model.floor = max(self.model.floor, end)
        try:
            self.ledger.collect(end)
        except LedgerFull:
            self.happened["full"] += 1
        except LedgerFailed:
            self.crash(self.random.random() < 0.5)

    def crash(self, power: bool) -> None:
        self.fused.fuse = -1
        self.happened["power cut" if power else "killed"] += 1
        if power:
            self.disk.cut_power()
        self.ledger = self.open()


SEEDS = 60
FAULTS = (
    SOUND_DISK,
    DiskFaults(garbage=0.0),
    DiskFaults(sync_error=0.05),
    DiskFaults(full=0.1),
    DiskFaults(sync_error=0.05, full=0.1, garbage=0.4),
)


@pytest.mark.parametrize("faults", FAULTS, ids=["sound", "no garbage", "failing", "full", "all"])
def test_after_a_crash_exactly_what_was_acknowledged_is_there(faults: DiskFaults) -> None:
    happened: Counter[str] = Counter()
    for seed in range(SEEDS):
        run = Run(seed, faults)
        run.live(60)
        happened += run.happened + run.disk.faults_seen
    assert happened["power cut"] > 150
    assert happened["doubtful commit kept"] > 10
    assert happened["committed"] > 1500
    assert not faults.full or happened["full"] > 50
    assert not faults.sync_error or happened["failed"] > 50
    assert happened["file-came-back"] > 0
    assert happened["lost-name"] > 0


# ---- break a mechanism, and it must be seen


SEAL = "stentor.storage.commit_group.seal"


def no_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentChain, "_sync", lambda *_: None)


def no_sync_of_the_directory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedDisk, "sync", lambda _: None)


def no_sync_before_the_next_file(patch: pytest.MonkeyPatch) -> None:
    original = SegmentChain._begin

    def begin(self: SegmentChain) -> Segment:
        self.durable = self.end
        return original(self)

    patch.setattr(SegmentChain, "_begin", begin)


def no_checksums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SEAL, lambda *_, **__: 0)


def no_positions_in_checksums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SEAL, lambda data, **_: xxh3_64_intdigest(data))


def no_rewriting_of_the_tail(patch: pytest.MonkeyPatch) -> None:
    original = SegmentChain._last

    def last(self: SegmentChain, segment: Segment) -> Iterator[CommitGroup]:
        with pytest.MonkeyPatch.context() as context:
            context.setattr(FusedFile, "write", lambda *_: None)
            yield from original(self, segment)

    patch.setattr(SegmentChain, "_last", last)


def no_poison(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentChain, "check", lambda _: None)


def nothing_is_moved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLedger, "_still_valid", lambda *_: [])


MUTATIONS = (
    no_sync,
    no_sync_of_the_directory,
    no_sync_before_the_next_file,
    no_checksums,
    no_positions_in_checksums,
    no_rewriting_of_the_tail,
    no_poison,
    nothing_is_moved,
)


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_broken_mechanism_is_seen(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    with pytest.raises((AssertionError, LedgerDamaged, pytest.fail.Exception)):  # noqa: PT012  (sooner or later)
        for seed in range(30):
            for faults in FAULTS:
                Run(seed, faults).live(60)
