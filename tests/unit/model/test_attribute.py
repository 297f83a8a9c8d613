"""Attributes: which names and values events may carry, and what their schemas are called."""

import enum
import math
import re
from decimal import Decimal

import numpy as np
import pytest

from stentor.model.attribute import (
    EMPTY_SCHEMA,
    LONGEST_NAME,
    LONGEST_STRING,
    MOST_ATTRIBUTES,
    Kind,
    Schema,
    Value,
    check_name,
    check_schema,
    check_value,
    kind_of,
    schema_of,
)
from stentor.model.errors import AttributeValueError, InvalidInput
from stentor.model.ids import NO_SCHEMA


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.req("GE-06")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, Kind.BOOLEAN),
        (False, Kind.BOOLEAN),
        (0, Kind.INTEGER),
        (-(2**63), Kind.INTEGER),
        (2**63 - 1, Kind.INTEGER),
        (1.5, Kind.DECIMAL),
        (-0.0, Kind.DECIMAL),
        (5e-324, Kind.DECIMAL),
        ("", Kind.STRING),
        ("été 😀", Kind.STRING),
        ("\0", Kind.STRING),
        ("x" * LONGEST_STRING, Kind.STRING),
    ],
)
def test_booleans_integers_decimals_and_strings_are_carried(value: Value, kind: Kind) -> None:
    assert kind_of("a", value) is kind
    assert schema_of({"a": value}) == Schema(("a",), (kind,))


@pytest.mark.parametrize(
    "value",
    [None, b"bytes", bytearray(b"x"), [1], (1,), {"a": 1}, {1}, 1j, Decimal(1), object(), np.int64(1), Colour.RED],
)
def test_any_other_type_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(AttributeValueError, match=f"attribute 'a' is {type(value).__name__}: .*into the body"):
        kind_of("a", value)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (2**63, "64 bits, 9223372036854775808 does not fit"),
        (-(2**63) - 1, "64 bits"),
        (math.nan, "attribute 'a' is nan: not a number that filters can compare"),
        (math.inf, "attribute 'a' is inf"),
        (-math.inf, "attribute 'a' is -inf"),
        ("x" * (LONGEST_STRING + 1), f"at most {LONGEST_STRING} characters"),
        ("\ud800", "attribute 'a' is not valid Unicode"),
        ("ok\udfff", "not valid Unicode"),
    ],
)
def test_a_value_that_cannot_be_carried_is_refused(value: Value, complaint: str) -> None:
    with pytest.raises(AttributeValueError, match=re.escape(complaint)):
        schema_of({"a": value})
    with pytest.raises(InvalidInput):
        check_value("a", kind_of("a", value), value)


def test_an_integer_too_long_to_print_is_refused_like_any_other() -> None:
    with pytest.raises(AttributeValueError, match="64 bits"):
        schema_of({"a": 10**5000})


@pytest.mark.parametrize("name", ["a", "A9_", "_", "0", "x" * LONGEST_NAME])
def test_names_are_letters_digits_and_underscores(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "a-b", "a b", "é", "a.b", "a\0", "\ud800", "x" * (LONGEST_NAME + 1), "a\n"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AttributeValueError, match="letters, digits and '_'") as caught:
        schema_of({name: 1})
    assert len(str(caught.value)) < 300


def test_an_event_has_a_bounded_number_of_attributes() -> None:
    most = {f"a{number}": number for number in range(MOST_ATTRIBUTES)}
    assert len(schema_of(most).names) == MOST_ATTRIBUTES
    with pytest.raises(AttributeValueError, match=f"at most {MOST_ATTRIBUTES}"):
        schema_of({**most, "more": 1})


@pytest.mark.req("GE-06")
def test_attributes_keep_their_order_and_their_types() -> None:
    one = schema_of({"b": 1, "a": "x"})
    assert one == Schema(("b", "a"), (Kind.INTEGER, Kind.STRING))
    assert one.id != schema_of({"a": "x", "b": 1}).id
    assert one.id != schema_of({"b": 1.0, "a": "x"}).id


def test_a_schema_has_the_same_number_in_every_process_and_version() -> None:
    assert Schema(("carrier", "dep_delay"), (Kind.STRING, Kind.DECIMAL)).id == 6272513045970011825
    assert Schema(("dep_delay", "carrier"), (Kind.DECIMAL, Kind.STRING)).id == 8104153685229008779
    assert EMPTY_SCHEMA.id == NO_SCHEMA == 0
    assert [int(kind) for kind in Kind] == [1, 2, 3, 4], "these numbers are on the wire and in schema ids"


@pytest.mark.parametrize(
    "schema",
    [
        Schema(("a",), ()),
        Schema((), (Kind.STRING,)),
        Schema(("a", "a"), (Kind.STRING, Kind.STRING)),
        Schema(("",), (Kind.STRING,)),
        Schema(("a b",), (Kind.STRING,)),
        Schema(tuple(f"a{n}" for n in range(MOST_ATTRIBUTES + 1)), (Kind.BOOLEAN,) * (MOST_ATTRIBUTES + 1)),
    ],
)
def test_a_peer_cannot_define_a_schema_that_no_event_could_have(schema: Schema) -> None:
    with pytest.raises(AttributeValueError):
        check_schema(schema)


def test_a_peer_can_define_a_schema_that_an_event_could_have() -> None:
    schema = Schema(("a", "b"), (Kind.STRING, Kind.BOOLEAN))
    assert check_schema(schema) is schema
    assert check_schema(EMPTY_SCHEMA) is EMPTY_SCHEMA
