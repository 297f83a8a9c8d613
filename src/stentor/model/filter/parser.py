"""The parser: text to syntax tree, or a `FilterError` that says in words what is wrong and where."""

import math
import unicodedata
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from stentor.model.attribute import LARGEST_INTEGER, LONGEST_NAME, Kind
from stentor.model.errors import FilterError
from stentor.model.filter import complaint, functions
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
    Operator,
    Relation,
    walk,
)

LONGEST_FILTER = 4096  # characters
DEEPEST_FILTER = 32  # operators, functions or brackets inside one another
MOST_TERMS = 256  # names and constants

_TERMS = frozenset({"NAME", "INTEGER", "DECIMAL", "STRING", "BOOLEAN"})


class _Refusal(Exception):
    """What is wrong, where; the caller knows the text."""

    def __init__(self, reason: str, position: int) -> None:
        self.reason, self.position = reason, position
        super().__init__(reason)


class _Oversized(Literal, frozen=True):
    """2^63, which is an Integer only with a minus before it."""

    position: int = 0


class _Doubt(NamedTuple):
    """Why people may read a filter otherwise than CESQL does; `where` refuses it."""

    reason: str
    position: int


class _Piece(NamedTuple):
    """A part of the tree, and what its surroundings need to know of it."""

    node: Expression
    position: int
    depth: int = 0
    doubt: _Doubt | None = None
    is_bare_not: bool = False  # starts with NOT, outside of brackets


def parse(text: str, *, strict: bool) -> Expression:
    """The syntax tree of a filter; strict refuses what CESQL allows but few read rightly."""
    if len(text) > LONGEST_FILTER:
        reason = f"a filter has at most {LONGEST_FILTER:,} characters, this has {len(text):,}"
        raise FilterError(reason, position=LONGEST_FILTER)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterError("this is not a valid Unicode character", text, error.start) from None
    try:
        piece = _read(text)
        if str(LARGEST_INTEGER + 1) in text:
            _refuse_oversized(piece.node)
        if strict and piece.doubt:
            raise _Refusal(*piece.doubt)
    except _Refusal as refusal:
        raise FilterError(refusal.reason, text, refusal.position) from None
    return piece.node


def _refuse_oversized(root: Expression) -> None:
    for node in walk(root):
        if isinstance(node, _Oversized):
            raise _Refusal(complaint.INTEGER_RANGE, node.position)


def _read(text: str) -> _Piece:
    interactive = _lark().parse_interactive(text)
    terms, brackets = 0, 0
    try:
        for token in interactive.iter_parse():
            if token.type in _TERMS:
                terms += 1
                if terms > MOST_TERMS:
                    raise _Refusal(f"a filter has at most {MOST_TERMS} names and values", _at(token))
            elif token.type == "OPEN":
                brackets += 1
                if brackets > DEEPEST_FILTER:
                    raise _Refusal(_too_deep(), _at(token))
            elif token.type == "CLOSE":
                brackets -= 1
        piece: _Piece = interactive.feed_eof()  # type: ignore[no-untyped-call]
    except UnexpectedInput as error:
        raise _Refusal(*_explain(text, error)) from None
    return piece


def _explain(text: str, error: UnexpectedInput) -> tuple[str, int]:
    if isinstance(error, UnexpectedCharacters):
        position = int(error.pos_in_stream or 0)
        return complaint.unreadable(text, position, _expected(text, position)), position
    assert isinstance(error, UnexpectedToken)
    token = error.token
    if token.type == "$END":
        return complaint.unfinished(text, _expected(text, len(text))), len(text)
    return complaint.unexpected(text, token.value, _at(token), _expected(text, _at(token))), _at(token)


def _expected(text: str, end: int) -> set[str]:
    """What may follow, by a parser that has not seen what did: that made it give up possibilities."""
    interactive = _lark().parse_interactive(text)
    with suppress(UnexpectedCharacters):
        for token in interactive.iter_parse():  # the whole text, since a token depends on what follows it
            if _at(token) >= end:
                break
    accepts: set[str] = interactive.accepts()  # type: ignore[no-untyped-call]
    return accepts


