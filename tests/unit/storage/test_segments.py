"""The ledger in segment files: power cuts, failing and full disks, damage; and what it costs in memory."""

import errno
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.storage.stores import SEGMENT, SegmentStore, events, other, reserved

from stentor.model.record import Entry, Fact, Kind, Line, Record, Row
from stentor.simulation.disk import SOUND_DISK, DiskFaults, SimulatedDisk
from stentor.storage.filesystem import RealDirectory
from stentor.storage.ledger import LedgerDamaged, LedgerFailed, LedgerFull
from stentor.storage.segments import SegmentLedger

pytestmark = pytest.mark.req("RD-23")

EVERYTHING = 1 << 30


# ---- against a model, with power cuts at any instant


class PowerLost(Exception):
    """The power went in the middle of an operation."""


class FusedFile:
    """A file that tells its directory before and after everything that changes it."""

    def __init__(self, fuse: "FusedDisk", file: Any) -> None:
        self._fuse, self._file = fuse, file
        self.read, self.size, self.close = file.read, file.size, file.close

    def write(self, offset: int, data: bytes) -> None:
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
                        assert each.kind is Kind.RESERVED
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
        return (found.facts, found.next) == (self.facts, self.next) and all(
            there == wanted or (there is not None and wanted is None and sequence <= self.floor)
            for sequence in self.records.keys() | found.records.keys()
            for there, wanted in [(found.records.get(sequence), self._live(sequence))]
        ) and {key: row for key, row in found.rows.items() if row.line.last > self.floor} == {
            key: row for key, row in self.rows.items() if row.line.last > self.floor
        }  # fmt: skip

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
                holdings = ledger.load()
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
            assert [record.line for record in excerpt.records] == list(holdings.lines)
            found.records = {record.line.sequence: record for record in excerpt.records}
            found.rows = {(row.repository, row.line.sequence): row for row in holdings.rows}
            found.facts, found.next = holdings.facts, holdings.next
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
                    record = other(following, random.choice((1, 5)), random.choice(list(Kind)[1:]))
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
        gaps = [record.line for record in self.model.records.values() if record.line.kind is Kind.RESERVED]
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
        for _ in range(60):
            run.step()
        run.crash(power=True)
        happened += run.happened + run.disk.faults_seen
    assert happened["power cut"] > 150
    assert happened["doubtful commit kept"] > 10
    assert happened["committed"] > 1500
    assert not faults.full or happened["full"] > 50
    assert not faults.sync_error or happened["failed"] > 50
    assert happened["file-came-back"] > 0
    assert happened["lost-name"] > 0


# ---- a disk that fails or is full


def filled(disk: SimulatedDisk, *commits: Sequence[Entry]) -> SegmentLedger:
    ledger = SegmentLedger(disk, "topic", SEGMENT)
    ledger.load()
    for commit in commits:
        ledger.commit(commit)
    return ledger


def test_after_a_failed_sync_nothing_is_acknowledged_any_more() -> None:
    disk = SimulatedDisk(Random(1))
    ledger = filled(disk, [events(1)])
    disk.faults = DiskFaults(sync_error=1.0)
    with pytest.raises(LedgerFailed, match="topic: the disk did not sync"):
        ledger.commit([events(2)])
    disk.faults = SOUND_DISK
    with pytest.raises(LedgerFailed, match="restart the node"):
        ledger.commit([events(3)])
    with pytest.raises(LedgerFailed, match="restart the node"):
        ledger.collect(1)
    assert ledger.scan(1, EVERYTHING).records == [events(1)], "what is safe can be read"


def test_a_full_disk_refuses_a_commit_keeps_the_others_and_takes_more_when_it_has_room() -> None:
    disk = SimulatedDisk(Random(1))
    ledger = filled(disk, [events(1)])
    disk.faults = DiskFaults(full=1.0)
    with pytest.raises(LedgerFull, match=r"topic: not written .*no space left"):
        ledger.commit([events(2, size=SEGMENT - 2000), Fact("a", b"1")])
    ledger.commit([Fact("b", b"1")])
    disk.faults = SOUND_DISK
    ledger.commit([events(2, size=SEGMENT)])
    disk.cut_power()
    ledger = SegmentLedger(disk, "topic", SEGMENT)
    holdings = ledger.load()
    assert holdings.facts == {"b": b"1"}
    assert ledger.scan(0, EVERYTHING) == ([events(1), events(2, size=SEGMENT)], [])


