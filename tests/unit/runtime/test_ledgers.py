"""Ledgers in threads."""

import asyncio
import time
from collections.abc import Sequence

from stentor.machine import Commit, Input, Open
from stentor.model.record import Entry, Fact, Holdings
from stentor.runtime.ledgers import Ledgers


class SlowLedger:
    """Takes its time."""

    def __init__(self) -> None:
        self.commits: list[str] = []
        self.closed = False

    def load(self) -> Holdings:
        return Holdings()

    def commit(self, entries: Sequence[Entry]) -> None:
        time.sleep(0.002)
        assert not self.closed
        self.commits += [entry.key for entry in entries if isinstance(entry, Fact)]

    def usage(self) -> int:
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
        asked = 0

        def tell(happened: Input) -> None:
            nonlocal asked
            if asked < 20:
                asked += 1
                ledgers.perform(Commit("t", asked, [Fact(str(asked), b"")]))

        ledgers = Ledgers(cabinet, tell)  # type: ignore[arg-type]
        ledgers.perform(Open("t"))
        await ledgers.close()

    asyncio.run(run())
    assert cabinet.ledger.commits == [str(number) for number in range(1, 21)]
    assert cabinet.ledger.closed
