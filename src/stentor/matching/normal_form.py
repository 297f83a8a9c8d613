"""The normal form of a filter: conjuncts of which one must hold, so that an index can file them.

Only what makes a filter true counts. Errors never match: under AND they are as good as false. Under OR they are not,
since `a = 1 OR b = 2` is in error, and no match, for an event without `a`. So what follows in an OR is exact only where
nothing before it can fail. What has no form here is kept as a residue: attributes that must be there, and the filter.
"""

from functools import lru_cache
from math import inf, nextafter

from stentor.matching.conjunct import EVERYTHING, Conjunct, Terms
from stentor.matching.facet import Facet, Key, View, own
from stentor.model.attribute import Kind, Value
from stentor.model.filter import Filter
from stentor.model.filter.bound import mirrored
from stentor.model.filter.casting import to_boolean, to_decimal, to_integer
from stentor.model.filter.evaluation import compile_expression, memberships
from stentor.model.filter.failure import Failure
from stentor.model.filter.pattern import beginning
from stentor.model.filter.syntax import (
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
    Not,
    Relation,
    children,
    names,
)

MOST_CONJUNCTS = 16
LONGEST_PREFIX = 8  # characters by which a prefix is filed; what is longer is evaluated
_EXACT = 2.0**52  # below it, integers and floats agree on what lies between them
_VIEWS = {Kind.STRING: View.TEXT, Kind.BOOLEAN: View.TRUTH, Kind.INTEGER: View.WHOLE, Kind.DECIMAL: View.DECIMAL}
Normal = tuple[Conjunct, ...]


@lru_cache(maxsize=64)  # few: what is kept for long costs the garbage collector, and what comes by thousands comes once
def normal_form(where: Filter) -> Normal:
    """The conjuncts of a filter; a subscription comes and goes with the same one."""
    return normalise(where.syntax)


def normalise(root: Expression) -> Normal:
    """The conjuncts of a filter; none if nothing matches it."""
    if isinstance(root, Attribute):  # on its own, only a Boolean matches; beside AND it would be cast
        return _one(Facet(root.name, View.OWN), (own(True),))
    if not isinstance(root, Logical | Not) and not names(root):
        return (EVERYTHING,) if compile_expression(root)({}) is True else ()
    return _true(root)


def _true(node: Expression) -> Normal:
    """The conjuncts of what must be true."""
    match node:
        case Logical(Logic.AND, operands):
            return _and(operands)
        case Logical(Logic.OR, operands):
            return _or(operands)
        case Attribute(name):
            return _one(Facet(name, View.TRUTH), (True,))
        case Not(Attribute(name)):
            return _one(Facet(name, View.TRUTH), (False,))
        case Exists(name):
            return _one(Facet(name, View.PRESENT), (True,))
        case Comparison(relation, Attribute(name), Literal(kind, value)):
            return _compare(node, name, relation, kind, value)
        case Comparison(Relation.EQUAL, Literal(_, value), Attribute(name)):
            return _member(name, (value,))  # the constant is cast to the attribute's type, as in IN
        case Comparison(relation, Literal(kind, value), Attribute(name)) if relation is not Relation.UNEQUAL:
            return _compare(node, name, mirrored(relation), kind, value)
        case Like(Attribute(name), pattern):
            return _like(name, pattern)
        case InList(Attribute(name), elements) if all(isinstance(element, Literal) for element in elements):
            return _member(name, tuple(element.value for element in elements if isinstance(element, Literal)))
    return _residue(node)


def _one(facet: Facet, keys: tuple[Key, ...], *, exact: bool = True) -> Normal:
    terms = Terms()
    terms.among(facet, keys)
    terms.exact = exact
    return _single(terms)


def _single(terms: Terms) -> Normal:
    made = terms.conjunct()
    return () if made is None else (made,)


def _compare(node: Expression, name: str, relation: Relation, kind: Kind, value: Value) -> Normal:
    terms = Terms()
    return _single(terms) if _compared(terms, name, relation, kind, value) else _residue(node)


