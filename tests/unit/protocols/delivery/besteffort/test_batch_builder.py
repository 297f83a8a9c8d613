"""Drafts: events with whatever attributes become one batch, until a type changes or it is full."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.model.attribute import LONGEST_STRING, MOST_ATTRIBUTES, Kind, Schema, Value, schema_of
from stentor.model.errors import AttributeValueError
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId
from stentor.protocols.delivery.besteffort.batch_builder import BatchBuilder, Shapes, check_columns
from stentor.wire.block import Block, Origin
from stentor.wire.frame import SOFT_FRAME
from stentor.wire.head import LARGEST_COUNT

ORIGIN = Origin(TopicId(1), PublisherId(2), Incarnation(3), CatenationNumber(4), 5)


def decoded(draft: BatchBuilder) -> Block:
    made = Block(draft.encode(ORIGIN), draft.schema)
    made.verify()
    return made


def add(draft: BatchBuilder, attributes: dict[str, Value], body: bytes = b"") -> bool:
    return draft.add(schema_of(attributes), attributes, body)


def test_a_draft_holds_the_union_of_its_events_attributes() -> None:
    builder = BatchBuilder("t", 0)
    events: list[dict[str, Value]] = [{"a": 1}, {"b": "x", "a": 2}, {}, {"c": 1.5}, {"a": 3, "b": ""}]
    for number, attributes in enumerate(events):
        assert add(builder, attributes, str(number).encode())
    assert builder.schema == Schema(("a", "b", "c"), (Kind.INTEGER, Kind.STRING, Kind.DECIMAL))
    assert decoded(builder).rows() == events
    assert decoded(builder).bodies() == [b"0", b"1", b"2", b"3", b"4"]


def test_a_change_of_type_does_not_fit_and_changes_nothing() -> None:
    builder = BatchBuilder("t", 0)
    add(builder, {"a": 1})
    for value in (1.0, "1", True):
        assert not add(builder, {"b": 1, "a": value})
    assert builder.schema.names == ("a",)
    assert decoded(builder).rows() == [{"a": 1}]


KINDS: list[Value] = [1, 1.5, "x", True]
attribute_sets = st.dictionaries(st.sampled_from("abc"), st.sampled_from(KINDS), max_size=3)


@settings(deadline=None, max_examples=100)
@given(st.lists(attribute_sets, min_size=1, max_size=15))
def test_whatever_is_taken_comes_out_as_it_was(events: list[dict[str, Value]]) -> None:
    builders = [BatchBuilder("t", 0)]
    for attributes in events:
        if not add(builders[-1], attributes):
            builders.append(BatchBuilder("t", 0))
            assert add(builders[-1], attributes), "an empty draft takes anything"
    assert [row for builder in builders for row in decoded(builder).rows()] == events


def test_a_draft_is_closed_near_the_soft_limit() -> None:
    builder = BatchBuilder("t", 0)
    taken = 0
    while add(builder, {}, bytes(1000)):
        taken += 1
    assert SOFT_FRAME - 2200 < taken * 1008 <= SOFT_FRAME
    large = BatchBuilder("t", 0)
    assert add(large, {}, bytes(1 << 20)), "one large event is a batch of its own"
    assert not add(large, {}, b"")


def test_attributes_count_towards_the_soft_limit_too() -> None:
    builder = BatchBuilder("t", 0)
    for number in range(1000):
        if not add(builder, {"text": str(number) + "x" * 8000}):
            break
    assert len(builder.encode(ORIGIN)) < 4 * SOFT_FRAME


def test_an_event_that_does_not_fit_leaves_none_of_its_attributes_behind() -> None:
    builder = BatchBuilder("t", 0)
    for number in range(4000):
        assert add(builder, {"n": number})
    before = len(builder.encode(ORIGIN))
    assert not add(builder, {f"a{number}": number for number in range(200)})
    assert builder.schema.names == ("n",)
    assert len(builder.encode(ORIGIN)) == before


def test_a_draft_never_has_more_attributes_than_an_event_may() -> None:
    builder = BatchBuilder("t", 0)
    for number in range(MOST_ATTRIBUTES + 50):
        if not add(builder, {f"a{number}": 1}):
            break
    assert len(builder.schema.names) <= MOST_ATTRIBUTES


def test_a_draft_can_be_filled_with_columns_and_takes_more_afterwards() -> None:
    builder = BatchBuilder("t", 0)
    builder.fill(Schema(("a",), (Kind.INTEGER,)), [[1, None]], [b"x", b"y"])
    assert add(builder, {"b": True}, b"z")
    assert not add(builder, {"a": "text"})
    assert decoded(builder).rows() == [{"a": 1}, {}, {"b": True}]


def test_shapes_are_checked_each_time_and_worked_out_once() -> None:
    shapes = Shapes()
    first = shapes.check({"a": 1, "b": "x"})
    assert shapes.check({"a": 2, "b": "y"}) is first
    assert shapes.check({"b": "x", "a": 1}) is not first
    assert shapes.check({"a": True, "b": "x"}) is not first
    bad: list[dict[str, Value]] = [{"a": 2**63, "b": ""}, {"a": 1, "b": "\ud800"}, {"a": 1, "b": "x" * 8193}]
    for attributes in bad:
        with pytest.raises(AttributeValueError):
            shapes.check(attributes)
    shapes.check({"price": 1.0})
    with pytest.raises(AttributeValueError, match="nan"):
        shapes.check({"price": math.nan})
    with pytest.raises(AttributeValueError, match="bytes"):
        shapes.check({"a": b"x"})  # type: ignore[dict-item]
    with pytest.raises(AttributeValueError, match="NoneType"):
        shapes.check({"a": None})  # type: ignore[dict-item]


def test_many_shapes_do_not_pile_up() -> None:
    shapes = Shapes()
    for number in range(10_000):
        shapes.check({f"a{number}": 1})
    assert len(shapes._known) <= 4096


def test_columns_are_checked_as_a_whole() -> None:
    schema, kept = check_columns(3, {"n": [1, None, 3], "nothing": [None] * 3, "who": ["a", "b", None]})
    assert schema == Schema(("n", "who"), (Kind.INTEGER, Kind.STRING))
    assert kept == [[1, None, 3], ["a", "b", None]]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"a": [1, 2]}, "'a' has 2 values for 3 bodies"),
        ({"a": [1, "x", None]}, "'a' mixes int, str"),
        ({"a": [1, True, 2]}, "'a' mixes bool, int"),
        ({"a": [1, 2**63, 0]}, "64 bits"),
        ({"a": [1, -(2**63) - 1, 0]}, "64 bits"),
        ({"a": [1.0, math.nan, 0.0]}, "is nan"),
        ({"a": [math.inf, -math.inf, 0.0]}, "is inf"),
        ({"a": ["x", "\udfff", ""]}, "not valid Unicode"),
        ({"a": ["x", "y" * (LONGEST_STRING + 1), ""]}, "at most"),
        ({"a": [b"x", b"y", b"z"]}, "is bytes"),
        ({"a b": [1, 2, 3]}, "attribute name"),
        ({f"a{number}": [1, 2, 3] for number in range(MOST_ATTRIBUTES + 1)}, f"at most {MOST_ATTRIBUTES}"),
    ],
)
def test_bad_columns_are_refused(columns: dict[str, list[Value | None]], complaint: str) -> None:
    with pytest.raises(AttributeValueError, match=complaint):
        check_columns(3, columns)


def test_large_finite_numbers_are_fine_though_their_sum_is_not() -> None:
    schema, _ = check_columns(3, {"a": [1e308, 1e308, 1e308]})
    assert schema.kinds == (Kind.DECIMAL,)


def test_a_draft_never_holds_more_events_than_a_block_can() -> None:
    builder = BatchBuilder("t", 0)
    builder.fill(Schema((), ()), [], [b""] * LARGEST_COUNT)
    assert not add(builder, {})
