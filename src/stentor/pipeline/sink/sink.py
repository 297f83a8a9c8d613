"""The sink: tasks stage their rows, and the driver publishes a batch when Spark commits it, once whatever happens.

A batch is what its manifest says. If a driver dies after it was written, what is computed again is thrown away, and the
staged rows go on to be published under the same numbers, which repositories store once.
"""

import tempfile
import time
from collections.abc import Iterator
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from stentor.model.errors import InvalidInput
from stentor.pipeline.engine.worker import plain, settle
from stentor.pipeline.options import WriteOptions
from stentor.pipeline.sink.folder import Folder
from stentor.pipeline.sink.publication import WrongCheckpoint, introduce, publish
from stentor.pipeline.sink.rows import events_of, layout_of
from stentor.pipeline.sink.staging import Identity, Manifest, Staged, Staging

_FOLDER = "stentor"  # beside what Spark keeps in a checkpoint

Messages = list[WriterCommitMessage | None]


class StagedRows(WriterCommitMessage):
    """What a task has staged."""

    def __init__(self, files: tuple[Staged, ...]) -> None:
        self.files = files


class _Writer:
    """What writing a batch and writing a stream have in common: the part of tasks."""

    def __init__(self, options: WriteOptions, schema: StructType, staging: Staging) -> None:
        self._options = options
        self._layout = layout_of(schema, options.topic)
        self._staging = staging
        self._largest = 0

    @plain()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        settle()
        events = (
            event for batch in iterator for event in events_of(batch, self._layout, self._options.topic, self._largest)
        )
        return StagedRows(self._staging.write(events))


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("stentor")`: Spark makes one for each batch, and one more to commit it."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidInput('outputMode "complete" would publish everything again and again: use append or update')
        checkpoint = _checkpoint(options)
        query = _query(checkpoint)
        folder = checkpoint.within(_FOLDER)
        if options.staging:
            folder = Folder(options.staging, "staging").within(query or _FOLDER)
        super().__init__(options, schema, Staging(folder))
        self._identity = self._staging.identity() or self._staging.begin(introduce(options, query, resumes=True))
        _compare(self._identity, options, query)
        self._largest = self._identity.largest

    @plain()
    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        staging = self._staging
        fresh = False
        known, done = staging.newest()
        if known is not None and known.batch < batchId and not done:
            self._publish(known)
        if known is None or known.batch < batchId:
            after = known.upto if known is not None else {}
            fresh = staging.note(batchId, time.time_ns(), _files(messages), after)
            known, done = staging.newest()
        assert known is not None
        if known.batch == batchId and not done:
            self._publish(known, fresh)
        else:  # it was published in an earlier life, and Spark did not get to know
            staging.discard(_files(messages))

    def _publish(self, manifest: Manifest, fresh: bool = False) -> None:
        try:
            publish(self._options, self._staging, manifest, self._identity.incarnation, fresh)
        except WrongCheckpoint:
            if fresh and len(manifest.topics) == 1:
                self._staging.withdraw(manifest)  # or it would seem that an earlier life had sent what is stored
            raise
        self._staging.finish(manifest)

    @plain()
    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803
        """A task has failed, or our commit: then what is written down is still to be published."""
        known, done = self._staging.newest()
        kept = known.files if known is not None and not done else ()
        self._staging.discard(file for file in _files(messages) if file not in kept)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("stentor")`: one batch, which nobody computes again."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidInput('mode "overwrite": what is published stays; use .mode("append")')
        place = options.staging or tempfile.gettempdir()
        super().__init__(options, schema, Staging(Folder(place, "staging").within(f"stentor-{uuid4().hex}")))
        self._largest = introduce(options, "", resumes=False).largest

    @plain()
    def commit(self, messages: Messages) -> None:
        manifest = Manifest(0, time.time_ns(), tuple(each for each in _files(messages) if each.rows), {})
        publish(self._options, self._staging, manifest, None)
        self._staging.clear()

    @plain()
    def abort(self, messages: Messages) -> None:  # noqa: ARG002
        self._staging.clear()


def _files(messages: Messages) -> list[Staged]:
    return [file for message in messages if isinstance(message, StagedRows) for file in message.files]


def _checkpoint(options: WriteOptions) -> Folder:
    if not options.checkpoint:
        raise InvalidInput(
            'option "checkpointLocation": say where this query keeps what it knows, as in '
            '.option("checkpointLocation", "/data/alerts")'
        )
    return Folder(options.checkpoint, "checkpointLocation")


def _query(checkpoint: Folder) -> str:
    """Spark's id of the query; "" if it has not written it down."""
    content = checkpoint.read("metadata")
    try:
        return str(msgspec.json.decode(content or b"{}", type=dict[str, str]).get("id", ""))
    except msgspec.MsgspecError:
        return ""


def _compare(identity: Identity, options: WriteOptions, query: str) -> None:
    """What is staged belongs to this query, and goes where it says."""
    if identity.query != query:
        raise InvalidInput(
            'option "checkpointLocation": what is staged is of another query, and Spark has begun anew: '
            "use an empty folder"
        )
    for option, before, now in (
        ("topic", identity.topic, options.topic),
        ("publisher", identity.publisher, options.publisher),
    ):
        if before != now:
            raise InvalidInput(
                f'option "{option}": the checkpoint is that of a query with {before!r}, not {now!r}; '
                "use another checkpointLocation"
            )