@cache
def _lark() -> Lark:
    return Lark.open_from_package(
        "stentor.model.filter",
        "grammar.lark",
        parser="lalr",
        lexer="basic",
        maybe_placeholders=False,
        transformer=_Builder(),
    )


def _at(token: Token) -> int:
    return token.start_pos or 0


def _too_deep() -> str:
    return f"a filter nests at most {DEEPEST_FILTER} levels deep"


def unquote(token: str) -> str:
    """Only the quote itself is escaped; any other backslash stands for itself, and LIKE gives it its meaning."""
    quote = token[0]
    return unicodedata.normalize("NFC", token[1:-1].replace("\\" + quote, quote))


def _name(token: Token) -> str:
    if len(token.value) > LONGEST_NAME:
        raise _Refusal(f"an attribute's name has at most {LONGEST_NAME} characters", _at(token))
    return str(token)


def _over(node: Expression, position: int, parts: list[_Piece], own: _Doubt | None = None) -> _Piece:
    """A piece made of others, side by side."""
    depth = 1 + max((part.depth for part in parts), default=0)
    return _Piece(node, position, _checked(depth, position), _first_doubt(parts, own))


def _checked(depth: int, position: int) -> int:
    if depth > DEEPEST_FILTER:
        raise _Refusal(_too_deep(), position)
    return depth


def _first_doubt(parts: list[_Piece], own: _Doubt | None) -> _Doubt | None:
    return next((part.doubt for part in parts if part.doubt), own)


def _doubt_not(pieces: list[_Piece], sign: str) -> _Doubt | None:
    """NOT binds tighter than what follows its operand, which is not how it reads."""
    for piece in pieces:
        if piece.is_bare_not:
            reason = f"NOT applies only to what comes before {sign}: write NOT (… {sign} …), or (NOT …) {sign} …"
            return _Doubt(reason, piece.position)
    return None


def _join(logic: Logic, left: _Piece, right: _Piece) -> _Piece:
    """Both joined; what is joined the same way already becomes one list, which means the same."""
    operands: tuple[Expression, ...] = ()
    depth = 0
    for node, below in ((left.node, left.depth), (right.node, right.depth)):
        if isinstance(node, Logical) and node.logic is logic:
            operands, depth = (*operands, *node.operands), max(depth, below)
        else:
            operands, depth = (*operands, node), max(depth, below + 1)
    return _Piece(Logical(logic, operands), left.position, _checked(depth, left.position))


