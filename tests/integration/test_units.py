"""Repositories that serve a unit: how many of them a topic may have."""

from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, node, run
from tests.integration.test_reliable import House
from tests.integration.test_topic_budgets import start

from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.model.errors import InvalidInput


@pytest.mark.req("GE-24")
def test_a_topic_is_not_created_with_two_storages_for_a_unit_unless_they_join(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            start(here, tmp_path, "r1")
            for name in ("n1", "n2"):
                start(here, tmp_path, name, unit="north")
            everyone = ["n1", "n2", "r1"]
            async with connect(here.url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                await registrar.find(everyone)
                with pytest.raises(InvalidInput, match=r"north would have 2 storages of its own, n1, n2: .* --join"):
                    await registrar.create("orders", everyone)
                assert set(await registrar.create("news", ["r1", "n1"])) == {"r1", "n1"}
                assert set(await registrar.create("orders", everyone, join=True)) == set(everyone)
            for name in everyone:
                await here.stop(name)

    run(main())
