"""Traces as rows and as columns: which are one, what they name once, and that nothing of them is lost."""

from typing import Any

import msgspec

from stentor.model.reports.trace import (
    SCHEMA,
    Intent,
    Trace,
    TraceKind,
    audience_body,
    audience_of,
    intent_body,
    intent_of,
    numbers_body,
    numbers_of,
    signed,
    to_columns,
)
from stentor.protocols.delivery.besteffort.batch_builder import check_columns

OWN = {"topic", "publisher", "incarnation", "catenation", "repository", "sequence", "time", "body", "attributes"}


def stored(first: int, last: int, start: int, body: bytes = b"{}", at: int = 7) -> Trace:
    return Trace(
        kind=TraceKind.STORED,
        at=at,
        about="t",
        source_id=1 << 63,
        life=3,
        first=first,
        last=last,
        count=last - first + 1,
        keeper="r",
        start=start,
        end=start + last - first,
        size=10,
        body=body,
    )


def test_what_goes_on_is_one_trace() -> None:
    both = stored(1, 4, 11).joined(stored(5, 5, 15))
    assert both is not None
    assert (both.first, both.last, both.count, both.start, both.end, both.size) == (1, 5, 5, 11, 15, 20)


def test_what_does_not_go_on_stays_apart() -> None:
    one = stored(1, 4, 11)
    replace = msgspec.structs.replace
    others = [
        stored(6, 6, 15),
        stored(5, 5, 16),
        stored(5, 5, 15, b'{"a":[]}'),
        stored(5, 5, 15, at=8),
        replace(stored(5, 5, 15), source_id=2),
        replace(stored(5, 5, 15), life=4),
        replace(stored(5, 5, 15), keeper="q"),
        replace(stored(5, 5, 15), about="u"),
        replace(stored(5, 5, 15), kind=TraceKind.VOIDED),
        replace(stored(5, 7, 15), count=2),
    ]
    assert [one.joined(other) for other in others] == [None] * len(others)


def test_offsets_from_the_first_number_are_not_joined() -> None:
    body = audience_body({"a": [(0, 1)]})
    assert stored(1, 4, 11, body).joined(stored(5, 8, 15, body)) is None


def test_bodies_come_back() -> None:
    wanted = {"b": [], "a": [(0, 3), (7, 7)]}
    assert audience_of(audience_body(wanted)) == wanted
    assert numbers_of(numbers_body(10, [(10, 12), (15, 15)])) == [(0, 2), (5, 5)]
    assert numbers_body(10, [(10, 12)]) == b""
    intent = Intent("n > 1", [("00ff", 3, 7)], [("n > 2", [("00ff", 3, 5)])])
    assert intent_of(intent_body(intent)) == intent


def told(rows: list[Trace], node: str = "n", offset: int = 0) -> tuple[dict[str, list[Any]], list[bytes]]:
    """Columns by name."""
    columns, bodies = to_columns(rows, node, offset)
    return dict(zip(SCHEMA.names, map(list, columns), strict=True)), list(bodies)


def test_columns_are_what_events_can_have_and_none_is_a_stored_event_s_own() -> None:
    columns, bodies = told([stored(1, 4, 11), stored(9, 9, 20, at=9)], "repository:r", 1000)
    schema, _ = check_columns(len(bodies), columns)
    assert schema == SCHEMA
    assert not OWN & set(SCHEMA.names)
    assert columns["at"] == [1007, 1009]
    assert columns["kind"] == ["stored", "stored"]
    assert columns["source_id"] == [-(1 << 63)] * 2
    assert columns["node"] == ["repository:r"] * 2


def test_one_schema_whatever_is_told() -> None:
    rows = [stored(1, 4, 11), Trace(kind=TraceKind.ENDED, at=3), Trace(kind=TraceKind.HOP, at=1, peer="b1")]
    assert {check_columns(1, told([row])[0])[0] for row in rows} == {SCHEMA}


def test_a_body_is_told_once_and_known_by_its_note() -> None:
    rows = [stored(1, 1, 1, b'{"a":[]}'), stored(3, 3, 3, b'{"b":[]}'), stored(5, 5, 5, b'{"a":[]}')]
    columns, bodies = told(rows)
    notes = columns["note"]
    assert bodies == [b'{"a":[]}', b'{"b":[]}', b""]
    assert notes[0] == notes[2] != notes[1]
    assert 0 not in notes
    assert told([Trace(kind=TraceKind.ENDED, at=3)])[0]["note"] == [0]


def test_a_body_that_is_too_large_is_left_out() -> None:
    columns, bodies = told([stored(1, 1, 1, b"x" * 70_000)])
    assert (bodies, columns["note"] != [0]) == ([b""], True)


def test_ids_fit_into_attributes() -> None:
    assert [signed(number) for number in (0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)] == [
        0,
        1,
        (1 << 63) - 1,
        -(1 << 63),
        -1,
    ]