@v_args(inline=True)
class _Builder(Transformer[Token, _Piece]):
    """Builds the tree while the parser reads, so that no text is deep enough for Python's stack."""

    def logic(self, *parts: _Piece | Token) -> _Piece:
        pieces, words = _split(parts)
        logics = [Logic(word.value.upper()) for word in words]
        joined, doubt = pieces[0], None
        for word, logic, piece in zip(words, logics, pieces[1:], strict=True):
            joined = _join(logic, joined, piece)
            if logic is not logics[0] and doubt is None:
                reason = f"{logics[0]} and {logic} are mixed: add parentheses to say which comes first"
                doubt = _Doubt(reason, _at(word))
        return joined._replace(doubt=_first_doubt(pieces, doubt))

    def comparison(self, *parts: _Piece | Token) -> _Piece:
        pieces, signs = _split(parts)
        made = pieces[0]
        for sign, piece in zip(signs, pieces[1:], strict=True):
            relation = Relation.UNEQUAL if sign.value == "<>" else Relation(sign.value)
            made = _over(Comparison(relation, made.node, piece.node), made.position, [made, piece])
        doubt = _doubt_not(pieces[:-1], signs[0].value)
        if len(signs) > 1:
            reason = f"comparisons do not chain: write … {signs[0]} … AND … {signs[1]} …"
            doubt = _Doubt(reason, _at(signs[1]))
        return made._replace(doubt=_first_doubt(pieces, doubt))

    def arithmetic(self, *parts: _Piece | Token) -> _Piece:
        pieces, signs = _split(parts)
        made = pieces[0]
        for sign, piece in zip(signs, pieces[1:], strict=True):
            made = _over(Arithmetic(Operator(sign.value), made.node, piece.node), made.position, [made, piece])
        return made._replace(doubt=_first_doubt(pieces, _doubt_not(pieces[:-1], signs[0].value)))

    sum = product = arithmetic

    def like(self, subject: _Piece, _like: Token, pattern: Token) -> _Piece:
        node = Like(subject.node, unquote(pattern))
        return _over(node, subject.position, [subject], _doubt_not([subject], "LIKE"))

    def not_like(self, subject: _Piece, _not: Token, like: Token, pattern: Token) -> _Piece:
        return _inverted(self.like(subject, like, pattern))

    def within(self, subject: _Piece, _in: Token, *rest: _Piece | Token) -> _Piece:
        elements, _ = _split(rest)
        node = InList(subject.node, tuple(element.node for element in elements))
        return _over(node, subject.position, [subject, *elements], _doubt_not([subject], "IN"))

    def not_within(self, subject: _Piece, _not: Token, word: Token, *rest: _Piece | Token) -> _Piece:
        return _inverted(self.within(subject, word, *rest))

    def inversion(self, word: Token, operand: _Piece) -> _Piece:
        return _over(Not(operand.node), _at(word), [operand])._replace(is_bare_not=True)

    def negation(self, sign: Token, operand: _Piece) -> _Piece:
        """A minus before a constant is part of it: -2^63 is an Integer, 2^63 is not."""
        node = operand.node
        if isinstance(node, Literal) and not isinstance(node.value, bool | str) and math.copysign(1, node.value) > 0:
            return operand._replace(node=Literal(node.kind, -node.value), position=_at(sign))
        return _over(Negation(node), _at(sign), [operand])

    def group(self, opened: Token, inside: _Piece, _closed: Token) -> _Piece:
        return inside._replace(position=_at(opened), is_bare_not=False)

    def call(self, word: Token, *rest: _Piece | Token) -> _Piece:
        arguments, _ = _split(rest)
        name, doubt = word.value.upper(), None
        if functions.find(name, len(arguments)) is None:
            doubt = _Doubt(complaint.no_function(word.value, len(arguments)), _at(word))
        node = Call(name, tuple(argument.node for argument in arguments))
        return _over(node, _at(word), arguments, doubt)

    def exists(self, word: Token, name: Token) -> _Piece:
        return _Piece(Exists(_name(name)), _at(word))

    def attribute(self, name: Token) -> _Piece:
        return _Piece(Attribute(_name(name)), _at(name))

    def integer(self, *tokens: Token) -> _Piece:
        value, position = int(tokens[-1].value), _at(tokens[0])
        if value > LARGEST_INTEGER + 1:
            raise _Refusal(complaint.INTEGER_RANGE, position)
        if value > LARGEST_INTEGER:
            return _Piece(_Oversized(Kind.INTEGER, value, position), position)
        return _Piece(Literal(Kind.INTEGER, value), position)

    def decimal(self, *tokens: Token) -> _Piece:
        value, position = float(tokens[-1].value), _at(tokens[0])
        if math.isinf(value):
            raise _Refusal("this number is too large", position)
        return _Piece(Literal(Kind.DECIMAL, value), position)

    def string(self, token: Token) -> _Piece:
        return _Piece(Literal(Kind.STRING, unquote(token)), _at(token))

    def boolean(self, token: Token) -> _Piece:
        return _Piece(Literal(Kind.BOOLEAN, token.value.upper() == "TRUE"), _at(token))


def _split(parts: tuple[_Piece | Token, ...]) -> tuple[list[_Piece], list[Token]]:
    """The operands, and what stands between them."""
    pieces = [part for part in parts if isinstance(part, _Piece)]
    return pieces, [part for part in parts if isinstance(part, Token)]


def _inverted(piece: _Piece) -> _Piece:
    return _over(Not(piece.node), piece.position, [piece])
