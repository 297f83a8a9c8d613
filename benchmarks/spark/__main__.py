"""`python -m benchmarks.spark`: the data pipeline, beside what only moves the same bytes in the same Spark."""

import datetime
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import stentor.spark
from benchmarks.results import Results
from benchmarks.spark import audit, matching, report, sink, source
from benchmarks.spark.bench import Bench
from stentor.bench import machine

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PARTS: dict[str, Callable[[Bench], None]] = {
    "source": source.measure,
    "sink": sink.measure,
    "matching": matching.measure,
    "audit": audit.measure,
}


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; figures are medians over them, quote 3 or more.")] = 3,
    events: Annotated[
        int,
        typer.Option(
            min=100_000, help="Events, and rows of a short audit; the sink gets half as many, matching eight times."
        ),
    ] = 1_000_000,
    only: Annotated[str, typer.Option(help="Parts, comma-separated. Default: all.")] = "",
    cores: Annotated[int, typer.Option(min=1, help="Cores that each side may use.")] = os.cpu_count() or 1,
    settle: Annotated[float, typer.Option(min=0, help="Seconds to wait for a quiet machine before a trial.")] = 8.0,
    out: Annotated[str, typer.Option(help="Name of the JSON and the PNG in benchmarks/results.")] = "spark",
) -> None:
    """Source, sink, matching and audit on this machine, in one run; write benchmarks/results/NAME.json and .png."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # brokers are stopped whoever ends us
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "140")))
    names = [name.strip() for name in only.split(",") if name.strip()] or list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(PARTS)}", param_hint="--only")
    results = Results(
        name=out,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine.describe(),
        settings={"rounds": rounds, "events": events, "cores": cores},
        versions={name: version(name) for name in ("pyspark", "pyarrow", "stentor")},
    )
    conf = {"spark.executorEnv.PYTHONPATH": str(ROOT)}  # workers find what is registered here by its module's name
    spark = stentor.spark.session(f"local[{cores}]", "bench", **conf)
    with tempfile.TemporaryDirectory(prefix="stentor-bench-") as folder:
        sizes = {"source": events, "sink": events // 2, "matching": 8 * events, "audit": events}
        say: Callable[[str], None] = lambda text: console.print(text, highlight=False)  # noqa: E731
        bench = Bench(spark, Path(folder), rounds, cores, settle, results, say, sizes)
        try:
            for name in names:
                PARTS[name](bench)
        except KeyboardInterrupt:
            console.print("interrupted: this is what was measured so far", style="yellow")
    report.show(results, console)
    results.write(RESULTS / f"{out}.json", report.goals(results))
    report.draw(results, RESULTS / f"{out}.png")
    console.print(f"written: {RESULTS / out}.json and .png", highlight=False)


if __name__ == "__main__":
    typer.run(main)
