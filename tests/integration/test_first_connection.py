"""The first connection: nobody there is said at once, somebody who may still come is waited for.

A timeout of an hour makes a test that would wait for it hang, and fail.
"""

import asyncio
from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, Node, node, run
from tests.integration.peer import pretender, wait_for_end
from tests.integration.ports import free_port

import stentor

_HOUR = 3600.0


async def told(url: str, *, timeout: float = _HOUR, wait: float = 0.0) -> str:
    """What somebody is told who cannot connect."""
    with pytest.raises(stentor.Unreachable) as raised:
        await stentor.connect(url, timeout=timeout, wait=wait).__aenter__()
    return str(raised.value)


@pytest.mark.req("UX-02")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_is_told_at_once(host: str) -> None:
    async def main() -> None:
        url = f"stentor://{host}:{free_port()}"
        assert await told(url) == f"no broker at {url} (connection refused): is `stentor up` running there?"

    run(main())


def test_an_unknown_host_is_told_at_once() -> None:
    async def main() -> None:
        text = await told("stentor://no-such-host.invalid:7420")
        assert "(unknown host no-such-host.invalid" in text
        assert "stentor up" not in text, "that would not help"

    run(main())


def test_all_addresses_are_tried_before_it_gives_up() -> None:
    async def main() -> None:
        one, other = free_port(), free_port()
        text = await told(f"stentor://127.0.0.1:{one},127.0.0.1:{other},no-such-host.invalid:1")
        assert f"127.0.0.1:{one}: connection refused, " in text
        assert f"127.0.0.1:{other}: connection refused, " in text
        assert "no-such-host.invalid:1: unknown host" in text

    run(main())


def test_one_broker_that_is_there_is_enough(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            url = f"stentor://127.0.0.1:{free_port()},no-such-host.invalid:1,127.0.0.1:{broker.port}"
            async with stentor.connect(url, timeout=_HOUR) as fabric:
                assert fabric.node == "test/b1"

    run(main())


@pytest.mark.req("UX-02")
def test_who_starts_before_its_broker_waits_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        fabric = stentor.connect(f"stentor://127.0.0.1:{port}", wait=PATIENCE)
        connecting = asyncio.create_task(fabric.__aenter__())
        await asyncio.sleep(0.2)  # it was refused by then, most of the time
        assert not connecting.done()
        async with node(tmp_path, port=port):
            await connecting
            assert fabric.connected
            await fabric.close()

    run(main())


def test_a_wait_for_a_broker_ends_after_its_seconds() -> None:
    async def main() -> None:
        url = f"stentor://127.0.0.1:{free_port()}"
        said = f"no broker at {url} within 0.1 s (connection refused): is `stentor up` running there?"
        assert await told(url, wait=0.1) == said

    run(main())


def test_a_broker_that_is_silent_has_its_time() -> None:
    async def main() -> None:
        async with pretender(lambda reader, _: wait_for_end(reader)) as port:
            url = f"stentor://127.0.0.1:{port}"
            assert (await told(url, timeout=0.5)).startswith(f"no broker at {url} within 0.5 s")
            one = free_port()
            text = await told(f"stentor://127.0.0.1:{one},127.0.0.1:{port}", timeout=1.0)
            assert f"(127.0.0.1:{one}: connection refused, 127.0.0.1:{port}: no answer)" in text

    run(main())


@pytest.mark.parametrize("seconds", [{"timeout": 0.0}, {"timeout": -1.0}, {"wait": -1.0}, {"wait": float("nan")}])
def test_timeouts_that_cannot_be_are_refused(seconds: dict[str, float]) -> None:
    with pytest.raises(stentor.InvalidInput, match="timeout is more than 0 seconds, wait 0 or more"):
        stentor.connect("stentor://127.0.0.1", **seconds)  # type: ignore[arg-type]


def test_named_ends_are_told_at_once_too() -> None:
    async def main() -> None:
        fabric = stentor.connect(f"stentor://127.0.0.1:{free_port()}", timeout=_HOUR)
        with pytest.raises(stentor.Unreachable, match=r"no broker at .* \(connection refused\): is `stentor up`"):
            await fabric.publisher("orders", name="shop").__aenter__()
        with pytest.raises(stentor.Unreachable, match=r"no broker at .* \(connection refused\): is `stentor up`"):
            await fabric.subscribe("orders", name="billing").__aenter__()

    run(main())


def test_a_client_that_was_connected_never_gives_up(tmp_path: Path) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path)
        async with stentor.connect(first.url) as fabric:
            await first.crash()
            await fabric.wait_until(connected=False)
            with pytest.raises(stentor.Unreachable):
                await stentor.connect(first.url, timeout=_HOUR).__aenter__()
            second = await Node.start(tmp_path, port=first.port)
            await fabric.wait_until(connected=True)
        await second.stop()

    run(main())
