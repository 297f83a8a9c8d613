"""Nine brokers in three levels as real processes: events cross them, go round dead brokers and cut links, and roam."""

import asyncio
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Command, Fabric, stentor
from tests.integration.ports import free_port
from tests.integration.proxy import Proxy

import stentor as api
from stentor.admin.network import explain, view
from stentor.model.reports.view import NetworkView

NAMES = (
    "north/library/b1",
    "north/library/b2",
    "north/library/b3",
    "north/hall/b1",
    "north/hall/b2",
    "south/lab/b1",
    "south/lab/b2",
    "south/dorm/b1",
    "south/dorm/b2",
)
LEVELS = 3
UNITS = ("north/library", "north/hall", "south/lab", "south/dorm")
LINKS = (
    ("north/library/b1", "north/hall/b1"),
    ("north/library/b3", "north/hall/b2"),
    ("south/lab/b1", "south/dorm/b1"),
    ("south/lab/b2", "south/dorm/b2"),
    ("north/hall/b1", "south/lab/b1"),
    ("north/library/b2", "south/lab/b2"),
)

_ARRIVAL = 15.0  # seconds after which an event is taken to be lost


class Campus:
    """The running network; brokers by name."""

    def __init__(
        self,
        directory: Path,
        detours: dict[tuple[str, str], str] | None = None,
        ports: dict[str, int] | None = None,
    ) -> None:
        self.ports = ports or {name: free_port() for name in NAMES}
        lines = ["[limits]", 'heartbeat = "2 s"']  # who is silent for longer is suspected, and gets nothing
        for name, port in self.ports.items():
            lines += ["[[node]]", f'name = "{name}"', f'listen = "127.0.0.1:{port}"', 'http = ""']
        for unit in UNITS:
            lines += ["[[unit]]", f'name = "{unit}"', 'connect = "mesh"']
        for pair in LINKS:
            lines += ["[[link]]", f'between = ["{pair[0]}", "{pair[1]}"]']
            if detours and pair in detours:
                lines.append(f'address = "{detours[pair]}"')
        (directory / "campus.toml").write_text("\n".join(lines))
        self.fabric = Fabric("--config", directory / "campus.toml", "--log", "info", cwd=directory)

    def url(self, *names: str) -> str:
        return "stentor://" + ",".join(f"127.0.0.1:{self.ports[name]}" for name in names)

    def pid(self, name: str) -> int:
        return self.fabric.node_at(self.ports[name])

    def connect(self, name: str) -> api.Fabric:
        return api.connect(self.url(name), wait=PATIENCE)

    async def view(self, name: str) -> NetworkView:
        async with self.connect(name) as fabric:
            return await view(fabric, PATIENCE)

    async def until(self, name: str, holds: Callable[[NetworkView], bool]) -> NetworkView:
        """Wait until a broker sees the network so."""
        end = time.monotonic() + PATIENCE
        seen = None
        while True:
            try:
                seen = await self.view(name)
                if holds(seen):
                    return seen
            except api.StentorError:
                pass
            assert time.monotonic() < end, f"{name} never saw it so: {seen}"
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def campus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campus]:
    made = Campus(tmp_path_factory.mktemp("campus"))
    with made.fabric:
        asyncio.run(whole(made))
        yield made


async def whole(campus: Campus) -> None:
    """Until every broker can reach all it should know of."""
    for name in NAMES:
        await campus.until(name, is_whole)


def is_whole(seen: NetworkView) -> bool:
    cluster = sum(name.rpartition("/")[0] == seen.node.rpartition("/")[0] for name in NAMES)
    sizes = [sum(member.reachable for member in scope.members) for scope in seen.scopes]
    return sizes == [cluster, 2, 2] and not seen.parted


