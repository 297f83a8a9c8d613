"""One node as one process: what `stentor node` becomes, and what `stentor up` starts for each node.

Reads its node from standard input as JSON, says on standard output where it listens, and stops on SIGINT, SIGTERM or
when standard input ends, so that no node outlives the supervisor that started it.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import uvloop
from setproctitle import setproctitle

from stentor.cli.running.health import Health
from stentor.config import COSTS, AccessDefault, Address, ChannelTable, DialledLink
from stentor.config.settings import Traces
from stentor.machine import StopRequested
from stentor.model.colours.wave_timing import ColourSettings
from stentor.model.errors import StentorError
from stentor.model.filter import Filter
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath
from stentor.model.trust.token import FabricToken
from stentor.nodes.broker.admin.admin_requests import LEFT
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.policies.access import AccessRule, settle_access
from stentor.policies.channel import ChannelSettings
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.runtime.chaos import Chaos
from stentor.runtime.descriptors import ledgers_that_fit, links_that_fit, raise_descriptor_limit
from stentor.runtime.dialler import Dialler
from stentor.runtime.disk import NodeStorage
from stentor.runtime.driver import Driver
from stentor.runtime.log import Logger, logger
from stentor.runtime.repository import RepositoryHost
from stentor.runtime.server import listen, reserve
from stentor.runtime.token import announce_token, make_token, withdraw_token
from stentor.storage.lake import Lake
from stentor.storage.ledger_store import find_ledger_store
from stentor.version import __version__

# glibc gives large blocks back to the kernel at once and gets them again for the next chunk; this keeps them
ALLOCATOR = {
    "MALLOC_TRIM_THRESHOLD_": str(1 << 28),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 28),
    "MALLOC_TOP_PAD_": str(16 << 20),
}


GONE = 3  # exit code of a node that left the network for good: nobody starts it again
_LINKED_WITHIN = 5.0  # seconds that a repository waits for its broker before it says that it is there


class RepositoryAssignment(msgspec.Struct, frozen=True, kw_only=True, tag="repository"):
    """What a process is told that is a repository, or a broker that has one inside."""

    name: str
    addresses: tuple[str, ...]  # of brokers, to be tried in this order
    unit: str = ""  # that it serves
    storage: str  # a line that says where its ledgers are
    lake: str = ""  # a directory; "" is none
    home: str  # the directory that only one process may use
    http: str | None = None  # unless it is inside a broker, which shows it
    accepts: tuple[str, ...] = ()  # patterns of the topics that it is willing to manage; none is all
    most_topics: int = 0  # 0 is as many as the limits say
    most_bytes: int = 0  # with which it is willing to manage more topics; 0 is any number
    rules: tuple[AccessRule, ...] = ()  # the [[access]] lines
    certificates: str | None
    token: str = ""  # the file of the fabric's token, made if it is not there; "" is none
    log: str
    json_log: bool = False
    supervised: bool = False
    limits: Limits = Limits()


class Assignment(msgspec.Struct, frozen=True, kw_only=True, tag="broker"):
    """What the process of a broker is told."""

    name: str
    listen: str
    advertise: str = ""  # where others reach it, if not where it listens
    http: str | None
    storage: str
    certificates: str | None
    token: str = ""  # the file of the fabric's token, made if it is not there; "" is none
    limits: Limits
    log: str
    json_log: bool = False
    supervised: bool = False
    numbers: tuple[int, ...] = ()  # of each part of its name in the unit around it, outermost first
    gateways: tuple[DialledLink, ...] = ()  # the links that it opens
    costs: tuple[float, ...] = COSTS  # of a link, by its level; the last goes on
    forwarding: dict[str, str] = {}  # what scopes say of it, by their names; "" is the network
    channels: tuple[ChannelTable, ...] = ()
    traces: Traces = "summed"
    rules: tuple[AccessRule, ...] = ()  # the [[access]] lines
    access: AccessDefault | None = None  # what holds where no rule is; None is as TLS says
    path_length: float = 0.0  # links are added where paths of a unit are longer on average; 0 adds none
    clients_per_broker: int = 0  # with more of them, newcomers are pointed elsewhere; 0 is as many as come
    colours: dict[str, ColourSettings] = {}  # of the scopes around it, by their names
    repository: RepositoryAssignment | None = None  # inside the same process
    chaos: bool = False  # whether operators may damage what it remembers


AnyAssignment = Assignment | RepositoryAssignment


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """What it answers when it is ready."""

    name: str
    listen: str  # "" if it does not
    http: str | None
    pid: int


def become(assignment: AnyAssignment) -> NoReturn:
    """Turn this process into the node's."""
    reader, writer = os.pipe()
    os.write(writer, msgspec.json.encode(assignment) + b"\n")
    os.close(writer)
    os.dup2(reader, sys.stdin.fileno())
    # a new image of this same process: the allocator reads its settings only at birth
    os.execve(sys.executable, [sys.executable, "-m", "stentor.cli.running.process"], {**os.environ, **ALLOCATOR})  # noqa: S606


