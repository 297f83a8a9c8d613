"""`stentor pipeline latency` and `traffic`: what the traces of a fabric say of it, over windows of time."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from stentor.cli.network.status import size
from stentor.cli.pipeline.spark import MasterOption, followed, start
from stentor.cli.terminal.options import TlsOption, UrlOption
from stentor.cli.terminal.printable import cell, printable_json
from stentor.storage.lake import lake_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

WindowOption = Annotated[str, typer.Option("--window", help="How long a window is, as Spark writes it.")]
SinceOption = Annotated[
    str, typer.Option("--from", help="From when on: beginning, or a time such as 2026-11-16T12:00.")
]
PictureOption = Annotated[Path | None, typer.Option("--plot", help="Draw it into this file, .png or .svg.")]
LakeOption = Annotated[Path | None, typer.Option("--lake", help="Write it as Parquet beside this lake.")]
PublishOption = Annotated[
    bool, typer.Option("--publish/--no-publish", help="Publish it as events, on $stentor/latency or $stentor/traffic.")
]
ContinuousOption = Annotated[
    bool, typer.Option("--continuous/--once", help="Do it again and again until Ctrl-C, or once.")
]
EveryOption = Annotated[float, typer.Option("--every", min=1.0, help="Seconds until it is done again.")]
JsonOption = Annotated[bool, typer.Option("--json", help="A line of JSON for each row.")]
SUMMED = 'from sums of traces (`traces = "all"` tells every batch)'
_MOMENTS = ("start", "first", "last")  # columns of dates and times
_DATE = 10  # characters of a date; the time may stand below


class ReportRequest(msgspec.Struct, kw_only=True):
    """How a report comes about, and where it goes."""

    name: str
    url: str | None
    tls: str | None
    since: str
    lake: Path | None
    publish: bool
    json: bool
    make: "Callable[[DataFrame], DataFrame]"
    order: Sequence[str]
    show: "Callable[[list[Row]], Table]"
    draw: "Callable[[list[Row]], None]"
    exactness: str  # of what comes from sums

    def run(self, spark: "SparkSession") -> None:
        from stentor.pipeline.traces import report as job
        from stentor.pipeline.traces import traces

        options = {"from": self.since}
        options |= {"url": self.url} if self.url else {}
        options |= {"tls": self.tls} if self.tls else {}

        def compute() -> "list[Row]":
            found = self.make(traces.read(spark, **options)).persist()
            try:
                if self.lake is not None:
                    job.save(found, lake_of(str(self.lake)), self.name)
                return job.rows_of(found, *self.order)
            finally:
                found.unpersist()

        rows = followed(spark, self.name, compute, quiet=self.json)
        if self.publish:
            job.tell(rows, self.name, self.url, self.tls)
        if self.json:
            for row in rows:
                sys.stdout.write(printable_json(row.asDict()).decode() + "\n")
        else:
            console = Console(highlight=False)
            console.print(self.show(rows) if rows else "no traces: is `traces` on, and does a repository keep them?")
            if any(row.summed for row in rows):
                console.print(f"{SUMMED}; {self.exactness}")
        if rows:
            self.draw(rows)


def latency(
    window: WindowOption = "1 minute",
    since: SinceOption = "beginning",
    plot: PictureOption = None,
    lake: LakeOption = None,
    publish: PublishOption = False,
    continuous: ContinuousOption = False,
    every: EveryOption = 60.0,
    json: JsonOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    master: MasterOption = "local[*]",
) -> None:
    """How long events take: to be stored, to reach each broker, to be given to each subscriber.

    Percentiles in milliseconds, or as written, by window, topic and place: a broker for hops, a repository for what is
    stored, a subscriber for what is released. They come from the traces that the fabric emits by itself.
    """
    from stentor.pipeline.traces.latency import latency as job
    from stentor.pipeline.traces.picture import check_picture, draw

    picture = check_picture(plot) if plot else None

    def picture_of(rows: "list[Row]") -> None:
        if picture is not None:
            draw(picture, rows, "measure", lambda row: f"{row.topic} {row.place}", "p99", "ms")

    _run(
        ReportRequest(
            name="latency",
            url=url,
            tls=str(tls) if tls else None,
            since=since,
            lake=lake,
            publish=publish,
            json=json,
            make=lambda traces: job(traces, window),
            order=("start", "measure", "topic", "place"),
            show=latency_table,
            draw=picture_of,
            exactness="times are right to 6 %",
        ),
        master,
        continuous,
        every,
    )


def traffic(
    window: WindowOption = "1 minute",
    since: SinceOption = "beginning",
    most: Annotated[int, typer.Option("--top", min=1, help="So many of those who publish the most.")] = 10,
    plot: PictureOption = None,
    lake: LakeOption = None,
    publish: PublishOption = False,
    continuous: ContinuousOption = False,
    every: EveryOption = 60.0,
    json: JsonOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    master: MasterOption = "local[*]",
) -> None:
    """What is published on which topic, who publishes the most, and which share of it each subscriber gets."""
    from stentor.pipeline.traces import traffic as job
    from stentor.pipeline.traces.picture import check_picture, draw

    picture = check_picture(plot) if plot else None

    def picture_of(rows: "list[Row]") -> None:
        if picture is not None:
            draw(picture, rows, "what", lambda row: f"{row.topic} {row.who or ''}".strip(), "events", "events")

    _run(
        ReportRequest(
            name="traffic",
            url=url,
            tls=str(tls) if tls else None,
            since=since,
            lake=lake,
            publish=publish,
            json=json,
            make=lambda traces: job.summary(traces, window, most),
            order=("start", "what", "topic", "who"),
            show=traffic_table,
            draw=picture_of,
            exactness="windows that are no multiple of ten seconds are off by up to that",
        ),
        master,
        continuous,
        every,
    )


def _run(report: ReportRequest, master: str, continuous: bool, every: float) -> None:
    spark = start(master, f"stentor {report.name}")
    try:
        report.run(spark)
        while continuous:
            time.sleep(every)
            report.run(spark)
    except KeyboardInterrupt:
        return
    finally:
        spark.stop()


def latency_table(rows: "list[Row]") -> Table:
    """Percentiles as people read them: a row for each window, topic and place."""
    table = table_of(("start", "topic", "measure"), ("events", "p50", "p90", "p99", "longest"))
    for begins, row in zip(_starts(rows), rows, strict=True):
        times = (_duration(row[name]) for name in ("p50", "p90", "p99", "longest"))
        table.add_row(begins, cell(row.topic), cell(f"{row.measure} {row.place}"), f"{row.events:,}", *times)
    return table


def traffic_table(rows: "list[Row]") -> Table:
    """Amounts and shares as people read them."""
    table = table_of(("start", "what", "topic", "who"), ("events", "size", "share"))
    for begins, row in zip(_starts(rows), rows, strict=True):
        share = "" if row.share is None else f"{row.share:.1%}"
        amount = "" if row.bytes is None else size(row.bytes)
        table.add_row(begins, row.what, cell(row.topic), cell(row.who or ""), f"{row.events:,}", amount, share)
    return table


def table_of(texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """A plain table; numbers stand to the right, and are whole. In a narrow terminal texts are wrapped, not cut."""
    table = Table(box=None, pad_edge=False)
    for name in texts:
        table.add_column(name, overflow="fold", min_width=_DATE if name in _MOMENTS else max(map(len, name.split())))
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _starts(rows: "list[Row]") -> Iterator[str]:
    """When the window of each row begins; nothing if it is that of the row before."""
    before: Any = None
    for row in rows:
        yield "" if row.start == before else f"{row.start:%Y-%m-%d %H:%M:%S}"
        before = row.start


def _duration(milliseconds: float) -> str:
    """With as many digits as one reads."""
    if milliseconds < 1000:
        return f"{milliseconds:.2f}"
    return f"{milliseconds / 1000:,.{2 if milliseconds < 100_000 else 0}f} s"
