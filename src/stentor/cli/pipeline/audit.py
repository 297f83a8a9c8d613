"""`stentor pipeline audit`: whether every event came once, in order and to all who want it, from traces."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stentor.cli.pipeline.spark import MasterOption, followed, start
from stentor.cli.pipeline.traces import SUMMED, JsonOption, LakeOption, SinceOption, WindowOption, table_of
from stentor.cli.terminal.options import TlsOption, UrlOption
from stentor.cli.terminal.printable import cell, printable, printable_json
from stentor.model.topic import check_pattern
from stentor.model.wording.count import counted
from stentor.storage.lake import lake_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_MOST = 40  # findings that are shown; with --json all are
_VIOLATED, _UNPROVEN = 1, 5  # exit codes; 3 and 4 are those of all commands

TopicOption = Annotated[str, typer.Option("--topic", help="Which topics, as a pattern with + and #.")]
ToleranceOption = Annotated[
    float, typer.Option("--tolerance", min=0.0, help="Milliseconds by which clocks may differ; 0 on one machine.")
]
RestOption = Annotated[
    bool, typer.Option("--at-rest", help="Nothing is on its way, all subscribers had their time: what waits is lost.")
]
PictureOption = Annotated[
    Path | None, typer.Option("--plot", help="Draw the latency that these traces tell into this file, .png or .svg.")
]


class Account(msgspec.Struct):
    """What the audit comes to, as rows."""

    topics: Sequence[Any]
    subscribers: Sequence[Any]
    findings: Sequence[Any]
    counts: Counter[tuple[str, str, str, str]]  # by verdict, topic, subscriber and kind
    killed: Sequence[Any]  # lives of nodes
    latencies: Sequence[Any] = ()

    def count(self, verdict: str, topic: str | None = None, subscriber: str | None = None) -> int:
        return sum(
            count
            for (each, about, name, _), count in self.counts.items()
            if each == verdict and topic in (None, about) and subscriber in (None, name)
        )


def audit(
    topic: TopicOption = "#",
    since: SinceOption = "beginning",
    tolerance: ToleranceOption = 50.0,
    at_rest: RestOption = False,
    lake: LakeOption = None,
    plot: PictureOption = None,
    window: WindowOption = "1 minute",
    json: JsonOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    master: MasterOption = "local[*]",
) -> None:
    """Prove from traces that every event came once, in order and to all who want it, or list what did not.

    Ends with 1 if something was violated, and with 5 if nothing was, but traces are missing that could tell.
    """
    from stentor.pipeline.traces.picture import check_picture, draw

    check_pattern(topic)
    picture = check_picture(plot) if plot else None
    options = {"from": since} | ({"url": url} if url else {}) | ({"tls": str(tls)} if tls else {})
    spark = start(master, "stentor audit")
    try:
        account = followed(
            spark,
            "audit",
            lambda: _account(spark, options, topic, int(tolerance * 1e6), at_rest, lake, window if picture else ""),
            quiet=json,
        )
    finally:
        spark.stop()
    if json:
        for row in (*account.topics, *account.subscribers, *account.findings):
            sys.stdout.write(printable_json(row.asDict()).decode() + "\n")
    else:
        _show(Console(highlight=False), account)
    if picture is not None and account.latencies:
        draw(picture, account.latencies, "measure", lambda row: f"{row.topic} {row.place}", "p99", "ms")
    if account.count("violation") or account.count("unproven"):
        raise typer.Exit(_VIOLATED if account.count("violation") else _UNPROVEN)


def _account(
    spark: "SparkSession",
    options: dict[str, str],
    topic: str,
    tolerance: int,
    at_rest: bool,
    lake: Path | None,
    window: str,
) -> Account:
    from stentor.pipeline.traces import audit as job
    from stentor.pipeline.traces import report, traces
    from stentor.pipeline.traces.latency import latency

    told = traces.read(spark, **options)
    found = job.audit(told, topic, tolerance=tolerance, at_rest=at_rest, since=options["from"] != "beginning")
    findings = found.findings
    try:
        if lake is not None:
            report.save(_dated(findings), lake_of(str(lake)), "audit")
        counts = findings.groupBy("verdict", "about", "subscriber", "kind").count().collect()
        latencies = report.rows_of(latency(told, window), "start") if window else []
        return Account(
            report.rows_of(found.topics, "about"),
            report.rows_of(found.subscribers, "about", "subscriber"),
            [row for verdicts in ("<>", "=") for row in _rows(findings.where(f"verdict {verdicts} 'unproven'"))],
            Counter({(row.verdict, row.about, row.subscriber, row.kind): row[4] for row in counts}),
            report.rows_of(found.killed.select("role", "node"), "role", "node"),
            latencies,
        )
    finally:
        found.held.forget()


def _rows(findings: "DataFrame") -> "list[Row]":
    from stentor.pipeline.traces import report

    return report.rows_of(findings, "verdict", "about", "kind", "source", "life", "first")


def _dated(findings: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as sql

    return findings.withColumn("start", sql.current_timestamp())


def _show(console: Console, account: Account) -> None:
    if not account.topics:
        console.print("no traces of these topics: is `traces` on, and does a repository keep them?")
        return
    console.print(_topics(account))
    for topic in account.topics:
        if any(row.about == topic.about for row in account.subscribers):
            console.print(f"\nsubscribers of {escape(printable(topic.about))}")
            console.print(_subscribers(account, topic.about))
    console.print()
    violations, warnings, unproven = map(account.count, ("violation", "warning", "unproven"))
    judged = [row for row in account.findings if row.verdict != "unproven"]
    if judged:
        console.print(_list(judged[:_MOST]))
        if (more := violations + warnings - _MOST) > 0:
            console.print(f"… and {more:,} more: --json lists them")
    if unproven:
        console.print(_doubts([row for row in account.findings if row.verdict == "unproven"]))
    if ledgers := _from_ledgers(account):
        console.print(ledgers)
    if any(row.summed for row in account.topics):
        console.print(f"{SUMMED}; all numbers are known, the times of ten seconds at once")
    console.print(_verdict(account, violations, unproven))


def _verdict(account: Account, violations: int, unproven: int) -> str:
    if violations:
        kinds = Counter[str]()
        for (verdict, _, _, kind), count in account.counts.items():
            if verdict == "violation":
                kinds[kind] += count
        return "[red]violated[/]: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    if unproven:
        return (
            f"[yellow]unproven[/]: nothing that the traces tell is wrong, but {unproven:,} things cannot be known: "
            "traces were lost, or told by nobody, and no ledger knows what they would tell"
        )
    waiting = sum(row.waiting for row in account.subscribers)
    behind = f"; {waiting:,} wait for their subscribers" if waiting else ""
    return (
        "[green]proven[/]: every event was stored, and was released once, in order and when it was stable, to all "
        f"whom it is for{behind}"
    )


def _from_ledgers(account: Account) -> str:
    """What nobody told but repositories, from their ledgers; "" if there is nothing of it."""
    stored = sum(row.from_ledgers for row in account.topics)
    acknowledged = sum(row.from_ledgers for row in account.subscribers)
    killed = Counter(row.role for row in account.killed)
    names = [counted(count, role) for role, count in sorted(killed.items())]
    said = [f"killed before they had told all: {', '.join(names)}"] if names else []
    if stored or acknowledged:
        copies = f"{counted(stored, 'stored copy')} of events"
        said.append(f"known from ledgers alone: {copies}, {counted(acknowledged, 'acknowledgement')}")
    return "; ".join(said)


def _table(texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """A table that fits: texts are broken, numbers never."""
    table = table_of(texts, numbers)
    for column in table.columns[: len(texts)]:
        column.overflow = "fold"
    for column in table.columns[len(texts) :]:
        column.no_wrap = True
    return table


def _topics(account: Account) -> Table:
    table = _table(("topic",), ("published", "stored", "given up", "violations", "unproven"))
    for row in account.topics:
        judged = (account.count(verdict, row.about, "") for verdict in ("violation", "unproven"))
        table.add_row(
            cell(row.about), *(f"{number:,}" for number in (row.published, row.stored, row.given_up, *judged))
        )
    if everywhere := account.count("unproven", ""):
        table.add_row("repositories", "", "", "", "", f"{everywhere:,}")
    return table


def _subscribers(account: Account, topic: str) -> Table:
    """A row for each subscriber of a topic."""
    table = _table(("name",), ("for it", "released", "again", "acked", "waiting", "wrong", "unproven"))
    for row in account.subscribers:
        if row.about == topic:
            numbers = (row.wanted, row.released, row.again, row.acknowledged, row.waiting)
            judged = (account.count(verdict, topic, row.subscriber) for verdict in ("violation", "unproven"))
            table.add_row(cell(row.subscriber), *(f"{number:,}" for number in (*numbers, *judged)))
    return table


def _list(findings: Sequence[Any]) -> Table:
    table = _table(("found", "topic", "events", "subscriber", "what is known"), ())
    for row in findings:
        kind = row.kind if row.verdict == "violation" else f"{row.verdict}: {row.kind}"
        numbers = "" if not row.last else f"{row.first:,}" if row.first == row.last else f"{row.first:,} … {row.last:,}"
        events = f"{numbers} of {row.source or 'somebody'}, life {row.life}" if numbers else ""
        table.add_row(kind, *map(cell, (row.about, events, row.subscriber, row.what)))
    return table


def _doubts(findings: Sequence[Any]) -> Table:
    """What is unproven, taken together: by what it may be, and for whom."""
    table = _table(("unproven", "topic", "subscriber", "what is known"), ("events",))
    together: dict[tuple[str, str, str], int] = {}
    for row in findings:
        if row.kind == "untold" and not row.last:
            table.add_row(row.kind, *map(cell, (row.about, row.subscriber, row.what)), "")
        else:
            alike = row.kind, row.about, row.subscriber
            together[alike] = together.get(alike, 0) + row.last - row.first + 1
    for (kind, topic, subscriber), events in sorted(together.items()):
        told = "what would tell is missing"
        table.add_row(f"{kind}?", cell(topic), cell(subscriber), told, f"{events:,}")
    return table