def main() -> None:
    assignment = msgspec.json.decode(sys.stdin.buffer.readline(), type=AnyAssignment)
    role = "broker" if isinstance(assignment, Assignment) else "repository"
    setproctitle(f"stentor: {role} {assignment.name}")
    logger.configure(level=assignment.log, json=assignment.json_log, node=assignment.name)
    Filter("ready = TRUE")  # the grammar takes its time, once
    raise_descriptor_limit()
    gc.collect()
    gc.freeze()  # what is loaded now lives for ever: no need to look at it again
    gc.set_threshold(1_000, 20, 1_000)  # many short pauses: a long one would be seen in the latency of events
    try:
        code = uvloop.run(run(assignment))
    except StentorError as error:
        print(f"stentor: {error}", file=sys.stderr)
        code = 2
    sys.exit(code)


async def run(assignment: AnyAssignment) -> int:
    """One node until a signal, or until its supervisor is gone."""
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    if assignment.supervised:
        loop.add_reader(sys.stdin.fileno(), _notice_end, end)
    return await serve(assignment, end, lambda ready: print(msgspec.json.encode(ready).decode(), flush=True))


async def serve(
    assignment: AnyAssignment, end: asyncio.Event, tell: Callable[[Readiness], None], log: Logger = logger
) -> int:
    """One node on this event loop, until `end`; its exit code."""
    if isinstance(assignment, RepositoryAssignment):
        return await _serve_repository(assignment, end, tell, log)
    address = Address.parse(assignment.listen)
    if not address.port:  # it tells others where it listens before it does
        with reserve(address.host) as holder:
            listening = str(Address(address.host, holder.getsockname()[1]))
            return await serve(msgspec.structs.replace(assignment, listen=listening), end, tell, log)
    return await _serve_broker(assignment, address, end, tell, log)


async def _serve_broker(
    assignment: Assignment, address: Address, end: asyncio.Event, tell: Callable[[Readiness], None], log: Logger
) -> int:
    storage = NodeStorage(Path(assignment.storage))
    certificates, token = _credentials(assignment)
    inner = assignment.repository
    ledgers = 0 if inner is None else ledgers_that_fit(shared_for=inner.limits.reliable_topics)
    limits = msgspec.structs.replace(assignment.limits, links=min(assignment.limits.links, links_that_fit(ledgers)))
    broker = Broker(ScopePath.parse(assignment.name), limits, __version__, _network(assignment))
    driver = Driver(
        broker,
        dialler=Dialler(certificates, token),
        application=Chaos(broker).perform if assignment.chaos else None,
        storage=storage,
        window=assignment.limits.window,
        log=log,
    )
    driver.stopped.add_done_callback(lambda _: end.set())
    driver.start()
    waiting: list[asyncio.Future[Any]] = [driver.serving, driver.stopped]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    health, sound, started = None, True, asyncio.Event()
    if not driver.stopped.done():
        within = assignment.limits.hello_within
        server = await listen(driver, address.host, address.port, certificates, within, token)
        health = Health(assignment.http, Path(assignment.storage), certificates)
        health.show_broker(assignment.name, broker, started, Path(assignment.storage))
        ready = Readiness(name=assignment.name, listen=_name(server.sockets[0]), http=health.url, pid=os.getpid())
        places = {ready.listen, assignment.advertise or ready.listen} if token is not None else set()
        for place in places:
            if trouble := announce_token(place, Path(assignment.token)):
                log.log("warning", "commands must be told the token with --token", {"reason": trouble})
        inside = None
        if assignment.repository is not None:
            inside = _Inside(assignment.repository, ready.listen, end, log, health)
            await inside.ready()
        started.set()
        tell(ready)
        log.log("info", "listening", {"on": ready.listen, "http": ready.http or "off"})
        await end.wait()
        sound = inside is None or await inside.close()
        server.close()
        for place in places:
            withdraw_token(place, Path(assignment.token))
    driver.tell(StopRequested())
    await driver.close()
    if health is not None:
        await health.close()
    storage.close()
    return _exit_code(driver.stopped, log) or int(not sound)


