"""`stentor pipeline match`: what filters would have had of history."""

import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from stentor.cli.pipeline.history import HistorySource
from stentor.cli.pipeline.spark import MasterOption, followed, start
from stentor.cli.pipeline.traces import table_of
from stentor.cli.terminal.options import TlsOption, UrlOption
from stentor.cli.terminal.printable import cell, printable_json
from stentor.model.errors import FilterError, InvalidInput
from stentor.model.filter import Filter
from stentor.model.wording.count import counted
from stentor.pipeline.filters import parse_filters
from stentor.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


class Day(msgspec.Struct, frozen=True):
    """What a filter would have had on a day."""

    day: date
    events: int
    bytes: int


class Match(msgspec.Struct, kw_only=True):
    """What a filter would have had."""

    name: str
    filter: str
    events: int = 0
    share: float = 0.0
    bytes: int = 0
    first: datetime | None = None
    last: datetime | None = None
    days: list[Day] = []


def match_filters(
    filters: Annotated[
        str, typer.Argument(metavar="FILE|EXPR", help="A filter, or a file with one a line: `name: expression`.")
    ],
    topic: Annotated[str | None, typer.Option("--topic", help="Events of these topics: a pattern.")] = None,
    lake: Annotated[Path | None, typer.Option("--lake", help="Events that were archived there.")] = None,
    parquet: Annotated[str | None, typer.Option("--parquet", help="Events in any other Parquet files.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="Of a fabric: events from this time on.")] = None,
    url: UrlOption = None,
    tls: TlsOption = None,
    master: MasterOption = "local[*]",
    days: Annotated[bool, typer.Option("--days", help="Show every day.")] = False,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each filter, with its days.")] = False,
) -> None:
    """Back-test filters: which events of the past they would have matched, by the code with which brokers match.

    Exit codes: 0 done, 2 a filter or an option is wrong, 3 no broker there.
    """
    fabric = {"from": since, "url": url, "tls": None if tls is None else str(tls)}
    stored = lake is not None or parquet is not None
    given = {name: text for name, text in fabric.items() if text and (name == "from" or not stored)}
    history = HistorySource(topic=topic, lake=lake, parquet=parquet, fabric=given)
    history.check()
    wanted = _read(filters)
    spark = start(master, "stentor match")
    found = _daily(spark, history, wanted)
    instants = found.selectExpr("filter", "day", "events", "bytes", "unix_micros(first)", "unix_micros(last)")
    rows = followed(spark, "matching", instants.toDF(*found.columns).orderBy("day").collect, quiet=json)
    events, results = _gather(rows, wanted)
    if json:
        for each in results:
            sys.stdout.write(printable_json(each).decode() + "\n")
        return
    _show(events, results, days=days)


def _daily(spark: "SparkSession", history: HistorySource, filters: dict[str, Filter]) -> "DataFrame":
    from stentor.pipeline.match import daily, daily_of_files

    if history.lake is not None:
        return daily_of_files(spark, history.files(Lake(history.lake)), filters)
    return daily(history.load(spark), filters)


def _read(text: str) -> dict[str, Filter]:
    """A file if there is one of that name, else an expression."""
    path = Path(text)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if is_file:
        try:
            return parse_filters(path.read_text(encoding="utf-8"))
        except (InvalidInput, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path}: {error}") from None
    try:
        return {text: Filter(text)}
    except FilterError as error:
        raise InvalidInput(f"there is no file {text!r}, and as a filter: {error}") from None


def _gather(rows: "list[Row]", wanted: dict[str, Filter]) -> tuple[int, list[Match]]:
    """All events there are, and what each filter has of them."""
    total = sum(row.events for row in rows if row["filter"] is None)
    found = {name: Match(name=name, filter=str(where), days=[]) for name, where in wanted.items()}
    for row in rows:
        if row["filter"] is None:
            continue
        each = found[row["filter"]]
        each.events += row.events
        each.bytes += row.bytes
        each.share = each.events / total
        first, last = (datetime.fromtimestamp(row[name] / 1e6, UTC) for name in ("first", "last"))
        each.first, each.last = min(each.first or first, first), max(each.last or last, last)
        each.days.append(Day(row.day, row.events, row.bytes))
    return total, list(found.values())


def _show(events: int, results: list[Match], *, days: bool) -> None:
    console = Console(highlight=False)
    console.print(counted(events, "event"))
    table = table_of(
        ("filter", *(["day"] if days else []), "first", "last"),
        (*([] if days else ["days"]), "events", "share", "bytes"),
    )
    for each in results:
        moments = [f"{moment:%Y-%m-%d %H:%M:%S}" if moment else "-" for moment in (each.first, each.last)]
        amounts = (f"{each.events:,}", f"{each.share:.2%}", f"{each.bytes:,}")
        name = cell(each.name)
        if not days:
            table.add_row(name, *moments, f"{len(each.days):,}", *amounts)
            continue
        table.add_row(name, "", *moments, *amounts)
        for day in each.days:
            table.add_row("", day.day.isoformat(), "", "", f"{day.events:,}", "", f"{day.bytes:,}")
    console.print(table)
