"""`stentor pipeline archive`: moves stored events into a lake of Parquet files."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from stentor.cli.network.status import size
from stentor.cli.pipeline.spark import LakeOption, MasterOption, start
from stentor.cli.pipeline.traces import table_of
from stentor.cli.terminal.options import TlsOption, UrlOption
from stentor.cli.terminal.printable import cell
from stentor.model.wording.count import counted
from stentor.storage.lake import Lake, lake_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK = 0.25  # seconds between looks at how far it is


def archive(
    lake: LakeOption,
    topic: Annotated[str, typer.Option("--topic", help="Which topics: a name or a pattern.")] = "#",
    subscriber: Annotated[
        str, typer.Option("--subscriber", help="The name that the owners of the topics have granted.")
    ] = "archive",
    continuous: Annotated[
        bool, typer.Option("--continuous/--once", help="Go on until Ctrl-C, or end when all is archived.")
    ] = False,
    every: Annotated[float, typer.Option("--every", min=0.0, help="Seconds between batches, if it goes on.")] = 10.0,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Events in a batch, at most.")] = 200_000,
    url: UrlOption = None,
    tls: TlsOption = None,
    master: MasterOption = "local[*]",
) -> None:
    """Move stored events into a lake: a Parquet file for each topic, day and batch, compacted from time to time.

    Repositories keep what is not archived, and may forget the rest. With `lake = "DIRECTORY"` under [[repository]] they
    answer from the lake those who ask for what they have forgotten. Whatever is interrupted is repeated exactly.

    stentor topic grant orders --subscriber archive

    stentor pipeline archive --topic orders --lake /data/lake
    """
    where = lake_of(str(lake))
    options = {"topic": topic, "subscriber": subscriber}
    options |= {"url": url} if url else {}
    options |= {"tls": str(tls)} if tls else {}
    trigger = {"processingTime": f"{every:g} seconds"} if continuous else {"availableNow": True}
    with where.lock():
        spark = start(master, "stentor archive")
        from stentor.pipeline import archive as job

        query = job.archive(spark, where, options, trigger, batch)
        try:
            _follow(query)
        except KeyboardInterrupt:
            query.stop()
        job.settle(where, options)  # not after an error, of which the fabric may be the reason: the next run does it
    _show(where)


def _follow(query: "StreamingQuery") -> None:
    """Until it has ended; raises what ended it."""
    events = 0
    seen = -1
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    hidden = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as progress:
        bar = progress.add_task("waiting for events", total=None)
        while query.isActive:
            for each in query.recentProgress:
                if each["batchId"] > seen:
                    seen, events = each["batchId"], events + each["numInputRows"]
                    rate = each["processedRowsPerSecond"] or 0
                    progress.update(bar, description=f"{counted(events, 'event')} archived, {rate:,.0f} a second")
            time.sleep(_LOOK)
    if (failure := query.exception()) is not None:
        raise failure


def _show(lake: Lake) -> None:
    import pyarrow.parquet as parquet

    table = table_of(("topic",), ("days", "files", "events", "size"))
    for topic in lake.topics():
        files = lake.files(topic)
        events = sum(parquet.read_metadata(path).num_rows for path in files)
        days = len({path.parent for path in files})
        table.add_row(
            cell(topic), str(days), f"{len(files):,}", f"{events:,}", size(sum(path.stat().st_size for path in files))
        )
    console = Console(highlight=False)
    console.print(table if table.rows else f"the lake {lake.path} is empty")