def test_a_full_disk_can_be_collected_because_room_is_kept_for_it() -> None:
    disk = SimulatedDisk(Random(1))
    ledger = filled(disk, [Fact("registration", b"1")])
    number = 0
    while len(disk.names()) < 3:
        number += 1
        ledger.commit([events(number, size=1000)])
    disk.faults = DiskFaults(full=1.0)
    with pytest.raises(LedgerFull):  # noqa: PT012  (sooner or later)
        while True:
            number += 1
            ledger.commit([events(number, size=600)])
    before = ledger.usage()
    ledger.collect(number - 1)
    ledger.collect(number - 1)
    assert ledger.usage() <= before
    disk.cut_power()
    disk.faults = SOUND_DISK
    ledger = SegmentLedger(disk, "topic", SEGMENT)
    assert ledger.load().facts == {"registration": b"1"}
    assert ledger.usage() < before / 2


@pytest.mark.parametrize("sort", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_leaves_no_trace_if_it_was_for_want_of_space(sort: int, tmp_path: Path) -> None:
    directory = RealDirectory(tmp_path)
    ledger = SegmentLedger(directory, "topic", SEGMENT)
    ledger.load()
    ledger.commit([events(1)])
    (file,) = ledger._chain._files.values()
    original = type(file).write

    def torn(self: Any, offset: int, data: bytes) -> None:
        original(self, offset, data[:-1])
        raise OSError(sort, "as asked for")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(file), "write", torn)
        with pytest.raises(LedgerFull if sort == errno.ENOSPC else LedgerFailed, match="as asked for"):
            ledger.commit([events(2)])
    if sort == errno.ENOSPC:
        ledger.commit([events(2, 2)])
    else:
        with pytest.raises(LedgerFailed):
            ledger.commit([events(2, 2)])
    ledger.close()
    ledger = SegmentLedger(directory, "topic", SEGMENT)
    assert [line.end for line in ledger.load().lines] == ([1, 3] if sort == errno.ENOSPC else [1])
    ledger.close()


# ---- damage


def snapshot(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: disk.open(name).read() for name in disk.names()}


def restored(files: dict[str, bytes]) -> SimulatedDisk:
    disk = SimulatedDisk(Random(1))
    for name, content in files.items():
        disk.open(name).write(0, content)
        disk.open(name).sync()
    disk.sync()
    return disk


def test_whatever_byte_rots_nothing_wrong_is_served_and_nothing_vanishes_in_silence() -> None:
    disk = SimulatedDisk(Random(1))
    records = [events(1, 2, size=60), events(3, size=30), other(4, 2), events(6, size=40)]
    row = Row("near", events(9).line)
    ledger = filled(disk, [records[0], Fact("a", b"1")], [records[1], records[2], row], [records[3]])
    end = ledger._chain.end
    ledger.close()
    files = snapshot(disk)
    ((name, content),) = files.items()
    verdicts: Counter[str] = Counter()
    for at in range(end):
        rotten = bytearray(content)
        rotten[at] ^= 1 << at % 8
        ledger = SegmentLedger(restored({name: bytes(rotten)}), "topic", SEGMENT)
        try:
            holdings = ledger.load()
        except LedgerDamaged:
            verdicts["refused"] += 1
            continue
        assert (holdings.facts, list(holdings.rows), holdings.next) == ({"a": b"1"}, [row], 7)
        excerpt = ledger.scan(0, EVERYTHING)
        assert all(record in records for record in excerpt.records)
        assert sorted([*(record.line for record in excerpt.records), *excerpt.damaged]) == list(holdings.lines)
        (line,) = excerpt.damaged
        assert line in [reserved(record.line) for record in records]
        verdicts["damaged"] += 1
    bodies = sum(len(record.frame) + (5 if record.frame else 0) for record in records)
    assert abs(verdicts["damaged"] - bodies) <= 12, "contents and audiences, and nothing else"


