"""Silent and slow HTTP connections are closed, and keep nobody else from being answered."""

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.integration.house import Node, node, run, until
from tests.integration.http import get

from stentor.gateways.http import connections
from stentor.gateways.http.connections import LARGEST_REQUEST, MOST_CONNECTIONS


async def served(broker: Node) -> int:
    broker.serve_http()
    await until(lambda: broker.http is not None)
    await get(broker.http_port, "/livez")
    return broker.http_port


async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def ask_for_ever(deaf: socket.socket, request: bytes) -> None:
    while True:
        await asyncio.get_running_loop().sock_sendall(deaf, request)
        await asyncio.sleep(0.005)


async def ended(reader: asyncio.StreamReader) -> bool:
    """Wait until the server ends a connection, in whichever way."""
    try:
        while await reader.read(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("said", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_request_that_does_not_come_is_not_waited_for(
    tmp_path: Path, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_WITHIN", 0.3)

    async def main() -> None:
        async with node(tmp_path) as broker:
            reader, writer = await dial(await served(broker))
            writer.write(said)
            assert await ended(reader)
            writer.close()

    run(main())


def test_a_byte_now_and_then_does_not_keep_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_WITHIN", 0.5)

    async def main() -> None:
        async with node(tmp_path) as broker:
            reader, writer = await dial(await served(broker))
            over = asyncio.ensure_future(ended(reader))
            writer.write(b"GET /livez HTTP/1.1\r\nX-Slow: ")
            while not over.done():
                writer.write(b"a")
                await asyncio.sleep(0.02)
            assert over.result(), "the server ended it, not we"
            writer.close()

    run(main())


def test_an_answer_that_nobody_reads_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_WITHIN", 0.5)

    async def main() -> None:
        async with node(tmp_path) as broker:
            port = await served(broker)
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            deaf.connect(("127.0.0.1", port))
            deaf.setblocking(False)
            request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
            with pytest.raises(ConnectionError):
                await ask_for_ever(deaf, request)
            deaf.close()

    run(main())


def test_a_request_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            port = await served(broker)
            for head in (b"GET /livez HTTP/1.1\r\nX: ", b"POST /livez HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"):
                reader, writer = await dial(port)
                writer.write(head + bytes(2 * LARGEST_REQUEST))
                assert await ended(reader)
                writer.close()
            assert await get(port, "/livez") == (200, "alive\n")

    run(main())


def test_many_silent_connections_keep_nobody_from_being_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, AsyncExitStack() as stack:
            port = await served(broker)
            silent = []
            for _ in range(2 * MOST_CONNECTIONS):
                reader, writer = await dial(port)
                stack.callback(writer.close)
                silent.append(reader)
                await asyncio.sleep(0)
            assert await get(port, "/livez") == (200, "alive\n")
            for reader in silent[:MOST_CONNECTIONS]:
                assert await ended(reader), "the oldest had to make room"

    run(main())


def test_a_connection_may_ask_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            reader, writer = await dial(await served(broker))
            for _ in range(100):
                writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 1000 + b"\r\n\r\n")
                assert b"200 OK" in await reader.readuntil(b"alive\n")
            writer.close()

    run(main())
