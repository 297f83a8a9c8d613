"""A topic where nothing happens is closed to its ledger, and nobody notices."""

from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, node, run, until
from tests.integration.test_reliable import House, take
from tests.integration.test_topic_budgets import start

from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.runtime.repository import RepositoryHost

pytestmark = pytest.mark.req("RD-31")


def open_files(home: Path) -> list[str]:
    """The ledgers of users' topics that this process has open."""
    targets = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [target for target in targets if target.startswith(str(home)) and "orders" in target]


async def asleep(host: RepositoryHost, home: Path) -> None:
    await until(lambda: "orders" in host.node._sleeping and not open_files(home))


def test_a_topic_that_sleeps_takes_no_files_and_wakes_for_whoever_needs_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            host = start(here, tmp_path, "r1", sleep_after=1)
            await here.create("r1")
            async with connect(here.url, wait=PATIENCE) as fabric:
                async with fabric.publisher("orders", name="shop") as publisher:
                    await publisher.send(b"1")
                    await publisher.flush()
                    before = host.status()["topics"]
                    await asleep(host, tmp_path)
                    assert host.node.health()["orders"].ready
                    after = host.status()["topics"]
                    assert isinstance(before, dict)
                    assert isinstance(after, dict)
                    assert after["orders"]["events"] == before["orders"]["events"] == 1
                    await publisher.send(b"2")
                    await publisher.flush()
                await asleep(host, tmp_path)
                async with fabric.subscribe("orders", name="billing", from_="beginning") as events:
                    assert [event.body for event in await take(events, 2)] == [b"1", b"2"]
                await asleep(host, tmp_path)
                async with Registrar(fabric) as registrar:
                    report = await registrar.grant("orders", "subscriber", "late")
                    assert list(report.subscribers) == ["late"]
                    await asleep(host, tmp_path)
                    await registrar.delete("orders")
                    await until(lambda: not list(tmp_path.rglob("orders.sqlite")))
            await here.stop("r1")

    run(main())