class Reader:
    """A client that notes all that it gets."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.arrived = asyncio.Event()

    async def read(self, events: api.Events) -> None:
        async for event in events:
            self.bodies.append(event.body)
            self.arrived.set()

    def since(self, first: int) -> list[int]:
        return [int(body) for body in self.bodies if int(body) >= first]

    async def sees(self, numbers: list[int]) -> bool:
        """Whether all these arrive, and nothing else behind the first of them; they have some seconds for it."""
        try:
            async with asyncio.timeout(_ARRIVAL):
                while len(self.since(numbers[0])) < len(numbers):
                    self.arrived.clear()
                    await self.arrived.wait()
        except TimeoutError:
            return False
        return self.since(numbers[0]) == numbers

    def check(self) -> None:
        """Whatever was lost on the way, nothing came twice, or after what was published later."""
        numbers = self.since(0)
        assert numbers == sorted(set(numbers))


Readers = dict[str, tuple[Reader, Callable[[int], bool]]]  # by their brokers, and which numbers they want


@asynccontextmanager
async def reading(url: str, pattern: str, where: str | None = None) -> AsyncIterator[tuple[Reader, api.Fabric]]:
    reader = Reader()
    async with api.connect(url, wait=PATIENCE) as fabric, fabric.subscribe(pattern, where) as events:
        task = asyncio.create_task(reader.read(events))
        try:
            yield reader, fabric
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def known(campus: Campus, at: str, topic: str, attributes: dict[str, int], to: str) -> None:
    """Until an event that is published at one broker would go to another, hop by hop."""
    end = time.monotonic() + PATIENCE
    while not await reaches(campus, at, topic, attributes, to):
        assert time.monotonic() < end, f"{at} never learnt that {to} wants {topic}"
        await asyncio.sleep(0.05)


async def reaches(campus: Campus, at: str, topic: str, attributes: dict[str, int], to: str) -> bool:
    pending: list[tuple[str, int, dict[int, int] | None, tuple[int, ...]]] = [(at, 0, None, ())]
    while pending:
        name, level, masks, exits = pending.pop()
        try:
            async with campus.connect(name) as fabric:
                found = await explain(fabric, topic, attributes, level=level, masks=masks, exits=exits, within=PATIENCE)
        except api.StentorError:
            return False
        if name == to and found.enters:
            return True
        pending += [(hop.peer, hop.level, hop.masks, hop.exits) for hop in found.hops]
    return False


async def publish_numbers(fabric: api.Fabric, topic: str, numbers: range) -> None:
    for number in numbers:
        await fabric.publish(topic, b"%d" % number, n=number % 10)
    await fabric.flush()


async def arrive(campus: Campus, publisher: api.Fabric, topic: str, readers: Readers, first: int, count: int) -> range:
    """Publish so many numbers until all those arrive that readers want; returns those that did.

    On a busy machine a broker may be suspected for a moment: then events for it are lost, and must not be later.
    """
    at, end = publisher.node, time.monotonic() + PATIENCE
    while True:
        for name in readers:
            await known(campus, at, topic, {"n": 1}, name)
        numbers = range(first, first + count)
        await publish_numbers(publisher, topic, numbers)
        if all([await reader.sees(list(filter(wants, numbers))) for reader, wants in readers.values()]):
            return numbers
        assert time.monotonic() < end, f"what {at} publishes is lost again and again"
        first += count


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(3 * PATIENCE):
            await work()

    asyncio.run(bounded())


def everything(number: int) -> bool:
    return number >= 0


@pytest.mark.req("GE-01", "GE-08", "GE-09")
def test_everybody_gets_what_they_want_once_and_nobody_else_sees_it(campus: Campus) -> None:
    async def work() -> None:
        async with (
            reading(campus.url("north/library/b2"), "t/#") as (all_of_it, _),
            reading(campus.url("south/dorm/b2"), "t/a", "n < 2") as (some, _),
            reading(campus.url("south/lab/b2"), "other") as (nothing, _),
            campus.connect("north/hall/b2") as publisher,
        ):
            readers: Readers = {
                "north/library/b2": (all_of_it, everything),
                "south/dorm/b2": (some, lambda number: number % 10 < 2),
            }
            first, crossed = 0, None
            for _ in range(5):  # what is wanted in the dorm crosses the lab, on whichever way, and no more than that
                await whole(campus)
                before = {name: await campus.view(name) for name in NAMES}
                arrived = await arrive(campus, publisher, "t/a", readers, first, 500)
                after = {name: await campus.view(name) for name in NAMES}
                crossed = {after[name].relayed - before[name].relayed for name in NAMES[5:7]}
                lost = sum(after[name].stranded - before[name].stranded for name in NAMES)
                if (arrived.start, lost) == (first, 0):  # nobody was suspected meanwhile
                    break
                first = arrived.stop
            assert crossed is not None
            assert crossed <= {0, 100}
            assert 100 in crossed
            assert all(each.most_matchings <= LEVELS + 1 and not each.circling for each in after.values())
            all_of_it.check()
            some.check()
            assert all(int(body) % 10 < 2 for body in some.bodies)
            assert nothing.bodies == []

    run(work)


@pytest.mark.req("GE-20")
def test_what_is_published_anywhere_right_after_a_subscription_has_settled_arrives(campus: Campus) -> None:
    """15 subscriptions, each with an event at another broker: all of them, unless a broker was suspected meanwhile."""

    async def settle_and_publish(reader: api.Fabric, writer: api.Fabric, number: int) -> tuple[int, bool]:
        """How many brokers knew it, and whether the event arrived."""
        topic = f"settled/{number}"
        async with reader.subscribe(topic, where="n > 1") as events:
            settled = await events.settled(PATIENCE)
            assert settled.is_everywhere
            await writer.publish(topic, b"%d" % number, n=2)
            try:
                async with asyncio.timeout(_ARRIVAL):
                    return settled.brokers, (await anext(events)).body == b"%d" % number
            except TimeoutError:
                return settled.brokers, False

    async def work() -> None:
        async with AsyncExitStack() as stack:
            reader = await stack.enter_async_context(campus.connect(NAMES[1]))
            writers = [await stack.enter_async_context(campus.connect(name)) for name in NAMES if name != NAMES[1]]
            for _ in range(5):
                await whole(campus)
                before = [(await campus.view(name)).stranded for name in NAMES]
                arrived = [await settle_and_publish(reader, writers[n % len(writers)], n) for n in range(15)]
                if arrived == [(len(NAMES), True)] * 15:
                    return
                after = [(await campus.view(name)).stranded for name in NAMES]
                is_parted = any(brokers < len(NAMES) for brokers, _ in arrived)
                assert is_parted or after != before, f"nobody was suspected, and not all arrived: {arrived}"
            pytest.fail("brokers are suspected again and again")

    run(work)


@pytest.mark.req("GE-20")
def test_a_command_says_when_its_subscription_has_settled(campus: Campus) -> None:
    done = stentor("sub", "t", "--settled", "--name", "n", "--url", campus.url(NAMES[0]))
    assert done.returncode
    assert "--settled is for best effort" in done.stderr
    with Command("sub", "settled/command", "--settled", "--url", campus.url(NAMES[0])) as sub:
        sub.line(r"^settled: \d of \d brokers know it$", err=True)


@pytest.mark.req("GE-10")
def test_a_client_roams_and_takes_its_subscriptions_along(campus: Campus) -> None:
    async def work() -> None:
        async with (
            reading(campus.url("north/library/b1"), "roam") as (reader, fabric),
            campus.connect("south/dorm/b1") as publisher,
        ):
            first = 0
            for home in ("north/library/b1", "south/lab/b2", "north/hall/b2"):
                if first:
                    await fabric.move(campus.url(home))
                first = (await arrive(campus, publisher, "roam", {home: (reader, everything)}, first, 10)).stop
                assert fabric.node == home
            reader.check()

    run(work)


@pytest.mark.req("GE-05")
def test_traffic_goes_round_a_broker_that_was_killed_and_it_comes_back(campus: Campus) -> None:
    async def work() -> None:
        async with (
            reading(campus.url("south/dorm/b2"), "k") as (reader, _),
            campus.connect("north/library/b2") as publisher,
        ):
            await known(campus, "north/library/b2", "k", {}, "south/dorm/b2")
            seen = await campus.until("north/library/b2", lambda seen: bool(seen.scopes[2].members[1].hop))
            path = seen.scopes[2].members[1]
            assert path.unit == "south"
            os.kill(campus.pid(path.hop), signal.SIGKILL)
            number = 0
            async with asyncio.timeout(PATIENCE):
                while not reader.bodies:  # whatever was under way may be lost, what comes later must not
                    await publish_numbers(publisher, "k", range(number, number + 10))
                    number += 10
                    await asyncio.sleep(0.02)
            await arrive(campus, publisher, "k", {"south/dorm/b2": (reader, everything)}, number, 100)
            reader.check()
        await whole(campus)  # the supervisor has started it again

    run(work)


@pytest.mark.req("GE-05")
def test_a_partition_is_told_and_heals(campus: Campus) -> None:
    """Both brokers that hold the north and the south together stand still: nobody tells, only silence does."""

    async def work() -> None:
        held = [campus.pid(name) for name in ("south/lab/b1", "south/lab/b2")]
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        try:
            await campus.until("north/hall/b2", lambda seen: seen.parted == ("south",))
            await campus.until("south/dorm/b1", lambda seen: set(seen.parted) == {"north", "south/lab"})
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)
        await whole(campus)
        await asyncio.to_thread(campus.fabric.line, r"warning .* cannot reach +units=.*south", err=True)

    run(work)


@pytest.mark.slow
@pytest.mark.req("GE-05", "GE-09")
def test_cut_links_under_load_lose_no_more_than_what_was_under_way(tmp_path: Path) -> None:
    """The links between north and south run through proxies that are cut again and again."""

    async def work() -> None:
        pairs = (("north/hall/b1", "south/lab/b1"), ("north/library/b2", "south/lab/b2"))
        ports = {name: free_port() for name in NAMES}
        async with Proxy(ports[pairs[0][1]]) as one, Proxy(ports[pairs[1][1]]) as other:
            detours = {
                pair: proxy.url.removeprefix("stentor://") for pair, proxy in zip(pairs, (one, other), strict=True)
            }
            campus = await asyncio.to_thread(Campus, tmp_path, detours, ports)
            with campus.fabric:
                await whole(campus)
                await _cut_again_and_again(campus, (one, other))

    run(work)


async def _cut_again_and_again(campus: Campus, proxies: tuple[Proxy, Proxy]) -> None:
    async with reading(campus.url("south/dorm/b1"), "load", "n < 5") as (reader, _):
        await known(campus, "north/library/b1", "load", {"n": 1}, "south/dorm/b1")
        async with campus.connect("north/library/b1") as publisher:
            stop = asyncio.Event()
            sent = 0

            async def keep_publishing() -> None:
                nonlocal sent
                while not stop.is_set():
                    await publish_numbers(publisher, "load", range(sent, sent + 20))
                    sent += 20
                    await asyncio.sleep(0.01)

            task = asyncio.create_task(keep_publishing())
            for turn in range(6):
                await asyncio.sleep(0.3)
                proxies[turn % 2].cut()
            for proxy in proxies:  # now both: a partition
                proxy.refuses = True
                proxy.cut()
            await campus.until("north/library/b1", lambda seen: seen.parted == ("south",))
            for proxy in proxies:
                proxy.refuses = False
            await whole(campus)
            stop.set()
            await task
            readers: Readers = {"south/dorm/b1": (reader, lambda number: number % 10 < 5)}
            await arrive(campus, publisher, "load", readers, sent, 100)
            reader.check()


def test_the_log_of_a_healthy_start_has_no_errors(campus: Campus) -> None:
    assert not re.search(r" error ", campus.fabric.errors)
    done = stentor("status", "--url", campus.url("north/hall/b1"))
    assert done.returncode == 0, done.stderr
    with closing(socket.create_connection(("127.0.0.1", campus.ports["north/hall/b1"]))):
        pass
