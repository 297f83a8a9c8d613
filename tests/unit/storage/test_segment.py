"""The segment log, on the real file system and on its simulated twin."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from stentor.simulation.disk import DiskFaults, SimulatedDisk
from stentor.storage.directory import Directory
from stentor.storage.filesystem import RealDirectory
from stentor.storage.segment import FILE_HEADER, LogDamaged, LogFailed, LogFull, SegmentLog, stored_logs

RECORD = 16  # bytes in front of each payload


@pytest.fixture(params=["real", "simulated"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    return RealDirectory(tmp_path / "node") if request.param == "real" else SimulatedDisk(Random(1))


def content(directory: Directory, name: str = "boot") -> bytes:
    file = directory.open(f"{name}.log")
    data = file.read()
    file.close()
    return data


def overwrite(directory: Directory, data: bytes, name: str = "boot") -> None:
    """Replace a log's file, durably."""
    file = directory.open(f"{name}.log")
    file.truncate(0)
    file.write(0, data)
    file.sync()
    file.close()
    directory.sync()


def written(directory: Directory, *batches: list[bytes]) -> bytes:
    """The file of a log that took and synced these batches."""
    log = SegmentLog(directory, "boot")
    for batch in batches:
        log.append(batch)
        log.sync()
    log.close()
    return content(directory)


def test_a_new_log_is_empty_and_has_a_versioned_header(directory: Directory) -> None:
    log = SegmentLog(directory, "boot")
    assert log.recovered == []
    assert content(directory) == FILE_HEADER == b"STENLOG\x01"
    assert stored_logs(directory) == ["boot"]


def test_records_come_back_in_order_whatever_they_hold(directory: Directory) -> None:
    records = [b"", b"1", bytes(100), b"STENLOG\x01", Random(2).randbytes(3000)]
    written(directory, records[:2], records[2:])
    log = SegmentLog(directory, "boot")
    assert log.recovered == records
    assert log.torn == 0
    log.append([b"more"])
    log.sync()
    assert SegmentLog(directory, "boot").recovered == [*records, b"more"]


def test_logs_of_one_directory_do_not_meet(directory: Directory) -> None:
    for name in ("b", "a"):
        log = SegmentLog(directory, name)
        log.append([name.encode()])
        log.sync()
    assert stored_logs(directory) == ["a", "b"]
    assert SegmentLog(directory, "a").recovered == [b"a"]


def test_a_torn_tail_is_cut_off_wherever_it_was_torn(directory: Directory) -> None:
    whole = written(directory, [b"first"], [b"second"])
    end = len(FILE_HEADER) + RECORD + len(b"first")
    for size in range(end, len(whole)):
        overwrite(directory, whole[:size])
        log = SegmentLog(directory, "boot")
        assert log.recovered == [b"first"]
        assert log.torn == size - end
        assert content(directory) == whole[:end]


@pytest.mark.parametrize(
    "garbage", [bytes(500), b"\xff" * 500, Random(3).randbytes(500)], ids=["zeros", "ones", "noise"]
)
def test_garbage_behind_the_last_record_is_no_record(directory: Directory, garbage: bytes) -> None:
    whole = written(directory, [b"first"])
    overwrite(directory, whole + garbage)
    log = SegmentLog(directory, "boot")
    assert (log.recovered, log.torn) == ([b"first"], len(garbage))
    log.append([b"second"])
    log.sync()
    assert SegmentLog(directory, "boot").recovered == [b"first", b"second"]


def test_a_copy_of_a_record_in_another_place_is_no_record(directory: Directory) -> None:
    whole = written(directory, [b"first"])
    overwrite(directory, whole + whole[len(FILE_HEADER) :])
    assert SegmentLog(directory, "boot").recovered == [b"first"]


def test_damage_in_front_of_a_later_acknowledged_record_is_reported_not_cut_off(directory: Directory) -> None:
    whole = written(directory, [b"first"], [b"second"], [b"third"])
    second = len(FILE_HEADER) + RECORD + len(b"first")
    for position in range(second, second + RECORD + len(b"second")):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        overwrite(directory, bytes(damaged))
        with pytest.raises(LogDamaged, match=f"damaged at byte {second}"):
            SegmentLog(directory, "boot")
        assert content(directory) == damaged, "nothing of it is touched"


