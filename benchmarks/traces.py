"""`python -m benchmarks.traces`: what a fabric pays for telling what becomes of events.

A broker and a repository with traces, the same without, and once more without: that both that have none differ is how
far the first figure can be trusted. One publisher and one subscriber of a reliable topic flood them in turns.
"""

import asyncio
import datetime
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.durable.stentor import OverSqlite
from benchmarks.results import Results, Sample
from benchmarks.trial import Figures
from benchmarks.workloads import Goal
from stentor.admin.topics import Registrar
from stentor.bench import machine
from stentor.client.fabric import Fabric, connect
from stentor.client.reliable_subscription import Subscription

RESULTS = Path(__file__).parent / "results"
TOPIC, NAME, SIZE = "bench/traces", "bench", 100
WITH, WITHOUT, CONTROL = "with traces", "without", "without, again"
SETTLE = 8.0  # seconds to wait for a quiet machine


class Traced(OverSqlite):
    def __init__(self, traces: str) -> None:
        super().__init__()
        self._traces = traces

    def command(self, directory: Path) -> list[str]:
        command = super().command(directory)
        file = directory / "stentor.toml"
        file.write_text(file.read_text().replace("[fabric]\n", f'[fabric]\ntraces = "{self._traces}"\n'))
        return list(command)

    async def _enrol(self) -> None:
        async with connect(self._url) as fabric, Registrar(fabric) as registrar:
            await registrar.create(TOPIC, ("r1",))
            await registrar.grant(TOPIC, "publisher", NAME)
            await registrar.grant(TOPIC, "subscriber", NAME)

    def flood(self, events: int, batch: int) -> None:
        """Until all of it is stored, released and acknowledged."""
        uvloop.run(self._flood(events, batch))

    async def _flood(self, events: int, batch: int) -> None:
        async with connect(self._url) as fabric, fabric.subscribe(TOPIC, name=NAME) as heard:
            await asyncio.gather(_publish(fabric, events, batch), _take(heard, events))


async def _publish(fabric: Fabric, events: int, batch: int) -> None:
    bodies, numbers = [b"x" * SIZE] * batch, list(range(batch))
    async with fabric.publisher(TOPIC, name=NAME) as publisher:
        for _ in range(events // batch):
            await publisher.send_many(bodies, {"n": numbers, "kind": ["a"] * batch})
        await publisher.flush()


async def _take(heard: Subscription, events: int) -> None:
    seen = 0
    async for batch in heard.batches():
        seen += len(batch.bodies)
        if seen >= events:
            break
    await heard.sync()


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; figures are medians over them.")] = 9,
    events: Annotated[int, typer.Option(min=1000, help="Events of a flood; a tenth of it in small batches.")] = 200_000,
) -> None:
    """Floods in turns; write benchmarks/results/traces.json."""
    results = Results(
        name="traces",
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={"rounds": rounds, "events": events},
        versions={"stentor": version("stentor")},
    )
    sides = {WITH: Traced("summed"), WITHOUT: Traced("none"), CONTROL: Traced("none")}
    loads = {"batches of 500": (events, 500), "batches of 20": (events // 10, 20)}
    with tempfile.TemporaryDirectory(prefix="stentor-bench-") as folder:
        try:
            for name, side in sides.items():
                side.prepare(Path(folder), install=False)
                side.start(Path(folder) / name.replace(", ", "-").replace(" ", "-"))
            for number in range(rounds + 1):
                for load, (count, batch) in loads.items():
                    for name, side in list(sides.items())[:: -1 if number % 2 else 1]:
                        figures = _trial(side, count, batch)
                        if number:  # the first round warms
                            results.samples.append(Sample(load, name, number, figures))
        finally:
            for side in sides.values():
                side.stop()
    _show(results, loads)
    results.write(RESULTS / "traces.json", tuple(Goal(load, WITH, "rate", WITHOUT, 0.95) for load in loads))


def _trial(side: Traced, count: int, batch: int) -> Figures:
    machine.await_quiet(SETTLE)
    noise, begin = machine.Noise(), time.perf_counter()
    side.flood(count, batch)
    seconds = time.perf_counter() - begin
    return {"rate": count / seconds, "cpu_us": noise.own() / count * 1e6, "noise_cores": noise.cores()}


def _show(results: Results, loads: Iterable[str]) -> None:
    table = Table("", "", "thousand events/s", "against without", "µs of processors", "against without")
    for load in loads:
        for name in results.contestants(load):
            cells = []
            for figure, scale in (("rate", 1e-3), ("cpu_us", 1.0)):
                value, ratio = results.median(load, name, figure), results.ratio(load, name, figure, WITHOUT)
                cells += [f"{(value or 0.0) * scale:,.1f}", f"{ratio or 0.0:.3f}"]
            table.add_row(load, name, *cells)
    Console(highlight=False).print(table)


if __name__ == "__main__":
    typer.run(main)