async def _serve_repository(
    assignment: RepositoryAssignment,
    end: asyncio.Event,
    tell: Callable[[Readiness], None],
    log: Logger,
    around: Health | None = None,
) -> int:
    """One repository until `end`; a broker `around` it shows it beside itself."""
    home = NodeStorage(Path(assignment.home))  # its lock keeps other processes away
    ledger_store = await asyncio.to_thread(find_ledger_store, assignment.storage, assignment.name)
    certificates, token = _credentials(assignment)
    settings = RepositorySettings(
        name=assignment.name,
        unit=assignment.unit,
        accepts=assignment.accepts,
        topics=assignment.most_topics or assignment.limits.reliable_topics,
        most_bytes=assignment.most_bytes,
        topics_per_owner=assignment.limits.reliable_topics_per_owner,
        tail=assignment.limits.recent_events,
        ledgers=ledgers_that_fit(shared_for=None if around is None else assignment.limits.reliable_topics),
    )
    lake = Lake(Path(assignment.lake)) if assignment.lake else None
    rules = assignment.rules if certificates is not None else ()  # without TLS everybody is one principal
    host = RepositoryHost(settings, assignment.addresses, ledger_store, certificates, log, lake, token, rules)
    host.stopped.add_done_callback(lambda _: end.set())
    health = around or Health(assignment.http, Path(assignment.home), certificates)
    health.show_repository(assignment.name, host, assignment.storage)
    host.start()
    ending = asyncio.ensure_future(end.wait())
    waiting: list[asyncio.Future[Any]] = [host.linked, ending]
    await asyncio.wait(waiting, timeout=_LINKED_WITHIN, return_when=asyncio.FIRST_COMPLETED)
    if not end.is_set():
        tell(Readiness(name=assignment.name, listen="", http=health.url, pid=os.getpid()))
        log.log("info", "storing", {"linked": str(host.linked.done()).lower(), "http": health.url or "off"})
    await ending
    await host.close()
    if around is None:
        await health.close()
    else:
        around.hide(assignment.name)
    home.close()
    return _exit_code(host.stopped, log)


class _Inside:
    """A repository in the process of a broker; if it fails, both are started again."""

    def __init__(
        self, assignment: RepositoryAssignment, broker: str, end: asyncio.Event, log: Logger, health: Health
    ) -> None:
        address = Address.parse(broker)
        if ip_address(address.host).is_unspecified:
            address = Address("::1" if ":" in address.host else "127.0.0.1", address.port)
        here = msgspec.structs.replace(assignment, addresses=(str(address),))
        self._all, self._end = end, asyncio.Event()
        self._told: asyncio.Future[Readiness] = asyncio.get_running_loop().create_future()
        running = _serve_repository(here, self._end, self._told.set_result, log.named(assignment.name), health)
        self._task = asyncio.get_running_loop().create_task(running)
        self._task.add_done_callback(self._ended)

    async def ready(self) -> None:
        waiting: list[asyncio.Future[Any]] = [self._told, self._task]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.result()

    def _ended(self, task: asyncio.Task[int]) -> None:
        if task.cancelled() or task.exception() is not None or task.result() != GONE:
            self._all.set()

    async def close(self) -> bool:
        """Whether it ended in good order."""
        self._end.set()
        return await self._task in (0, GONE)


def _credentials(assignment: AnyAssignment) -> tuple[Path | None, FabricToken | None]:
    """What a node proves itself with: a certificate directory, or without TLS the fabric's token."""
    if assignment.certificates:
        return Path(assignment.certificates), None
    return None, make_token(Path(assignment.token)) if assignment.token else None


def _exit_code(stopped: asyncio.Future[str], log: Logger) -> int:
    if stopped.done():
        reason = stopped.result()
        log.log("info" if reason == LEFT else "error", "stopped", {"reason": reason})
        return GONE if reason == LEFT else 1
    log.log("info", "stopped", {})
    return 0


def _network(assignment: Assignment) -> NetworkSettings:
    channels = [
        ChannelSettings(source=str(each.origin), target=str(each.to), where=each.where) for each in assignment.channels
    ]
    return NetworkSettings(
        numbers=assignment.numbers,
        address=assignment.advertise or assignment.listen,
        gateways=tuple(
            GatewaySettings(name=each.name, address=each.address, cost=each.cost, is_requested=each.is_requested)
            for each in assignment.gateways
        ),
        costs=assignment.costs,
        forwarding=assignment.forwarding,
        channels=tuple(channels),
        traces=assignment.traces != "none",
        sums=assignment.traces == "summed",
        access=settle_access(assignment.rules, assignment.access, secured=assignment.certificates is not None),
        path_length=assignment.path_length,
        colours=assignment.colours,
        clients_per_broker=assignment.clients_per_broker,
        chaos=assignment.chaos,
    )


def _notice_end(end: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        end.set()


def _name(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return str(Address(host, port))


if __name__ == "__main__":
    main()
