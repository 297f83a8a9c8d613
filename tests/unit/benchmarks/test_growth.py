"""What `make bench-growth` measures: machines over real ledgers that have seen much and hold little."""

from pathlib import Path

from benchmarks.growth import sizes


def test_lives_of_publishers_leave_no_streams_behind(tmp_path: Path) -> None:
    few, many = sizes.lives(tmp_path / "few", 100), sizes.lives(tmp_path / "many", 400)
    assert 20 <= few.held == many.held <= 40, "each of ten publishers has its newest life at two repositories"


def test_subscribers_are_registered_and_served(tmp_path: Path) -> None:
    assert sizes.subscribers(tmp_path, 3).size == 3
