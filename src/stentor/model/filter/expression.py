"""The filter: a CloudEvents SQL expression over the attributes of events."""

from collections.abc import Callable
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import Value
from stentor.model.column import Column
from stentor.model.errors import FilterError
from stentor.model.filter import shape
from stentor.model.filter.canonical import canonical
from stentor.model.filter.cost import DEAREST_FILTER, Cost, cost_of
from stentor.model.filter.evaluation import Attributes, Evaluator, compile_expression
from stentor.model.filter.failure import Failure, FilterErrorKind
from stentor.model.filter.parser import LONGEST_FILTER, parse
from stentor.model.filter.pattern import LONGEST_WILD_CORE, longest_wild_core
from stentor.model.filter.selection import Selector, compile_selection
from stentor.model.filter.syntax import Expression, Like, names, walk
from stentor.model.ids import fingerprint


class _Reading(msgspec.Struct, gc=False, eq=False):
    """What a text means, shared by all filters of that text; compiled when it is first used."""

    syntax: Expression
    text: str
    names: frozenset[str]
    evaluator: Evaluator | None = None
    selector: Selector | None = None
    id: int | None = None
    cost: Cost | None = None

    def compute_cost(self) -> Cost:
        self.cost = cost_of(self.syntax)
        return self.cost

    def compile_evaluator(self) -> Evaluator:
        self.evaluator = compile_expression(self.syntax)
        return self.evaluator

    def compile_selector(self) -> Selector:
        self.selector = compile_selection(self.syntax)
        return self.selector

    def compute_id(self) -> int:
        self.id = fingerprint("filter", self.text)
        return self.id


def _read(text: object, *, strict: bool) -> _Reading:
    if not isinstance(text, str):
        raise FilterError(f"a filter is text, not {type(text).__name__}")
    return _read_text(text, strict)


@lru_cache(maxsize=128)
def _read_text(text: str, strict: bool) -> _Reading:
    meaning = shape.read(text, strict=strict)
    if meaning is not None:
        reading = _Reading(*meaning)
    else:
        syntax = parse(text, strict=strict)
        written = canonical(syntax)
        if len(written) > LONGEST_FILTER:  # or its canonical text could not be sent to anybody
            raise FilterError(f"written out, this filter has more than {LONGEST_FILTER:,} characters")
        reading = _Reading(syntax, written, names(syntax))
    if "(" in text or "LIKE" in text.upper():  # what else there is costs next to nothing
        _check_cost(reading)
    return reading


def _check_cost(reading: _Reading) -> None:
    """Refuse a filter that may take long to evaluate."""
    for node in walk(reading.syntax):
        if isinstance(node, Like) and longest_wild_core(node.pattern) > LONGEST_WILD_CORE:
            reason = f"between two % of a LIKE there are at most {LONGEST_WILD_CORE} characters if _ is among them"
            raise FilterError(f"{reason}: {node.pattern[:40]!r}…")
    if reading.compute_cost().worst > DEAREST_FILTER:
        raise FilterError(
            f"this filter may take more than {DEAREST_FILTER / 1_000_000:g} ms for one event: use fewer functions and "
            "LIKE with wildcards inside, and shorter patterns"
        )


class Filter:
    """Which events to have: `Filter("price > 90.0 AND symbol LIKE 'A%'")`.

    The language is CloudEvents SQL 1.0 with decimal numbers, 64-bit integers and `_` in names. Where its precedence is
    not what people read, the text is refused with a hint: mixed AND, OR and XOR without parentheses, NOT before a
    comparison, chained comparisons, unknown functions. `parse_cesql` takes them as the specification does.
    """

    __slots__ = ("_reading",)

    def __init__(self, text: str) -> None:
        self._reading = _read(text, strict=True)

    @classmethod
    def parse_cesql(cls, text: str) -> "Filter":
        """A filter read strictly by the specification."""
        made = cls.__new__(cls)
        made._reading = _read(text, strict=False)
        return made

    def evaluate(self, attributes: Attributes) -> tuple[Value, FilterErrorKind | None]:
        """The value, and the error that it came with."""
        reading = self._reading
        outcome = (reading.evaluator or reading.compile_evaluator())(attributes)
        return (outcome.value, outcome.kind) if isinstance(outcome, Failure) else (outcome, None)

    def matches(self, attributes: Attributes) -> bool:
        """Whether the value is true, without an error."""
        reading = self._reading
        return (reading.evaluator or reading.compile_evaluator())(attributes) is True

    def select(self, columns: Callable[[str], Column | None], count: int) -> NDArray[np.bool_]:
        """For each event of a batch, whether it matches."""
        reading = self._reading
        return (reading.selector or reading.compile_selector())(columns, count)

    @property
    def id(self) -> int:
        """A 64-bit number that stands for the filter, the same on every node."""
        reading = self._reading
        return reading.id or reading.compute_id()

    def prepare(self) -> None:
        """Do now what else the first event would wait for."""
        self._reading.compile_evaluator()
        self._reading.compile_selector()

    @property
    def cost(self) -> Cost:
        """What it costs at most to evaluate the filter."""
        reading = self._reading
        return reading.cost or reading.compute_cost()

    @property
    def names(self) -> frozenset[str]:
        """The attributes that the filter looks at."""
        return self._reading.names

    @property
    def syntax(self) -> Expression:
        """The syntax tree."""
        return self._reading.syntax

    def __str__(self) -> str:
        return self._reading.text

    def __repr__(self) -> str:
        return f"Filter({self._reading.text!r})"

    def __eq__(self, other: object) -> bool:
        return self._reading.text == other._reading.text if isinstance(other, Filter) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._reading.text)

    def __deepcopy__(self, _memo: object) -> "Filter":
        return self  # it never changes

    def __reduce__(self) -> tuple[Callable[[str], "Filter"], tuple[str]]:
        return Filter.parse_cesql, (self._reading.text,)
