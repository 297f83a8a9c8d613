"""A lake: events that repositories may have forgotten, as Parquet files that everybody can read.

    LAKE/topic=flights%2Fjfk/day=2026-11-16/NAME.parquet

A file appears and disappears whole, under a name that says which batch of which archive it is; what is not finished
stands beside the lake, in LAKE.work. So a reader sees each event once, or not yet.
"""

import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from stentor.model.attribute import Kind, Schema, Value
from stentor.model.batch import make_column
from stentor.model.errors import InvalidInput, StentorError
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, topic_id
from stentor.model.stored.position import Position
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Spans
from stentor.wire.block import Block, Origin, assemble, pack_column

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX: Final = ".parquet"
MARK: Final = {b"stentor": b"lake 1"}  # in the metadata of every file
KINDS: Final = {"boolean": Kind.BOOLEAN, "bigint": Kind.INTEGER, "double": Kind.DECIMAL, "string": Kind.STRING}
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of renameat2
_HERE: Final = -100  # AT_FDCWD
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_GRACE: Final = 60.0  # seconds that a reader may take to list a directory
_LARGEST: Final = 64 << 10  # bytes of a block that is made
_MOST: Final = 1000  # events of it


class LakeError(StentorError):
    """The lake is not as it must be."""


def types_of(schema: Schema) -> str:
    """The types of attributes as they stand in the lake: "carrier string, dep_delay double"."""
    names = {kind: name for name, kind in KINDS.items()}
    return ", ".join(f"{name} {names[kind]}" for name, kind in zip(schema.names, schema.kinds, strict=True))


def schema_of(types: str) -> Schema:
    pairs = [part.split(" ") for part in types.split(", ")] if types else []
    return Schema(tuple(name for name, _ in pairs), tuple(KINDS[kind] for _, kind in pairs))


