"""Nine brokers in three levels as real processes: events cross them, go round dead brokers and cut links, and roam."""

import asyncio
import os
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, stentor
from tests.integration.proxy import Proxy

import stentor as api
from stentor.model.view import NetworkView
from stentor.operation import explain, view

NAMES = ("north/library/b1", "north/library/b2", "north/library/b3", "north/hall/b1", "north/hall/b2",
         "south/lab/b1", "south/lab/b2", "south/dorm/b1", "south/dorm/b2")  # fmt: skip
LEVELS = 3
UNITS = ("north/library", "north/hall", "south/lab", "south/dorm")
LINKS = (
    ("north/library/b1", "north/hall/b1"), ("north/library/b3", "north/hall/b2"), ("south/lab/b1", "south/dorm/b1"),
    ("south/lab/b2", "south/dorm/b2"), ("north/hall/b1", "south/lab/b1"), ("north/library/b2", "south/lab/b2"),
)  # fmt: skip


def free_ports(count: int) -> list[int]:
    with_sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in with_sockets]
    for each in with_sockets:
        each.close()
    return ports


class Campus:
    """The running network; brokers by name."""

    def __init__(
        self,
        directory: Path,
        detours: dict[tuple[str, str], str] | None = None,
        ports: dict[str, int] | None = None,
    ) -> None:
        self.ports = ports or dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        lines = ["[limits]", 'heartbeat = "1 s"']
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
        """The process that listens on a broker's port."""
        inode = next(
            line.split()[9]
            for line in Path("/proc/net/tcp").read_text().splitlines()
            if f"0100007F:{self.ports[name]:04X}" in line.split()[1] and line.split()[3] == "0A"
        )
        for pid in self.fabric.nodes():
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    target = str(handle.readlink())
                except OSError:
                    continue
                if target == f"socket:[{inode}]":
                    return pid
        raise AssertionError(f"nobody listens for {name}")

    async def view(self, name: str) -> NetworkView:
        async with api.connect(self.url(name), timeout=PATIENCE) as fabric:
            return await view(fabric)

    async def until(self, name: str, holds: Callable[[NetworkView], bool]) -> NetworkView:
        """Wait until a broker sees the network so."""
        end = time.monotonic() + PATIENCE
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

    async def has(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.bodies) < count:
                self.arrived.clear()
                await self.arrived.wait()

    async def sees(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while b"%d" % number not in self.bodies:
                self.arrived.clear()
                await self.arrived.wait()


@asynccontextmanager
async def reading(url: str, pattern: str, where: str | None = None) -> AsyncIterator[tuple[Reader, api.Fabric]]:
    reader = Reader()
    async with api.connect(url, timeout=PATIENCE) as fabric, fabric.subscribe(pattern, where) as events:
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
    pending: list[tuple[str, int, dict[int, int] | None]] = [(at, 0, None)]
    while pending:
        name, level, masks = pending.pop()
        try:
            async with api.connect(campus.url(name), timeout=PATIENCE) as fabric:
                found = await explain(fabric, topic, attributes, level=level, masks=masks)
        except api.StentorError:
            return False
        if name == to and found.enters:
            return True
        pending += [(hop.peer, hop.level, hop.masks) for hop in found.hops]
    return False


async def publish_numbers(fabric: api.Fabric, topic: str, numbers: range) -> None:
    for number in numbers:
        await fabric.publish(topic, b"%d" % number, n=number % 10)
    await fabric.flush()


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(3 * PATIENCE):
            await work()

    asyncio.run(bounded())


@pytest.mark.req("GE-01", "GE-08", "GE-09")
def test_everybody_gets_what_they_want_once_and_nobody_else_sees_it(campus: Campus) -> None:
    async def work() -> None:
        async with (
            reading(campus.url("north/library/b2"), "t/#") as (all_of_it, _),
            reading(campus.url("south/dorm/b2"), "t/a", "n > 7") as (some, _),
            reading(campus.url("south/lab/b2"), "other") as (nothing, _),
        ):
            for to in ("north/library/b2", "south/dorm/b2"):
                await known(campus, "north/hall/b2", "t/a", {"n": 9}, to)
            before = {name: await campus.view(name) for name in NAMES}
            async with api.connect(campus.url("north/hall/b2")) as publisher:
                await publish_numbers(publisher, "t/a", range(500))
            await all_of_it.has(500)
            await some.has(100)
            assert Counter(all_of_it.bodies) == Counter(b"%d" % number for number in range(500))
            assert all_of_it.bodies == sorted(all_of_it.bodies, key=int)
            assert some.bodies == [b"%d" % number for number in range(500) if number % 10 > 7]
            assert nothing.bodies == []
            for name in NAMES:
                seen = await campus.view(name)
                assert seen.most_matchings <= LEVELS + 1
                assert (seen.circling, seen.stranded) == (0, 0)
            # what is wanted in the dorm crosses the lab, on whichever way, and no more than that
            crossed = {(await campus.view(name)).relayed - before[name].relayed for name in NAMES[5:7]}
            assert crossed <= {0, 100}
            assert 100 in crossed

    run(work)


@pytest.mark.req("GE-10")
def test_a_client_roams_and_takes_its_subscriptions_along(campus: Campus) -> None:
    async def work() -> None:
        async with reading(campus.url("north/library/b1"), "roam") as (reader, fabric):
            async with api.connect(campus.url("south/dorm/b1")) as publisher:
                for home, first in (("north/library/b1", 0), ("south/lab/b2", 10), ("north/hall/b2", 20)):
                    if first:
                        await fabric.move(campus.url(home))
                    await known(campus, "south/dorm/b1", "roam", {}, home)
                    await publish_numbers(publisher, "roam", range(first, first + 10))
                    await reader.has(first + 10)
            assert reader.bodies == [b"%d" % number for number in range(30)]
            assert fabric.node == "north/hall/b2"

    run(work)


@pytest.mark.req("GE-05")
def test_traffic_goes_round_a_broker_that_was_killed_and_it_comes_back(campus: Campus) -> None:
    async def work() -> None:
        async with reading(campus.url("south/dorm/b2"), "k") as (reader, _):
            publishing = api.connect(campus.url("north/library/b2"))
            async with publishing as publisher:
                await known(campus, "north/library/b2", "k", {}, "south/dorm/b2")
                path = (await campus.view("north/library/b2")).scopes[2].members[1]
                assert path.unit == "south"
                victim = path.hop
                os.kill(campus.pid(victim), signal.SIGKILL)
                number = 0
                async with asyncio.timeout(PATIENCE):
                    while not reader.bodies:  # whatever was under way may be lost, what comes later must not
                        await publish_numbers(publisher, "k", range(number, number + 10))
                        number += 10
                        await asyncio.sleep(0.02)
                await known(campus, "north/library/b2", "k", {}, "south/dorm/b2")
                first = number
                await publish_numbers(publisher, "k", range(first, first + 100))
                await reader.sees(first + 99)
                assert set(reader.bodies) >= {b"%d" % each for each in range(first, first + 100)}
                assert max(Counter(reader.bodies).values()) == 1
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
            seen = await campus.until("north/hall/b2", lambda seen: bool(seen.parted))
            assert seen.parted == ("south",)
            seen = await campus.until("south/dorm/b1", lambda seen: "north" in seen.parted)
            assert set(seen.parted) == {"north", "south/lab"}
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)
        await whole(campus)
        assert re.search(r"warning .* cannot reach +units=.*south", campus.fabric.errors)

    run(work)


