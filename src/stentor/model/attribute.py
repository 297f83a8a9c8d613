"""Attributes: typed name/value pairs that filters look at; a schema is the ordered set of their names and types."""

import enum
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta

from stentor.model.errors import AttributeValueError
from stentor.model.ids import NO_SCHEMA, SchemaId, fingerprint

Value = bool | int | float | str

SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1
LONGEST_NAME = 128
LONGEST_STRING = 8192
MOST_ATTRIBUTES = 256
LARGEST_ATTRIBUTES = 64 << 10  # bytes of text in one event's attributes
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class Kind(enum.IntEnum):
    """The type of an attribute's values, and of a column of them."""

    BOOLEAN = 1
    INTEGER = 2
    DECIMAL = 3
    STRING = 4


WIDTHS = {Kind.BOOLEAN: 1, Kind.INTEGER: 8, Kind.DECIMAL: 8}  # bytes of a value in a column
_KINDS: dict[type, Kind] = {bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.DECIMAL, str: Kind.STRING}


class Schema(msgspec.Struct, frozen=True, array_like=True):
    """The columns of a batch, in order."""

    names: Annotated[tuple[Annotated[str, Meta(max_length=LONGEST_NAME)], ...], Meta(max_length=MOST_ATTRIBUTES)]
    kinds: Annotated[tuple[Kind, ...], Meta(max_length=MOST_ATTRIBUTES)]

    @property
    def id(self) -> SchemaId:
        return _schema_id(self)

    @property
    def width(self) -> int:
        """Bytes of one event's values, if no attribute is a string; 0 otherwise."""
        return _width(self)


EMPTY_SCHEMA = Schema((), ())


@lru_cache(maxsize=4096)
def _schema_id(schema: Schema) -> SchemaId:
    if not schema.names:
        return NO_SCHEMA
    text = ",".join(f"{name}:{int(kind)}" for name, kind in zip(schema.names, schema.kinds, strict=True))
    return SchemaId(fingerprint("schema", text))


@lru_cache(maxsize=4096)
def _width(schema: Schema) -> int:
    return 0 if Kind.STRING in schema.kinds else sum(WIDTHS[kind] for kind in schema.kinds)


def check_schema(schema: Schema) -> Schema:
    """The schema itself, if a peer may define it."""
    if len(schema.names) != len(schema.kinds) or len(set(schema.names)) != len(schema.names):
        raise AttributeValueError("a schema names each of its attributes once, with a type for each")
    if len(schema.names) > MOST_ATTRIBUTES:
        raise AttributeValueError(f"an event has at most {MOST_ATTRIBUTES} attributes")
    for name in schema.names:
        check_name(name)
    return schema


def check_name(name: str) -> str:
    if not name or len(name) > LONGEST_NAME or not _NAME.issuperset(name):
        raise AttributeValueError(
            f"attribute name {name[:40]!r}: letters, digits and '_', at most {LONGEST_NAME} characters"
        )
    return name


def kind_of(name: str, value: object) -> Kind:
    """The value's type, if it is one an attribute can have."""
    kind = _KINDS.get(type(value))
    if kind is None:
        raise AttributeValueError(
            f"attribute {name!r} is {type(value).__name__}: attributes are bool, int, float or str; "
            "put anything else into the body"
        )
    return kind


def check_value(name: str, kind: Kind, value: Value) -> None:
    """Refuse what the wire cannot carry or a filter cannot compare."""
    if kind is Kind.INTEGER:
        if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:  # type: ignore[operator]
            shown = value if value.bit_length() < 100 else "this one"  # type: ignore[union-attr]
            raise AttributeValueError(f"attribute {name!r}: integers have 64 bits, {shown} does not fit")
    elif kind is Kind.DECIMAL:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise AttributeValueError(
                f"attribute {name!r} is {value}: not a number that filters can compare; leave the attribute out"
            )
    elif kind is Kind.STRING:
        if len(value) > LONGEST_STRING:  # type: ignore[arg-type]
            raise AttributeValueError(f"attribute {name!r}: a string has at most {LONGEST_STRING} characters")
        try:
            value.encode()  # type: ignore[union-attr]
        except UnicodeEncodeError:
            raise AttributeValueError(f"attribute {name!r} is not valid Unicode") from None


def schema_of(attributes: Mapping[str, Value]) -> Schema:
    """The schema of one event's attributes, checked."""
    kinds = []
    for name, value in attributes.items():
        kind = kind_of(name, value)
        check_name(name)
        check_value(name, kind, value)
        kinds.append(kind)
    if len(kinds) > MOST_ATTRIBUTES:
        raise AttributeValueError(f"an event has at most {MOST_ATTRIBUTES} attributes")
    return Schema(tuple(attributes), tuple(kinds))
