"""Health, status and metrics over HTTP beside a node."""

import json
from pathlib import Path

import pytest
from tests.integration.house import node, run, take, until
from tests.integration.http import get, scrape
from tests.integration.peer import Peer

import stentor


def test_alive_and_ready(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            broker.serve_http()
            await until(lambda: broker.http is not None)
            assert await get(broker.http_port, "/livez") == (200, "alive\n")
            assert await get(broker.http_port, "/readyz") == (200, "ready\n")
            broker.broker.ready = False
            assert await get(broker.http_port, "/livez") == (200, "alive\n")
            assert await get(broker.http_port, "/readyz") == (503, "not ready\n")
            assert (await get(broker.http_port, "/nowhere"))[0] == 404

    run(main())


@pytest.mark.req("UX-07")
def test_metrics_count_what_happened(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url, name="airport") as airport,
            stentor.connect(broker.url, name='desk "1"\\') as desk,
            desk.subscribe("flights/#") as everything,
            desk.subscribe("flights/#", where="delay > 10 AND carrier = 'UA'") as late,
            desk.subscribe("flights/lga", where="delay > 10") as elsewhere,
        ):
            broker.serve_http()
            for number in range(30):
                await airport.publish("flights/jfk", delay=number, carrier="UA" if number % 2 else "AA")
            await airport.publish("nobody/cares")
            await airport.flush()
            await take(everything, 30)
            await take(late, 10)
            async with await Peer.dial(broker.port) as stranger:
                await stranger.send(b"GET / HTTP/1.1\r\n\r\n")
                await stranger.last_word()
            found = await scrape(broker.http_port)
            assert found["stentor_events_in_total", ()] == 31
            assert found["stentor_events_out_total", ()] == 30
            assert found["stentor_clients", ()] == 2
            assert found["stentor_subscriptions", ()] == 3
            assert found["stentor_topics", ()] == 2
            assert found["stentor_slow_clients", ()] == 0
            assert found["stentor_queue_bytes", ()] == 0
            assert found["stentor_boot", ()] == 1
            assert found["stentor_uptime_seconds", ()] >= 0
            assert found["stentor_bytes_in_total", ()] > 0
            assert found["stentor_bytes_out_total", ()] > 0
            assert found["stentor_batch_events_sum", ()] == 31
            assert found["stentor_batch_events_count", ()] >= 1
            assert found["stentor_events_dropped_total", (("reason", "no subscriber"),)] == 1
            assert found["stentor_refusals_total", (("reason", "protocol"),)] == 1
            counts = {
                dict(labels)["subscription"]: (value, found["stentor_subscription_rejected_total", labels])
                for (name, labels), value in found.items()
                if name == "stentor_subscription_accepted_total"
            }
            ids = [str(each.id) for each in sorted(broker.status().interests, key=lambda interest: interest.id)]
            assert [counts[number] for number in ids] == [(30, 0), (10, 20), (0, 0)]
            clients = {
                dict(labels)["client"] for name, labels in found if name == "stentor_subscription_accepted_total"
            }
            assert clients == {'desk "1"\\'}
            assert elsewhere.missed == 0

    run(main())


def test_counts_of_a_subscription_beside_one_that_takes_all(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url) as one,
            stentor.connect(broker.url) as two,
            one.subscribe("t", where="n < 3"),
            two.subscribe("t", where="n >= 3"),
            two.subscribe("t"),
        ):
            for turn in range(5):
                await publisher.publish_many("t", [b""] * 10, {"n": list(range(10))})
                await publisher.flush()
                counts = {each.where: (each.accepted, each.rejected) for each in broker.status().interests}
                done = turn + 1
                assert counts == {"n < 3": (3 * done, 7 * done), "n >= 3": (7 * done, 3 * done), "": (10 * done, 0)}

    run(main())


def test_totals_outlive_the_clients_they_came_from(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            broker.serve_http()
            for _ in range(3):
                async with stentor.connect(broker.url) as fabric, fabric.subscribe("t") as events:
                    await fabric.publish_many("t", [b"x"] * 10)
                    await take(events, 10)
            await until(lambda: broker.status().clients == 0)
            found = await scrape(broker.http_port)
            assert found["stentor_events_in_total", ()] == 30
            assert found["stentor_events_out_total", ()] == 30
            assert found["stentor_clients", ()] == 0

    run(main())


def test_the_status_as_json(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url, name="me") as fabric, fabric.subscribe("a/#"):
            broker.serve_http()
            code, text = await get(broker.http_port, "/status")
            assert code == 200
            report = json.loads(text)
            assert report["node"] == "test/b1"
            assert [link["name"] for link in report["links"]] == ["me"]
            assert [interest["pattern"] for interest in report["interests"]] == ["a/#"]

    run(main())
