"""Traces with real processes: what a repository kept of them tells every number of a run, once."""

import asyncio
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, fabric

import stentor
from stentor.admin.topics import Registrar
from stentor.model.errors import Unreachable
from stentor.model.reports.trace import TRACE, audience_of, intent_of, kept_of, numbers_of

TWO = """
[fabric]
log = "error"
{more}

[[node]]
name = "north/b1"
listen = "127.0.0.1:0"

[[node]]
name = "south/b1"
listen = "127.0.0.1:0"

[[link]]
between = ["north/b1", "south/b1"]

[[repository]]
name = "r1"
broker = "north/b1"

[[repository]]
name = "r2"
broker = "south/b1"
storage = "segments:second"
"""
EVENTS = 600
TURN = 40
NAMES = {"all": "", "some": "n > 6"}
Number = tuple[Any, ...]


class Findings:
    """Numbers of events by what was told of them, and how often."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.bodies: dict[int, bytes] = {}
        self.emitted: dict[str, list[int]] = defaultdict(list)

    def take(self, batch: Any) -> None:
        for event in batch:
            row = dict(event.attributes)
            if event.body:
                self.bodies[row["note"]] = event.body
            self.rows.append(row)
            self.emitted[event.publisher].append(event.number)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] == kind and row["about"] in ("orders", "")]

    def ended(self) -> set[str]:
        return {row["node"] for row in self.of("ended")}

    def numbers(self, kind: str, *columns: str) -> Counter[Number]:
        found: Counter[Number] = Counter()
        for row in self.of(kind):
            partial = kind in ("released", "acknowledged", "synced") and row["note"]
            spans = numbers_of(self.bodies[row["note"]]) if partial else [(0, row["last"] - row["first"])]
            for low, high in spans:
                for offset in range(low, high + 1):
                    key = [row[column] for column in ("source_id", "life", *columns)]
                    found[(*key, row["first"] + offset)] += 1
        return found

    def meant(self, keeper: str) -> Counter[Number]:
        """Which numbers are for whom, as a repository stored them."""
        found: Counter[Number] = Counter()
        for row in self.of("stored"):
            if row["keeper"] != keeper:
                continue
            for name, spans in audience_of(self.bodies[row["note"]]).items():
                for low, high in spans or [(0, row["last"] - row["first"])]:
                    found.update(
                        (row["source_id"], row["life"], name, row["first"] + each) for each in range(low, high + 1)
                    )
        return found


async def play(north: str, south: str) -> None:
    """A run: one publishes in the north, two read in the south, and all of them end in good order."""
    async with stentor.connect(north, wait=PATIENCE) as here, stentor.connect(south, wait=PATIENCE) as there:
        async with Registrar(here) as registrar:
            await registrar.create("orders")
            await registrar.grant("orders", "publisher", "shop")
            for name in NAMES:
                await registrar.grant("orders", "subscriber", name)
        readers = [there.subscribe("orders", name=name, where=where) for name, where in NAMES.items()]
        async with readers[0] as everything, readers[1] as some, here.publisher("orders", name="shop") as shop:
            for start in range(0, EVENTS, TURN):
                numbers = [number % 10 for number in range(start, start + TURN)]
                await shop.send_many([b"x"] * TURN, {"n": numbers})
            await shop.flush()
            for events, count in ((everything, EVENTS), (some, EVENTS * 3 // 10)):
                seen = 0
                async for event in events:
                    seen += 1
                    if seen == count:
                        assert event.number == EVENTS
                        break
                await events.sync()


async def read(url: str, repository: str, is_enough: Callable[[Findings], bool]) -> Findings:
    """All that a repository has kept, until it is enough."""
    found = Findings()
    async with (
        asyncio.timeout(PATIENCE),
        stentor.connect(url, wait=PATIENCE) as client,
        client.subscribe(kept_of(repository), name="audit", from_="beginning") as traces,
    ):
        async for batch in traces.batches():
            found.take(batch)
            batch.ack()
            if is_enough(found):
                break
    return found


def _is_all_told(found: Findings) -> bool:
    """Whether three ends have ended, and repositories and brokers, which go on, have told all that there is to tell."""
    if len(found.ended()) != 3:
        return False
    horizons, ends = Counter[str](), Counter[str]()
    for kind, highest in (("stable", horizons), ("stored", ends)):
        for row in found.of(kind):
            highest[row["keeper"]] = max(highest[row["keeper"]], row["end"])
    brokers = {row["node"] for row in found.of("hop")}
    return len(found.numbers("stored", "keeper")) == 2 * EVENTS and horizons >= ends and len(brokers) == 2


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Findings]:
    """What each of two repositories has kept of one run."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "two.toml").write_text(TWO.format(more=""))
    with Fabric("--config", "two.toml", cwd=folder) as running:
        asyncio.run(play(running.url("north/b1"), running.url("south/b1")))
        url = running.url("south/b1")
        return {name: asyncio.run(read(url, name, _is_all_told)) for name in ("r1", "r2")}


def test_every_number_is_traced_once(findings: dict[str, Findings]) -> None:
    for found in findings.values():
        (shop,) = {(row["source_id"], row["life"]) for row in found.of("published")}
        numbers = [(*shop, number) for number in range(1, EVENTS + 1)]
        wanted = [(*shop, "some", number) for number in range(1, EVENTS + 1) if (number - 1) % 10 > 6]
        everyone = Counter([*((*shop, "all", number) for _, _, number in numbers), *wanted])
        assert found.numbers("published") == Counter(numbers)
        for keeper in ("r1", "r2"):
            stored = Counter((*shop, keeper, number) for _, _, number in numbers)
            mine = found.numbers("stored", "keeper")
            assert Counter({key: times for key, times in mine.items() if key[2] == keeper}) == stored
            assert found.meant(keeper) == everyone
        assert found.numbers("released", "subscriber") == everyone
        assert found.numbers("acknowledged", "subscriber") == everyone
        assert not found.of("voided")
        assert not any(row["peer"] for row in found.of("stored"))


