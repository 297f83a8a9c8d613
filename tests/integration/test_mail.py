"""Events with explicit destinations that are stored until each of these has them."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, node, run
from tests.integration.test_reliable import House
from tests.integration.test_topic_budgets import start

from stentor.admin.topics import Registrar
from stentor.client.event import StoredEvent
from stentor.client.fabric import Fabric, connect
from stentor.client.reliable_subscription import Subscription
from stentor.client.stored_reader import Reader
from stentor.model.errors import InvalidInput, Refused, Unreachable
from stentor.model.mail import MAIL, mail_filter

pytestmark = pytest.mark.req("GE-23")


async def take(box: Subscription, count: int) -> list[StoredEvent]:
    return [await anext(box) for _ in range(count)]


async def got(url: str, name: str, count: int) -> list[bytes]:
    """What somebody of this name gets who comes, reads so many and leaves."""
    async with connect(url, name=name, wait=PATIENCE) as fabric, fabric.mailbox() as box:
        return [event.body for event in await take(box, count)]


async def create(fabric: Fabric, *repositories: str) -> None:
    async with Registrar(fabric) as registrar:
        await registrar.create(MAIL, repositories)


def test_mail_waits_for_a_name_that_never_came_and_comes_once_and_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            for name in ("r1", "r2"):
                start(here, tmp_path, name)
            async with connect(here.url, name="shop", wait=PATIENCE) as shop, connect(here.url, name="desk") as desk:
                await create(shop, "r1", "r2")
                for number in range(5):
                    await shop.send(["alice", 'o\'neil \\ "x"'], b"shop %d" % number, guaranteed=True, number=number)
                    await desk.send(["alice"], b"desk %d" % number, guaranteed=True)
                await shop.send(["bob"], b"for bob", guaranteed=True)
            both = await got(here.url, "alice", 10)
            for sender in ("shop", "desk"):
                assert [body for body in both if body.startswith(sender.encode())] == [
                    f"{sender} {number}".encode() for number in range(5)
                ]
            assert await got(here.url, 'o\'neil \\ "x"', 5) == [b"shop %d" % number for number in range(5)]
            assert await got(here.url, "bob", 1) == [b"for bob"]
            async with connect(here.url, name="alice") as alice, alice.mailbox() as box:
                await alice.send(["alice"], b"new", guaranteed=True)
                (event,) = await take(box, 1)
                assert (event.body, event.redelivered) == (b"new", False), "what she had does not come again"
            for name in ("r1", "r2"):
                await here.stop(name)

    run(main())


def test_mail_is_there_when_the_repository_that_took_it_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            for name in ("r1", "r2"):
                start(here, tmp_path, name)
            async with connect(here.url, name="shop", wait=PATIENCE) as shop:
                await create(shop, "r1", "r2")
                await shop.send(["alice"], b"kept", guaranteed=True)
                assert shop._mail._publisher is not None
                await here.stop(shop._mail._publisher.repository)
                assert await got(here.url, "alice", 1) == [b"kept"]
            for name in list(here.hosts):
                await here.stop(name)

    run(main())


def test_nobody_reads_the_mail_of_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            start(here, tmp_path, "r1")
            async with connect(here.url, name="mallory", wait=PATIENCE) as mallory:
                await create(mallory, "r1")
                await mallory.send(["alice"], b"secret", guaranteed=True)
                for where in (None, mail_filter("alice"), "EXISTS to"):
                    with pytest.raises(Refused, match=r"may not subscribe|where to = "):
                        await mallory.subscribe(MAIL, where).__aenter__()
                with pytest.raises(InvalidInput, match="by whom it is for"):
                    mallory.subscribe(MAIL, mail_filter("alice"), name="mallory")
                async with mallory.subscribe(MAIL, name="mallory", from_="beginning") as own:
                    await mallory.send(["alice", "mallory"], b"more", guaranteed=True)
                    (event,) = await take(own, 1)
                    assert event["to"] == "mallory", "she gets what is for her, and nothing else"
                async with Reader(mallory, "alice") as reader:
                    with pytest.raises(Refused, match="read by whom it is for"):
                        await reader.stock(MAIL, since="beginning")
                with pytest.raises(Refused):
                    await mallory.publish(MAIL, b"unstored", to="alice")
            assert await got(here.url, "alice", 2) == [b"secret", b"more"]
            await here.stop("r1")

    run(main())


def test_without_a_topic_for_mail_the_sender_is_told_how_to_make_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            async with connect(broker.url, timeout=0.5) as shop:
                with pytest.raises(Unreachable, match=r"stentor topic create '\$mail' --reliable"):
                    await shop.send(["alice"], b"x", guaranteed=True)
            await asyncio.sleep(0)

    run(main())