@pytest.mark.req("GE-05", "GE-09")
def test_cut_links_under_load_lose_no_more_than_what_was_under_way(tmp_path: Path) -> None:
    """The links between north and south run through proxies that are cut again and again."""

    async def work() -> None:
        pairs = (("north/hall/b1", "south/lab/b1"), ("north/library/b2", "south/lab/b2"))
        ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
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
        async with api.connect(campus.url("north/library/b1")) as publisher:
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
            await known(campus, "north/library/b1", "load", {"n": 1}, "south/dorm/b1")
            first = sent
            await publish_numbers(publisher, "load", range(first, first + 100))
            await reader.sees(first + 94)
            assert max(Counter(reader.bodies).values()) == 1
            wanted = [number for number in range(first, first + 100) if number % 10 < 5]
            assert [int(body) for body in reader.bodies if int(body) >= first] == wanted
            assert reader.bodies == sorted(reader.bodies, key=int)


def test_the_log_of_a_healthy_start_has_no_errors(campus: Campus) -> None:
    assert not re.search(r" error ", campus.fabric.errors)
    done = stentor("status", "--url", campus.url("north/hall/b1"))
    assert done.returncode == 0, done.stderr
    with closing(socket.create_connection(("127.0.0.1", campus.ports["north/hall/b1"]))):
        pass
