"""Staging without Spark: what is written down once counts, and what is written down can be published."""

import pickle
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from stentor.model.errors import BodyTooLarge, InvalidInput
from stentor.pipeline.options import write_options
from stentor.pipeline.sink.folder import Folder
from stentor.pipeline.sink.rows import RowLayout, events_of, layout_of
from stentor.pipeline.sink.sink import StagedRows, StreamWriter
from stentor.pipeline.sink.staging import Identity, Staged, Staging

pytestmark = pytest.mark.req("SP-01")

BODY = StructType().add("body", BinaryType())
ME = Identity("t", "spark", 7, "", 100)


def staging(path: Path) -> Staging:
    made = Staging(Folder(str(path / "stentor"), "staging"))
    made.begin(ME)
    return made


def rows(*bodies: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary())})


def published(here: Staging) -> list[bytes]:
    known, _ = here.newest()
    assert known is not None
    return [body for file in known.files for batch in here.batches(file) for body in batch.column(0).to_pylist()]


def test_the_first_manifest_of_a_batch_counts(tmp_path: Path) -> None:
    here = staging(tmp_path)
    assert here.begin(Identity("other", "spark", 8, "", 0)) == ME
    first, second = here.write([("t", rows(b"1", b"2")), ("u", rows(b"3"))]), here.write([("t", rows(b"other"))])
    assert [(file.topic, file.rows) for file in first] == [("t", 2), ("u", 1)]
    assert here.note(0, 5, first, {})
    assert not here.note(0, 6, second, {}), "another one is there"
    known, done = here.newest()
    assert known is not None
    assert (known.batch, known.time, known.files, known.upto, done) == (0, 5, first, {"t": 2, "u": 1}, False)
    assert published(here) == [b"1", b"2", b"3"]
    here.finish(known)
    assert here.newest() == (known, True)
    assert list((tmp_path / "stentor" / "rows").iterdir()) == [], "neither its rows nor those of other attempts"
    third = here.write([("t", rows(b"4"))])
    assert here.note(4, 7, third, known.upto)
    known, done = here.newest()
    assert known is not None
    assert (known.batch, known.after, known.upto) == (4, {"t": 2, "u": 1}, {"t": 3, "u": 1})
    here.finish(known)
    assert sorted(path.name for path in (tmp_path / "stentor").iterdir()) == [f"{4:020d}.done", "query.json", "rows"]


def test_what_is_done_counts_if_it_was_begun_too(tmp_path: Path) -> None:
    here = staging(tmp_path)
    here.note(3, 5, (), {})
    begun = tmp_path / "stentor" / f"{3:020d}.begun"
    begun.with_suffix(".done").write_bytes(begun.read_bytes())  # a file system that copies, and was stopped
    assert here.newest()[1]


def writer(path: Path) -> StreamWriter:
    (path / "metadata").write_text('{"id":""}')
    return StreamWriter(write_options({"topic": "t", "checkpointLocation": str(path)}), BODY, overwrite=False)


def test_a_commit_that_failed_is_no_reason_to_forget(tmp_path: Path) -> None:
    here = staging(tmp_path)
    mine = writer(tmp_path)
    kept, lost = (mine.write(iter([rows(body)])) for body in (b"kept", b"lost"))
    assert isinstance(kept, StagedRows)
    here.note(0, 5, kept.files, {})
    mine.abort([kept, None, lost], 0)
    assert published(here) == [b"kept"]
    assert len(list((tmp_path / "stentor" / "rows").iterdir())) == 1
    assert isinstance(pickle.loads(pickle.dumps(mine)), StreamWriter)


def test_a_stream_needs_a_place_and_adds(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match='option "checkpointLocation": say where'):
        StreamWriter(write_options({"topic": "t"}), BODY, overwrite=False)
    with pytest.raises(InvalidInput, match='outputMode "complete"'):
        StreamWriter(write_options({"topic": "t", "checkpointLocation": str(tmp_path)}), BODY, overwrite=True)
    staging(tmp_path)
    (tmp_path / "metadata").write_text('{"id":"another"}')
    with pytest.raises(InvalidInput, match="of another query"):
        StreamWriter(write_options({"topic": "t", "checkpointLocation": str(tmp_path)}), BODY, overwrite=False)


def test_what_is_done_is_not_published_again(tmp_path: Path) -> None:
    here = staging(tmp_path)
    mine = writer(tmp_path)
    here.note(2, 5, (), {})
    known, _ = here.newest()
    assert known is not None
    here.finish(known)
    again = mine.write(iter([rows(b"again")]))
    for batch in (1, 2):
        mine.commit([again], batch)  # nobody is asked: there is no fabric here
    assert list((tmp_path / "stentor" / "rows").iterdir()) == []


def test_a_file_that_is_not_there_is_missed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r'option "staging": .*all machines'):
        list(staging(tmp_path).batches(Staged("gone.arrow", "t", 1)))


