"""The options of the data source, read once; whatever is wrong with one is said with its name."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from stentor.client import DEFAULT_URL
from stentor.model.errors import InvalidInput
from stentor.model.filter import Filter
from stentor.model.topic import check_pattern, check_topic
from stentor.url import addresses_of

T = TypeVar("T")

NAME = "spark"  # the publisher or subscriber that it is, if no other name is given


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a topic is read."""

    url: str
    tls: str | None
    topic: str  # a pattern
    where: str
    since: str  # "beginning", "now", "epoch N" or "time NANOSECONDS"
    subscriber: str
    attributes: str
    partitions: int  # 0 is as many as fit
    most: int  # events in a batch
    size: int  # bytes in a batch; 0 is any
    strict: bool  # what was forgotten before it was read is an error


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    given = {name.lower(): value for name, value in options.items()}
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
    )


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where rows are published."""

    url: str
    tls: str | None
    topic: str  # "" is what rows say
    publisher: str
    staging: str  # "" is beside the checkpoint
    checkpoint: str


def write_options(options: Mapping[str, str]) -> WriteOptions:
    given = {name.lower(): value for name, value in options.items()}
    return WriteOptions(
        url=parse(given, "url", _url, os.environ.get("STENTOR_URL") or DEFAULT_URL),
        tls=given.get("tls") or os.environ.get("STENTOR_TLS") or None,
        topic=parse(given, "topic", check_topic, ""),
        publisher=given.get("publisher") or NAME,
        staging=given.get("staging", ""),
        checkpoint=given.get("checkpointlocation", ""),
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


def parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidInput(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _since(text: str) -> str:
    """A beginning as a repository understands it; a time without a zone is UTC."""
    if text in ("beginning", "now"):
        return text
    if text.isdigit():
        return f"epoch {text}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r} is no beginning: beginning, now, an epoch (a number), or a time such as 2026-11-01T12:00"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return f"time {int(moment.timestamp() * 1e6) * 1000}"
