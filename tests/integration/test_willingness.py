"""Repositories that are not willing to manage a topic say so, and name those that are."""

from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, node, run, until
from tests.integration.test_reliable import House
from tests.integration.test_topic_budgets import ledgers, start

from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.model.control import Registration, TopicTask
from stentor.model.errors import Refusal, Refused

pytestmark = pytest.mark.req("RD-33")


def test_a_topic_is_created_at_those_who_are_willing(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            start(here, tmp_path, "r1", accepts=("orders/#",))
            start(here, tmp_path, "r2", topics=1)
            third = start(here, tmp_path, "r3", most_bytes=1)
            async with connect(here.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                assert set(await registrar.find(["r1", "r2", "r3"])) == {"r1", "r2", "r3"}
                await registrar.create("first", ["r3"])  # its disk is empty
                await until(lambda: third.node._managed["first"].machine.state.size > 0)
                assert set(await registrar.create("news")) == {"r2"}
                assert set(await registrar.create("orders/eu")) == {"r1"}
                with pytest.raises(Refused, match=r"no repository is willing .* r1 accepts orders/# only") as refused:
                    await registrar.create("other")
                assert "r3 has" in refused.value.reason
                with pytest.raises(Refused, match=r"r2 manages 1 topic already.*willing to manage this topic: r1"):
                    await registrar.create("orders/us", ["r2"])
                with pytest.raises(Refused, match=r"r3 has .* bytes on its disk.*: r2"):
                    await registrar.add("news", "r3")
                assert ledgers(tmp_path, "r3") == {"first"}
                await registrar.grant("first", "publisher", "shop")
                async with fabric.publisher("first", name="shop") as shop:
                    assert (await shop.send(b"what it has goes on")).copies == 1
            for name in ("r1", "r2", "r3"):
                await here.stop(name)

    run(main())


def test_a_repository_decides_for_itself_whoever_does_not_ask(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            start(here, tmp_path, "r1", accepts=("orders/#",))
            async with connect(here.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                report = (await registrar.find(["r1"]))["r1"]
                assert report.accepts == ("orders/#",)
                terms = Registration(
                    "news",
                    fabric.name,
                    token=7,
                    task=TopicTask.CREATE,
                    principal=fabric.principal,
                    repositories=("r1",),
                    principals=(report.principal,),
                )
                answer = await registrar._confirm("r1", terms, lambda _, __: True, PATIENCE)
                assert answer is not None
                assert answer.code is Refusal.TOPIC
                assert ledgers(tmp_path, "r1") == set()
            await here.stop("r1")

    run(main())
