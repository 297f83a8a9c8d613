"""`python -m benchmarks.trace_bytes`: what traces take on the disk beside the events that they are about.

A broker and a repository on SQLite, with all traces and with sums of them; one publisher sends 300 events a second,
one by one or in batches, and one subscriber takes them. Then an audit reads the traces.
"""

import asyncio
import datetime
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.results import Results, Sample
from benchmarks.traces import NAME, SIZE, TOPIC, Traced
from benchmarks.trial import Figures
from stentor.bench import machine
from stentor.client.fabric import connect

RESULTS = Path(__file__).parent / "results"
RATE = 300  # events a second
_TOLD = 12.0  # seconds until what is summed up is told and kept
LOADS = {"single events": 1, "batches of 30": 30}


class Measured(Traced):
    """A fabric whose ledgers are looked at when it has ended."""

    def __init__(self, traces: str) -> None:
        super().__init__(traces)
        self._directory = Path()

    def command(self, directory: Path) -> list[str]:
        self._directory = directory
        return super().command(directory)

    def trickle(self, seconds: float, batch: int) -> None:
        uvloop.run(self._trickle(seconds, batch))

    async def _trickle(self, seconds: float, batch: int) -> None:
        async with connect(self._url) as fabric, fabric.subscribe(TOPIC, name=NAME) as heard:
            reading = asyncio.create_task(_take_all(heard))
            async with fabric.publisher(TOPIC, name=NAME) as publisher:
                begin = time.perf_counter()
                for number in range(int(seconds * RATE / batch)):
                    await publisher.send_many([b"x" * SIZE] * batch)
                    await asyncio.sleep(max(0.0, begin + (number + 1) * batch / RATE - time.perf_counter()))
                await publisher.flush()
            await asyncio.sleep(1.0)
            await heard.sync()
            reading.cancel()

    def audit(self) -> float:
        """Return how long it took to prove that all is right; the session's start is not counted."""
        time.sleep(_TOLD)
        command = [str(self._program), "pipeline", "audit", "--url", self._url]
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "proven" in done.stdout, done.stdout + done.stderr
        return time.perf_counter() - begin

    def sizes(self) -> tuple[int, int]:
        """Bytes of the topic's ledger, and of that of the traces."""
        files = {path.name: path.stat().st_size for path in self._directory.rglob("*.sqlite")}
        traces = sum(size for name, size in files.items() if "trace%" in name.replace("%2f", "%"))
        return sum(files.values()) - traces, traces


async def _take_all(heard: object) -> None:
    async for _ in heard.batches():  # type: ignore[attr-defined]
        pass


def main(
    seconds: Annotated[float, typer.Option(min=1.0, help="For how long events are published.")] = 120.0,
    audit: Annotated[bool, typer.Option("--audit/--no-audit", help="Whether the traces are audited.")] = True,
) -> None:
    """Publish at a steady rate; write benchmarks/results/trace-bytes.json."""
    results = Results(
        name="trace-bytes",
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={"seconds": int(seconds), "rate": RATE, "size": SIZE},
        versions={"stentor": version("stentor")},
    )
    table = Table("", "traces", "data", "traces", "traces for data", "audit, s")
    for load, batch in LOADS.items():
        for traces in ("all", "summed"):
            figures = _trial(traces, seconds, batch, audit)
            results.samples.append(Sample(load, traces, 1, figures))
            shown = f"{figures['audit_s']:.0f}" if audit else ""
            sizes = (f"{figures[name] / 1e6:.2f} MB" for name in ("data_bytes", "trace_bytes"))
            table.add_row(load, traces, *sizes, f"{figures['trace_bytes'] / figures['data_bytes']:.2f}", shown)
    Console(highlight=False).print(table)
    results.write(RESULTS / "trace-bytes.json", ())


def _trial(traces: str, seconds: float, batch: int, audit: bool) -> Figures:
    side = Measured(traces)
    with tempfile.TemporaryDirectory(prefix="stentor-bench-") as folder:
        side.prepare(Path(folder), install=False)
        side.start(Path(folder) / "side")
        try:
            side.trickle(seconds, batch)
            took = side.audit() if audit else 0.0
        finally:
            side.stop()
        data, told = side.sizes()
    return {"data_bytes": float(data), "trace_bytes": float(told), "audit_s": took}


if __name__ == "__main__":
    typer.run(main)