class Lake:
    """A directory of Parquet files."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.work = self.path.with_name(self.path.name + ".work")

    def topics(self) -> list[str]:
        return sorted(unquote(each.name.removeprefix("topic=")) for each in self.path.glob("topic=*"))

    def day(self, topic: str, day: date) -> Path:
        return self.topic(topic) / f"day={day.isoformat()}"

    def topic(self, topic: str) -> Path:
        return self.path / f"topic={quote(topic, safe='')}"

    def files(self, topic: str) -> list[Path]:
        return sorted(self.topic(topic).glob(f"day=*/*{SUFFIX}"))

    def check(self) -> None:
        """Refuse what is not ours: it would be read as events."""
        import pyarrow.parquet as parquet

        for path in sorted(self.path.rglob("*")) if self.path.exists() else ():
            if path.is_dir():
                continue
            known = path.suffix == SUFFIX and path.parent.name.startswith("day=")
            if not known or (parquet.read_schema(path).metadata or {}).get(b"stentor") != MARK[b"stentor"]:
                raise LakeError(f"the lake {self.path} has a foreign file, {path.relative_to(self.path)}: move it away")

    # ---- writing

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One archive writes at a time."""
        self.work.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.work / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeError(f"another archive writes to the lake {self.path}") from None
            yield

    @contextmanager
    def turn(self) -> Iterator[None]:
        """What is in the lake changes by one task at a time, even if one was given up and runs on."""
        with (self.work / "turn").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def draft(self, name: str) -> Path:
        """Where a file is written until it is whole."""
        folder = self.work / "drafts"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}-{os.urandom(6).hex()}"

    def publish(self, draft: Path, target: Path) -> None:
        """Let a file that is durable appear, in the place of one of the same name."""
        with self.turn():
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(target)
            for folder in (target.parent, target.parent.parent, self.path):
                _sync(folder)

    def exchange(self, draft: Path, target: Path) -> None:
        """Let a directory take the place of another one at once."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.renameat2(_HERE, os.fsencode(draft), _HERE, os.fsencode(target), _EXCHANGE):
            number = ctypes.get_errno()
            reason = "this file system cannot" if number in (errno.EINVAL, errno.ENOSYS) else os.strerror(number)
            raise LakeError(f"cannot exchange {draft} and {target}: {reason}")
        _sync(target.parent)
        os.utime(draft)
        self.sweep()

    def sweep(self, age: float = _GRACE) -> None:
        """Delete what was not finished, and what was exchanged: not at once, for somebody may be listing it."""
        for path in (self.work / "drafts").glob("*"):
            with suppress(FileNotFoundError):  # a task that was given up has renamed it
                if time.time() - path.stat().st_mtime >= age:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    # ---- reading

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Whatever is wrong with a file is an error of ours: nobody who answers from the lake may fail at it."""
        try:
            import pyarrow as pa
        except ImportError:
            raise LakeError(f"to read the lake {self.path}: pip install 'stentor[spark]'") from None
        try:
            yield
        except pa.ArrowException as error:
            raise LakeError(f"the lake {self.path} cannot be read: {error}") from None

    def recall(self, topic: str, wanted: Position, budget: int) -> tuple[list[Block], Position, Position]:
        """Some of these events, of about so many bytes; what of the wanted was looked for, and what of it is here."""
        stream, spans = min(wanted.streams.items())
        first, last = next(iter(spans))
        last = min(last, first + max(budget // 64, 1))
        with self._readable():
            blocks = self._find(self.files(topic), topic, stream, first, last, budget)
        found = Spans((block.catenation, block.last()) for block in blocks)
        if blocks and sum(len(block.frame) for block in blocks) >= budget:
            last = found.last  # there may be more
        return blocks, Position({stream: Spans([(first, last)])}), Position({stream: found})

    def find(self, topic: str, moment: int) -> Position:
        """The first number of each stream that is of this time or later."""
        day = datetime.fromtimestamp(moment / 1e9, UTC).date()
        files = [path for path in self.files(topic) if path.parent.name >= f"day={day.isoformat()}"]
        if not files:
            return Position()
        with self._readable():
            import pyarrow as pa
            import pyarrow.dataset as dataset

            late = dataset.field("time") >= pa.scalar(-(-moment // 1000), pa.timestamp("us", tz="UTC"))
            columns = ["origin", "incarnation", "catenation"]
            table = dataset.dataset(files, format="parquet").to_table(columns, filter=late)
            lowest = table.group_by(columns[:2]).aggregate([("catenation", "min")]).to_pylist()
        found = {(row["origin"] % (1 << 64), row["incarnation"]): int(row["catenation_min"]) for row in lowest}
        return Position({stream: Spans([(first, first)]) for stream, first in found.items()})

    def _find(self, files: list[Path], topic: str, stream: StreamId, first: int, last: int, budget: int) -> list[Block]:
        import pyarrow.dataset as dataset

        if not files:
            return []
        column = dataset.field
        chosen = (
            (column("origin") == _signed(stream[0]))
            & (column("incarnation") == stream[1])
            & (column("catenation") >= first)
            & (column("catenation") <= last)
        )
        columns = ["catenation", "time", "body", "attributes", "types"]
        table = dataset.dataset(files, format="parquet").to_table(columns, filter=chosen).sort_by("catenation")
        return list(_blocks(table, topic, stream, budget))


def _blocks(table: "pa.Table", topic: str, stream: StreamId, budget: int) -> Iterator[Block]:
    """Events with the same attributes that follow each other become one block."""
    rows: list[dict[str, Any]] = []
    size = 0
    for row in table.to_pylist():
        follows = rows and (row["types"], row["catenation"]) == (rows[-1]["types"], rows[-1]["catenation"] + 1)
        if rows and (not follows or size > _LARGEST or len(rows) == _MOST):
            yield _block(rows, topic, stream)
            budget -= size
            rows, size = [], 0
            if budget <= 0:
                return
        rows.append(row)
        size += len(row["body"]) + 64
    if rows:
        yield _block(rows, topic, stream)


def _block(rows: list[dict[str, Any]], topic: str, stream: StreamId) -> Block:
    schema = schema_of(rows[0]["types"])
    given = [dict(row["attributes"]) for row in rows]
    columns = [
        pack_column(make_column(kind, [_value(kind, each.get(name)) for each in given]))
        for name, kind in zip(schema.names, schema.kinds, strict=True)
    ]
    times = [(row["time"] - _EPOCH) // _MICROSECOND * 1000 for row in rows]
    first = CatenationNumber(rows[0]["catenation"])
    origin = Origin(topic_id(topic), PublisherId(stream[0]), Incarnation(stream[1]), first, times[0])
    several = times if times.count(times[0]) < len(times) else ()
    return Block(assemble(origin, schema, columns, [row["body"] for row in rows], times=several), schema)


def _value(kind: Kind, text: str | None) -> Value | None:
    if text is None:
        return None
    if kind is Kind.BOOLEAN:
        return text == "true"
    if kind is Kind.INTEGER:
        return int(text)
    return float(text) if kind is Kind.DECIMAL else text


def _signed(number: int) -> int:
    """A publisher's id as Parquet and Spark can hold it."""
    return number - (1 << 64) if number >> 63 else number


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lake_of(text: str) -> Lake:
    """The lake that an option or a configuration value means."""
    if not text or "://" in text:
        raise InvalidInput(f"{text!r} is no lake: name a directory of this machine, or one that is mounted here")
    return Lake(Path(text).expanduser())
