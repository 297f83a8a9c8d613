"""The blocking facade: the same API for scripts and notebooks."""

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, Node, node, run
from tests.integration.test_reliable import house

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
    with pytest.raises(stentor.Unreachable, match="connection refused"):
        stentor.blocking.connect("stentor://127.0.0.1:1")
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


def test_a_blocking_client_that_was_closed_says_so(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        with stentor.blocking.connect(running.url) as fabric:
            events = fabric.subscribe("t")
        fabric.close()  # once more does no harm
        for use in (lambda: fabric.publish("t"), fabric.flush, fabric.status, fabric.__enter__, events.next):
            with pytest.raises(stentor.Closed, match="`with`") as raised:
                use()
            assert "async" not in str(raised.value)
            assert "await" not in str(raised.value)
        assert list(events) == [], "a loop over what was closed ends"


@pytest.mark.req("UX-02")
def test_a_blocking_client_works_over_cells_of_a_notebook(tmp_path: Path) -> None:
    """Without `with`, and in a thread where an event loop runs: as Jupyter has it."""

    async def cell_1(url: str) -> stentor.blocking.BlockingFabric:
        fabric = stentor.blocking.connect(url, name="notebook")
        assert (fabric.connected, fabric.name, fabric.node) == (True, "notebook", "test/b1")
        assert fabric.principal
        assert fabric.url == url
        return fabric

    async def cell_2(fabric: stentor.blocking.BlockingFabric) -> stentor.blocking.BlockingEvents:
        events = fabric.subscribe("t", where="n > 0")  # in force when it returns
        fabric.publish_many("t", [b"1", b"2", b"3"], {"n": [1, 2, 3]})
        for event in events:
            assert event.body == b"1"
            break
        return events

    async def cell_3(fabric: stentor.blocking.BlockingFabric, events: stentor.blocking.BlockingEvents) -> None:
        fabric.publish("t", b"4", n=4)
        assert [next(events).body for _ in range(3)] == [b"2", b"3", b"4"]
        assert events.next(timeout=0.01) is None
        assert events.next_batch(timeout=0.01) is None
        fabric.publish("t", b"5", n=5)
        batch = events.next_batch()
        assert batch is not None
        assert list(batch.bodies) == [b"5"]
        assert (events.pattern, events.where, events.missed) == ("t", "n > 0", 0)

    async def last_cell(fabric: stentor.blocking.BlockingFabric) -> None:
        fabric.close()
        assert not fabric.connected

    async def notebook(url: str) -> None:
        fabric = await cell_1(url)
        events = await cell_2(fabric)
        await cell_3(fabric, events)
        await last_cell(fabric)

    with broker(tmp_path) as running:
        before = threading.active_count()
        asyncio.run(notebook(running.url))
        assert threading.active_count() == before


def test_letters_and_moves_without_async(tmp_path: Path) -> None:
    with (
        broker(tmp_path / "1") as one,
        broker(tmp_path / "2") as other,
        stentor.blocking.connect(one.url, name="me") as fabric,
        fabric.inbox() as inbox,
        stentor.blocking.connect(other.url) as sender,
    ):
        fabric.move(other.url)
        fabric.wait_until(connected=True, timeout=PATIENCE)
        while fabric.url != other.url or fabric.status().clients < 2:
            time.sleep(0.01)
        sender.send(["me"], b"hello", n=1)
        event = inbox.next(timeout=PATIENCE)
        assert event is not None
        assert (event.body, event["n"]) == (b"hello", 1)
        with pytest.raises(stentor.Unresponsive, match="still connected after"):
            fabric.wait_until(connected=False, timeout=0.01)
        assert fabric.token() != fabric.token()


@pytest.mark.req("UX-02")
def test_reliable_topics_in_cells_of_a_notebook(tmp_path: Path) -> None:
    def cells(url: str) -> None:
        fabric = stentor.blocking.connect(url, wait=PATIENCE)
        events = fabric.subscribe("orders", "price > 0", name="billing")
        shop = fabric.publisher("orders", name="shop")
        assert (shop.topic, shop.name, shop.repository, shop.is_open) == ("orders", "shop", "r1", True)
        assert (events.topic, events.name, events.where) == ("orders", "billing", "price > 0")
        assert (events.repository, events.is_open) == ("r1", True)
        assert shop.incarnation > 0
        assert shop.largest_body > 0

        shop.send_nowait(b"1", price=1)
        shop.send_many([b"2", b"3"], {"price": [2, 3]})
        shop.room(timeout=PATIENCE)
        assert shop.flush(timeout=PATIENCE).copies == 1
        for event in events:
            assert event.body == b"1"
            break
        batch = events.next_batch()  # the one before is acknowledged by that, not this one
        assert batch is not None
        assert list(batch.bodies) == [b"2", b"3"]
        assert events.next(timeout=0.01) is None  # which asks for more: so this one was
        shop.send(b"4", price=4, timeout=PATIENCE)
        assert next(events).body == b"4"
        events.sync(timeout=PATIENCE)
        events.close()
        assert list(events) == []
        assert not events.is_open

        again = fabric.subscribe("orders", "price > 0", name="billing")
        last = again.next(timeout=PATIENCE)
        assert last is not None
        assert (last.body, last.redelivered) == (b"4", True)
        last.ack()
        shop.move(url)
        again.move(url)
        shop.send(b"5", price=5)
        assert next(again).body == b"5"
        fabric.close()
        for use in (again.next, lambda: shop.send(b"6"), lambda: shop.send_nowait(b"6"), last.ack):
            with pytest.raises(stentor.Closed):
                use()
        with stentor.blocking.connect(url) as other, other.publisher("orders", name="shop") as new:
            assert new.recovered == (shop.incarnation, 5)
            assert new.incarnation > shop.incarnation

    async def main() -> None:
        async with house(tmp_path, "r1") as here:
            await asyncio.to_thread(cells, here.url)

    run(main())


def test_a_blocking_client_that_nobody_refers_to_is_closed(tmp_path: Path) -> None:
    with broker(tmp_path) as running, stentor.blocking.connect(running.url) as another:
        fabric = stentor.blocking.connect(running.url)
        events = fabric.subscribe("t")
        del fabric
        gc.collect()
        another.publish("t", b"x")
        assert next(events).body == b"x", "somebody reads from it"
        del events
        gc.collect()
        while another.status().clients > 1:
            time.sleep(0.01)


def program(url: str, text: str) -> subprocess.Popen[str]:
    """A script of its own, with a client `fabric` and a subscription `events` that nobody closes."""
    begin = f"""\
import stentor
fabric = stentor.blocking.connect({url!r}, wait=60)
events = fabric.subscribe("t")
"""
    words = [sys.executable, "-u", "-X", "dev", "-c", begin + textwrap.dedent(text)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "import sys; sys.exit()"])
def test_a_program_that_forgets_to_close_ends_cleanly(tmp_path: Path, end: str) -> None:
    with (
        broker(tmp_path) as running,
        stentor.blocking.connect(running.url) as here,
        here.subscribe("last/words") as heard,
    ):
        with program(running.url, f"fabric.publish('last/words', b'sent all the same')\n{end}") as child:
            out, err = child.communicate(timeout=PATIENCE)
        assert (child.returncode, out, err) == (0, "", "")
        assert next(heard).body == b"sent all the same"


@pytest.mark.parametrize(
    "wait",
    ["next(events)", "events.next_batch()", "list(events.batches())", "fabric.wait_until(connected=False)"],
)
def test_ctrl_c_interrupts_a_wait_and_the_client_goes_on(tmp_path: Path, wait: str) -> None:
    text = f"""
    try:
        print("waiting")
        {wait}
    except KeyboardInterrupt:
        print("interrupted")
    fabric.publish("t", b"after")
    print(next(events).body)
    """
    with broker(tmp_path) as running, program(running.url, text) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "waiting\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE)
        assert (child.returncode, out, err) == (0, "interrupted\nb'after'\n", "")