def test_no_trace_is_lost(findings: dict[str, Findings]) -> None:
    for found in findings.values():
        assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in found.emitted.values())
        told = Counter(row["node"] for row in found.rows if row["kind"] != "ended")
        assert {row["node"]: row["count"] for row in found.of("ended")} == {
            node: told[node] for node in ("publisher:shop:orders", "subscriber:all:orders", "subscriber:some:orders")
        }


def test_what_is_released_was_stable(findings: dict[str, Findings]) -> None:
    for found in findings.values():
        stable = [(row["keeper"], row["start"], row["end"]) for row in found.of("stable")]
        for row in found.of("released"):
            assert any(keeper == row["keeper"] and first <= row["end"] <= last for keeper, first, last in stable), row


def test_subscriptions_are_told_by_each_repository(findings: dict[str, Findings]) -> None:
    for found in findings.values():
        told = {
            (row["keeper"], row["subscriber"], intent_of(found.bodies[row["note"]]).where)
            for row in found.of("subscribed")
        }
        assert told == {(keeper, name, where) for keeper in ("r1", "r2") for name, where in NAMES.items()}


def test_both_brokers_saw_the_same_frames(findings: dict[str, Findings]) -> None:
    for found in findings.values():
        hops = found.of("hop")
        assert {row["node"] for row in hops} == {"north/b1", "south/b1"}
        (shop,) = {row["source_id"] for row in found.of("published")}
        assert {row["source_id"] for row in hops} == {shop}
        assert {row["peer"] for row in hops} == {"publisher:shop:orders", "north/b1"}


def test_one_setting_turns_traces_off(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with stentor.connect(url, wait=PATIENCE) as client:
            async with Registrar(client) as registrar:
                await registrar.create("orders")
                await registrar.grant("orders", "publisher", "shop")
            async with client.subscribe(TRACE) as traces:
                async with client.publisher("orders", name="shop") as shop:
                    await shop.send(b"x")
                await client.publish(TRACE, b"the only one")  # after all that the publisher said when it ended
                await client.flush()
                async for event in traces:
                    assert event.body == b"the only one"
                    break
        async with stentor.connect(url, timeout=2.0) as client:
            with pytest.raises(Unreachable):
                async with client.subscribe(kept_of("main"), name="audit"):
                    pass

    with fabric(tmp_path, "--no-traces") as running:
        asyncio.run(main(running.url()))


# ---- nodes that stop, and nodes that are killed

ENDS = {"publisher:shop:orders", "subscriber:all:orders", "subscriber:some:orders"}


@contextmanager
def _two(folder: Path, *more: str) -> Iterator[tuple[Fabric, str, str]]:
    (folder / "two.toml").write_text(TWO.format(more=""))
    with Fabric("--config", "two.toml", *more, cwd=folder) as running:
        yield running, running.url("north/b1"), running.url("south/b1")


@contextmanager
def _one(folder: Path) -> Iterator[tuple[Fabric, str, str]]:
    """A repository inside the process of its broker."""
    with fabric(folder) as running:
        yield running, running.url(), running.url()


def _in_process(folder: Path) -> Any:
    return _two(folder, "--in-process")


@pytest.mark.req("SP-05")
@pytest.mark.parametrize(("up", "repositories"), [(_two, ("r1", "r2")), (_in_process, ("r1", "r2")), (_one, ("main",))])
def test_a_fabric_that_was_stopped_has_told_all(up: Any, repositories: tuple[str, ...], tmp_path: Path) -> None:
    with up(tmp_path) as (_, north, south):
        asyncio.run(play(north, south))
    with up(tmp_path) as (_, _, south):
        for name in repositories:
            mine = f"repository:{name}"
            found = asyncio.run(read(south, name, lambda found, mine=mine: {*ENDS, mine} <= found.ended()))  # type: ignore[misc]
            (ended,) = (row for row in found.of("ended") if row["node"] == mine)
            told = [row for row in found.rows if row["node"] == mine and row["at"] <= ended["at"]]
            assert len(told) == ended["count"] + 1  # and itself
            mine_stored = [key for key in found.numbers("stored", "keeper") if key[2] == name]
            assert len(mine_stored) == EVENTS
            synced = found.numbers("synced", "subscriber").keys()
            assert {key for key in synced if key[2] == "all"} >= {(*key[:2], "all", key[3]) for key in mine_stored}


@pytest.mark.req("SP-05")
def test_a_repository_that_was_killed_tells_what_its_ledger_knows(tmp_path: Path) -> None:
    """It is killed with its broker at once when all is stored, so that it cannot have told the last of it."""
    with _one(tmp_path) as (running, north, south):
        asyncio.run(play(north, south))
        for pid in running.nodes():
            os.kill(pid, signal.SIGKILL)
        running.line("is back")
        found = asyncio.run(
            read(
                running.url(),
                "main",
                lambda found: len(found.numbers("stored")) == EVENTS and len(_acknowledged(found, "all")) == EVENTS,
            )
        )
        again = [row for row in found.of("stored") if row["peer"] == "ledger"]
        assert sum(row["count"] for row in again) == EVENTS
        assert {row["peer"] for row in found.of("stable")} >= {"ledger"}
        assert len(_acknowledged(found, "some")) >= EVENTS * 3 // 10


def _acknowledged(found: Findings, name: str) -> list[Number]:
    """What the ledger knows to be acknowledged by a subscriber, or not for it."""
    return [key for key in found.numbers("synced", "subscriber") if key[2] == name]
