"""Traces: what a node tells of the batches that it handled, as events on a system topic whose attributes are columns.

A trace is about numbers of one stream, or about sequence numbers of one repository, never about a single event. No
column has the name of one that every stored event has, so that both fit into one table.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from stentor.model.attribute import Kind, Schema
from stentor.model.ids import fingerprint
from stentor.model.stored.span import Span

TRACE: Final = "$stentor/trace"
LEDGER: Final = "ledger"  # the `peer` of a row that a repository tells again from its ledger after it was opened


def kept_of(repository: str) -> str:
    """The topic under which a repository keeps the traces that it hears. Each numbers them for itself, so each has a
    topic of its own.
    """
    return f"{TRACE}/{repository}"


_LARGEST_BODY = 64 << 10  # of one trace; whom a larger one names is not told


class TraceKind(enum.StrEnum):
    PUBLISHED = "published"  # a reliable publisher has sent these numbers, for the first time
    HOP = "hop"  # a broker has passed on a frame that begins with these; some of many
    STORED = "stored"  # they are durable at `keeper` under these sequence numbers; the body says for whom they are
    VOIDED = "voided"  # `keeper` has made durable that nobody has these: readers pass them
    SKIPPED = "skipped"  # `keeper` has made durable that nobody in its unit wants these
    STABLE = "stable"  # these sequence numbers of `keeper` are on enough repositories: they may be released
    RELEASED = "released"  # the application of `subscriber` was given these
    ACKNOWLEDGED = "acknowledged"  # the application of `subscriber` is done with these
    SYNCED = "synced"  # at `keeper` it is durable that `subscriber` is done with these, or that they are not for it
    SUBSCRIBED = "subscribed"  # at `keeper`, after sequence number `end`, `subscriber` wants what the body says
    UNSUBSCRIBED = "unsubscribed"
    DROPPED = "dropped"  # so many traces were not told: there was no room for them
    ENDED = "ended"  # the node has ended in good order, and has told all that it had to


class Trace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One row. What does not apply is 0 or "", so that all traces have one schema."""

    kind: TraceKind
    at: int  # nanoseconds of the node's own clock; told as nanoseconds since 1970
    about: str = ""  # the topic
    source: str = ""  # the publisher's name, where it is known
    source_id: int = 0
    life: int = 0  # the publisher's incarnation
    first: int = 0  # catenation numbers; if not all between are meant, the body says which
    last: int = 0
    count: int = 0
    keeper: str = ""  # the repository whose sequence numbers these are
    start: int = 0
    end: int = 0
    subscriber: str = ""
    peer: str = ""  # from whom a broker got it; LEDGER if a repository tells it again
    size: int = 0  # bytes of frames
    born: int = 0  # when the first event was published, in nanoseconds since 1970
    until: int = 0  # of a sum: when the last of its rows was traced, as `at` tells of the first; 0 if it is none
    delays: str = ""  # of a sum: how many events took how long since they were published, JSON
    body: bytes = b""  # JSON

    def joined(self, other: "Trace") -> "Trace | None":
        """Both as one, if the other one goes on where this one ends."""
        if (
            other.at != self.at
            or other.kind is not self.kind
            or other.source_id != self.source_id
            or other.life != self.life
            or other.first != self.last + 1
            or (other.start and other.start != self.end + 1)
            or other.body != self.body
            or self.count != self.last - self.first + 1
            or other.count != other.last - other.first + 1
            or (other.about, other.subscriber, other.keeper, other.peer)
            != (self.about, self.subscriber, self.keeper, self.peer)
            or is_partial(self.body)
        ):
            return None
        return msgspec.structs.replace(
            self, last=other.last, count=self.count + other.count, end=other.end, size=self.size + other.size
        )


class Intent(msgspec.Struct, frozen=True):
    """What a subscriber wants: events after these numbers that this filter chooses; before `changes`, other ones."""

    where: str
    frontier: Sequence[tuple[str, int, int]]  # publishers' ids as 16 hexadecimal digits, incarnations, numbers
    changes: Sequence[tuple[str, Sequence[tuple[str, int, int]]]] = ()


_encode = msgspec.json.Encoder().encode
_audience = msgspec.json.Decoder(dict[str, list[Span]])
_numbers = msgspec.json.Decoder(list[Span])
_intent = msgspec.json.Decoder(Intent)


def audience_body(wanted: Mapping[str, Sequence[Span]]) -> bytes:
    """For whom stored events are: subscribers, and which events as offsets from the first; none named is all."""
    return _encode(dict(sorted(wanted.items())))


def audience_of(body: bytes) -> dict[str, list[Span]]:
    return _audience.decode(body)


def numbers_body(first: int, spans: Sequence[Span]) -> bytes:
    """Which numbers are meant, as offsets from the first; nothing if it is all."""
    return _encode([(low - first, high - first) for low, high in spans]) if len(spans) > 1 else b""


def numbers_of(body: bytes) -> list[Span]:
    return _numbers.decode(body)


def intent_body(intent: Intent) -> bytes:
    return _encode(intent)


def intent_of(body: bytes) -> Intent:
    return _intent.decode(body)


def delays_text(delays: Mapping[int, int]) -> str:
    """How many events took how long, as pairs."""
    return _encode(sorted(delays.items())).decode() if delays else ""


def signed(number: int) -> int:
    """An id as attributes carry it: 64 bits with a sign."""
    return number - (1 << 64) if number >= 1 << 63 else number


def to_columns(rows: Iterable[Trace], node: str, offset: int) -> tuple[Sequence[Sequence[Any]], Sequence[bytes]]:
    """Columns, as in SCHEMA, and bodies of traces. Of rows with one body the first carries it: `note` tells that it is
    the same.
    """
    told = zip(*(msgspec.structs.astuple(row) for row in rows), strict=True)
    columns: dict[str, Sequence[Any]] = dict(zip((*_FIELDS, "body"), told, strict=True))
    bodies = columns.pop("body")
    notes = {body: fingerprint("trace", body.hex()) >> 1 if body else 0 for body in set(bodies)}
    columns |= {
        "kind": [kind.value for kind in columns["kind"]],
        "at": [at + offset for at in columns["at"]],
        "until": [until and until + offset for until in columns["until"]],
        "source_id": [signed(number) for number in columns["source_id"]],
        "node": [node] * len(bodies),
        "note": [notes[body] for body in bodies],
    }
    return list(columns.values()), _each_once(bodies)


def _each_once(bodies: Sequence[bytes]) -> list[bytes]:
    told: set[bytes] = set()
    found = []
    for body in bodies:
        found.append(b"" if body in told or len(body) > _LARGEST_BODY else body)
        told.add(body)
    return found


def is_partial(body: bytes) -> bool:
    """Whether a body has offsets from the first number, which another first number would change."""
    return b"[[" in body


_TEXTS = {"kind", "about", "source", "keeper", "subscriber", "peer", "delays", "node"}
_FIELDS = tuple(field.name for field in msgspec.structs.fields(Trace) if field.name != "body")
_NAMES = (*_FIELDS, "node", "note")
SCHEMA: Final = Schema(_NAMES, tuple(Kind.STRING if name in _TEXTS else Kind.INTEGER for name in _NAMES))
