"""Health, status and metrics over HTTP beside a node."""

import json
import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.integration.house import node, run, take, until, until_asked
from tests.integration.http import Sample, get, scrape
from tests.integration.peer import Peer

import stentor
from stentor.gateways.http.node import ServedNode
from stentor.gateways.http.page import page
from stentor.model.ids import is_made_up
from stentor.model.limits import Limits


def test_a_broker_is_alive_and_ready(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            broker.serve_http()
            await until(lambda: broker.http is not None)
            assert await get(broker.http_port, "/livez") == (200, "alive\n")
            assert await get(broker.http_port, "/readyz") == (200, "ready\n")
            broker.broker.ready = False
            assert await get(broker.http_port, "/livez") == (200, "alive\n")
            assert await get(broker.http_port, "/readyz") == (503, "not ready\ntest/b1 starts or stops\n")
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
            assert found["stentor_subscription_accepted_total", ()] == 10
            assert found["stentor_subscription_rejected_total", ()] == 20
            assert found["stentor_disk_free_bytes", (("role", "broker"),)] > 0
            assert elsewhere.missed == 0

    run(main())


def test_what_filters_took_is_counted_on_when_their_subscriptions_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url) as fabric:
            broker.serve_http()
            for turn in range(1, 4):
                async with fabric.subscribe("t", where="n < 3") as some, fabric.subscribe("t", where="n < 6"):
                    await fabric.publish_many("t", [b""] * 10, {"n": list(range(10))})
                    await take(some, 3)
                found = await scrape(broker.http_port)
                assert found["stentor_subscription_accepted_total", ()] == 9 * turn
                assert found["stentor_subscription_rejected_total", ()] == 11 * turn

    run(main())


def clients(found: dict[Sample, float], metric: str) -> set[tuple[str, str]]:
    """The clients and principals that a metric names."""
    labels = [dict(labels) for name, labels in found if name == metric]
    return {(each["client"], each["principal"]) for each in labels}


def test_no_label_is_a_filter_or_a_name_that_was_made_up(tmp_path: Path) -> None:
    async def main() -> None:
        limits = Limits(queue=128 << 10)
        async with node(tmp_path, limits) as broker, stentor.connect(broker.url) as publisher, AsyncExitStack() as held:
            broker.serve_http()
            for name in (None, None, "desk", 'a "desk"\\', "other"):
                slow = await held.enter_async_context(stentor.connect(broker.url, name=name, window=1 << 16))
                await held.enter_async_context(slow.subscribe("t", where="n >= 0"))

            async def all_lag() -> bool:
                for number in range(50):
                    await publisher.publish("t", bytes(1000), n=number)
                await publisher.flush()
                return sum(link.queued > 0 and link.dropped > 0 for link in broker.status().links) == 5

            await until_asked(all_lag)
            found = await scrape(broker.http_port)
            named = {(name, "anonymous") for name in ("desk", 'a "desk"\\', "other")}
            assert clients(found, "stentor_client_queue_bytes") == {*named, ("other", "other")}
            assert clients(found, "stentor_client_events_dropped_total") == named
            assert "n >= 0" not in (await get(broker.http_port, "/metrics"))[1]
            waiting = [value for (name, _), value in found.items() if name == "stentor_client_queue_bytes"]
            assert sum(waiting) == found["stentor_queue_bytes", ()] > 0

    run(main())


def test_a_client_without_a_name_is_recognised_by_the_one_that_is_made_up() -> None:
    async def main() -> None:
        assert is_made_up(stentor.connect("stentor://127.0.0.1:1").name)
        assert not is_made_up("billing-2024-q3")

    run(main())


def test_the_page_says_what_is_where(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            broker.serve_http()
            code, text = await get(broker.http_port, "/")
            assert code == 200
            for word in ("test/b1", "broker", "ready", f"Stentor {stentor.__version__}"):
                assert word in text
            links = re.findall('href="([^"]+)"', text)
            assert links == ["/metrics", "/livez", "/readyz", "/status"]
            for link in links:
                assert (await get(broker.http_port, link))[0] == 200
            assert (await get(broker.http_port, "/nowhere"))[0] == 404

    run(main())


def test_the_page_shows_names_and_reasons_as_they_are() -> None:
    name = '<b>&"it\'s"</b>'
    text = page([ServedNode(name, "broker", dict, lambda: [f"{name} starts or stops"], list, None)])
    assert "<b>" not in text
    assert text.count("&lt;b&gt;&amp;&quot;it&#x27;s&quot;&lt;/b&gt;") == 3, "in the title, as a heading, in a reason"
    assert "not ready" in text


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
