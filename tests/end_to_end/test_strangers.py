"""A client with a certificate, to whom nothing was granted, answers for repositories that are stopped."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, in_process

import stentor
from stentor.admin.topics import Registrar
from stentor.client import fabric as client
from stentor.client.stored_reader import Reader
from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.communication import end_name, inbox_of
from stentor.model.control import (
    ControlEvent,
    Persistent,
    Probe,
    ProbeAnswer,
    PublisherOrder,
    Recovery,
    RecoveryResponse,
    Registration,
    RegistrationReceipt,
    RepositoryAck,
    Retransmission,
    SequenceRun,
    StreamRanges,
)
from stentor.model.errors import Refused, Unreachable
from stentor.model.ids import CatenationNumber, Incarnation, publisher_id, topic_id
from stentor.model.stored.reading import Page, PageRequest, Stock, StockRequest
from stentor.wire.block import Block, Origin, encode
from stentor.wire.letter import read, write

pytestmark = pytest.mark.req("RD-31")

OVERHEARD = ("$bundle/#", "$repositories", "$to/#")
SHOP = publisher_id("owner", end_name("publisher", "shop", "orders"))
FORGED = Block(
    encode(Origin(topic_id("orders"), SHOP, Incarnation(1), CatenationNumber(1), 1), EMPTY_SCHEMA, [], [b"forged"]),
    EMPTY_SCHEMA,
)
REPORT = (
    b'{"repository":"r1","unit":"","principal":"mallory","topics":{"orders":{"topic":"orders","repository":"r1",'
    b'"unit":"","ready":true,"leaving":false,"trouble":"","members":["r1"],"owner":"owner","copies":1,"keep":1,'
    b'"expire":0,"events":0,"first":1,"next":1,"horizon":0,"bytes":0,"conflicts":0,"unauthorised":0,"publishers":{},'
    b'"steers":[],"subscribers":{},"peers":{}}},"traces":null}'
)


def forgeries(event: ControlEvent) -> list[tuple[str, ControlEvent, tuple[Block, ...]]]:
    """What the repository r1 might say to this, to whom, with which events."""
    match event:
        case Probe():
            to = inbox_of(end_name(event.role, event.sender, "orders"))
            return [(to, ProbeAnswer("orders", "r1", event.attempt, True, ("r1",), 0), ())]
        case Recovery():
            to = inbox_of(end_name(event.role, event.sender, "orders"))
            told = Persistent("orders", "r1", event.attempt, 0, 1, (SequenceRun(1, 1, SHOP, 1, 1),))
            return [
                (to, RecoveryResponse("orders", "r1", event.attempt, 1, ("r1",), event.incarnation), ()),
                (to, told, ()),
                (to, Retransmission("orders", "r1"), (FORGED,)),
            ]
        case PublisherOrder():
            to = inbox_of(end_name("publisher", event.sender, "orders"))
            return [(to, RepositoryAck("orders", "r1", event.incarnation, event.last, (), (event.last,)), ())]
        case StockRequest():
            stock = Stock("orders", "r1", event.token, members=("r1",), parts=((StreamRanges(SHOP, 1, 0, ((1, 1),)),),))
            return [(inbox_of(event.sender), stock, ())]
        case PageRequest():
            page = Page("orders", "r1", event.token, bases=(0,), covered=event.wanted)
            return [(inbox_of(event.sender), page, (FORGED,))]
        case Registration():
            return [
                (inbox_of(event.sender), RegistrationReceipt(event.topic, "r1", event.token, report=REPORT), ()),
            ]
        case _:
            return []


async def impersonate(mallory: client.Fabric, pattern: str) -> None:
    """Answer whatever is overheard; a broker may not even let it listen."""
    with suppress(Refused):
        async with mallory.subscribe(pattern) as letters:
            async for letter in letters:
                for event in read(letter.body).events:
                    for to, forged, blocks in forgeries(event):
                        await mallory.publish(to, write([forged], blocks))


@asynccontextmanager
async def stranger(url: str, certificates: Path) -> AsyncIterator[None]:
    async with stentor.connect(url, tls=certificates / "mallory", wait=PATIENCE) as mallory:
        tasks = [asyncio.create_task(impersonate(mallory, pattern)) for pattern in OVERHEARD]
        await mallory.flush()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def stopped(home: Path) -> Iterator[None]:
    """The only repository is there, and does nothing."""
    process = int((home / ".stentor" / "repositories" / "r1" / "lock").read_text())
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    made = in_process("certs", "init", "--client", "owner", "--client", "mallory", cwd=folder)
    assert made.returncode == 0, made.stderr
    (folder / "stentor.toml").write_text(
        '[tls]\ndirectory = "certs/node"\n[[node]]\nname = "b1"\nlisten = "127.0.0.1:0"\nhttp = ""\n'
        '[[repository]]\nname = "r1"\nhttp = ""\n'
    )
    return folder


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    with Fabric("--config", home / "stentor.toml", cwd=home) as running:
        asyncio.run(create(running.url("b1"), home / "certs" / "clients"))
        yield running.url("b1")


async def create(url: str, certificates: Path) -> None:
    async with stentor.connect(url, tls=certificates / "owner", wait=PATIENCE) as fabric, Registrar(fabric) as owner:
        await owner.create("orders", ["r1"], within=PATIENCE)
        await owner.grant("orders", "publisher", "shop", "owner")
        await owner.grant("orders", "subscriber", "billing", "owner")


async def send(fabric: client.Fabric) -> None:
    async with fabric.publisher("orders", name="shop") as shop:
        await shop.send(b"lost", timeout=1.0)


async def receive(fabric: client.Fabric) -> None:
    async with fabric.subscribe("orders", name="billing", from_="beginning") as events:
        async with asyncio.timeout(1.0):
            await anext(events)


async def create_another(fabric: client.Fabric) -> None:
    async with Registrar(fabric) as owner:
        await owner.create("another", ["r1"], within=1.0)


async def show(fabric: client.Fabric) -> None:
    async with Registrar(fabric) as owner:
        await owner.show("orders", within=1.0)


async def read_stored(fabric: client.Fabric) -> None:
    async with Reader(fabric) as reader:
        await reader.stock("orders", since="beginning", patience=1.0)


@pytest.mark.parametrize("attempt", [send, receive, create_another, show, read_stored], ids=lambda each: each.__name__)
def test_nobody_takes_a_stranger_for_a_repository(home: Path, url: str, attempt: object) -> None:
    certificates = home / "certs" / "clients"

    async def main() -> None:
        async with (
            stranger(url, certificates),
            stentor.connect(url, tls=certificates / "owner") as fabric,
        ):
            with stopped(home), pytest.raises(Unreachable):
                await attempt(fabric)  # type: ignore[operator]

    asyncio.run(main())


def test_with_the_repository_all_goes_on_whatever_the_stranger_says(home: Path, url: str) -> None:
    certificates = home / "certs" / "clients"

    async def main() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            stranger(url, certificates),
            stentor.connect(url, tls=certificates / "owner", wait=PATIENCE) as fabric,
            fabric.subscribe("orders", name="billing") as events,
            fabric.publisher("orders", name="shop") as shop,
        ):
            assert (await shop.send(b"true")).copies == 1
            assert (await anext(events)).body == b"true"

    asyncio.run(main())
