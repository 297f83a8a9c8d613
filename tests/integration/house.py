"""What the tests of this folder stand on: a real broker in this process, and ways to run and to wait.

Nothing here depends on how fast the machine is: conditions are waited for, and only a test that hangs meets a deadline.
"""

import asyncio
import gc
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.integration.ports import free_port

from stentor.client.event import Batch, Event
from stentor.client.fabric import Events, Fabric, connect
from stentor.gateways.http.app import HttpServer, application
from stentor.gateways.http.broker import broker_node
from stentor.machine import StopRequested
from stentor.model.errors import StentorError
from stentor.model.limits import Limits
from stentor.model.reports.status import NodeStatus
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import NetworkSettings
from stentor.policies.access import AccessRule, settle_access
from stentor.runtime.disk import NodeStorage
from stentor.runtime.driver import Driver
from stentor.runtime.server import listen
from stentor.runtime.token import announce_token, make_token

T = TypeVar("T")
Loops = Callable[[], asyncio.AbstractEventLoop] | None

TOKEN = "fabric.token"  # the file of the broker's token, in its home
PATIENCE = 120.0  # seconds after which a test is taken to hang


def run(main: Coroutine[Any, Any, T], loops: Loops = None) -> T:
    """Run a test to its end; whatever goes wrong behind its back, or is left running behind it, fails it too."""
    complaints: list[dict[str, Any]] = []

    def complain(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # uvloop forgets the future of a TLS handshake if it is cancelled when TCP has just connected
        if loops is None or not isinstance(context.get("exception"), ssl.SSLError) or "future" not in context:
            complaints.append(context)

    async def guarded() -> T:
        asyncio.get_running_loop().set_exception_handler(complain)
        async with asyncio.timeout(PATIENCE):
            result = await main
        for turn in range(200):  # what was cancelled or closed gets its turn
            await asyncio.sleep(0 if turn < 10 else 0.01)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            if turn >= 10 and not left:
                break
        assert not left, f"tasks were left running: {left}"
        return result

    with asyncio.Runner(loop_factory=loops) as runner:
        result = runner.run(guarded())
    gc.collect()
    assert not complaints, f"the event loop complained: {complaints}"
    return result


async def until(condition: Callable[[], bool], within: float = PATIENCE) -> None:
    """Return when it is true."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - a condition of the world outside sets no event
            await asyncio.sleep(0.005)


async def until_asked(condition: Callable[[], Awaitable[bool]], within: float = PATIENCE) -> None:
    """Return when it is true, if finding out takes a while."""
    async with asyncio.timeout(within):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def standstill(progress: Callable[[], int]) -> int:
    """Return the number when it has stopped growing: nothing on this loop that could make it grow is able to run."""
    quiet, last = 0, progress()
    while quiet < 50:
        await asyncio.sleep(0.002)
        quiet, last = (quiet + 1 if progress() == last else 0), progress()
    return last


class Node:
    """A broker with a real disk and real sockets."""

    def __init__(
        self, broker: Broker, driver: Driver, storage: NodeStorage, server: asyncio.Server, home: Path
    ) -> None:
        self.home = home
        self.broker = broker
        self.driver = driver
        self.server = server
        self.port: int = server.sockets[0].getsockname()[1]
        self.url = f"stentor://127.0.0.1:{self.port}"
        self.http: HttpServer | None = None
        self.http_port = 0
        self._storage = storage
        self._ended = False

    @classmethod
    async def start(
        cls,
        home: Path,
        limits: Limits | None = None,
        *,
        port: int = 0,
        certificates: Path | None = None,
        rules: tuple[AccessRule, ...] = (),
    ) -> "Node":
        storage = NodeStorage(home)
        network = NetworkSettings(access=settle_access(rules, None, secured=certificates is not None))
        broker = Broker(ScopePath.parse("test/b1"), limits or Limits(), "test", network)
        driver = Driver(broker, storage=storage)
        driver.start()
        await driver.serving
        within = (limits or Limits()).hello_within
        port = port or free_port()  # that it may be started again there
        token = make_token(home / TOKEN)
        server = await listen(driver, "127.0.0.1", port, certificates, within, token)
        if certificates is None:
            assert announce_token(f"127.0.0.1:{port}", home / TOKEN) == ""
        return cls(broker, driver, storage, server, home)

    def serve_http(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.http_port = listener.getsockname()[1]
        served = broker_node("test/b1", self.status, lambda: self.broker.ready, self.home)
        self.http = HttpServer(application([served]), listener, None)

    def status(self) -> NodeStatus:
        return self.broker.status(time.monotonic_ns())

    async def stop(self) -> None:
        """In good order: clients are told."""
        await self._end(lambda: self.driver.tell(StopRequested()))

    async def crash(self) -> None:
        """As `kill -9` looks from outside: every link is reset, nobody is told anything."""

        def reset() -> None:
            for link in self.driver.links.values():
                link.abort()

        await self._end(reset)

    async def _end(self, how: Callable[[], None]) -> None:
        if self._ended:
            return
        self._ended = True
        self.server.close()
        how()
        await self.driver.close()
        if self.http is not None:
            await self.http.close()
        self._storage.close()


@asynccontextmanager
async def node(
    home: Path,
    limits: Limits | None = None,
    *,
    port: int = 0,
    certificates: Path | None = None,
    rules: tuple[AccessRule, ...] = (),
) -> AsyncIterator[Node]:
    running = await Node.start(home, limits, port=port, certificates=certificates, rules=rules)
    try:
        yield running
    finally:
        await running.stop()


async def take(events: Events, count: int, within: float = PATIENCE) -> list[Event]:
    """The next `count` events."""
    taken: list[Event] = []
    async with asyncio.timeout(within):
        while len(taken) < count:
            taken.append(await anext(events))
    return taken


async def take_batches(events: Events, count: int, within: float = PATIENCE) -> list[Batch]:
    """Batches, until they hold `count` events."""
    batches: list[Batch] = []
    async with asyncio.timeout(within):
        while sum(map(len, batches)) < count:
            batches.append(await events.next_batch())
    return batches


async def prove_well(url: str, tls: Path | None = None) -> None:
    """A well-behaved pair exchanges events there."""
    async with (
        connect(url, tls=tls, wait=PATIENCE) as publisher,
        connect(url, tls=tls, wait=PATIENCE) as subscriber,
        subscriber.subscribe("well/#", where="number >= 0") as events,
    ):
        for number in range(20):
            await publisher.publish("well/being", b"%d" % number, number=number)
        assert [int(event.body) for event in await take(events, 20)] == list(range(20))


async def refused(url: str, reason: str, tls: Path | None = None) -> StentorError:
    """A client cannot connect, and is told why; a first try may be too short to find out on a busy machine."""
    for timeout in (0.3, 2.0, 10.0):
        try:
            async with connect(url, tls=tls, timeout=timeout):
                raise AssertionError("it was let in")
        except StentorError as error:
            if re.search(reason, str(error)):
                return error
            told = str(error)
    raise AssertionError(f"expected {reason!r}, was told: {told}")


async def numbers_until_last(events: Events, last: int) -> list[int]:
    """The bodies, as numbers, up to the one that is `last`."""
    found: list[int] = []
    async with asyncio.timeout(PATIENCE):
        while not found or found[-1] != last:
            found += [int(body) for body in (await events.next_batch()).bodies]
    return found


async def publish_numbers(fabric: Fabric, topic: str, count: int, size: int = 0) -> None:
    """Events whose bodies are 0, 1, 2 …, padded with blanks to `size` bytes."""
    for number in range(count):
        await fabric.publish(topic, (b"%d" % number).ljust(size))
