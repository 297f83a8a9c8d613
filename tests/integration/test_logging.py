"""What clients tell Python's logging: each change once, however often it is tried again."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, Node, node, publish_numbers, run, take, until
from tests.integration.peer import pretender
from tests.integration.ports import free_port
from tests.integration.test_reliable import House, house

import stentor
from stentor.model.limits import Limits


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="stentor")


def told(caplog: pytest.LogCaptureFixture, logger: str = "stentor.client") -> list[tuple[str, str]]:
    """Levels and texts, without who said it."""
    return [
        (record.levelname, record.getMessage().split(": ", 1)[1]) for record in caplog.records if record.name == logger
    ]


@pytest.mark.req("UX-02")
def test_a_link_that_is_up_lost_and_up_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path)
        async with stentor.connect(first.url, name="me") as fabric:
            await first.stop()
            await fabric.wait_until(connected=False)
            second = await Node.start(tmp_path, port=first.port)
            await fabric.wait_until(connected=True)
        await second.stop()
        up = ("INFO", f"connected to broker test/b1 ({first.url})")
        lost = ("WARNING", f"lost its link to {first.url} (the broker is stopping); it reconnects")
        said = told(caplog)
        assert [each for each in said if "connection refused" not in each[1]] == [up, lost, up]
        assert len(said) <= 4, "that it was refused meanwhile is said once"
        assert {record.getMessage().split(":")[0] for record in caplog.records if record.name == "stentor.client"} == {
            "client 'me'"
        }

    run(main())


def test_what_every_retry_meets_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        met = 0

        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal met
            met += 1
            writer.close()

        async with pretender(hang_up) as port:
            fabric = stentor.connect(f"stentor://127.0.0.1:{port},127.0.0.1:{free_port()}", wait=PATIENCE)
            connecting = asyncio.create_task(fabric.__aenter__())
            await until(lambda: met >= 4)
            connecting.cancel()
            await asyncio.wait([connecting])
        levels, texts = zip(*told(caplog), strict=True)
        assert set(levels) == {"WARNING"}
        assert len(texts) == len(set(texts)), texts
        assert sum("connection refused" in text for text in texts) == 1

    run(main())


def test_somebody_who_is_fenced_off_and_somebody_who_moves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with node(tmp_path / "1") as one, node(tmp_path / "2") as other, stentor.connect(one.url) as fabric:
            await fabric.move(other.url)
            moved = told(caplog)
            assert moved[1:] == [
                ("INFO", f"moves to {other.url}"),
                ("INFO", f"connected to broker test/b1 ({other.url})"),
            ], "it is not called lost"
            async with stentor.connect(other.url, name=fabric.name):
                await until(lambda: any(text.startswith("fenced: ") for _, text in told(caplog)))
        assert [level for level, text in told(caplog) if text.startswith("fenced: ")] == ["ERROR"]

    run(main())


def test_events_that_were_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(queue=64 << 10)) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url, window=64 << 10) as slow,
            slow.subscribe("t") as events,
        ):
            while not broker.status().dropped:
                await publish_numbers(publisher, "t", 200, 1000)
                await publisher.flush()
            while not events.missed:
                await publisher.publish("t", b"another")
                await take(events, 1)
        warnings = [text for level, text in told(caplog) if level == "WARNING"]
        assert len(warnings) == 1
        assert warnings[0].startswith("missed ")
        assert warnings[0].endswith(" events of 't' so far: it reads too slowly")

    run(main())


def test_ends_of_reliable_topics_tell_who_steers_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1", "r2", copies=1) as here,
            here.client() as fabric,
            fabric.publisher("orders", name="shop") as shop,
        ):
            first = shop.repository
            await here.stop(first)
            sending = asyncio.create_task(keep_sending(shop))
            await until(lambda: shop.repository not in ("", first))
            sending.cancel()
            await asyncio.wait([sending])
            said = told(caplog, "stentor.reliable")
            assert said[0][1].startswith("connected to broker ")
            assert ("INFO", f"steered by repository {first}") in said
            assert said[-1] == ("INFO", f"steered by repository {shop.repository}")
            assert any(record.getMessage().startswith("publisher 'shop' of 'orders': ") for record in caplog.records)

    run(main())


async def keep_sending(shop: stentor.Publisher) -> None:
    while True:
        await shop.send(b"x")


def test_an_end_without_a_repository_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here, here.client() as fabric:
            opening = asyncio.create_task(fabric.publisher("invoices", name="shop").__aenter__())
            await until(lambda: any(level == "WARNING" for level, _ in told(caplog, "stentor.reliable")))
            opening.cancel()
            await asyncio.wait([opening])
            warnings = [text for level, text in told(caplog, "stentor.reliable") if level == "WARNING"]
            assert warnings == [
                "no repository steers it (no repository answers for topic 'invoices': is it created?); it keeps trying"
            ]
            await refused(here, caplog)

    run(main())


async def refused(here: House, caplog: pytest.LogCaptureFixture) -> None:
    async with here.client() as fabric:
        with pytest.raises(stentor.Refused):
            await fabric.publisher("orders", name="stranger").__aenter__()
    assert [level for level, text in told(caplog, "stentor.reliable") if text.startswith("refused: ")] == ["ERROR"]


def test_who_gives_up_at_once_does_not_say_that_it_keeps_trying(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        fabric = stentor.connect(f"stentor://127.0.0.1:{free_port()}")
        for opening in (fabric, fabric.publisher("orders", name="shop")):
            with pytest.raises(stentor.Unreachable):
                await opening.__aenter__()
        assert caplog.records == []

    run(main())


def test_a_program_that_configures_nothing_sees_nothing() -> None:
    program = (
        "import asyncio, stentor\n"
        f"fabric = stentor.connect('stentor://127.0.0.1:{free_port()}')\n"
        "try:\n    asyncio.run(fabric.__aenter__())\n"
        "except stentor.Unreachable:\n    print('told')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("told\n", "")
