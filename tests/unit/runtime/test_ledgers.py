"""Ledgers in threads."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from stentor.machine import Commit, Open
from stentor.model.record import Entry, Fact, Holdings
from stentor.runtime.ledgers import Ledgers


class SlowLedger:
    """Takes its time."""

    def __init__(self) -> None:
        self.commits: list[str] = []
        self.closed = False
        self.measuring, self.released = threading.Event(), threading.Event()

    def load(self) -> Holdings:
        return Holdings()

    def commit(self, entries: Sequence[Entry]) -> None:
        time.sleep(0.002)
        assert not self.closed
        self.commits += [entry.key for entry in entries if isinstance(entry, Fact)]

    def usage(self) -> int:
        self.measuring.set()
        self.released.wait()
        return 0

    def close(self) -> None:
        self.closed = True


class OneLedger:
    def __init__(self) -> None:
        self.ledger = SlowLedger()

    def open(self, topic: str) -> SlowLedger:  # noqa: ARG002
        return self.ledger

    def discard(self, topic: str) -> None: ...


def test_what_is_asked_for_while_they_close_is_done() -> None:
    cabinet = OneLedger()

    async def run() -> None:
        ledgers = Ledgers(cabinet, lambda _: _ask_again(ledgers, cabinet))  # type: ignore[arg-type]
        ledgers.perform(Open("t"))
        await ledgers.close()

    asyncio.run(run())
    assert cabinet.ledger.commits == [str(number) for number in range(20)]
    assert cabinet.ledger.closed


def test_nothing_is_measured_after_the_end(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("stentor.runtime.ledgers._MEASURE_AFTER", 0.01)
    cabinet = OneLedger()
    closing = False

    async def run() -> None:
        nonlocal closing
        ledgers = Ledgers(cabinet, lambda _: _ask_again(ledgers, cabinet) if closing else None)  # type: ignore[arg-type]
        ledgers.perform(Open("t"))
        await asyncio.to_thread(cabinet.ledger.measuring.wait)
        closing = True
        asyncio.get_running_loop().call_later(0.01, cabinet.ledger.released.set)
        await ledgers.close()
        await asyncio.sleep(0.03)

    asyncio.run(run())
    assert len(cabinet.ledger.commits) >= 20
    assert not caplog.records


def _ask_again(ledgers: Ledgers, cabinet: OneLedger) -> None:
    number = len(cabinet.ledger.commits)
    if number < 20:
        ledgers.perform(Commit("t", number + 1, [Fact(str(number), b"")]))
