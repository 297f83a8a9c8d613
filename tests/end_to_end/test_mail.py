"""Guaranteed explicit destinations, with real processes: stored until whoever is named has them, wherever it comes."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric
from tests.end_to_end.command import stentor as command
from tests.end_to_end.network import process, until
from tests.end_to_end.test_reliable_topics import tell

import stentor

TWO = """
[fabric]
log = "error"

[[node]]
name = "b1"
listen = "127.0.0.1:0"

[[node]]
name = "b2"
listen = "127.0.0.1:0"

[[unit]]
name = ""
connect = "chain"

[[repository]]
name = "r1"
broker = "b1"

[[repository]]
name = "r2"
broker = "b2"
"""


async def receive(url: str, count: int) -> list[bytes]:
    """What alice gets who comes to this broker."""
    async with (
        asyncio.timeout(PATIENCE),
        stentor.connect(url, name="alice", wait=PATIENCE) as fabric,
        fabric.mailbox() as box,
    ):
        return [(await anext(box)).body for _ in range(count)]


async def send(url: str, name: str, first: int, count: int) -> None:
    async with asyncio.timeout(PATIENCE), stentor.connect(url, name=name, wait=PATIENCE) as fabric:
        for number in range(first, first + count):
            await fabric.send(["alice"], f"{name} {number}".encode(), guaranteed=True)


@pytest.mark.req("GE-23", "UX-04")
def test_mail_for_somebody_who_is_away_outlives_a_broker_and_a_repository(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TWO)
    with Fabric("--config", "two.toml", cwd=tmp_path) as running:
        first, second = running.url("b1"), running.url("b2")
        until(lambda: "r2" in tell(first, "repository", "status"), "both repositories answer")
        said = command("send", "alice,bob", "the first of all", "--guaranteed", "--url", first)
        assert (said.stdout, said.stderr) == ("stored for alice, bob\n", "$mail was created at r1, r2\n")
        asyncio.run(send(first, "shop", 1, 20))
        assert tell(first, "send", "alice,bob", "from a terminal", "--guaranteed") == "stored for alice, bob\n"
        refused = tell(first, "pub", "$mail", "for nobody", "--name", "shop", code=2)
        assert "mail is sent to somebody: `stentor send NAME BODY --guaranteed`" in refused
        for victim in ("b1", "repositories/r1"):
            os.kill(process(tmp_path, victim), signal.SIGKILL)
        got = asyncio.run(receive(second, 22))
        assert got == [b"the first of all", *(b"shop %d" % number for number in range(1, 21)), b"from a terminal"]
        printed = command("sub", "$mail", "--name", "bob", "--count", "2", "--url", second)
        assert "from a terminal" in printed.stdout, printed.stderr
        asyncio.run(send(first, "shop", 21, 5))
        os.kill(process(tmp_path, "repositories/r2"), signal.SIGKILL)
        assert asyncio.run(receive(first, 5)) == [b"shop %d" % number for number in range(21, 26)], "each comes once"
