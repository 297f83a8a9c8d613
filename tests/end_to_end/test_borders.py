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


def has_heard(home: Path, repository: str, body: bytes) -> bool:
    """Whether a repository was told of an event in whatever way: it writes down what it hears."""
    files = [path for path in home.rglob(f"repositories/{repository}/**/*") if path.is_file()]
    assert files, "it has a place of its own"
    return any(body in path.read_bytes() for path in files)


@pytest.mark.req("GE-16", "GE-21")
def test_nothing_crosses_the_border_before_the_system_storage_has_it(tmp_path: Path) -> None:
    (tmp_path / "borders.toml").write_text(BORDERS)
    with Fabric("--config", "borders.toml", cwd=tmp_path) as running:
        north, south, east = (running.url(name) for name in ("north/b1", "south/b2", "east/b3"))
        told = tell(north, "topic", "create", "orders", "--reliable", "--repositories", "r1,n1,s1", "--hold-at-border")
        assert told == "orders is reliable on n1, r1, s1, 2 copies, held at borders\n"
        tell(north, "topic", "grant", "orders", "--publisher", "shop", "--subscriber", "billing")
        storage = process(tmp_path, "repositories/n1")

        async def play() -> None:
            async with (
                stentor.connect(south, wait=PATIENCE) as reader,
                reader.subscribe("#") as crossing,
                reader.subscribe("orders", name="billing", from_="beginning") as events,
                stentor.connect(north, wait=PATIENCE) as writer,
                writer.publisher("orders", name="shop") as shop,
            ):
                spying = asyncio.ensure_future(anext(crossing))
                await shop.send(b"first")
                assert (await anext(aiter(events))).body == b"first"
                os.kill(storage, signal.SIGSTOP)  # it hangs between publish and store
                shop.send_nowait(b"second")
                with pytest.raises(stentor.Unresponsive):
                    await shop.flush(timeout=2)
                for name in ("r1", "s1"):  # in the south
                    assert has_heard(tmp_path, name, b"first")
                    assert not has_heard(tmp_path, name, b"second"), "it has left the unit, and no storage has it"
                assert not spying.done(), "events cross in what repositories tell each other, and not beside it"
                os.kill(storage, signal.SIGKILL)
                await shop.flush()
                assert (await anext(aiter(events))).body == b"second"
                # s1 may have served it alone: r1 is told as soon as it answers
                await asyncio.to_thread(until, lambda: has_heard(tmp_path, "r1", b"second"))
                await events.sync()
                spying.cancel()

        async def limited() -> None:
            async with asyncio.timeout(2 * PATIENCE):
                await play()

        asyncio.run(limited())
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
