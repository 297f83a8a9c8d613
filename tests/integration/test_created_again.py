"""A topic that was deleted may be created again, elsewhere and by somebody else: nothing of the former one is left."""

from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, Node, node, run, until
from tests.integration.test_reliable import House, bodies, take

from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.model.errors import Refused


def awaited(broker: Node) -> set[str]:
    """Which repositories have not heard yet that a topic was deleted, as far as a broker knows."""
    charter = broker.broker.network.access.charters.find("orders")
    assert charter is not None
    return set(charter.awaited)


@pytest.mark.parametrize("second", ["r1", "r2"])
def test_a_topic_is_created_again_without_the_members_and_grants_of_the_former_one(tmp_path: Path, second: str) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            for name in ("r1", "r2"):
                here.start(name)
            async with connect(here.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                await registrar.create("orders", ["r1"])
                await registrar.grant("orders", "publisher", "shop")
                await registrar.delete("orders")
                await until(lambda: not here.hosts["r1"].node.health())
                await registrar.create("orders", [second])
                assert set(await fabric._bundles.find("orders", PATIENCE)) == {second}
                with pytest.raises(Refused, match="shop"):
                    async with fabric.publisher("orders", name="shop"):
                        pass
                await registrar.grant("orders", "publisher", "shop")
                async with fabric.publisher("orders", name="shop") as shop:
                    assert (await shop.send(b"1")).copies == 1
                if second == "r2":
                    await registrar.add("orders", "r1")  # which has deleted a topic of this name
                    await until(
                        lambda: "orders" in (health := here.hosts["r1"].node.health()) and health["orders"].ready
                    )
            for name in ("r1", "r2"):
                await here.stop(name)

    run(main())


@pytest.mark.req("RD-01")
def test_a_topic_that_is_deleted_while_a_repository_is_down_is_deleted_there_when_it_is_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            for name in ("r1", "r2"):
                here.start(name)
            await here.create("r1", "r2")
            await here.stop("r2")
            async with connect(here.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                assert await registrar.delete("orders") == ("r2",)
                await until(lambda: awaited(broker) == {"r2"})
                here.start("r2")
                await until(lambda: here.hosts["r2"].node.linked and not here.hosts["r2"].node.health())
                await until(lambda: awaited(broker) == set())
            for name in ("r1", "r2"):
                await here.stop(name)

    run(main())


@pytest.mark.req("RD-01", "GE-15")
def test_a_repository_that_slept_through_the_end_of_a_topic_serves_the_one_created_since(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            for name in ("r1", "r2"):
                here.start(name)
            await here.create("r1", "r2", copies=1)
            async with here.client() as fabric, fabric.publisher("orders", name="shop") as shop:
                assert (await shop.send(b"former", stored_on=2)).copies == 2
            await here.stop("r2")
            async with here.client() as fabric, Registrar(fabric) as registrar:
                await registrar.delete("orders")
                await until(lambda: not here.hosts["r1"].node.health())
                await here.create("r1")
                here.start("r2")
                await until(lambda: here.hosts["r2"].node.linked and not here.hosts["r2"].node.health())
                await until(lambda: awaited(broker) == set())
                await registrar.add("orders", "r2")
                await until(lambda: "orders" in (seen := here.hosts["r2"].node.health()) and seen["orders"].ready)
            async with here.client() as fabric:
                async with fabric.publisher("orders", name="shop") as shop:
                    await shop.send(b"first")
                    await here.stop("r1")
                    await shop.send(b"second")
                async with fabric.subscribe("orders", name="billing", from_="beginning") as events:
                    assert bodies(await take(events, 2)) == [b"first", b"second"]
            await here.stop("r2")

    run(main())