def _compared(terms: Terms, name: str, relation: Relation, kind: Kind, value: Value) -> bool:
    """Narrow the terms by a comparison with a constant; False if it has no form here."""
    if relation is Relation.EQUAL:
        terms.among(_facet(name, kind), (value + 0.0 if kind is Kind.DECIMAL else value,))  # type: ignore[operator]
        return True  # -0.0 is 0.0
    if relation is Relation.UNEQUAL or kind is Kind.STRING or kind is Kind.BOOLEAN:
        return False
    low, high, exact = _range(relation, value)  # type: ignore[arg-type]
    terms.within(name, _VIEWS[kind], low, high)
    terms.exact &= exact
    return True


@lru_cache(maxsize=4096)
def _facet(name: str, kind: Kind) -> Facet:
    return Facet(name, _VIEWS[kind])


def _range(relation: Relation, target: float) -> tuple[float, float, bool]:
    """A comparison as a range. Bounds beyond 2^52 are not kept, so that no number is rounded over one."""
    if -_EXACT <= target <= _EXACT:
        limit = target + 0.0
        if relation is Relation.GREATER_OR_EQUAL:
            return limit, inf, True
        if relation is Relation.LESS:
            return -inf, limit, True
        beyond = nextafter(limit, inf)
        return (beyond, inf, True) if relation is Relation.GREATER else (-inf, beyond, True)
    if relation in (Relation.GREATER, Relation.GREATER_OR_EQUAL):
        return (_EXACT if target > 0 else -inf), inf, False
    return -inf, (inf if target > 0 else nextafter(-_EXACT, inf)), False


def _like(name: str, pattern: str) -> Normal:
    text, rest = beginning(pattern)
    if not rest:
        return _one(Facet(name, View.TEXT), (text,))
    if not text:
        return _one(Facet(name, View.PRESENT), (True,), exact=rest == "%")
    length = min(len(text), LONGEST_PREFIX)
    exact = rest == "%" and length == len(text)
    return _one(Facet(name, View.PREFIX, length), (text[:length],), exact=exact)


def _member(name: str, constants: tuple[Value, ...]) -> Normal:
    if all(isinstance(constant, str) and _is_word(constant) for constant in constants):
        return _one(Facet(name, View.TEXT), constants)  # no other type than a text can be equal to one of these
    members = {kind: memberships(constants, kind)[0] for kind in (bool, int, float, str)}
    keys = {own(member) for some in members.values() for member in some}
    # '1e3' is a number only beside a Decimal, but 1000 and 1000.0 are one key
    return _one(Facet(name, View.OWN), tuple(keys), exact=members[int] == members[float]) if keys else ()


def _is_word(text: str) -> bool:
    """Whether a text is neither a number nor a Boolean, nor how what is not finite is written."""
    return text not in ("nan", "inf", "-inf") and all(
        isinstance(cast(text), Failure) for cast in (to_integer, to_decimal, to_boolean)
    )


def _and(operands: tuple[Expression, ...]) -> Normal:
    """Each of one with each of the other; what would become too many is left to evaluation."""
    terms = Terms()
    several = []
    for operand in operands:
        if type(operand) is Comparison and type(operand.left) is Attribute and type(operand.right) is Literal:
            left, right = operand.left, operand.right
            if _compared(terms, left.name, operand.relation, right.kind, right.value):  # by far the most common
                continue
        conjuncts = _true(operand)
        if len(conjuncts) == 1:
            terms.take(conjuncts[0])
        else:
            several.append(conjuncts)
    common = terms.conjunct()
    product: Normal = () if common is None else (common,)
    for conjuncts in several:
        if len(product) * len(conjuncts) > MOST_CONJUNCTS:
            product = tuple(each._replace(exact=False) for each in product)
            continue
        made: dict[Conjunct, None] = {}
        for one in product:
            for other in conjuncts:
                terms = Terms(one)
                terms.take(other)
                made.update(dict.fromkeys(_single(terms)))
        product = tuple(made)
    return product


