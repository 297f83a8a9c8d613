"""The simulated disk: what was synced survives, the rest is up to the seed."""

from random import Random

import pytest

from stentor.simulation.disk import DiskFaults, SimulatedDisk

OLD, NEW = b"o" * 200, b"n" * 400


def cut(seed: int, faults: DiskFaults | None = None) -> bytes:
    """A synced write, an unsynced one behind it, and a power cut."""
    disk = SimulatedDisk(Random(seed), faults or DiskFaults())
    file = disk.open("f")
    file.write(0, OLD)
    file.sync()
    disk.sync()
    file.write(len(OLD), NEW)
    disk.cut_power()
    return disk.open("f").read()


def test_what_was_synced_survives_every_power_cut() -> None:
    assert all(cut(seed).startswith(OLD) for seed in range(200))


def test_unsynced_blocks_are_kept_lost_torn_reordered_or_garbage() -> None:
    tails = [cut(seed)[len(OLD) :] for seed in range(300)]
    assert any(tail == NEW for tail in tails), "kept"
    assert any(tail == b"" for tail in tails), "lost"
    assert any(tail and NEW.startswith(tail) and tail != NEW for tail in tails), "torn"
    assert any(b"\0" in tail and tail.endswith(b"n") for tail in tails), "a later block without an earlier one"
    assert any(set(tail) - {0, ord("n")} for tail in tails), "garbage"
    sober = [cut(seed, DiskFaults(garbage=0.0))[len(OLD) :] for seed in range(300)]
    assert all(set(tail) <= {0, ord("n")} for tail in sober)


def test_a_kill_without_a_power_cut_loses_nothing() -> None:
    disk = SimulatedDisk(Random(1))
    disk.open("f").write(0, NEW)
    assert disk.open("f").read() == NEW


def test_an_overwritten_block_is_the_old_or_the_new_one() -> None:
    for seed in range(100):
        disk = SimulatedDisk(Random(seed))
        file = disk.open("f")
        file.write(0, OLD)
        file.sync()
        disk.sync()
        file.write(0, NEW[: len(OLD)])
        disk.cut_power()
        content = disk.open("f").read()
        assert len(content) == len(OLD)
        assert set(content) <= {ord("o"), ord("n")}


def test_a_failed_sync_is_not_made_good_by_a_later_one() -> None:
    lost = 0
    for seed in range(50):
        disk = SimulatedDisk(Random(seed), DiskFaults(sync_error=1.0, garbage=0.0))
        file = disk.open("f")
        disk.sync()
        file.write(0, NEW)
        with pytest.raises(OSError, match="input/output error"):
            file.sync()
        assert file.read() == NEW, "the cache still has it"
        disk.faults = DiskFaults()
        file.sync()
        disk.cut_power()
        lost += file.read() != NEW
    assert lost > 10


def test_a_full_disk_takes_a_part_at_most() -> None:
    disk = SimulatedDisk(Random(1), DiskFaults(full=1.0))
    file = disk.open("f")
    with pytest.raises(OSError, match="no space left"):
        file.write(0, NEW)
    assert NEW.startswith(file.read())


def test_a_file_whose_directory_was_not_synced_may_be_gone() -> None:
    found = []
    for seed in range(50):
        disk = SimulatedDisk(Random(seed))
        disk.open("f").sync()
        disk.cut_power()
        found.append(disk.names())
    assert [] in found
    assert ["f"] in found
