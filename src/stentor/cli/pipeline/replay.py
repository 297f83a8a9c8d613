"""`stentor pipeline replay`: history to a new subscriber."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stentor.cli.pipeline.history import HistorySource
from stentor.cli.pipeline.spark import MasterOption, followed, start
from stentor.cli.terminal.options import TlsOption, UrlOption
from stentor.model.errors import FilterError, InvalidInput, StentorError
from stentor.model.filter import Filter
from stentor.model.topic import check_topic, matches
from stentor.model.wording.count import counted
from stentor.pipeline.options import WriteOptions, write_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REPLAYS = Path(".stentor", "replays")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of a history."""

    history: HistorySource
    where: Filter | None
    since: datetime | None
    until: datetime | None

    def load(self, spark: "SparkSession") -> "DataFrame":
        from stentor.pipeline.match import only
        from stentor.pipeline.replay import between, in_turn

        events = between(self.history.load(spark), self.since, self.until)
        if self.where is not None and self.history.stored:  # else repositories have matched them
            events = only(events, self.where)
        return in_turn(events)


def replay(
    to_topic: Annotated[str, typer.Option("--to-topic", help="Where they are published.")],
    topic: Annotated[str | None, typer.Option("--topic", help="Events of these topics: a pattern.")] = None,
    lake: Annotated[Path | None, typer.Option("--lake", help="Events that were archived there.")] = None,
    parquet: Annotated[str | None, typer.Option("--parquet", help="Events in any other Parquet files.")] = None,
    where: Annotated[str | None, typer.Option("--where", help="Only events that this filter matches.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="Only events from this time on, UTC.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Only events before this time, UTC.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Once: repeated, it publishes what is missing.")] = None,
    checkpoint: Annotated[
        Path, typer.Option("--checkpoint", help="Where names are remembered; all workers must see it.")
    ] = _REPLAYS,
    publisher: Annotated[str, typer.Option("--publisher", help="The name that the owner of --to-topic granted.")] = (
        "replay"
    ),
    subscriber: Annotated[str, typer.Option("--subscriber", help="The name that the owners of --topic granted.")] = (
        "spark"
    ),
    best_effort: Annotated[bool, typer.Option("--best-effort", help="To whoever listens; nothing is stored.")] = False,
    speed: Annotated[
        float | None, typer.Option("--speed", help="Best effort: 1 is the pace of then, 10 ten times that.")
    ] = None,
    url: UrlOption = None,
    tls: TlsOption = None,
    master: MasterOption = "local[*]",
) -> None:
    """Publish events of the past again, in the order that they had, for those who were not there.

    stentor topic grant second-look --publisher replay

    stentor pipeline replay --lake /data/lake --topic orders --from 2026-11-01 --to-topic second-look --name first

    Exit codes: 0 done, 2 an option is wrong, 3 no broker there.
    """
    place = {name: str(text) for name, text in (("url", url), ("tls", tls)) if text}
    options = write_options({"topic": _target(to_topic), "publisher": publisher, **place})
    choice = _choice(topic, lake, parquet, where, since, until, {"subscriber": subscriber, **place})
    _check(choice, to_topic, name, best_effort, speed)
    if best_effort:
        count, before = _tell(choice, options, master, speed or 0.0), False
    else:
        with _remembered(checkpoint, name) as folder:
            stored = msgspec.structs.replace(options, checkpoint=str(folder))
            count, before = _store(choice, stored, master)
    typer.echo(
        f"{counted(count, 'event')} on {to_topic}" + (", as was done before: nothing is published twice" * before)
    )


def _choice(
    topic: str | None,
    lake: Path | None,
    parquet: str | None,
    where: str | None,
    since: str | None,
    until: str | None,
    fabric: dict[str, str],
) -> Choice:
    first, last = _time("--from", since), _time("--to", until)
    if first is not None and last is not None and first >= last:
        raise InvalidInput(f"--from {since} is not before --to {until}")
    try:
        wanted = Filter(where) if where else None
    except FilterError as error:
        raise InvalidInput(f"--where: {error}") from None
    if lake is not None or parquet is not None:
        fabric = {}
    else:
        fabric = fabric | ({"from": first.isoformat()} if first else {}) | ({"where": where} if where else {})
    history = HistorySource(topic=topic, lake=lake, parquet=parquet, fabric=fabric)
    history.check()
    return Choice(history=history, where=wanted, since=first, until=last)


def _target(topic: str) -> str:
    try:
        return check_topic(topic)
    except InvalidInput as error:
        raise InvalidInput(f"--to-topic: {error}") from None


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{option} {text}: that is no time such as 2026-11-01 or 2026-11-01T12:00") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _check(choice: Choice, to_topic: str, name: str | None, best_effort: bool, speed: float | None) -> None:
    if not choice.history.stored and matches(choice.history.topic or "", to_topic):
        raise InvalidInput(f"--to-topic {to_topic} is one of the topics that are replayed, --topic")
    if name is not None and not re.fullmatch(r"\w[\w.-]*", name):
        raise InvalidInput(f"--name {name!r}: letters, digits, '_', '-' and '.'")
    if name is not None and best_effort:
        raise InvalidInput("--name is for what is stored, not for --best-effort")
    if speed is not None and not best_effort:
        raise InvalidInput("--speed is for --best-effort: what is stored is stored at once")
    if speed is not None and not 0 < speed < float("inf"):
        raise InvalidInput(f"--speed {speed}: it is above 0")


@contextmanager
def _remembered(checkpoint: Path, name: str | None) -> Iterator[Path]:
    if name is not None:
        yield checkpoint.absolute() / name
        return
    checkpoint.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=checkpoint.absolute(), prefix=".once-") as folder:
        yield Path(folder)


def _tell(choice: Choice, options: WriteOptions, master: str, speed: float) -> int:
    spark = start(master, "stentor replay")
    from stentor.pipeline.replay import reach, tell

    reach(options)
    turns = choice.load(spark)
    return followed(spark, "replaying", lambda: tell(turns, options, speed))


def _store(choice: Choice, options: WriteOptions, master: str) -> tuple[int, bool]:
    """How many events, and whether they were there before."""
    spark = start(master, "stentor replay")
    from stentor.pipeline.replay import Definition, Replay

    history = choice.history
    definition = Definition(
        topic=history.topic,
        lake=None if history.lake is None else str(history.lake.absolute()),
        parquet=history.parquet,
        where=str(choice.where or ""),
        since=choice.since.isoformat() if choice.since else "",
        until=choice.until.isoformat() if choice.until else "",
    )
    turns = choice.load(spark)
    schema = turns.select("event.*").schema
    try:
        work = Replay(options, schema, definition)
    except StentorError as error:
        raise type(error)(str(error).replace('option "topic"', "--to-topic")) from None
    if work.known is not None and work.known[1]:
        return work.known[0], True
    followed(spark, "replaying", lambda: work.perform(turns))
    assert work.known is not None
    return work.known[0], False
