"""Events that are held at the borders of top-level units, with real processes: what crosses the link, and when."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric
from tests.end_to_end.network import process, until
from tests.end_to_end.test_reliable_topics import status, tell

import stentor
from stentor.wire.letter import read

BORDERS = """
[fabric]
log = "error"

[[node]]
name = "north/b1"
listen = "127.0.0.1:0"

[[node]]
name = "south/b2"
listen = "127.0.0.1:0"

[[node]]
name = "east/b3"
listen = "127.0.0.1:0"

[[unit]]
name = ""
connect = "chain"

[[repository]]
name = "r1"
broker = "south/b2"

[[repository]]
name = "n1"
unit = "north"

[[repository]]
name = "s1"
unit = "south"
"""
PATTERNS = ("#", "$bundle/#", "$to/repository:r1", "$to/repository:s1")  # whatever repositories in the south hear


async def watch(url: str, seen: dict[bytes, None], ready: asyncio.Event) -> None:
    """Note every body of the topic that somebody in another unit could see."""
    async with stentor.connect(url, wait=PATIENCE) as spy:
        subscriptions = [spy.subscribe(pattern) for pattern in PATTERNS]
        for each in subscriptions:
            await each.__aenter__()
        ready.set()

        async def note(events: stentor.Events) -> None:
            async for event in events:
                blocks = read(event.body).blocks if event.topic.startswith("$") else ()
                seen.update(dict.fromkeys([body for block in blocks for body in block.bodies()] or [event.body]))

        await asyncio.gather(*map(note, subscriptions))


@pytest.mark.req("GE-16", "GE-21")
def test_nothing_crosses_the_border_before_the_system_storage_has_it(tmp_path: Path) -> None:
    (tmp_path / "borders.toml").write_text(BORDERS)
    with Fabric("--config", "borders.toml", cwd=tmp_path) as running:
        north, south, east = (running.url(name) for name in ("north/b1", "south/b2", "east/b3"))
        told = tell(north, "topic", "create", "orders", "--reliable", "--repositories", "r1,n1,s1", "--hold-at-border")
        assert told == "orders is reliable on n1, r1, s1, 2 copies, held at borders\n"
        tell(north, "topic", "grant", "orders", "--publisher", "shop", "--subscriber", "billing")
        storage = process(tmp_path, "repositories/n1")

        async def play() -> list[bytes]:
            seen: dict[bytes, None] = {}
            ready = asyncio.Event()
            spying = asyncio.ensure_future(watch(south, seen, ready))
            await ready.wait()
            async with (
                stentor.connect(south, wait=PATIENCE) as reader,
                reader.subscribe("orders", name="billing", from_="beginning") as events,
                stentor.connect(north, wait=PATIENCE) as writer,
                writer.publisher("orders", name="shop") as shop,
            ):
                await shop.send(b"first")
                assert (await anext(aiter(events))).body == b"first"
                os.kill(storage, signal.SIGSTOP)  # it hangs between publish and store
                shop.send_nowait(b"second")
                with pytest.raises(stentor.Unresponsive):
                    await shop.flush(timeout=2)
                assert b"second" not in seen, "it has left the unit, and no storage has it"
                os.kill(storage, signal.SIGKILL)
                await shop.flush()
                assert (await anext(aiter(events))).body == b"second"
                assert b"second" in seen
                await events.sync()
            spying.cancel()
            return list(seen)

        async def limited() -> list[bytes]:
            async with asyncio.timeout(2 * PATIENCE):
                return await play()

        assert {b"first", b"second"} <= set(asyncio.run(limited()))
        until(lambda: status(north, "r1")["r1"]["orders"]["subscribers"]["billing"]["lag"] == 0)  # type: ignore[index]

        async def publish(url: str) -> None:
            async with (
                asyncio.timeout(PATIENCE),
                stentor.connect(url, wait=PATIENCE) as writer,
                writer.publisher("orders", name="shop"),
            ):
                pass

        with pytest.raises(stentor.Refused, match="no repository of it serves east, where east/b3 is"):
            asyncio.run(publish(east))
