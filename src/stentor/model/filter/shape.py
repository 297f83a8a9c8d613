"""Shapes: filters that differ only in their constants are parsed once; each further one costs a scan of its text."""

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple

from stentor.model.attribute import LARGEST_INTEGER, Kind, Value
from stentor.model.errors import FilterError
from stentor.model.filter.canonical import canonical, literal
from stentor.model.filter.parser import LONGEST_FILTER, parse, unquote
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
    names,
)

MOST_SHAPES = 1024

# The INTEGER, DECIMAL and STRING of grammar.lark, each from the first character of a word or quote. All begin with one
# set of characters, so that a search skips everything else quickly. A string that never ends is taken too, up to the
# end: looking for its end again from each later quote would take time by the square of the length.
_LITERAL = re.compile(
    r"""(
    ['"0-9]
    (?: (?<= [0-9] ) (?<! [A-Za-z0-9_]. ) [0-9]*
        (?: \.[0-9]+ (?: [eE][+-]?[0-9]+ )? (?![A-Za-z0-9_]) | (?![A-Za-z0-9_.]) )
      | (?<= ' ) [^'\\]* (?: \\. [^'\\]* )* '?
      | (?<= " ) [^"\\]* (?: \\. [^"\\]* )* "?
    ))""",
    re.VERBOSE | re.DOTALL,
)
_END = "\n"  # after each text: what is taken up to there ends with this, and not with its quote

# Marks stand for literals in a template: characters that no filter has outside of its strings. The parser gets each
# as a constant that is the number of its slot, from 1.
_MARK = re.compile(r"[#?$]")
_SPELLINGS = {"#": "{}", "?": "{}.0", "$": "'{}'"}

_INTEGER, _DECIMAL, _STRING = Kind.INTEGER, Kind.DECIMAL, Kind.STRING  # an enum is slow to give its members

_Part = Callable[[Sequence[Literal]], Any]  # makes a part of a tree out of the constants


class Meaning(NamedTuple):
    """What a text means."""

    syntax: Expression
    text: str  # canonical
    names: frozenset[str]


def read(text: str, *, strict: bool) -> Meaning | None:
    """What a text means, by its shape; None if only the parser can say, or say what is wrong."""
    scanned = _scan(text)
    if scanned is None:
        return None
    template, literals = scanned
    shape = _shape(template, strict)
    return None if shape is None else shape.fill(literals)


def _scan(text: str) -> tuple[str, list[Literal]] | None:
    """The text with marks for its literals, and these."""
    if len(text) > LONGEST_FILTER:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    parts = _LITERAL.split(text + _END)
    literals = []
    for place in range(1, len(parts), 2):
        token = parts[place]
        if token[0] in "'\"":
            if token[-1] != token[0]:
                return None
            literals.append(Literal(_STRING, unquote(token)))
            parts[place] = "$"
        elif "." in token:
            decimal = float(token)
            if decimal == math.inf:
                return None
            literals.append(Literal(_DECIMAL, decimal))
            parts[place] = "?"
        else:
            integer = int(token)
            if integer > LARGEST_INTEGER:
                return None
            literals.append(Literal(_INTEGER, integer))
            parts[place] = "#"
    return "".join(parts), literals


@lru_cache(maxsize=MOST_SHAPES)
def _shape(template: str, strict: bool) -> "Shape | None":
    """The shape of a template; None if it is not a filter."""
    numbers = count(1)
    text = _MARK.sub(lambda mark: _SPELLINGS[mark[0]].format(next(numbers)), template)
    try:
        syntax = parse(text, strict=strict)
    except FilterError:
        return None
    shape = Shape(syntax)
    # A mark of the text's own may have become part of a word: such a template is of no other text.
    return shape if shape.slots == next(numbers) - 1 else None


class Shape:
    """A filter with slots for its constants, numbered from the left."""

    __slots__ = ("_build", "_names", "_negated", "_written", "slots")

    def __init__(self, syntax: Expression) -> None:
        """The shape of a tree in which each constant is the number of its slot, from 1."""
        *gaps, rest = _LITERAL.split(canonical(syntax))[::2]  # it has the constants in the order of the text
        self.slots = len(gaps)
        self._negated = [slot for slot, gap in enumerate(gaps) if gap.endswith("-")]  # a difference has spaces
        self._written = "%s".join(gap.replace("%", "%%") for gap in (*gaps, rest))
        self._build = _part(syntax)
        self._names = names(syntax)

    def fill(self, literals: Sequence[Literal]) -> Meaning | None:
        """The filter with these constants; None if with them it may not be of this shape, or is too long."""
        if len(literals) != self.slots:  # the text has a mark of its own, outside of its strings
            return None
        for slot in self._negated:
            if not literals[slot].value:  # -0 is 0 and --0 a constant, unlike --5
                return None
        written = self._written % tuple(map(literal, literals))
        if len(written) > LONGEST_FILTER:
            return None
        return Meaning(self._build(literals), written, self._names)


def _slot(value: Value) -> int:
    return abs(int(value)) - 1


def _is_negated(node: Literal) -> bool:
    """Whether a minus before the slot has become part of the constant."""
    return not isinstance(node.value, str) and node.value < 0


class _Fixed:
    """A part without slots, the same in all trees."""

    __slots__ = ("part",)

    def __init__(self, part: object) -> None:
        self.part = part

    def __call__(self, _literals: Sequence[Literal]) -> object:
        return self.part


def _part(node: Expression) -> _Part:
    match node:
        case Literal(Kind.BOOLEAN) | Attribute() | Exists():
            return _Fixed(node)
        case Literal(_, value):
            return _negation(_slot(value)) if _is_negated(node) else itemgetter(_slot(value))
        case Not(operand) | Negation(operand):
            return _over(type(node), _part(operand))
        case Logical(logic, operands):
            return _over(Logical, _Fixed(logic), _row(operands))
        case Comparison(sign, left, right) | Arithmetic(sign, left, right):
            return _over(type(node), _Fixed(sign), _part(left), _part(right))
        case Like(subject, pattern):
            return _over(Like, _part(subject), _pattern(_slot(pattern)))
        case InList(subject, elements):
            return _over(InList, _part(subject), _row(elements))
        case Call(name, arguments):
            return _over(Call, _Fixed(name), _row(arguments))


def _over(make: Callable[..., Expression], *parts: _Part) -> _Part:
    """A node of such parts; the fixed ones at its beginning, mostly all but one, are given to it beforehand."""
    first, *rest = parts
    if isinstance(first, _Fixed):
        make = partial(make, first.part)
        return _over(make, *rest) if rest else _Fixed(make())
    if not rest:
        return lambda literals: make(first(literals))
    (second,) = rest  # no node has more than two that are open
    return lambda literals: make(first(literals), second(literals))


def _row(nodes: tuple[Expression, ...]) -> _Part:
    parts = [_part(node) for node in nodes]
    if all(isinstance(part, _Fixed) for part in parts):
        return _Fixed(nodes)
    return lambda literals: tuple([part(literals) for part in parts])


def _pattern(slot: int) -> _Part:
    return lambda literals: literals[slot].value


def _negation(slot: int) -> _Part:
    def build(literals: Sequence[Literal]) -> Literal:
        constant = literals[slot]
        assert not isinstance(constant.value, str)
        return Literal(constant.kind, -constant.value)

    return build
