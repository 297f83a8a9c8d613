"""Repositories take no more topics than they can serve, and one that they cannot open ends nothing else."""

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.house import PATIENCE, node, run, until, until_asked
from tests.integration.test_reliable import House

from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.model.communication import inbox_of, repository_name
from stentor.model.control import Registration, RegistrationReceipt, TopicTask
from stentor.model.errors import Refusal, Refused
from stentor.model.trust.request_topic import request_topic
from stentor.protocols.delivery.repository import repository as repository_module
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.runtime.repository import RepositoryHost
from stentor.storage.ledger_store import find_ledger_store
from stentor.wire.letter import read, write

pytestmark = pytest.mark.req("RD-31")


def start(here: House, home: Path, name: str, **most: Any) -> RepositoryHost:
    store = find_ledger_store(f"sqlite:{home / name}", name)
    settings = msgspec.structs.replace(RepositorySettings(name=name), **most)
    host = here.hosts[name] = RepositoryHost(settings, (here.url.removeprefix("stentor://"),), store)
    host.start()
    return host


async def invite(registrar: Registrar, topic: str, repository: str) -> None:
    principal = (await registrar.status(repository)).principal
    await registrar._change(topic, TopicTask.ADD_REPOSITORY, repositories=(repository,), principals=(principal,))


def ledgers(home: Path, name: str) -> set[str]:
    return {path.stem for path in (home / name).rglob("*.sqlite") if "stentor" not in path.stem}


def test_a_repository_that_has_its_topics_says_so_and_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            start(here, tmp_path, "r1", topics=2)
            async with connect(here.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                for topic in ("one", "two"):
                    await registrar.create(topic, ["r1"])
                with pytest.raises(Refused, match="reliable_topics") as refused:
                    await registrar.create("three", ["r1"])
                assert refused.value.code is Refusal.TOO_MANY
                assert ledgers(tmp_path, "r1") == {"one", "two"}
                await registrar.delete("one")
                await until(lambda: ledgers(tmp_path, "r1") == {"two"})
                await registrar.create("three", ["r1"])
            await here.stop("r1")

    run(main())


def test_a_repository_joins_no_more_bundles_than_it_takes_topics(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            start(here, tmp_path, "r1")
            second = start(here, tmp_path, "r2", topics=3)
            async with connect(here.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                for number in range(6):
                    await registrar.create(f"t{number}", ["r1"])
                    if number < 3:
                        await registrar.add(f"t{number}", "r2")
                        continue
                    with pytest.raises(Refused, match=r"r2 manages 3 topics already.*willing .*: r1"):
                        await registrar.add(f"t{number}", "r2")
                    await invite(registrar, f"t{number}", "r2")  # as somebody would who does not ask
                await until(lambda: len(second.node.health()) == 3)
                assert len(ledgers(tmp_path, "r2")) == 3
            for name in ("r1", "r2"):
                await here.stop(name)

    run(main())


def test_a_forged_request_to_create_a_topic_makes_no_ledger(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            start(here, tmp_path, "r1")
            async with connect(here.url, wait=PATIENCE) as fabric:
                async with Registrar(fabric) as registrar:
                    await registrar.create("mine", ["r1"])
                forged = Registration("theirs", fabric.name, 7, TopicTask.CREATE, "somebody else", ("r1",))
                asked = Registration("", fabric.name, 8, TopicTask.STATUS, fabric.principal)
                async with fabric.inbox() as inbox:
                    for to in (request_topic(fabric.name, "r1"), inbox_of(repository_name("r1"))):
                        await fabric.publish(to, write([forged]))
                    await fabric.publish(request_topic(fabric.name, "r1"), write([asked]))
                    async for event in inbox:
                        (answer,) = read(event.body).events
                        assert isinstance(answer, RegistrationReceipt)
                        assert answer.token == 8, "what is forged is not answered"
                        break
                assert ledgers(tmp_path, "r1") == {"mine"}
            await here.stop("r1")

    run(main())


def test_a_ledger_that_cannot_be_opened_is_tried_again_and_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_module, "_OPEN_AGAIN", 50_000_000)

    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            start(here, tmp_path, "r1")
            async with connect(here.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                for topic in ("bad", "good"):
                    await registrar.create(topic, ["r1"])
                    await registrar.grant(topic, "publisher", "shop")
                await here.stop("r1")
                (ledger,) = (tmp_path / "r1").rglob("bad.sqlite")
                connection = sqlite3.connect(ledger)
                connection.execute("PRAGMA user_version = 99")
                connection.close()
                host = start(here, tmp_path, "r1")
                async with fabric.publisher("good", name="shop") as shop:
                    await shop.send(b"1")
                    await shop.flush()
                await until(lambda: "has version 99" in host.node.health()["bad"].trouble)
                assert not host.stopped.done()
                with pytest.raises(Refused, match="has version 99") as refused:
                    await registrar.grant("bad", "publisher", "other")
                assert refused.value.code is Refusal.BUSY
                connection = sqlite3.connect(ledger)
                connection.execute("PRAGMA user_version = 1")
                connection.close()
                await until(lambda: host.node.health()["bad"].ready)
                async with fabric.publisher("bad", name="shop") as shop:
                    await shop.send(b"2")
                    await shop.flush()
            await here.stop("r1")

    run(main())


def test_a_repository_with_more_ledgers_than_it_can_open_serves_some_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            start(here, tmp_path, "r1")
            topics = [f"t{number}" for number in range(6)]
            async with connect(here.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                for topic in topics:
                    await registrar.create(topic, ["r1"])
                await here.stop("r1")
                host = start(here, tmp_path, "r1", ledgers=3)

                async def is_served() -> bool:
                    return sum(health.ready for health in host.node.health().values()) == 3

                await until_asked(is_served)
                unserved = [topic for topic, health in host.node.health().items() if "ulimit -n" in health.trouble]
                assert len(unserved) == 3
                for task in (registrar.grant(unserved[0], "publisher", "shop"), registrar.create("new", ["r1"])):
                    with pytest.raises(Refused, match="ulimit -n"):
                        await task
                served = next(iter(set(topics) - set(unserved)))
                await registrar.delete(served)
                await until(lambda: len(host.node.health()) == 5)
                await until_asked(is_served)
            await here.stop("r1")

    run(main())