def test_a_destroyed_group_in_the_middle_is_not_taken_for_a_torn_end() -> None:
    disk = SimulatedDisk(Random(1))
    ledger = filled(disk, [events(1)], [events(2)], [events(3)])
    del ledger  # killed: no mark at its end
    ((name, content),) = snapshot(disk).items()
    at = content.find(b"STG", 10)
    blank = content[:at] + bytes(100) + content[at + 100 :]
    with pytest.raises(LedgerDamaged, match=f"durable at position {at} is destroyed"):
        SegmentLedger(restored({name: blank}), "topic", SEGMENT).load()
    last = content.rfind(b"STG")
    torn = SegmentLedger(restored({name: content[: last + 50] + bytes(len(content) - last - 50)}), "topic", SEGMENT)
    assert [line.sequence for line in torn.load().lines] == [1, 2], "never proven, so never acknowledged"


def test_a_whole_group_behind_a_torn_one_does_not_come_back_when_its_place_is_filled() -> None:
    disk = SimulatedDisk(Random(1))
    filled(disk, [events(1)])
    ((name, content),) = snapshot(disk).items()
    mark = content.find(b"STG", 1)
    disk = restored({name: bytes(mark) + content[mark:]})
    for _ in range(2):
        assert list(SegmentLedger(disk, "topic", SEGMENT).load().lines) == []


def test_items_of_two_commits_that_were_torn_in_one_place_are_no_group() -> None:
    contents = []
    for publisher in (7, 8):
        disk = SimulatedDisk(Random(1))
        filled(disk, [events(1, publisher=publisher), events(2, publisher=publisher)])
        ((name, content),) = snapshot(disk).items()
        contents.append(content)
    second = contents[0].find(events(1).frame) + len(events(1).frame)
    mixed = contents[0][:second] + contents[1][second:]
    assert list(SegmentLedger(restored({name: mixed}), "topic", SEGMENT).load().lines) == []


def test_a_missing_file_is_noticed_wherever_it_was() -> None:
    disk = SimulatedDisk(Random(1))
    filled(disk, *[[events(number, size=3000)] for number in range(1, 20)]).close()
    files = snapshot(disk)
    assert len(files) > 3
    for name in list(files)[:-1]:
        with pytest.raises(LedgerDamaged, match=r"missing|destroyed"):
            SegmentLedger(restored({key: files[key] for key in files if key != name}), "topic", SEGMENT).load()


def test_damaged_records_are_moved_as_what_they_are() -> None:
    disk = SimulatedDisk(Random(1))
    kept = events(1, 2)
    late = [other(1, 2), events(3)]
    ledger = filled(disk, [late[0]], [late[1]], [kept])
    SegmentStore(disk).damage(late[1])
    for number in range(4, 60):
        ledger.commit([events(number, size=1000)])
    ledger.commit([Fact("a", b"1")])
    assert ledger.scan(3, 0).damaged == [reserved(late[1].line)]
    ledger._append(ledger._still_valid(0, 1000))
    ledger = SegmentLedger(disk, "topic", SEGMENT)
    assert list(ledger.load().lines)[:3] == [kept.line, reserved(late[1].line), events(4, size=1000).line]


# ---- what it costs


def test_files_are_used_again_and_few_are_open(tmp_path: Path) -> None:
    ledger = SegmentLedger(RealDirectory(tmp_path), "topic", SEGMENT)
    ledger.load()
    seen: set[int] = set()
    for number in range(1, 200):
        ledger.commit([events(number, size=2000)])
        if number % 10 == 0:
            ledger.collect(number - 5)
        seen.update(path.stat().st_ino for path in tmp_path.iterdir())
        assert len(ledger._chain._files) <= 2
    assert len(seen) <= 15, "29 segments were filled"
    ledger.close()


def test_a_million_records_take_a_few_dozen_bytes_each() -> None:
    ledger = SegmentLedger(SimulatedDisk(Random(1)), "topic")
    records = ledger._records
    count = 50_000
    for number in range(1, count + 1):
        records.put(Line(number, 1, 7, 1, number, Kind.EVENTS, number << 40), (number * 300, 300), number)
    assert sum(sys.getsizeof(column) for column in records._columns) / count < 72
    assert sum(1 for _ in records.lines(count + 1)) == count
