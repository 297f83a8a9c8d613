"""The syntax tree of a filter: what the parser builds and everything else reads.

Its nodes are kept from the garbage collector: a tree has no cycles, and a broker may hold millions of them.
"""

import enum
from collections.abc import Iterator

import msgspec

from stentor.model.attribute import Kind, Value


class Logic(enum.StrEnum):
    """How truths are joined."""

    AND = "AND"
    OR = "OR"
    XOR = "XOR"


class Relation(enum.StrEnum):
    """How two values are compared."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


class Operator(enum.StrEnum):
    """What is computed of two numbers."""

    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDE = "/"
    REMAINDER = "%"


class Literal(msgspec.Struct, frozen=True, gc=False):
    """A constant; the kind keeps 1, 1.0 and TRUE apart, which Python calls equal."""

    kind: Kind
    value: Value


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """The value of an attribute of the event."""

    name: str


class Exists(msgspec.Struct, frozen=True, gc=False):
    """Whether the event has the attribute."""

    name: str


class Not(msgspec.Struct, frozen=True, gc=False):
    """The opposite; it stays where it was written, since a missing attribute is an error on both sides of it."""

    operand: "Expression"


class Negation(msgspec.Struct, frozen=True, gc=False):
    """The number with the other sign."""

    operand: "Expression"


class Logical(msgspec.Struct, frozen=True, gc=False):
    """Two or more operands joined, evaluated from the left; none of them is joined the same way itself."""

    logic: Logic
    operands: tuple["Expression", ...]


class Comparison(msgspec.Struct, frozen=True, gc=False):
    relation: Relation
    left: "Expression"
    right: "Expression"


class Arithmetic(msgspec.Struct, frozen=True, gc=False):
    operator: Operator
    left: "Expression"
    right: "Expression"


class Like(msgspec.Struct, frozen=True, gc=False):
    subject: "Expression"
    pattern: str


class InList(msgspec.Struct, frozen=True, gc=False):
    """`subject IN (elements)`, tried from the left."""

    subject: "Expression"
    elements: tuple["Expression", ...]


class Call(msgspec.Struct, frozen=True, gc=False):
    """A function by its name in upper case."""

    name: str
    arguments: tuple["Expression", ...]


Expression = Literal | Attribute | Exists | Not | Negation | Logical | Comparison | Arithmetic | Like | InList | Call


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside this one, in the order of evaluation."""
    match node:
        case Not(operand) | Negation(operand):
            return (operand,)
        case Logical(_, operands):
            return operands
        case Comparison(_, left, right) | Arithmetic(_, left, right):
            return (left, right)
        case Like(subject, _):
            return (subject,)
        case InList(subject, elements):
            return (subject, *elements)
        case Call(_, arguments):
            return arguments
    return ()


def walk(node: Expression) -> Iterator[Expression]:
    """The expression and all inside it."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


def names(node: Expression) -> frozenset[str]:
    """The attributes that an expression looks at."""
    return frozenset(part.name for part in walk(node) if isinstance(part, Attribute | Exists))
