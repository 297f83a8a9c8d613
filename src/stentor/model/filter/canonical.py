"""The canonical text of a filter: one spelling for each syntax tree, which reads back as the same tree."""

import enum

from stentor.model.filter.syntax import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    Expression,
    InList,
    Like,
    Literal,
    Logical,
    Negation,
    Not,
    Operator,
)


class _Level(enum.IntEnum):
    """How tightly an expression holds together; a looser one inside a tighter one gets parentheses."""

    LOGIC = 0
    NOT = 1  # as CESQL reads it, NOT is tight; nobody else does, so it is never left bare beside an operator
    COMPARISON = 2
    SUM = 3
    PRODUCT = 4
    SUFFIX = 5
    MINUS = 6
    PRIMARY = 7


_SUMS = frozenset({Operator.PLUS, Operator.MINUS})


def canonical(node: Expression) -> str:
    """Keywords in upper case, parentheses only where they are needed or help."""
    return _write(node)[0]


def _inside(node: Expression, level: _Level) -> str:
    text, own = _write(node)
    return text if own >= level else f"({text})"


def _write(node: Expression) -> tuple[str, _Level]:
    match node:
        case Literal():
            return literal(node), _Level.PRIMARY
        case Attribute(name):
            return name, _Level.PRIMARY
        case Exists(name):
            return f"EXISTS {name}", _Level.PRIMARY
        case Not(Like() | InList() as operand):
            return _suffixed(operand, "NOT "), _Level.COMPARISON
        case Not(operand):
            text, own = _write(operand)
            return f"NOT {text if own in (_Level.NOT, _Level.PRIMARY) else f'({text})'}", _Level.NOT
        case Negation(operand):
            return f"-{_inside(operand, _Level.MINUS)}", _Level.MINUS
        case Logical(logic, operands):
            return f" {logic.value} ".join(_inside(operand, _Level.NOT) for operand in operands), _Level.LOGIC
        case Comparison(relation, left, right):
            level = _Level.SUM
            return f"{_inside(left, level)} {relation.value} {_inside(right, level)}", _Level.COMPARISON
        case Arithmetic(operator, left, right):
            level = _Level.SUM if operator in _SUMS else _Level.PRODUCT
            return f"{_inside(left, level)} {operator.value} {_inside(right, _Level(level + 1))}", level
        case Like() | InList():
            return _suffixed(node, ""), _Level.SUFFIX
        case Call(name, arguments):
            return f"{name}({', '.join(map(canonical, arguments))})", _Level.PRIMARY


def _suffixed(node: Like | InList, inversion: str) -> str:
    subject = _inside(node.subject, _Level.MINUS)
    if isinstance(node, Like):
        return f"{subject} {inversion}LIKE {quote(node.pattern)}"
    return f"{subject} {inversion}IN ({', '.join(map(canonical, node.elements))})"


def literal(node: Literal) -> str:
    """A constant, as the parser reads it back."""
    value = node.value
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    text = repr(value)
    if isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # without a point, 1e+20 would read as the name 1e
    return text


def quote(text: str) -> str:
    """A string literal, in the quotes that need fewer escapes; single ones if both need as many."""
    if "'" not in text and "\\" not in text:
        return f"'{text}'"
    single, double = _escaped(text, "'"), _escaped(text, '"')
    if single is None or (double is not None and len(double) < len(single)):
        assert double is not None, "a literal was read from one of the two"
        return double
    return single


def _escaped(text: str, mark: str) -> str | None:
    """The text between such quotes; None if a backslash would hide one that must count."""
    rest = iter(text)
    for character in rest:
        if character == "\\" and next(rest, mark) == mark:
            return None
    return mark + text.replace(mark, "\\" + mark) + mark