def test_a_later_record_of_the_same_sync_does_not_make_a_power_cut_look_like_damage(directory: Directory) -> None:
    log = SegmentLog(directory, "boot")
    log.append([b"first"])
    log.sync()
    log.append([b"lost on the way to the disk"])
    log.append([b"arrived there"])
    whole = content(directory)
    end = len(FILE_HEADER) + RECORD + len(b"first")
    overwrite(directory, whole[:end] + bytes(RECORD + 27) + whole[end + RECORD + 27 :])
    assert SegmentLog(directory, "boot").recovered == [b"first"]


def test_a_file_of_another_version_or_kind_is_refused_with_the_reason(directory: Directory) -> None:
    overwrite(directory, b"STENLOG\x02" + bytes(20))
    with pytest.raises(LogDamaged, match="version 2, this program reads 1"):
        SegmentLog(directory, "boot")
    overwrite(directory, b"#!/bin/sh\necho hello\n")
    with pytest.raises(LogDamaged, match="not ours"):
        SegmentLog(directory, "boot")


def test_a_header_torn_at_birth_is_written_again(directory: Directory) -> None:
    for size in range(len(FILE_HEADER)):
        overwrite(directory, FILE_HEADER[:size])
        assert SegmentLog(directory, "boot").recovered == []
        assert content(directory) == FILE_HEADER


def test_a_failed_sync_poisons_the_log_even_when_the_disk_is_well_again() -> None:
    disk = SimulatedDisk(Random(1))
    log = SegmentLog(disk, "boot")
    log.append([b"first"])
    disk.faults = DiskFaults(sync_error=1.0)
    with pytest.raises(LogFailed, match="did not sync"):
        log.sync()
    disk.faults = DiskFaults()
    for attempt in (log.sync, lambda: log.append([b"second"])):
        with pytest.raises(LogFailed, match="did not sync"):
            attempt()


def test_what_a_failed_sync_left_in_the_cache_is_made_durable_at_the_next_start() -> None:
    disk = SimulatedDisk(Random(1))
    log = SegmentLog(disk, "boot")
    log.append([b"first"])
    disk.faults = DiskFaults(sync_error=1.0)
    with pytest.raises(LogFailed):
        log.sync()
    disk.faults = DiskFaults()
    seen = SegmentLog(disk, "boot").recovered
    disk.cut_power()
    assert SegmentLog(disk, "boot").recovered == seen == [b"first"]


def test_a_full_disk_refuses_a_record_keeps_the_others_and_takes_more_when_it_has_room() -> None:
    disk = SimulatedDisk(Random(1))
    log = SegmentLog(disk, "boot")
    log.append([b"first"])
    log.sync()
    disk.faults = DiskFaults(full=1.0)
    with pytest.raises(LogFull, match="no space left"):
        log.append([b"too much"])
    disk.faults = DiskFaults()
    log.append([b"second"])
    log.sync()
    disk.cut_power()
    assert SegmentLog(disk, "boot").recovered == [b"first", b"second"]


@pytest.fixture
def limit_files() -> Iterator[Callable[[int], None]]:
    """Lets files of this process grow to so many bytes only, as the operating system enforces it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_the_system_cuts_short_leaves_no_trace(tmp_path: Path, limit_files: Callable[[int], None]) -> None:
    directory = RealDirectory(tmp_path)
    log = SegmentLog(directory, "boot")
    log.append([b"first"])
    log.sync()
    size = (tmp_path / "boot.log").stat().st_size
    limit_files(size + 50)
    with pytest.raises(LogFull, match="File too large"):
        log.append([bytes(100)])
    limit_files(resource.RLIM_INFINITY)
    assert (tmp_path / "boot.log").stat().st_size == size
    log.append([b"second"])
    log.sync()
    assert SegmentLog(directory, "boot").recovered == [b"first", b"second"]


def test_a_log_that_cannot_be_opened_says_so(tmp_path: Path, limit_files: Callable[[int], None]) -> None:
    directory = RealDirectory(tmp_path)
    limit_files(4)
    with pytest.raises(LogFailed, match=r"cannot be opened.*File too large"):
        SegmentLog(directory, "boot")
    (tmp_path / "other.log").mkdir()
    with pytest.raises(LogFailed, match=r"cannot be opened.*Is a directory"):
        SegmentLog(directory, "other")
