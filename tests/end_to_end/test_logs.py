"""Logs of several processes on one stream: every line is whole, however many write and however long they are."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from tests.end_to_end.command import Fabric
from tests.end_to_end.network import network
from tests.integration.peer import Peer

import stentor
from stentor.model.ids import TopicId
from stentor.model.messages import Rejection, Topic

BROKERS = 4
ROUNDS = 40
SIZES = (1, 30, 500, 1023)  # bytes of a topic; each is four of the log, and more than a pipe takes at once in the end


async def annoy(port: int, name: str, size: int) -> None:
    """Be refused, with a reason that says the whole topic."""
    async with await Peer.dial(port) as peer:
        await peer.hello(name.ljust(250, "."))
        await peer.send(Topic(TopicId(1), "\0" * size))
        while not isinstance(await peer.receive(), Rejection):
            continue


async def annoy_all(ports: list[int]) -> None:
    for port in ports:  # one that asks its neighbours who may do what serves nobody yet: clients come again
        async with stentor.connect(f"stentor://127.0.0.1:{port}", name="first"):
            pass
    for turn in range(ROUNDS):
        await asyncio.gather(
            *(annoy(port, f"client-{turn}-{size}", size) for port in ports for size in SIZES)  # all at the same time
        )


@pytest.mark.parametrize("form", [("--json-log", "--log=debug"), ("--log=debug",)])
def test_lines_of_several_processes_never_merge(tmp_path: Path, form: tuple[str, ...]) -> None:
    (tmp_path / "stentor.toml").write_text(network(BROKERS))
    with Fabric("--config", "stentor.toml", *form, cwd=tmp_path) as running:
        names = [f"u{number}" for number in range(BROKERS)]
        asyncio.run(annoy_all([int(running.url(name).rpartition(":")[2]) for name in names]))
        running.interrupt()
        assert running.ended() == 0
        met: Counter[tuple[str, str]] = Counter()
        for line in running.err:
            if "--json-log" in form:
                each = json.loads(line)
                if each["event"] == "client connected" and each["client"] != "first":
                    met[each["node"], each["client"].rstrip(".")] += 1
                continue
            time, level, name, *_ = line.split()
            assert (len(time), time.count(":"), name in names) == (8, 2, True), line
            assert level in ("debug", "info", "warning"), line
            if "client connected" in line and "client=first" not in line:
                assert line.endswith("principal=anonymous"), line
                met[name, line.partition("client=")[2].partition(".")[0]] += 1
        assert met == {(name, f"client-{turn}-{size}"): 1 for name in names for turn in range(ROUNDS) for size in SIZES}
