"""Health, status and metrics over HTTP beside a repository."""

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.house import node, run, until, until_asked
from tests.integration.http import Sample, get, scrape
from tests.integration.ports import free_port
from tests.integration.test_reliable import House, house, take

from stentor.admin.topics import Registrar
from stentor.gateways.http import series
from stentor.gateways.http.app import HttpServer, application
from stentor.gateways.http.broker import broker_node
from stentor.gateways.http.repository import repository_node
from stentor.model.stored.record import Entry
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.runtime.repository import RepositoryHost
from stentor.storage.ledger import Ledger, LedgerBusy
from stentor.storage.ledger_store import FileLedgerStore


@asynccontextmanager
async def page(name: str, host: RepositoryHost, directory: Path) -> AsyncIterator[int]:
    """The port on which a repository is shown."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(application([repository_node(name, host, directory)]), listener, None)
    try:
        yield listener.getsockname()[1]
    finally:
        await server.close()


def of(found: dict[Sample, float], metric: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by its labels, in the order of their names."""
    return {tuple(value for _, value in labels): value for (name, labels), value in found.items() if name == metric}


class FullDisk(FileLedgerStore):
    """Ledgers of which nothing can be written while `full` is set."""

    full = False

    def open(self, topic: str) -> Ledger:
        ledger = super().open(topic)
        commit = ledger.commit

        def refuse(entries: Sequence[Entry]) -> None:
            if self.full:
                raise LedgerBusy("No space left on device")
            commit(entries)

        ledger.commit = refuse  # type: ignore[method-assign]
        return ledger


@pytest.mark.req("UX-07")
def test_metrics_tell_who_lags_and_what_is_stored(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1", "r2", copies=2) as here,
            page("r1", here.hosts["r1"], tmp_path) as port,
            here.client() as fabric,
            fabric.publisher("orders", name="shop") as shop,
        ):
            async with (
                fabric.subscribe("orders", name="audit"),
                fabric.subscribe("orders", name="billing", where="price > 2") as events,
            ):
                for price in range(10):
                    await shop.send(b"apples", price=price)
                await take(events, 7)
            await until_asked(lambda: everything_is_stored(port))
            found = await scrape(port)
            assert found["stentor_repository_linked", ()] == 1
            assert of(found, "stentor_topic_serving") == {("orders",): 1}
            assert of(found, "stentor_repository_topics") == {
                ("serving",): 1,
                ("catching up",): 0,
                ("leaving",): 0,
                ("cannot write",): 0,
                ("damaged",): 0,
            }
            lag = of(found, "stentor_subscriber_lag_events")
            assert lag["audit", "orders"] == 10
            assert lag["billing", "orders"] < 10
            assert of(found, "stentor_peer_missing_events") == {("r2",): 0}
            assert of(found, "stentor_peer_silent_seconds").keys() == {("r2",)}
            assert found["stentor_commit_seconds_count", ()] > 0
            assert found["stentor_commit_seconds_sum", ()] > 0
            assert (
                found["stentor_commit_seconds_bucket", (("le", "+Inf"),)] == found["stentor_commit_seconds_count", ()]
            )
            assert found["stentor_disk_free_bytes", (("role", "repository"),)] > 0
            assert "price" not in (await get(port, "/metrics"))[1], "no filter is a label"
            report = json.loads((await get(port, "/status"))[1])
            assert report["repository"] == "r1"
            assert report["topics"]["orders"]["subscribers"]["audit"]["lag"] == 10

    async def everything_is_stored(port: int) -> bool:
        found = await scrape(port)
        stored = of(found, "stentor_topic_stored_events").get(("orders",))
        return stored == 10 and of(found, "stentor_topic_stored_bytes")["orders",] > 0

    run(main())


def test_topics_that_are_too_many_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MOST_SERIES", 2)

    async def main() -> None:
        async with house(tmp_path, "r1") as here, page("r1", here.hosts["r1"], tmp_path) as port:
            async with here.client() as fabric, Registrar(fabric) as registrar:
                for topic in ("t1", "t2"):
                    await registrar.create(topic, ["r1"])
            await until_asked(lambda: all_serve(port))

    async def all_serve(port: int) -> bool:
        return of(await scrape(port), "stentor_topic_serving") == {("orders",): 1, ("t1",): 1, ("other",): 1}

    run(main())


def test_it_is_ready_when_it_is_linked_and_all_topics_serve(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            shelf = FullDisk(tmp_path / "r1", "r1", ".sqlite")
            address = here.url.removeprefix("stentor://")
            host = here.hosts["r1"] = RepositoryHost(RepositorySettings(name="r1"), (address,), shelf)
            async with page("r1", host, tmp_path) as port:
                assert await get(port, "/livez") == (200, "alive\n")
                assert await get(port, "/readyz") == (
                    503,
                    f"not ready\nr1 has no link to a broker: it tries {address}\n",
                )
                host.start()
                await until(lambda: host.node.linked)
                assert await get(port, "/readyz") == (200, "ready\n")
                await here.create("r1")
                async with here.client() as fabric, fabric.publisher("orders", name="shop") as shop:
                    await shop.send(b"apples")
                    shelf.full = True
                    shop.send_nowait(b"pears")
                    trouble = "not ready\norders at r1: cannot write (No space left on device)\n"
                    await until_asked(lambda: answers(port, (503, trouble)))
                    assert of(await scrape(port), "stentor_repository_topics")["cannot write",] == 1
                    assert of(await scrape(port), "stentor_topic_serving") == {("orders",): 0}
                    assert (await get(port, "/livez"))[0] == 200
                    assert "No space left on device" in (await get(port, "/"))[1]
                    shelf.full = False
                    await shop.flush()
                    await until_asked(lambda: answers(port, (200, "ready\n")))
            await here.stop("r1")

    async def answers(port: int, expected: tuple[int, str]) -> bool:
        return await get(port, "/readyz") == expected

    run(main())


def test_a_repository_without_a_broker_is_alive_and_not_ready(tmp_path: Path) -> None:
    async def main() -> None:
        address = f"127.0.0.1:{free_port()}"
        host = RepositoryHost(RepositorySettings(name="r1"), (address,), FullDisk(tmp_path, "r1", ".sqlite"))
        host.start()
        async with page("r1", host, tmp_path) as port:
            assert (await get(port, "/livez"))[0] == 200
            code, text = await get(port, "/readyz")
            assert code == 503
            assert address in text
            assert of(await scrape(port), "stentor_repository_linked") == {(): 0}
        await host.close()

    run(main())


def test_a_broker_shows_the_repository_inside_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "main") as here:
            nodes = [
                broker_node("local", here.broker.status, lambda: True, tmp_path),
                repository_node("main", here.hosts["main"], tmp_path),
            ]
            listener = socket.create_server(("127.0.0.1", 0))
            server = HttpServer(application(nodes), listener, None)
            port = listener.getsockname()[1]
            found = await scrape(port)
            assert found["stentor_boot", ()] == 1
            assert found["stentor_repository_linked", ()] == 1
            assert of(found, "stentor_disk_free_bytes").keys() == {("broker",), ("repository",)}
            report = json.loads((await get(port, "/status"))[1])
            assert report["node"] == "test/b1"
            assert report["repository"]["repository"] == "main"
            await server.close()

    run(main())
