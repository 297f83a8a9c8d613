"""Evaluation: the syntax tree made into closures, once, that take an event's attributes and give an outcome.

Errors follow CESQL's fail-fast mode: an operator whose operand has an error gives its own zero value and that error.
"""

from collections.abc import Callable, Mapping

from stentor.model.attribute import Kind, Value
from stentor.model.filter import functions
from stentor.model.filter.casting import compare, compute, equal, negate, to_boolean, to_decimal, to_integer, to_string
from stentor.model.filter.failure import MISSING_ATTRIBUTE, MISSING_FUNCTION, Failure, Outcome
from stentor.model.filter.pattern import matcher
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
    Logic,
    Logical,
    Negation,
    Not,
    Relation,
)

Attributes = Mapping[str, Value]
Evaluator = Callable[[Attributes], Outcome]


def compile_expression(node: Expression) -> Evaluator:
    """A function from attributes to an outcome."""
    match node:
        case Literal(_, value):
            return lambda _attributes: value
        case Attribute(name):
            return _attribute(name)
        case Exists(name):
            return lambda attributes: attributes.get(name) is not None
        case Not(operand):
            return _not(compile_expression(operand))
        case Negation(operand):
            inner = compile_expression(operand)
            return lambda attributes: negate(inner(attributes))
        case Logical(logic, operands):
            return _LOGICS[logic](tuple(compile_expression(operand) for operand in operands))
        case Comparison(relation, left, right):
            return _comparison(relation, left, right)
        case Arithmetic(operator, left, right):
            first, second = compile_expression(left), compile_expression(right)
            return lambda attributes: compute(operator, first(attributes), second(attributes))
        case Like(subject, pattern):
            return _like(subject, pattern)
        case InList(subject, elements):
            return _membership(subject, elements)
        case Call(name, arguments):
            return _call(name, tuple(compile_expression(argument) for argument in arguments))


def _attribute(name: str) -> Evaluator:
    def attribute(attributes: Attributes) -> Outcome:
        value = attributes.get(name)
        return MISSING_ATTRIBUTE if value is None else value

    return attribute


def _not(operand: Evaluator) -> Evaluator:
    def inversion(attributes: Attributes) -> Outcome:
        truth = operand(attributes)
        if truth is True:
            return False
        if truth is False:
            return True
        cast = to_boolean(truth)
        return cast if isinstance(cast, Failure) else not cast

    return inversion


def _and(operands: tuple[Evaluator, ...]) -> Evaluator:
    def conjunction(attributes: Attributes) -> Outcome:
        for operand in operands:
            truth = operand(attributes)
            if truth is not True:
                truth = to_boolean(truth)
                if truth is not True:
                    return truth
        return True

    return conjunction


def _or(operands: tuple[Evaluator, ...]) -> Evaluator:
    def disjunction(attributes: Attributes) -> Outcome:
        for operand in operands:
            truth = operand(attributes)
            if truth is not False:
                truth = to_boolean(truth)
                if truth is not False:
                    return truth
        return False

    return disjunction


def _xor(operands: tuple[Evaluator, ...]) -> Evaluator:
    def exclusion(attributes: Attributes) -> Outcome:
        parity = False
        for operand in operands:
            truth = to_boolean(operand(attributes))
            if isinstance(truth, Failure):
                return truth
            parity ^= truth
        return parity

    return exclusion


_LOGICS = {Logic.AND: _and, Logic.OR: _or, Logic.XOR: _xor}


def _comparison(relation: Relation, left: Expression, right: Expression) -> Evaluator:
    if isinstance(left, Attribute) and isinstance(right, Literal):
        if right.kind in (Kind.INTEGER, Kind.DECIMAL):
            return _NUMBERS[relation](left.name, right.value)
        if right.kind is Kind.STRING and relation is Relation.EQUAL:
            return _equals_text(left.name, right.value)
    first, second = compile_expression(left), compile_expression(right)
    is_equality = relation in (Relation.EQUAL, Relation.UNEQUAL)

    def comparison(attributes: Attributes) -> Outcome:
        value, other = first(attributes), second(attributes)
        if is_equality and type(value) is type(other) and type(value) is not Failure:
            return (value == other) is (relation is Relation.EQUAL)
        return compare(relation, value, other)

    return comparison


def _equals_text(name: str, target: Value) -> Evaluator:
    def comparison(attributes: Attributes) -> Outcome:
        value = attributes.get(name)
        if type(value) is str:
            return value == target
        return MISSING_ATTRIBUTE if value is None else equal(value, target)

    return comparison


# One closure per relation, so that the common comparison costs no dispatch; Python compares int and float exactly.


def _slow(relation: Relation, value: Value | None, target: Value) -> Outcome:
    return MISSING_ATTRIBUTE if value is None else compare(relation, value, target)


def _equal(name: str, target: Value) -> Evaluator:
    def comparison(attributes: Attributes) -> Outcome:
        value = attributes.get(name)
        kind = type(value)
        return value == target if kind is float or kind is int else _slow(Relation.EQUAL, value, target)

    return comparison