def _or(operands: tuple[Expression, ...]) -> Normal:
    union: dict[Conjunct, None] = {}
    before: frozenset[Facet] | None = frozenset()
    for operand in operands:
        for conjunct in _true(operand):
            safe = before is not None and all(_guaranteed(conjunct, facet) for facet in before)
            union[conjunct if safe else conjunct._replace(exact=False)] = None
        needed = _needed(operand)
        before = None if before is None or needed is None else before | needed
    joined = _join(list(union))
    if len(joined) <= MOST_CONJUNCTS:
        return tuple(joined)
    return _residue(Logical(Logic.OR, operands))


def _join(conjuncts: list[Conjunct]) -> list[Conjunct]:
    """Those that differ only in the keys of their one facet, as one: `a = 'x' OR a = 'y'`."""
    joined: dict[object, Conjunct] = {}
    for each in conjuncts:
        if len(each.facets) != 1:
            joined[each] = each
            continue
        likeness = (each.facets, each.ranges, each.exact)
        known = joined.get(likeness)
        if known is not None and known.facets != each.facets:
            continue  # there were too many keys, so that it asks for none any more
        if known is not None:
            terms = Terms(known)
            terms.keys[each.facets[0]] = known.keys[0] + each.keys[0]
            each = terms.conjunct() or each  # noqa: PLW2901
        joined[likeness] = each
    return list(joined.values())


def _needed(node: Expression) -> frozenset[Facet] | None:
    """What an event must have so that this cannot fail; None if there is no telling."""
    match node:
        case Logical(_, operands):
            parts = [_needed(operand) for operand in operands]
            known = [part for part in parts if part is not None]
            return frozenset().union(*known) if len(known) == len(parts) else None
        case Not(operand):
            return _needed(operand)
        case Exists():
            return frozenset()
        case Attribute(name):
            return frozenset({Facet(name, View.TRUTH)})
        case Like(Attribute(name), _) | Comparison(
            Relation.EQUAL | Relation.UNEQUAL, Attribute(name), Literal(Kind.STRING, _)
        ):
            return frozenset({Facet(name, View.PRESENT)})
        case Comparison(_, Attribute(name), Literal(Kind.INTEGER | Kind.DECIMAL as kind, _)):
            return frozenset({Facet(name, _VIEWS[kind])})
        case Comparison(Relation.EQUAL | Relation.UNEQUAL, Attribute(name), Literal(Kind.BOOLEAN, _)):
            return frozenset({Facet(name, View.TRUTH)})
    return None


def _guaranteed(conjunct: Conjunct, need: Facet) -> bool:
    """Whether all that satisfies the conjunct can be looked at in that way, too."""
    if need.view is View.PRESENT:
        return need.name in conjunct.names
    views = {facet.view for facet in conjunct.facets if facet.name == need.name}
    views |= {span.view for span in conjunct.ranges if span.name == need.name}
    return need.view in views or (need.view is View.DECIMAL and View.WHOLE in views)


def _residue(node: Expression) -> Normal:
    """What only evaluation can tell; at least its attributes must be there."""
    if not names(node):
        return (EVERYTHING,) if to_boolean(compile_expression(node)({})) is True else ()
    terms = Terms()
    terms.exact = False
    for name in _demanded(node):
        terms.among(Facet(name, View.PRESENT), (True,))
    return _single(terms)


def _demanded(node: Expression) -> set[str]:
    """Attributes without which the node is in error."""
    match node:
        case Attribute(name):
            return {name}
        case Logical(Logic.AND | Logic.OR, operands):
            return _demanded(operands[0])  # the others may not be evaluated
        case InList(subject, elements):
            return _demanded(subject) | _demanded(elements[0])
        case Call(_, arguments):
            return set().union(*map(_demanded, arguments))
    return set().union(*map(_demanded, children(node)))
