"""Clients leave brokers that are dead or stand still: real processes, killed and stopped."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, in_process
from tests.end_to_end.network import process, until, view

import stentor
from stentor.model.errors import LinkBroken

TWO = """
[limits]
heartbeat = "30 s"

[[node]]
name = "c/b1"
listen = "127.0.0.1:0"

[[node]]
name = "c/b2"
listen = "127.0.0.1:0"

[[unit]]
name = "c"
connect = "chain"

[[repository]]
name = "r1"
broker = "c/b2"
"""

Work = Callable[[Fabric, int], Coroutine[Any, Any, None]]


def perform(folder: Path, work: Work) -> None:
    """Two brokers, a reliable topic, and the process of the first broker."""
    (folder / "two.toml").write_text(TWO)
    with Fabric("--config", "two.toml", "--log", "debug", cwd=folder) as running:
        running.line(r"c/b2 client connected +client=repository:r1", err=True)  # not at the broker that will be hit
        until(lambda: len(view(running.url("c/b1")).scopes[0].members) == 2)
        granted = ("grant", "orders", "--publisher", "shop", "--subscriber", "billing")
        for words in (("create", "orders", "--reliable"), granted):
            done = in_process("topic", *words, "--url", running.url("c/b2"), cwd=folder)
            assert done.returncode == 0, done.stderr
        asyncio.run(work(running, process(folder, "c/b1")))


async def roam(running: Fabric, hit: Callable[[], None]) -> None:
    """Move everything of a client away from the first broker after it was hit, and see that all goes on."""
    async with (
        asyncio.timeout(PATIENCE),
        stentor.connect(running.url("c/b1"), wait=PATIENCE) as fabric,
        stentor.connect(running.url("c/b2"), wait=PATIENCE) as other,
        fabric.subscribe("news") as events,
        fabric.publisher("orders", name="shop") as shop,
        fabric.subscribe("orders", name="billing") as orders,
    ):
        await shop.send(b"1")
        await fabric.publish("else", b"confirmed")
        await fabric.flush()
        hit()
        shop.send_nowait(b"2")
        await fabric.publish("else", b"perhaps lost")
        await fabric.move(running.url("c/b2"))
        assert fabric.node == "c/b2"
        with pytest.raises(LinkBroken, match="events may be lost"):
            await fabric.flush()
        await fabric.flush()
        await other.publish("news", b"after")
        assert (await anext(aiter(events))).body == b"after"
        await shop.flush()
        assert [(await anext(orders)).body for _ in range(2)] == [b"1", b"2"], "reliable events are sent again"


@pytest.mark.req("GE-10")
def test_a_client_moves_away_from_a_broker_that_was_killed(tmp_path: Path) -> None:
    async def work(running: Fabric, broker: int) -> None:
        await roam(running, lambda: os.kill(broker, signal.SIGKILL))

    perform(tmp_path, work)


@pytest.mark.req("GE-10")
def test_a_client_moves_away_from_a_broker_that_stands_still(tmp_path: Path) -> None:
    """Its heartbeat is so long that nobody but the client can tell."""

    async def work(running: Fabric, broker: int) -> None:
        try:
            await roam(running, lambda: os.kill(broker, signal.SIGSTOP))
        finally:
            os.kill(broker, signal.SIGCONT)

    perform(tmp_path, work)
