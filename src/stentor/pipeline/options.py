"""The options of the data source, read once; whatever is wrong with one is said with its name."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from stentor.client.connection.url import addresses_of
from stentor.client.fabric import DEFAULT_URL
from stentor.model.errors import InvalidInput
from stentor.model.filter import Filter
from stentor.model.stored.epoch import Epoch
from stentor.model.topic import check_pattern, check_topic
from stentor.model.wording.suggestion import nearest

T = TypeVar("T")

NAME = "spark"  # the publisher or subscriber that it is, if no other name is given
OUTAGE = 120.0  # seconds that a query that runs waits for a fabric that is away, unless option "wait" says otherwise

_OF_BOTH = ("url", "tls", "topic", "wait")
_OF_SOURCE = (
    *_OF_BOTH,
    *("where", "from", "subscriber", "attributes", "maxEventsPerTrigger", "maxBytesPerTrigger"),
    *("partitions", "failOnDataLoss", "origin"),
)
_OF_SINK = (*_OF_BOTH, "publisher", "checkpointLocation", "staging")
# What Spark hands over by itself: load("…") and save("…"), queryName("…"), and what it knows of a table.
_OF_SPARK = frozenset({"path", "paths", "queryname", "owner", "provider"})


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a topic is read."""

    url: str
    tls: str | None
    topic: str  # a pattern
    where: str
    since: str  # "beginning", "now", "epoch REPOSITORY:NUMBER" or "time NANOSECONDS"
    subscriber: str
    attributes: str
    partitions: int  # 0 is as many as fit
    most: int  # events in a batch
    size: int  # bytes in a batch; 0 is any
    strict: bool  # what was forgotten before it was read is an error
    wait: float  # seconds for a fabric that is not there; 0 is not given


def source_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the source by their names in lower case; InvalidInput if one of them does not exist."""
    return _known(options, _OF_SOURCE, "source")


def _known(options: Mapping[str, str], names: Sequence[str], what: str) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items()}
    allowed = {*_OF_SPARK, *(name.lower() for name in names)}
    for name in given:
        if name not in allowed and not name.startswith("option."):  # a table has each of its options twice
            meant = nearest(name, names)
            hint = f'did you mean "{meant}"? Known' if meant else "known"
            raise InvalidInput(f'unknown option "{name}" of the stentor {what}: {hint} are {", ".join(names)}')
    return given


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    given = source_options(options)
    if "topic" not in given:
        raise InvalidInput('option "topic": say which topic to read, as in .option("topic", "flights/#")')
    return ReadOptions(
        url=parse(given, "url", _url, os.environ.get("STENTOR_URL") or DEFAULT_URL),
        tls=given.get("tls") or os.environ.get("STENTOR_TLS") or None,
        topic=parse(given, "topic", check_pattern, ""),
        where=parse(given, "where", lambda text: str(Filter(text)) if text else "", ""),
        since=parse(given, "from", _since, "now" if streaming else "beginning"),
        subscriber=given.get("subscriber") or NAME,
        attributes=given.get("attributes", "").strip(),
        partitions=parse(given, "partitions", _count, 0),
        most=parse(given, "maxEventsPerTrigger", _count, 1_000_000),
        size=parse(given, "maxBytesPerTrigger", _count, 0),
        strict=parse(given, "failOnDataLoss", parse_flag, True),
        wait=parse(given, "wait", _seconds, 0.0),
    )


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where rows are published."""

    url: str
    tls: str | None
    topic: str  # "" is what rows say
    publisher: str
    staging: str  # "" is beside the checkpoint
    checkpoint: str
    wait: float  # seconds for a fabric that is not there; 0 is not given


def write_options(options: Mapping[str, str]) -> WriteOptions:
    given = _known(options, _OF_SINK, "sink")
    return WriteOptions(
        url=parse(given, "url", _url, os.environ.get("STENTOR_URL") or DEFAULT_URL),
        tls=given.get("tls") or os.environ.get("STENTOR_TLS") or None,
        topic=parse(given, "topic", check_topic, ""),
        publisher=given.get("publisher") or NAME,
        staging=given.get("staging", ""),
        checkpoint=given.get("checkpointlocation", ""),
        wait=parse(given, "wait", _seconds, 0.0),
    )


def parse(given: Mapping[str, str], name: str, parser: Callable[[str], T], otherwise: T) -> T:
    """An option, or what it is if it is not given."""
    text = given.get(name.lower())
    if text is None:
        return otherwise
    try:
        return parser(text)
    except (InvalidInput, ValueError) as error:
        raise InvalidInput(f'option "{name}": {error}') from None


def _url(text: str) -> str:
    addresses_of(text)
    return text


def _count(text: str) -> int:
    if not text.strip().isdigit() or int(text) == 0:
        raise InvalidInput(f"{text!r} is no number above 0")
    return int(text)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise InvalidInput(f"{text!r} is no number of seconds above 0")


def parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidInput(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _since(text: str) -> str:
    """A beginning as a repository understands it; a time without a zone is UTC."""
    if text in ("beginning", "now"):
        return text
    if text.isdecimal():
        return f"epoch {text}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if (epoch := Epoch.parse(text)) is not None:
            return f"epoch {epoch}"
        raise InvalidInput(
            f"{text!r} is no beginning: beginning, now, an epoch such as r1:107, or a time such as 2026-11-01T12:00"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return f"time {int(moment.timestamp() * 1e6) * 1000}"
