"""The benchmark of ledgers: every contestant commits, forgets and tells a rate."""

from pathlib import Path

import pytest
from benchmarks import ledgers


@pytest.mark.parametrize("where", ["segments:{}/a", "sqlite:{}/a"])
def test_a_ledger_has_a_rate(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "KEPT", 10_000)
    assert ledgers.ledger(where)(tmp_path, 0.1, 16) > 16


def test_a_file_has_a_rate_and_does_not_grow_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "KEPT", 10_000)
    assert ledgers.raw(tmp_path, 0.1, 16) > 16
    assert (tmp_path / "raw").stat().st_size <= 45_000
