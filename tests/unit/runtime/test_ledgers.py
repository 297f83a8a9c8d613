"""Ledgers in threads."""

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence

import pytest

from stentor.machine import CloseLedger, Commit, Committed, Effect, Input, Open, Opened, Scan, Started
from stentor.model.stored.record import Entry, Fact, LedgerContents
from stentor.runtime.driver import Driver
from stentor.runtime.ledgers import LedgerThreads
from stentor.runtime.log import Logger
from stentor.storage.ledger import Excerpt


class SlowLedger:
    """Takes its time."""

    def __init__(self) -> None:
        self.commits: list[str] = []
        self.closed = False
        self.measuring, self.released = threading.Event(), threading.Event()

    def load(self) -> LedgerContents:
        return LedgerContents()

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

    def topics(self) -> list[str]:
        return []

    def discard(self, topic: str) -> None: ...


def raise_it(error: Exception) -> None:
    raise error


def test_what_is_asked_for_while_they_close_is_done() -> None:
    ledger_store = OneLedger()

    async def run() -> None:
        ledgers = LedgerThreads(ledger_store, lambda _: _ask_again(ledgers, ledger_store), raise_it)  # type: ignore[arg-type]
        ledgers.perform(Open("t"))
        await ledgers.close()

    asyncio.run(run())
    assert ledger_store.ledger.commits == [str(number) for number in range(20)]
    assert ledger_store.ledger.closed


def test_what_is_asked_for_while_a_thread_is_about_to_rest_is_done() -> None:
    ledger_store = OneLedger()
    told: list[Input] = []

    async def run() -> None:
        ledgers = LedgerThreads(ledger_store, told.append, raise_it)  # type: ignore[arg-type]
        ledgers.perform(Open("t"))
        time.sleep(0.2)  # noqa: ASYNC251 - the thread has nothing more to do, and the loop has not heard of it
        ledgers.perform(Commit("t", 1, [Fact("late", b"")]))
        await asyncio.wait_for(ledgers.close(), 10)

    asyncio.run(run())
    assert ledger_store.ledger.commits == ["late"]
    assert [type(each) for each in told] == [Opened, Committed]


def test_nothing_is_measured_after_the_end(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("stentor.runtime.ledgers._MEASURE_AFTER", 0.01)
    ledger_store = OneLedger()
    closing = False

    async def run() -> None:
        nonlocal closing
        ledgers = LedgerThreads(
            ledger_store,  # type: ignore[arg-type]
            lambda _: _ask_again(ledgers, ledger_store) if closing else None,
            raise_it,
        )
        ledgers.perform(Open("t"))
        await asyncio.to_thread(ledger_store.ledger.measuring.wait)
        closing = True
        asyncio.get_running_loop().call_later(0.01, ledger_store.ledger.released.set)
        await ledgers.close()
        await asyncio.sleep(0.03)

    asyncio.run(run())
    assert len(ledger_store.ledger.commits) >= 20
    assert not caplog.records


def test_memory_is_given_back_once_for_all_ledgers_that_were_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stentor.runtime.ledgers._MEASURE_AFTER", 0.01)
    monkeypatch.setattr("stentor.runtime.ledgers._GIVE_BACK_AFTER", 0.1)
    trimmed: list[int] = []
    is_trimmed = threading.Event()

    def trim(pad: int) -> None:
        trimmed.append(pad)
        is_trimmed.set()

    monkeypatch.setattr("stentor.runtime.memory._trim", trim)

    async def run() -> None:
        ledgers = LedgerThreads(OneLedger(), lambda _: None, raise_it)  # type: ignore[arg-type]
        for topic in ("a", "b", "c"):
            ledgers.perform(Open(topic))
            ledgers.perform(CloseLedger(topic))
        await asyncio.to_thread(is_trimmed.wait)
        ledgers.perform(Open("d"))
        await ledgers.close()

    asyncio.run(run())
    assert trimmed == [0], "once, and nobody closed any since"


class BusyLedger(SlowLedger):
    """The first who reads holds it up until everything else has been asked for."""

    def scan(self, first: int, budget: int) -> Excerpt:  # noqa: ARG002
        if first == 1:
            self.measuring.set()
            self.released.wait()
        self.commits.append(f"read {first}")
        return Excerpt([], [])


def test_a_commit_waits_for_no_more_than_one_of_those_who_read() -> None:
    ledger_store = OneLedger()
    ledger_store.ledger = ledger = BusyLedger()

    async def run() -> None:
        ledgers = LedgerThreads(ledger_store, lambda _: None, raise_it)  # type: ignore[arg-type]
        ledgers.perform(Open("t"))
        ledgers.perform(Scan("t", 1, 1, 0, 0))
        await asyncio.to_thread(ledger.measuring.wait)
        for number in (2, 3, 4):
            ledgers.perform(Scan("t", number, number, 0, 0))
        ledgers.perform(Commit("t", 1, [Fact("first", b"")]))
        ledger.released.set()
        await ledgers.close()

    asyncio.run(run())
    assert ledger.commits == ["read 1", "first", "read 2", "read 3", "read 4"]


class Quiet:
    """A machine that asks for a ledger, and for a commit that cannot be made."""

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        if isinstance(happened, Started):
            return [Open("t")]
        return [Commit("t", 1, [Fact("key", b"")]), Commit("t", 2, [])] if isinstance(happened, Opened) else []


class BrokenLedger(SlowLedger):
    def commit(self, entries: Sequence[Entry]) -> None:
        assert not entries, "this ledger is broken"


def test_what_must_not_happen_in_a_thread_ends_the_node_and_says_why() -> None:
    ledger_store = OneLedger()
    ledger_store.ledger = BrokenLedger()
    errors: list[str] = []

    async def run() -> str:
        driver = Driver(Quiet(), ledger_store=ledger_store, log=Log(errors))  # type: ignore[arg-type]
        driver.start()
        reason = await asyncio.wait_for(driver.stopped, 30)
        await asyncio.wait_for(driver.close(), 30)
        return reason

    assert asyncio.run(run()).startswith("internal error: AssertionError: this ledger is broken")
    assert ledger_store.ledger.closed
    assert len(errors) == 1
    assert "in commit" in errors[0]


class Log(Logger):
    def __init__(self, errors: list[str]) -> None:
        self._errors = errors

    def log(self, level: str, what: str, details: Mapping[str, object]) -> None:
        self._errors.append(f"{level} {what} {details}")


def _ask_again(ledgers: LedgerThreads, ledger_store: OneLedger) -> None:
    number = len(ledger_store.ledger.commits)
    if number < 20:
        ledgers.perform(Commit("t", number + 1, [Fact(str(number), b"")]))
