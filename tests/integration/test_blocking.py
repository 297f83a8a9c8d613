"""The blocking facade: the same API for scripts and notebooks."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.house import Node, node, run

import stentor
from stentor.model.limits import Limits


@contextmanager
def broker(home: Path, limits: Limits | None = None) -> Iterator[Node]:
    """A broker on a thread of its own, because the test itself blocks."""
    started: list[Node] = []
    there, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with node(home, limits) as running:
            started.append(running)
            there.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=run, args=(serve(),))
    thread.start()
    try:
        assert there.wait(60)
        yield started[0]
    finally:
        done.set()
        thread.join()


@pytest.mark.req("UX-02")
def test_publish_and_subscribe_without_async(tmp_path: Path) -> None:
    with (
        broker(tmp_path) as running,
        stentor.blocking.connect(running.url) as fabric,
        fabric.subscribe("flights/#", where="carrier = 'UA'") as events,
    ):
        fabric.publish("flights/jfk", b"no", carrier="AA")
        fabric.publish("flights/jfk", b"yes", carrier="UA", attributes={"topic": 1})
        fabric.publish_many("flights/lga", [b"1", b"2"], {"carrier": ["UA", None]})
        fabric.flush()
        found = []
        for event in events:
            found.append((event.topic, event.body, dict(event.attributes)))
            if len(found) == 2:
                break
        assert found == [
            ("flights/jfk", b"yes", {"topic": 1, "carrier": "UA"}),
            ("flights/lga", b"1", {"carrier": "UA"}),
        ]
        assert fabric.status().events_in == 4
        assert events.missed == 0
        assert list(events.batches(timeout=0.01)) == [], "a timeout ends the loop"


def test_many_small_publishes_without_async(tmp_path: Path) -> None:
    with (
        broker(tmp_path) as running,
        stentor.blocking.connect(running.url) as fabric,
        fabric.subscribe("t") as events,
    ):
        for number in range(200):
            fabric.publish("t", b"%d" % number)
        found: list[int] = []
        for batch in events.batches():
            found += [int(body) for body in batch.bodies]
            if len(found) == 200:
                break
        assert found == list(range(200))


def test_errors_are_the_same_without_async(tmp_path: Path) -> None:
    with pytest.raises(stentor.InvalidInput, match="stentor://host:port"):
        stentor.blocking.connect("http://127.0.0.1")
    with pytest.raises(stentor.Unreachable), stentor.blocking.connect("stentor://127.0.0.1:1", timeout=0.1):
        pass
    with broker(tmp_path) as running, stentor.blocking.connect(running.url) as fabric:
        with pytest.raises(stentor.TopicError):
            fabric.publish("a/#")
        with pytest.raises(stentor.BodyTooLarge):
            fabric.publish("a", bytes(10_000_000))
        fabric.publish("a")
        fabric.flush()
        assert fabric.status().events_in == 1


def test_leaving_sends_what_waits(tmp_path: Path) -> None:
    with broker(tmp_path, Limits(window=64 << 20)) as running:
        with stentor.blocking.connect(running.url, buffer=64 << 20) as fabric:
            fabric.publish_many("t", [bytes(1000)] * 30_000)
        with stentor.blocking.connect(running.url) as another:
            while another.status().clients > 1:
                time.sleep(0.01)
            assert another.status().events_in == 30_000


def test_no_thread_is_left_behind(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        before = threading.active_count()
        for _ in range(5):
            with stentor.blocking.connect(running.url) as fabric, fabric.subscribe("t"):
                fabric.publish("t")
        assert threading.active_count() <= before


def test_a_loop_left_with_break_can_be_entered_again_without_async(tmp_path: Path) -> None:
    with (
        broker(tmp_path) as running,
        stentor.blocking.connect(running.url) as fabric,
        fabric.subscribe("t") as events,
    ):
        fabric.publish_many("t", [b"1", b"2", b"3"])
        for event in events:
            assert event.body == b"1"
            break
        fabric.publish("t", b"4")
        for event in events:
            assert event.body == b"2"
            break


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_blocking_client_that_was_closed_says_so(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        with stentor.blocking.connect(running.url) as fabric:
            pass
        with pytest.raises(Exception, match="closed") as raised:
            fabric.publish("t")
        kind = raised.type
        del raised  # and with it the coroutine that was never awaited
        gc.collect()
        assert kind is stentor.Closed
