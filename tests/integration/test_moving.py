"""Clients move between real brokers that are linked, and what they subscribe to goes with them without a gap."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest
from tests.integration.house import node, run, until
from tests.integration.ports import free_port
from tests.integration.test_access_facts import Row, row

from stentor.admin import network as operation
from stentor.client.fabric import Fabric, connect
from stentor.model.errors import Unresponsive
from stentor.model.messages import AdminTask
from stentor.nodes.client_api import Moved


async def publish(publisher: Fabric, end: asyncio.Event) -> int:
    """Publish numbers until somebody says that it is enough; return how many."""
    for number in count():
        if end.is_set():
            await publisher.flush()
            return number
        await publisher.publish("t", str(number).encode())
        await asyncio.sleep(0.0005)
    raise AssertionError


Go = Callable[[Row, Fabric, int], Awaitable[None]]


async def move(brokers: Row, fabric: Fabric, place: int) -> None:
    await fabric.move(brokers.nodes[place].url)
    assert fabric.node == f"b{place}"


async def redirect(brokers: Row, fabric: Fabric, place: int) -> None:
    await ask(brokers, fabric, f"127.0.0.1:{brokers.nodes[place].port}")
    await until(lambda: fabric.node == f"b{place}" and fabric.connected)


async def ask(brokers: Row, fabric: Fabric, address: str) -> None:
    """An operator has the broker ask its newest client to go elsewhere."""
    here = next(node for node in brokers.nodes.values() if str(node.broker.path) == fabric.node)
    secret = here.home / "token"
    secret.write_bytes(b"a token of the tests of this file")
    secret.chmod(0o600)
    async with connect(here.url, token=secret, stay=True) as operator:
        await operation.order(operator, AdminTask.MOVE_CLIENTS, address=address, count=1)


async def follow(brokers: Row, journey: list[int], go: Go) -> list[int]:
    """Return what a subscriber gets of a publisher at the middle broker while it goes from one broker to the next."""
    got: list[int] = []
    end = asyncio.Event()
    async with (
        connect(brokers.nodes[1].url, stay=True) as publisher,
        connect(brokers.nodes[journey[0]].url) as fabric,
        fabric.subscribe("t") as events,
    ):

        async def read() -> None:
            async for batch in events.batches():
                got.extend(int(body) for body in batch.bodies)

        async def more() -> None:
            enough = len(got) + 20
            await until(lambda: len(got) > enough)

        reading = asyncio.create_task(read())
        publishing = asyncio.create_task(publish(publisher, end))
        await more()
        for place in journey[1:]:
            await go(brokers, fabric, place)
            await more()
        end.set()
        last = await publishing
        await until(lambda: got[-1] == last - 1)
        reading.cancel()
        await asyncio.wait([reading])
    return got


@pytest.mark.req("GE-10")
def test_who_moves_misses_nothing_and_gets_nothing_twice(tmp_path: Path) -> None:
    async def main() -> None:
        async with row(tmp_path) as brokers:
            got = await follow(brokers, [0, 2, 1, 0], move)
            assert got == list(range(got[0], got[-1] + 1))

    run(main())


@pytest.mark.req("GE-17")
def test_who_is_asked_to_move_misses_nothing_and_gets_nothing_twice(tmp_path: Path) -> None:
    async def main() -> None:
        async with row(tmp_path) as brokers:
            got = await follow(brokers, [0, 1, 2, 0], redirect)
            assert got == list(range(got[0], got[-1] + 1))

    run(main())


def test_who_is_asked_to_go_where_nobody_is_stays_and_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with row(tmp_path) as brokers:
            here = brokers.nodes[0]
            async with connect(here.url) as fabric, fabric.subscribe("t") as events:
                await ask(brokers, fabric, f"127.0.0.1:{free_port()}")
                await until(lambda: fabric._client._links > 1 and fabric._client._arrival is None)
                await fabric.publish("t", b"still here")
                assert (await anext(events)).body == b"still here"
                assert (fabric.node, fabric.connected) == ("b0", True)

    run(main())


def test_who_was_sent_to_another_broker_comes_back_when_that_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            row(tmp_path) as brokers,
            connect(brokers.nodes[0].url) as fabric,
            fabric.subscribe("t") as events,
        ):
            await redirect(brokers, fabric, 1)
            await brokers.crash(1)
            await until(lambda: fabric.node == "b0" and fabric.connected)
            await fabric.publish("t", b"at home")
            assert (await anext(events)).body == b"at home"

    run(main())


def test_who_stays_is_not_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with row(tmp_path) as brokers, connect(brokers.nodes[0].url, stay=True) as fabric:
            await ask(brokers, fabric, f"127.0.0.1:{brokers.nodes[1].port}")
            await fabric.flush()  # a Redirect would have come before the answer
            assert fabric._client._links == 1

    run(main())


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", ":", ""])
def test_who_is_sent_to_what_is_no_address_stays_and_tries_again(tmp_path: Path, address: str) -> None:
    async def main() -> None:
        async with node(tmp_path) as one, connect(one.url) as fabric:
            assert fabric._driver is not None
            fabric._driver.tell(Moved((address,)))
            await until(lambda: fabric._client._links > 2)  # it tried, and tries again
            assert fabric.connected
            await fabric.move(one.url)
            await fabric.flush()

    run(main())


def test_who_moves_to_nobody_keeps_trying_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        async with node(tmp_path / "1") as one, connect(one.url) as fabric:
            with pytest.raises(Unresponsive):
                await fabric.move(f"stentor://127.0.0.1:{port}", timeout=0.2)
            assert (fabric.connected, one.status().clients) == (True, 1), "the old one serves until the new one does"
            async with node(tmp_path / "2", port=port):
                await fabric.wait_until(connected=True)
                assert fabric.url.endswith(str(port))
                await until(lambda: not one.status().clients)

    run(main())
