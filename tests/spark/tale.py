"""A run of a fabric as its nodes would tell it: two publishers, two repositories, three subscribers, two with filters.

Tests change what is told, as it would be if something had gone wrong, or lose some of it on the way.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from stentor.model.reports.trace import Trace, TraceKind
from stentor.pipeline.traces import traces
from stentor.protocols.delivery.trace_buffer import TraceBuffer

Row = dict[str, Any]
MILLISECOND = 10**6
START = int(datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()) * 10**9
BATCH = 10
PUBLISHERS = {"shop": (7, 10), "kiosk": (-8, 5)}  # ids, and how many batches
AUDIENCE: dict[str, list[list[int]]] = {"all": [], "some": [[0, 2], [5, 9]], "half": [[0, 4]]}
STEERED = {"all": "r1", "some": "r1", "half": "r2"}  # by which repository
CRASH = 5  # the batch that "half" was given, and did not acknowledge, when its first life ended
_TEXTS = ("kind", "node", "about", "source", "keeper", "subscriber", "publisher", "peer", "delays")
_NUMBERS = (
    "at",
    "source_id",
    "life",
    "first",
    "last",
    "count",
    "start",
    "end",
    "size",
    "born",
    "note",
    "incarnation",
    "catenation",
    "until",
)
_TRACE = tuple(field.name for field in msgspec.structs.fields(Trace))
COLUMNS = ", ".join([*(f"{name} string" for name in _TEXTS), *(f"{name} bigint" for name in _NUMBERS), "body binary"])


class Tale:
    """Rows in the order in which they happened; they are numbered when they are told."""

    def __init__(self, topic: str) -> None:
        """Of a topic with repositories of its own."""
        self.topic = topic
        self.rows: list[Row] = []
        for keeper in (self.keeper("r1"), self.keeper("r2")):
            for name, spans in AUDIENCE.items():
                where = "" if not spans else f"n < {len(spans)}"
                body = json.dumps({"where": where, "frontier": [], "changes": []}).encode()
                self.tell(_node(keeper), "subscribed", START, keeper=keeper, subscriber=name, body=body)
        sequence = 0
        for source, (number, batches) in PUBLISHERS.items():
            for batch in range(batches):
                sequence = self._batch(source, number, batch, sequence)
        last = self.rows[-1]["at"]
        for node in (
            f"publisher:shop:{topic}",
            f"publisher:kiosk:{topic}",
            *map(_node, map(self.keeper, ("r1", "r2"))),
        ):
            self.tell(node, "ended", last + 1, about="")
        for name in AUDIENCE:
            life = 2 if name == "half" else 1
            self.tell(f"subscriber:{name}:{topic}", "ended", last + 1, about="", incarnation=life)

    def keeper(self, name: str) -> str:
        return f"{name}-{self.topic}"

    def tell(self, node: str, kind: str, at: int, **more: Any) -> None:
        zeros = dict.fromkeys(_NUMBERS, 0)
        texts = dict.fromkeys(_TEXTS, "")
        self.rows.append(
            {**texts, **zeros, "about": self.topic, "incarnation": 1, "body": b"", "kind": kind, "at": at, "node": node}
            | more
        )

    def _batch(self, source: str, number: int, batch: int, sequence: int) -> int:
        born = START + sequence * MILLISECOND * 10
        first, last = batch * BATCH + 1, (batch + 1) * BATCH
        stream = {"source_id": number, "life": 3, "first": first, "last": last, "count": BATCH, "born": born}
        self.tell(f"publisher:{source}:{self.topic}", "published", born, source=source, **stream)
        places = {"start": sequence + 1, "end": sequence + BATCH}
        for delay, keeper in ((2, self.keeper("r1")), (3, self.keeper("r2"))):
            at, node = born + delay * MILLISECOND, _node(keeper)
            body = json.dumps(AUDIENCE).encode()
            self.tell(node, "stored", at, source=source, keeper=keeper, body=body, **places, **stream)
            self.tell(node, "stable", at + MILLISECOND, keeper=keeper, **places)
        for name in AUDIENCE:
            self._deliver(name, source, batch, stream | places | {"at": born + 6 * MILLISECOND})
        return sequence + BATCH

    def _deliver(self, name: str, source: str, batch: int, row: Row) -> None:
        spans = AUDIENCE[name] or [[0, BATCH - 1]]
        body = json.dumps(spans).encode() if len(spans) > 1 else b""
        node, first, at = f"subscriber:{name}:{self.topic}", row["first"], row["at"]
        numbers = {"first": first + spans[0][0], "last": first + spans[-1][1], "subscriber": name, "body": body}
        crashes = name == "half" and source == "shop" and batch == CRASH
        life = 2 if name == "half" and (source != "shop" or batch > CRASH) else 1
        given = row | numbers | {"keeper": self.keeper(STEERED[name]), "incarnation": life}
        done = {key: given[key] for key in ("source_id", "life", "subscriber", "first", "last", "body")}
        self.tell(node, "released", **{key: each for key, each in given.items() if key != "source"})
        if crashes:
            self.tell(node, "ended", at + 1, about="", incarnation=1)
            self.tell(node, "released", **given | {"incarnation": 2, "at": at + 2 * MILLISECOND})
            life = 2
        self.tell(node, "acknowledged", at + 2 * MILLISECOND + 1, **done, incarnation=life)

    def sync(self, name: str, first: int, last: int, at: int, keeper: str = "r2") -> None:
        """A repository tells, before it ends, that a subscriber is durably done with these of the shop."""
        whole = self.keeper(keeper)
        number = PUBLISHERS["shop"][0]
        self.tell(
            _node(whole),
            "synced",
            at,
            keeper=whole,
            subscriber=name,
            source_id=number,
            life=3,
            first=first,
            last=last,
            count=last - first + 1,
        )
        ended = next(row for row in self.rows if row["kind"] == "ended" and row["node"] == _node(whole))
        self.rows.remove(ended)
        self.rows.append(ended)

    def find(self, kind: str, source: str = "shop", batch: int = 3, **more: Any) -> Row:
        """The one row like this."""
        like = {"kind": kind, "source_id": PUBLISHERS[source][0], **more}
        first = batch * BATCH
        (row,) = [
            row
            for row in self.rows
            if all(row[key] == value for key, value in like.items()) and first < row["first"] <= first + BATCH
        ]
        return row

    def sum_up(self) -> None:
        """Let each life of each node tell sums, as its trail makes them."""
        trace_buffers: dict[tuple[str, int], TraceBuffer] = {}
        for row in self.rows:
            trail = trace_buffers.setdefault((row["node"], row["incarnation"]), TraceBuffer(sums=True))
            trail.add(Trace(**{name: row[name] for name in _TRACE} | {"kind": TraceKind(row["kind"])}))
        zeros = dict.fromkeys((*_NUMBERS, *_TEXTS), 0)
        self.rows = [
            {**zeros, **msgspec.structs.asdict(trace), "kind": str(trace.kind), "node": node, "incarnation": life}
            for (node, life), trail in trace_buffers.items()
            for trace in trail.take(0)
        ]

    def told(self) -> list[Row]:
        """With the numbers that each node gives."""
        numbers: dict[tuple[str, int], int] = defaultdict(int)
        told = []
        for row in self.rows:
            life = row["node"], row["incarnation"]
            numbers[life] += 1
            note = hash(row["body"]) >> 1 if row["body"] else 0
            told.append(row | {"publisher": row["node"], "catenation": numbers[life], "note": note})
        return told


def _node(keeper: str) -> str:
    return f"repository:{keeper}"


def frame(spark: SparkSession, told: Sequence[Row]) -> DataFrame:
    """As two repositories keep it."""
    names = [part.split()[0] for part in COLUMNS.split(", ")]
    kept = [tuple(row[name] for name in names) for row in told]
    return traces.tidy(spark.createDataFrame(kept * 2, COLUMNS))
