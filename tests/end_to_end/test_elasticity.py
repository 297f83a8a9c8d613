"""[elasticity]: `stentor up` starts brokers by load, lets them go again, and purges those that do not answer."""

import asyncio
import itertools
import os
import signal
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, gone, in_process
from tests.end_to_end.network import crosses, member, process, until, view

import stentor
from stentor.client.reliable_publisher import Publisher
from stentor.client.reliable_subscription import Subscription

TWO = """
[limits]
heartbeat = "0.5 s"

[[node]]
name = "c/b1"
listen = "127.0.0.1:0"

[[node]]
name = "c/b2"
listen = "127.0.0.1:0"

[[unit]]
name = "c"
connect = "chain"

[elasticity]
"""


def up(folder: Path, elasticity: str) -> Fabric:
    (folder / "two.toml").write_text(TWO + elasticity)
    return Fabric("--config", "two.toml", "--log", "error", cwd=folder)


@pytest.mark.req("GE-17")
def test_a_broker_is_started_for_many_clients_and_leaves_when_they_have_gone(tmp_path: Path) -> None:
    with up(tmp_path, 'clients_per_broker = 2\nmost_brokers = 3\ncheck_every = "1 s"\n') as running:
        until(lambda: len(view(running.url("c/b1")).scopes[0].members) == 2)
        with ExitStack() as clients:
            for place in range(7):
                url = running.url(f"c/b{1 + place % 2}")
                clients.enter_context(stentor.blocking.connect(url, wait=PATIENCE, stay=True))
            url = running.line(r"c has more than 2 clients per broker: started c/auto-1\s+(stentor://\S+)")[1]
            until(lambda: {each.peer for each in view(url).links if each.state == "up"} == {"c/b1", "c/b2"})
            until(lambda: len({each.number for each in view(url).scopes[0].members}) == 3)
            assert crosses(url, running.url("c/b2"))
            assert crosses(running.url("c/b1"), url)
            # it is kept as those of the file are
            os.kill(process(tmp_path, "c/auto-1"), signal.SIGKILL)
            running.line("node c/auto-1 is back")
            until(lambda: len([each for each in view(url).links if each.state == "up"]) == 2)
            assert not [line for line in running.out if "auto-2" in line], "three may be, and no more"
        running.line("c has few clients: c/auto-1 is not needed any more")
        running.line("node c/auto-1 left the network")
        until(lambda: (found := member(running.url("c/b1"), "c/auto-1")) is not None and not found.members)
        assert crosses(running.url("c/b1"), running.url("c/b2"))
        until(lambda: len(running.nodes()) == 2)
        running.interrupt()
        assert running.ended() == 0


async def publish_until(end: asyncio.Event, publisher: stentor.Fabric, shop: Publisher) -> int:
    """Number events at best effort and reliable ones until it is enough; return how many there were."""
    for number in itertools.count():
        if end.is_set():
            await publisher.flush()
            await shop.flush()
            return number
        await publisher.publish("news", str(number).encode())
        shop.send_nowait(str(number).encode())
        await asyncio.sleep(0.005)
    raise AssertionError


async def read_all(events: stentor.Events | Subscription, got: list[int]) -> None:
    async for event in events:
        got.append(int(event.body))  # noqa: PERF401 - the others look at it meanwhile


async def crowd(running: Fabric, tls: Path | None) -> None:
    """Eight clients at one broker, of which some move to a broker that is started for them; nobody misses anything."""
    end = asyncio.Event()
    here = running.url("c/b1")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(PATIENCE))

        async def client(name: str, *, stay: bool = False) -> stentor.Fabric:
            made = stentor.connect(here, name=f"alice:{name}", tls=tls, wait=PATIENCE, stay=stay)
            return await stack.enter_async_context(made)

        steady = await client("steady", stay=True)
        shop = await stack.enter_async_context(steady.publisher("orders", name="shop"))
        billing = await client("billing")
        orders = await stack.enter_async_context(billing.subscribe("orders", name="billing"))
        movers = [await client(f"mover-{place}") for place in range(7)]
        news = [await stack.enter_async_context(each.subscribe("news")) for each in movers]
        got: list[list[int]] = [[] for _ in (*news, orders)]
        reading = [asyncio.create_task(read_all(*pair)) for pair in zip(news, got[:-1], strict=True)]
        reading.append(asyncio.create_task(read_all(orders, got[-1])))
        publishing = asyncio.create_task(publish_until(end, steady, shop))
        while sum(each.node == "c/auto-1" for each in movers) < 2:  # noqa: ASYNC110 - a broker decides that
            await asyncio.sleep(0.05)
        end.set()
        last = await publishing
        while not all(each and each[-1] == last - 1 for each in got):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
        assert got[-1] == list(range(last)), "reliable events come once, in order"
        for each in got[:-1]:
            assert each == list(range(each[0], last)), "nothing falls between two brokers, and nothing comes twice"
        assert steady.node == "c/b1"


@pytest.mark.req("GE-17")
@pytest.mark.parametrize("secure", [False, True], ids=["token", "TLS"])
def test_clients_move_to_a_broker_that_was_started_for_them_and_lose_nothing(tmp_path: Path, secure: bool) -> None:
    elasticity = 'clients_per_broker = 2\nmost_brokers = 3\ncheck_every = "1 s"\n\n[[repository]]\nname = "r1"\n'
    tls = tmp_path / "certs" / "clients" / "alice" if secure else None
    if secure:
        assert in_process("certs", "init", "--client", "alice", cwd=tmp_path).returncode == 0
        elasticity += '\n[tls]\ndirectory = "certs/node"\n\n[[access]]\nprincipals = ["alice"]\n'
        elasticity += 'topics = ["#"]\npublish = true\nsubscribe = true\n'
    with up(tmp_path, elasticity) as running:
        until(lambda: len(view(running.url("c/b1"), tls).scopes[0].members) == 2)
        who = ("--url", running.url("c/b1"), *(("--tls", tls) if tls else ()))
        whose = ("--principal", "alice") if tls else ()
        granted = ("grant", "orders", "--publisher", "shop", "--subscriber", "billing", *whose)
        for words in (("create", "orders", "--reliable"), granted):
            done = in_process("topic", *words, *who, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        asyncio.run(crowd(running, tls))
        running.interrupt()
        assert running.ended() == 0


def test_a_broker_that_does_not_answer_is_purged(tmp_path: Path) -> None:
    with up(tmp_path, 'purge_slow = true\ncheck_every = "2 s"\n') as running:
        until(lambda: len(view(running.url("c/b1")).scopes[0].members) == 2)
        hung = process(tmp_path, "c/b2")
        os.kill(hung, signal.SIGSTOP)
        running.line("node c/b2 did not answer: it is purged")
        assert gone(hung)
        until(lambda: (found := member(running.url("c/b1"), "c/b2")) is not None and not found.members)
        until(lambda: len(running.nodes()) == 1)
        assert crosses(running.url("c/b1"), running.url("c/b1"))
        assert not [line for line in running.out if "starting it again" in line]
        running.interrupt()
        assert running.ended() == 0
