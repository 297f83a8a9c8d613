"""A log is rewritten as a whole or not at all, wherever the power goes and whatever the disk refuses."""

from pathlib import Path
from random import Random

import pytest
from tests.unit.storage.test_power_cuts import FusedDisk, PowerLost

from stentor.runtime.disk import NodeStorage
from stentor.simulation.disk import SOUND_DISK, DiskFaults, SimulatedDisk
from stentor.storage.directory import Directory
from stentor.storage.filesystem import RealDirectory
from stentor.storage.segment import FILE_HEADER, LogDamaged, LogFull, SegmentLog

OLD = [b"old %d" % number for number in range(50)]
NEW = [b"new %d" % number for number in range(5)]


@pytest.fixture(params=["real", "simulated"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    return RealDirectory(tmp_path / "node") if request.param == "real" else SimulatedDisk(Random(1))


def log_with(directory: Directory, records: list[bytes]) -> SegmentLog:
    log = SegmentLog(directory, "facts")
    log.append(records)
    log.sync()
    return log


def recovered(directory: Directory) -> list[bytes]:
    log = SegmentLog(directory, "facts")
    log.close()
    return log.recovered


def test_a_rewritten_log_holds_the_new_records_and_goes_on(directory: Directory) -> None:
    log = log_with(directory, OLD)
    log.rewrite(NEW)
    assert recovered(directory) == NEW
    log.append([b"more"])
    log.sync()
    assert recovered(directory) == [*NEW, b"more"]
    log.rewrite([])
    assert recovered(directory) == []
    assert directory.names() == ["facts.log"]


def test_what_a_node_rewrites_is_there_at_its_next_start(tmp_path: Path) -> None:
    storage = NodeStorage(tmp_path)
    storage.append("facts", OLD)
    storage.rewrite("facts", NEW)
    storage.close()
    storage = NodeStorage(tmp_path)
    assert storage.load()["facts"] == NEW
    storage.close()


def test_a_power_cut_at_any_operation_leaves_the_old_or_the_new() -> None:
    found = set()
    for fuse in range(1, 8):
        for seed in range(60):
            disk = SimulatedDisk(Random(f"{fuse}/{seed}"))
            fused = FusedDisk(disk)
            log = log_with(fused, OLD)
            fused.fuse = fuse
            try:
                log.rewrite(NEW)
                fused.fuse = -1
            except PowerLost:
                pass
            disk.cut_power()
            held = recovered(disk)
            assert held in (OLD, NEW)
            found.add((fuse, held == NEW))
            assert recovered(disk) == held
            assert disk.names() == ["facts.log"], "what was not finished is removed"
    assert {whole for _, whole in found} == {True, False}


def test_a_log_that_cannot_be_rewritten_is_what_it_was() -> None:
    for faults in (DiskFaults(full=1.0), DiskFaults(sync_error=1.0)):
        disk = SimulatedDisk(Random(1))
        log = log_with(disk, OLD)
        disk.faults = faults
        with pytest.raises(LogFull):
            log.rewrite(NEW)
        disk.faults = SOUND_DISK
        log.append([b"more"])
        log.sync()
        disk.cut_power()
        assert recovered(disk) == [*OLD, b"more"]


def test_damage_in_a_rewritten_log_is_not_taken_for_a_torn_tail() -> None:
    disk = SimulatedDisk(Random(1))
    log_with(disk, OLD).rewrite(NEW)
    file = disk.open("facts.log")
    file.rot(len(FILE_HEADER) + 20)
    with pytest.raises(LogDamaged):
        SegmentLog(disk, "facts")