def test_what_others_have_written_is_refused(tmp_path: Path) -> None:
    here = staging(tmp_path)
    (tmp_path / "stentor" / "query.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"query\.json is not what this sink has written"):
        here.identity()


@pytest.mark.parametrize("uri", ["file:{}", "file://{}", "{}"])
def test_a_folder_is_a_path_or_an_address(tmp_path: Path, uri: str) -> None:
    folder = Folder(uri.format(tmp_path), "staging")
    assert folder.write_once("name", b"text")
    assert not folder.write_once("name", b"other")
    assert (tmp_path / "name").read_bytes() == b"text"
    assert folder.names() == ["name"]


def test_a_folder_that_cannot_be_is_said_with_its_option(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match='option "staging"'):
        Folder("nonsense://x/y", "staging")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match='option "staging"'):
        Folder(str(tmp_path / "file"), "staging").within("more").make()


# ---- rows


def test_columns_are_found_by_name_and_checked() -> None:
    schema = StructType().add("time", TimestampType()).add("Body", StringType()).add("n", IntegerType())
    assert layout_of(schema, "t") == RowLayout(1, -1, -1, (("n", 2, "int64"),))
    with pytest.raises(InvalidInput, match='option "topic"'):
        layout_of(schema, "")
    assert layout_of(schema.add("topic", StringType()), "").topic == 3
    for kind, complaint in (
        (DecimalType(), 'column "x": decimal'),
        (MapType(StringType(), StringType()), 'column "x"'),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            layout_of(StructType().add("body", BinaryType()).add("x", kind), "t")
    with pytest.raises(InvalidInput, match='column "attributes": it is map<string,int>'):
        layout_of(StructType().add("body", BinaryType()).add("attributes", MapType(StringType(), IntegerType())), "t")
    with pytest.raises(InvalidInput, match='column "a b"'):
        layout_of(StructType().add("body", BinaryType()).add("a b", IntegerType()), "t")


MAPPED = (
    StructType().add("body", StringType()).add("attributes", MapType(StringType(), StringType())).add("x", DoubleType())
)


def mapped(*maps: Sequence[tuple[str, str | None]] | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "body": pa.array(["b"] * len(maps)),
            "attributes": pa.array(maps, pa.map_(pa.string(), pa.string())),
            "x": pa.array([1.5] * len(maps)),
        }
    )


def test_a_map_becomes_columns() -> None:
    layout = layout_of(MAPPED, "t")
    batch = mapped([("a", "1"), ("b", "2")], None, [("b", None)], [("c", "3"), ("a", "4")])
    for start, expected in ((0, ["1", None, None, "4"]), (1, [None, None, "4"])):
        ((topic, events),) = events_of(batch.slice(start), layout, "t", 0)
        assert topic == "t"
        assert events.column("a").to_pylist() == expected
        assert events.column("x").to_pylist() == [1.5] * len(expected)
    with pytest.raises(InvalidInput, match="'x' has a column of its own"):
        list(events_of(mapped([("x", "1")]), layout, "t", 0))
    with pytest.raises(InvalidInput, match='column "attributes"'):
        list(events_of(mapped([("not a name", "1")]), layout, "t", 0))
    many = mapped(*([(f"a{row}_{column}", "1") for column in range(100)] for row in range(5)))
    assert [events.num_rows for _, events in events_of(many, layout, "t", 0)] == [2, 1, 2], "256 names fit at once"


def test_values_that_the_fabric_will_not_take_are_found_by_the_task() -> None:
    layout = layout_of(MAPPED, "t")
    with pytest.raises(BodyTooLarge, match='column "body"'):
        list(events_of(rows(b"12345"), layout_of(BODY, "t"), "t", 4))
    with pytest.raises(InvalidInput, match='column "a": a string'):
        list(events_of(mapped([("a", "x" * 9000)]), layout, "t", 0))
    with pytest.raises(InvalidInput, match="bytes of text"):
        list(events_of(mapped([(f"a{place}", "x" * 8000) for place in range(9)]), layout, "t", 0))
    named = StructType().add("body", BinaryType()).add("topic", StringType())
    batch = pa.RecordBatch.from_pydict({"body": [b"1", b"2", b"3"], "topic": ["a", "b", "a"]})
    found = [(topic, events.column(0).to_pylist()) for topic, events in events_of(batch, layout_of(named, ""), "", 0)]
    assert found == [("a", [b"1", b"3"]), ("b", [b"2"])]
    for topic in (None, "a/#", ""):
        wrong = pa.RecordBatch.from_pydict({"body": [b"1"], "topic": pa.array([topic], pa.string())})
        with pytest.raises(InvalidInput, match='column "topic"'):
            list(events_of(wrong, layout_of(named, ""), "", 0))


def test_large_rows_are_staged_in_pieces() -> None:
    found = list(events_of(rows(*[bytes(1 << 20)] * 10), layout_of(BODY, "t"), "t", 0))
    assert [events.num_rows for _, events in found] == [3, 3, 3, 1]
