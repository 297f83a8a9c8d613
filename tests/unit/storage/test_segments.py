"""The ledger in segment files: failing and full disks, damage; and what it costs in memory."""

import errno
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.storage.records import EVERYTHING, events, other, reserved
from tests.unit.storage.stores import SEGMENT, SegmentStore
from xxhash import xxh3_64_intdigest as seal

from stentor.model.stored.record import Entry, Fact, RecordHeader, RecordKind, Row
from stentor.simulation.disk import SOUND_DISK, DiskFaults, SimulatedDisk
from stentor.storage.annex import encode_annex
from stentor.storage.commit_group import HEADER_SIZE
from stentor.storage.filesystem import RealDirectory
from stentor.storage.ledger import LedgerDamaged, LedgerFailed, LedgerFull
from stentor.storage.segments import SegmentLedger

pytestmark = pytest.mark.req("RD-23")


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
    contents = ledger.load()
    assert contents.facts == {"b": b"1"}
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
    (file,) = ledger._segments._files.values()
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
    end = ledger._segments.end
    ledger.close()
    files = snapshot(disk)
    ((name, content),) = files.items()
    verdicts: Counter[str] = Counter()
    for at in range(end):
        rotten = bytearray(content)
        rotten[at] ^= 1 << at % 8
        ledger = SegmentLedger(restored({name: bytes(rotten)}), "topic", SEGMENT)
        try:
            contents = ledger.load()
        except LedgerFailed:
            verdicts["refused"] += 1
            continue
        assert (contents.facts, list(contents.rows), contents.next) == ({"a": b"1"}, [row], 7)
        excerpt = ledger.scan(0, EVERYTHING)
        assert all(record in records for record in excerpt.records)
        assert sorted([*(record.line for record in excerpt.records), *excerpt.damaged]) == list(contents.lines)
        (line,) = excerpt.damaged
        assert line in [reserved(record.line) for record in records]
        verdicts["damaged"] += 1
    bodies = sum(
        len(record.frame) + (len(encode_annex(record.audience, record.stored)) if record.frame else 0)
        for record in records
    )
    assert abs(verdicts["damaged"] - bodies) <= 12, "contents and annexes, and nothing else"


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


def test_files_of_another_version_are_left_alone_and_strange_ones_are_not_looked_at() -> None:
    disk = SimulatedDisk(Random(1))
    filled(disk, [events(1)]).close()
    ((name, content),) = snapshot(disk).items()
    header = b"STG\x02" + content[4 : HEADER_SIZE - 8]
    theirs = header + seal(header, seed=0).to_bytes(8, "little") + content[HEADER_SIZE:]
    newer = restored({name: theirs})
    with pytest.raises(LedgerFailed, match="has version 2, this program reads 1"):
        SegmentLedger(newer, "topic", SEGMENT).load()
    assert snapshot(newer) == {name: theirs}
    rotten = restored({name: b"STG\x02" + content[4:]})
    with pytest.raises(LedgerDamaged):
        SegmentLedger(rotten, "topic", SEGMENT).load()
    disk.open("notes.segment").write(0, b"?")
    assert [line.sequence for line in SegmentLedger(disk, "topic", SEGMENT).load().lines] == [1]


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
        assert len(ledger._segments._files) <= 2
    assert len(seen) <= 15, "29 segments were filled"
    ledger.close()


def test_after_a_burst_the_space_is_given_back(tmp_path: Path) -> None:
    ledger = SegmentLedger(RealDirectory(tmp_path), "topic", SEGMENT)
    ledger.load()
    for number in range(1, 40):
        ledger.commit([events(number, size=2000)])
    ledger.collect(39)
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".spare", ".segment"]
    for _ in range(100):
        ledger.collect(39)
    assert [path.suffix for path in tmp_path.iterdir()] == [".segment"]
    assert ledger.usage() == sum(path.stat().st_size for path in tmp_path.iterdir()) <= SEGMENT
    ledger.close()


def test_a_million_records_take_a_few_dozen_bytes_each() -> None:
    ledger = SegmentLedger(SimulatedDisk(Random(1)), "topic")
    records = ledger._records
    count = 50_000
    for number in range(1, count + 1):
        records.put(RecordHeader(number, 1, 7, 1, number, RecordKind.EVENTS, number << 40), (number * 300, 300), number)
    assert sum(sys.getsizeof(column) for column in records._columns) / count < 72
    assert sum(1 for _ in records) == count


def test_streams_of_which_nothing_is_left_take_no_memory(tmp_path: Path) -> None:
    ledger = SegmentLedger(RealDirectory(tmp_path), "topic")
    ledger.load()
    for publisher in range(1, 5001):
        row = Row("far", events(publisher, publisher=publisher).line)
        ledger.commit([events(publisher, publisher=publisher), row])
        if publisher % 100 == 0:
            ledger.collect(publisher - 50)
    assert len(ledger._records._streams) < 2048
    expected = [events(number, publisher=number) for number in range(4951, 5001)]
    assert ledger.scan(1, EVERYTHING).records == expected
    assert [row.line for row in ledger.rows("far", 1, 5000)] == [record.line for record in expected]
    ledger.commit([Fact("more", b"")])  # tells what was collected
    ledger.close()
    again = SegmentLedger(RealDirectory(tmp_path), "topic")
    contents = again.load()
    assert len(again._records._streams) < 2048
    assert list(contents.lines) == [row.line for row in contents.rows] == [record.line for record in expected]
    again.close()