def _unequal(name: str, target: Value) -> Evaluator:
    def comparison(attributes: Attributes) -> Outcome:
        value = attributes.get(name)
        kind = type(value)
        return value != target if kind is float or kind is int else _slow(Relation.UNEQUAL, value, target)

    return comparison


def _less(name: str, target: Value) -> Evaluator:
    def comparison(attributes: Attributes) -> Outcome:
        value = attributes.get(name)
        if isinstance(value, float) or type(value) is int:
            return value < target  # type: ignore[operator]
        return _slow(Relation.LESS, value, target)

    return comparison


def _less_or_equal(name: str, target: Value) -> Evaluator:
    def comparison(attributes: Attributes) -> Outcome:
        value = attributes.get(name)
        if isinstance(value, float) or type(value) is int:
            return value <= target  # type: ignore[operator]
        return _slow(Relation.LESS_OR_EQUAL, value, target)

    return comparison


def _greater(name: str, target: Value) -> Evaluator:
    def comparison(attributes: Attributes) -> Outcome:
        value = attributes.get(name)
        if isinstance(value, float) or type(value) is int:
            return value > target  # type: ignore[operator]
        return _slow(Relation.GREATER, value, target)

    return comparison


def _greater_or_equal(name: str, target: Value) -> Evaluator:
    def comparison(attributes: Attributes) -> Outcome:
        value = attributes.get(name)
        if isinstance(value, float) or type(value) is int:
            return value >= target  # type: ignore[operator]
        return _slow(Relation.GREATER_OR_EQUAL, value, target)

    return comparison


_NUMBERS: dict[Relation, Callable[[str, Value], Evaluator]] = {
    Relation.EQUAL: _equal,
    Relation.UNEQUAL: _unequal,
    Relation.LESS: _less,
    Relation.LESS_OR_EQUAL: _less_or_equal,
    Relation.GREATER: _greater,
    Relation.GREATER_OR_EQUAL: _greater_or_equal,
}


def _like(subject: Expression, pattern: str) -> Evaluator:
    value, matches = compile_expression(subject), matcher(pattern)

    def like(attributes: Attributes) -> Outcome:
        text = to_string(value(attributes))
        return text.as_boolean() if isinstance(text, Failure) else matches(text)

    return like


def _membership(subject: Expression, elements: tuple[Expression, ...]) -> Evaluator:
    constants = tuple(element.value for element in elements if isinstance(element, Literal))
    if isinstance(subject, Attribute) and len(constants) == len(elements):
        return _constant_membership(subject.name, constants)
    value, candidates = compile_expression(subject), tuple(compile_expression(element) for element in elements)

    def membership(attributes: Attributes) -> Outcome:
        member = value(attributes)
        if isinstance(member, Failure):
            return member.as_boolean()
        for candidate in candidates:
            found = equal(candidate(attributes), member)
            if found is not False:
                return found
        return False

    return membership


def _constant_membership(name: str, constants: tuple[Value, ...]) -> Evaluator:
    tables = {kind: memberships(constants, kind) for kind in (bool, int, float, str)}
    nothing: tuple[frozenset[Value], bool | Failure] = frozenset(), False

    def membership(attributes: Attributes) -> Outcome:
        value = attributes.get(name)
        if value is None:
            return MISSING_ATTRIBUTE
        members, otherwise = tables.get(type(value), nothing)
        return value in members or otherwise

    return membership


def memberships(constants: tuple[Value, ...], kind: type[Value]) -> tuple[frozenset[Value], bool | Failure]:
    """What a value of this type is a member of, and the answer if it is not; nothing counts after a failed cast."""
    members: list[Value] = []
    for constant in constants:
        member = constant if kind in (int, float) and type(constant) in (int, float) else _CASTS[kind](constant)
        if isinstance(member, Failure):
            return frozenset(members), member.as_boolean()
        members.append(member)
    return frozenset(members), False


_CASTS: dict[type[Value], Callable[[Outcome], Outcome]] = {
    bool: to_boolean,
    int: to_integer,
    float: to_decimal,
    str: to_string,
}


def _call(name: str, arguments: tuple[Evaluator, ...]) -> Evaluator:
    function = functions.find(name, len(arguments))
    if function is None:
        return lambda _attributes: MISSING_FUNCTION
    body = function.body
    if len(arguments) == 1:
        return _call_with_one(function, arguments[0])
    casts = function.casts + (function.rest,) * (len(arguments) - len(function.casts))

    def call(attributes: Attributes) -> Outcome:
        values = []
        for argument, cast in zip(arguments, casts, strict=True):
            assert cast is not None
            value = cast(argument(attributes))
            if isinstance(value, Failure):
                return functions.zero(function, value)
            values.append(value)
        return body(*values)

    return call


def _call_with_one(function: functions.Function, argument: Evaluator) -> Evaluator:
    body, cast = function.body, function.casts[0] if function.casts else function.rest
    assert cast is not None

    def call(attributes: Attributes) -> Outcome:
        value = cast(argument(attributes))
        return functions.zero(function, value) if isinstance(value, Failure) else body(value)

    return call
