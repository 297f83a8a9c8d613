"""Selection: a filter over the columns of a batch, all events at once.

A part of a filter is true, false or in error for each event. Where it looks at one attribute of few values (a string's
dictionary, a Boolean) it is evaluated once per value; where it compares a number with constants, numpy does it; and
otherwise the closures of a single event are called for each.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import Kind, Value
from stentor.model.column import Column
from stentor.model.filter.casting import to_boolean
from stentor.model.filter.evaluation import Evaluator, compile_expression
from stentor.model.filter.scan import Scan, scan_numbers, scan_texts
from stentor.model.filter.syntax import Exists, Expression, Logic, Logical, Not, names

Mask = NDArray[np.bool_]
Columns = Callable[[str], Column | None]
Selector = Callable[[Columns, int], Mask]


class Truth(NamedTuple):
    """Where a part is true, and where it is in error; None is nowhere. No event is in both."""

    true: Mask
    wrong: Mask | None


Part = Callable[[Columns, int], Truth]


def compile_selection(root: Expression) -> Selector:
    """A function from columns to the mask of the events that match."""
    # Only a Boolean matches: the text 'true' is cast beside AND and after NOT, but not on its own.
    is_joined = isinstance(root, Logical | Not)
    part = _part(root) if is_joined else _leaf(root, compile_expression(root))
    return lambda columns, count: part(columns, count).true


def _part(node: Expression) -> Part:
    match node:
        case Logical(Logic.AND, operands):
            return _and([_part(operand) for operand in operands])
        case Logical(Logic.OR, operands):
            return _or([_part(operand) for operand in operands])
        case Logical(Logic.XOR, operands):
            return _xor([_part(operand) for operand in operands])
        case Not(operand):
            return _not(_part(operand))
    evaluate = compile_expression(node)
    return _leaf(node, lambda attributes: to_boolean(evaluate(attributes)))


def _not(operand: Part) -> Part:
    def inversion(columns: Columns, count: int) -> Truth:
        true, wrong = operand(columns, count)
        return Truth(~true if wrong is None else ~(true | wrong), wrong)

    return inversion


def _and(operands: list[Part]) -> Part:
    first, *others = operands

    def conjunction(columns: Columns, count: int) -> Truth:
        true, wrong = first(columns, count)
        for operand in others:
            next_true, next_wrong = operand(columns, count)
            if next_wrong is not None:
                next_wrong = true & next_wrong  # what is false already is not evaluated
                wrong = next_wrong if wrong is None else wrong | next_wrong
            true = true & next_true
        return Truth(true, wrong)

    return conjunction


def _or(operands: list[Part]) -> Part:
    first, *others = operands

    def disjunction(columns: Columns, count: int) -> Truth:
        true, wrong = first(columns, count)
        for operand in others:
            next_true, next_wrong = operand(columns, count)
            if wrong is not None:
                next_true = next_true & ~wrong  # an error stands, whatever follows
            if next_wrong is not None:
                next_wrong = next_wrong & ~true  # what is true already is not evaluated further
                wrong = next_wrong if wrong is None else wrong | next_wrong
            true = true | next_true
        return Truth(true, wrong)

    return disjunction


def _xor(operands: list[Part]) -> Part:
    first, *others = operands

    def exclusion(columns: Columns, count: int) -> Truth:
        true, wrong = first(columns, count)
        for operand in others:
            next_true, next_wrong = operand(columns, count)
            if next_wrong is not None:
                wrong = next_wrong if wrong is None else wrong | next_wrong
            true = true ^ next_true
        return Truth(true if wrong is None else true & ~wrong, wrong)

    return exclusion


def _leaf(node: Expression, evaluate: Evaluator) -> Part:
    """A part that is not joined of others."""
    looked_at = sorted(names(node))
    if not looked_at:
        always = _state(evaluate({}))
        return lambda _columns, count: _same(always, count)
    if isinstance(node, Exists):
        return _exists(node.name)
    if len(looked_at) == 1:
        return _Single(node, looked_at[0], evaluate)
    return lambda columns, count: _by_row(evaluate, {name: columns(name) for name in looked_at}, count)


_FALSE, _TRUE, _WRONG = 0, 1, 2


def _state(outcome: object) -> int:
    """Anything but a Boolean is as good as an error: it does not match, and is never cast any more."""
    if outcome is True:
        return _TRUE
    return _FALSE if outcome is False else _WRONG


def _same(state: int, count: int) -> Truth:
    wrong = np.ones(count, np.bool_) if state == _WRONG else None
    return Truth(np.full(count, state == _TRUE), wrong)


def _truth(states: NDArray[np.uint8]) -> Truth:
    wrong = states == _WRONG
    return Truth(states == _TRUE, wrong if wrong.any() else None)


def _exists(name: str) -> Part:
    def existence(columns: Columns, count: int) -> Truth:
        column = columns(name)
        if column is None or column.valid is None:
            return _same(_FALSE if column is None else _TRUE, count)
        return Truth(column.valid.copy(), None)

    return existence


class _Single:
    """A part that looks at one attribute."""

    __slots__ = ("absent", "evaluate", "name", "numbers", "texts")

    def __init__(self, node: Expression, name: str, evaluate: Evaluator) -> None:
        self.name, self.evaluate = name, evaluate
        self.absent = _state(evaluate({}))
        self.numbers = {kind: scan_numbers(node, kind) for kind in (Kind.INTEGER, Kind.DECIMAL)}
        self.texts = scan_texts(node)

    def __call__(self, columns: Columns, count: int) -> Truth:
        column = columns(self.name)
        if column is None:
            return _same(self.absent, count)
        if column.kind is Kind.STRING:
            truth = self._texts(column, count)
        elif column.kind is Kind.BOOLEAN:
            yes, no = self._states((True, False))
            truth = _truth(np.where(column.values, yes, no).astype(np.uint8))
        else:
            truth = self._numbers(column, self.numbers[column.kind])
        return truth if column.valid is None else self._amended(truth, column.valid)

    def _states(self, values: Sequence[Value]) -> list[int]:
        name, evaluate = self.name, self.evaluate
        return [_state(evaluate({name: value})) for value in values]

    def _numbers(self, column: Column, scan: Scan | None) -> Truth:
        if scan is None:
            return _truth(np.array(self._states(column.values.tolist()), np.uint8))
        return Truth(*scan(column.values))

    def _texts(self, column: Column, count: int) -> Truth:
        dictionary = column.dictionary
        if len(dictionary) > count:  # more texts than events: look only at those in use
            used, codes = np.unique(column.values, return_inverse=True)
            dictionary = tuple(dictionary[code] for code in used.tolist())
        else:
            codes = column.values
        if self.texts is not None:
            return Truth(self.texts(dictionary, codes), None)
        return _truth(np.array(self._states(dictionary), np.uint8)[codes])

    def _amended(self, truth: Truth, valid: Mask) -> Truth:
        """What it is where the attribute is missing, whatever the column has there."""
        true, wrong = truth
        if self.absent == _WRONG:
            return Truth(true & valid, ~valid if wrong is None else wrong | ~valid)
        wrong = None if wrong is None else wrong & valid
        return Truth(true & valid if self.absent == _FALSE else true | ~valid, wrong)


def _by_row(evaluate: Evaluator, columns: dict[str, Column | None], count: int) -> Truth:
    present = {name: column.to_list() for name, column in columns.items() if column is not None}
    if not present:
        return _same(_state(evaluate({})), count)
    rows = zip(*present.values(), strict=True)
    # The closures take None for missing, so the rows need no sieving.
    states = [_state(evaluate(dict(zip(present, row, strict=True)))) for row in rows]
    return _truth(np.array(states, np.uint8))
