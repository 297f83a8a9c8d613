"""Rotten files of real ledgers: an error until it is mended or accepted, and never a silent loss."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, run, until_asked
from tests.integration.test_reliable import House, bodies, house, take

from stentor.admin.topics import Registrar, TopicReport
from stentor.client.fabric import Fabric
from stentor.model.errors import Refused
from stentor.storage.ledger_store import find_ledger_store

STORAGES = ["sqlite", "segments"]


def body_of(number: int) -> bytes:
    return b"the body of event %03d" % number


def files_of(home: Path, repository: str, topic: str = "orders") -> list[Path]:
    """The files in which a repository keeps a topic."""
    return [path for path in sorted((home / repository).rglob("*")) if path.is_file() and topic in str(path)]


def flip(home: Path, repository: str, wanted: bytes) -> None:
    """Flip one bit of what a repository stores."""
    for path in files_of(home, repository):
        content = bytearray(path.read_bytes())
        at = content.find(wanted)
        if at >= 0:
            content[at + len(wanted) // 2] ^= 0x08
            path.write_bytes(content)
            return
    raise AssertionError(f"{repository} does not store {wanted!r}")


async def reported(fabric: Fabric, repository: str = "r1", topic: str = "orders") -> TopicReport | None:
    async with Registrar(fabric) as asking:
        found = await asking.find([repository], within=PATIENCE)
    return found[repository].topics.get(topic) if repository in found else None


async def store(here: House, count: int) -> None:
    """Events that are stored for billing, which is away."""
    async with here.client() as fabric:
        async with fabric.subscribe("orders", name="billing"):
            pass
        async with fabric.publisher("orders", name="shop") as shop:
            for number in range(1, count + 1):
                await shop.send(body_of(number))


@pytest.mark.req("RD-03")
@pytest.mark.parametrize("storage", STORAGES)
def test_a_flipped_bit_in_a_lone_repository_is_an_error_until_it_is_accepted(tmp_path: Path, storage: str) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1", storage=storage) as here:
            await store(here, 20)
            await here.stop("r1")
            flip(tmp_path, "r1", body_of(7))
            here.start("r1")
            async with here.client() as fabric, fabric.subscribe("orders", name="billing") as events:
                assert bodies(await take(events, 6)) == [body_of(number) for number in range(1, 7)]
                report = await reported(fabric)
                assert report is not None
                assert report.damaged == 1
                (damage,) = report.damage
                assert (damage.publisher, damage.numbers) == ("shop", ((7, 7),))
                assert "7 of shop" in report.trouble
                async with fabric.publisher("orders", name="shop") as shop:
                    await shop.send(body_of(21))  # publishers go on
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(events), 0.2)
                async with Registrar(fabric) as asking:
                    after = await asking.accept_loss("r1", "orders")
                assert not after.trouble
                rest = await take(events, 14)
                assert bodies(rest) == [body_of(number) for number in range(8, 22)]
                (lost,) = events.lost
                assert (lost.publisher, lost.name, lost.first, lost.last) == (rest[0].publisher, "shop", 7, 7)
                async with Registrar(fabric) as asking:
                    with pytest.raises(Refused, match="nothing of orders is damaged at r1"):
                        await asking.accept_loss("r1", "orders")

    run(main())


@pytest.mark.req("RD-03", "RD-20")
@pytest.mark.parametrize("storage", STORAGES)
def test_a_flipped_bit_in_one_of_two_repositories_is_mended_by_the_other(tmp_path: Path, storage: str) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1", "r2", storage=storage) as here:
            await store(here, 20)
            await here.stop("r1")
            await here.stop("r2")
            flip(tmp_path, "r1", body_of(7))
            here.start("r1")
            async with here.client() as fabric:

                async def is_damaged() -> bool:
                    report = await reported(fabric)
                    return report is not None and report.damaged == 1

                await until_asked(is_damaged)
                here.start("r2")

                async def is_mended() -> bool:
                    report = await reported(fabric)
                    return report is not None and report.ready and not report.trouble and report.events == 20

                await until_asked(is_mended)
                async with fabric.subscribe("orders", name="billing") as events:
                    assert bodies(await take(events, 20)) == [body_of(number) for number in range(1, 21)]
                    assert events.lost == []

    run(main())


@pytest.mark.req("RD-03")
@pytest.mark.parametrize(("storage", "what"), [("sqlite", "is damaged"), ("segments", "destroyed")])
def test_a_file_that_is_no_ledger_is_told_and_other_topics_go_on(tmp_path: Path, storage: str, what: str) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1", storage=storage) as here:
            await store(here, 20)
            async with here.client() as fabric, Registrar(fabric) as asking:
                await asking.create("bills", ["r1"])
                await asking.grant("bills", "publisher", "shop")
            await here.stop("r1")
            ledger = files_of(tmp_path, "r1")[0]
            rotten = random.Random(1).randbytes(1000)
            ledger.write_bytes(rotten + ledger.read_bytes()[1000:])
            here.start("r1")
            async with here.client() as fabric:
                async with fabric.publisher("bills", name="shop") as shop:
                    await shop.send(b"goes on")
                report = await reported(fabric)
                assert report is not None
                assert what in report.trouble
                assert not here.hosts["r1"].stopped.done()

    run(main())


@pytest.mark.req("RD-03")
def test_whatever_rots_in_a_database_no_event_is_wrong_and_nothing_but_a_sentence_is_told(tmp_path: Path) -> None:
    """Every kind of rot is damage, or a reason why the ledger cannot be used; never another exception."""

    async def main() -> None:
        async with house(tmp_path / "sound", "r1") as here:
            await store(here, 60)

    run(main())
    dice = random.Random(7)
    shelf = tmp_path / "sound" / "r1"
    content = next(path for path in files_of(tmp_path / "sound", "r1") if path.suffix == ".sqlite").read_bytes()
    told = set()
    for trial in range(60):
        home = tmp_path / "rotten"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(shelf, home)
        path = next(path for path in home.rglob("orders.sqlite"))
        damaged = bytearray(content)
        at = dice.randrange(len(content))
        width = dice.choice((1, 1, 100, 4096))
        damaged[at : at + width] = dice.randbytes(len(damaged[at : at + width]))
        path.write_bytes(damaged)
        ledger = find_ledger_store(f"sqlite:{home}", "r1").open("orders")
        try:
            ledger.load()
            first = 0
            while (found := ledger.scan(first, 1 << 20)).records or found.damaged:
                first = max(line.end for line in (*(each.line for each in found.records), *found.damaged)) + 1
            told.add("")
        except Exception as error:  # which one it is, is what this is about
            told.add(type(error).__name__)
        finally:
            ledger.close()
        assert told <= {"", "LedgerDamaged", "LedgerFailed", "LedgerBusy"}, (trial, told)
    assert {"", "LedgerDamaged"} <= told
