"""How an index files a filter, in words."""

from math import inf, nextafter

from stentor.matching.conjunct import Conjunct, Range
from stentor.matching.facet import Facet, Key, View
from stentor.matching.facet_groups import filed_by

_MOST_SHOWN = 8

_VIEWS = {
    View.TEXT: "as text",
    View.WHOLE: "as a number",
    View.DECIMAL: "as a number",
    View.TRUTH: "as a Boolean",
    View.OWN: "as what it is",
}


def describe(conjunct: Conjunct) -> tuple[list[str], str]:
    """The constraints by which a conjunct is found, and what is left to be done with an event that was found."""
    found = [_facet(facet, keys) for facet, keys in zip(conjunct.facets, conjunct.keys, strict=True)]
    found += [_range(span) for span in conjunct.ranges]
    if conjunct.exact:
        return found or ["every event"], "nothing: an event that is found matches"
    by = [facet.name for facet in filed_by(conjunct)]
    candidates = f"the events found by {' and '.join(by)}" if by else "every event"
    return found or ["every event"], f"the whole filter is evaluated for {candidates}"


def _facet(facet: Facet, keys: tuple[Key, ...]) -> str:
    if facet.view is View.PRESENT:
        return f"{facet.name} is there"
    shown = ", ".join(_key(key) for key in keys[:_MOST_SHOWN])
    if len(keys) > _MOST_SHOWN:
        shown += f" and {len(keys) - _MOST_SHOWN} more"
    if facet.view is View.PREFIX:
        return f"{facet.name} begins with {shown}"
    return f"{facet.name}, {_VIEWS[facet.view]}, is {'one of ' if len(keys) > 1 else ''}{shown}"


def _key(key: Key) -> str:
    if isinstance(key, tuple):
        key = key[0]
    return str(key).lower() if isinstance(key, bool) else repr(key)


def _range(span: Range) -> str:
    """Strict bounds are kept as the next number, but nobody wrote that."""
    before = nextafter(span.low, -inf)
    low = "" if span.low == -inf else f"> {before!r}" if _rounder(before, span.low) else f">= {span.low!r}"
    before = nextafter(span.high, -inf)
    high = "" if span.high == inf else f"<= {before!r}" if _rounder(before, span.high) else f"< {span.high!r}"
    return f"{span.name}, as a number, is {' and '.join(filter(None, (low, high))) or 'any'}"


def _rounder(one: float, other: float) -> bool:
    return len(repr(one)) < len(repr(other))
