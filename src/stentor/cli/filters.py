"""`stentor filter`: what a filter means, what it says of an event, how it is indexed and what it costs."""

import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stentor.cli.terminal.options import AttributesOption, parse_attributes
from stentor.cli.terminal.printable import printable, printable_lines
from stentor.matching.explanation import describe
from stentor.matching.normal_form import normal_form
from stentor.matching.pairs.pair_index import PairIndex
from stentor.model.attribute import Value
from stentor.model.batch import Rows
from stentor.model.errors import FilterError, InvalidInput
from stentor.model.filter import Filter

app = typer.Typer(help="Look at filters, the `where` of subscriptions.", no_args_is_help=True)

_BATCH = 1000
_CROWD = 1000  # filters beside which this one is measured in an index
_REPEATS = 5


@app.command()
def check(
    expression: Annotated[str, typer.Argument(help="the filter, e.g. \"price > 90.0 AND symbol LIKE 'A%'\"")],
    attr: AttributesOption = None,
    cesql: Annotated[bool, typer.Option("--cesql", help="read it strictly by CloudEvents SQL's precedence")] = False,
) -> None:
    """Explain a filter: its value and error for an event, how it is indexed, what it costs.

    Exit codes: 0 it is a filter, 2 it is none, or an attribute is not valid.
    """
    try:
        where = Filter.parse_cesql(expression) if cesql else Filter(expression)
        attributes = parse_attributes(attr or [])
    except (FilterError, InvalidInput) as error:
        typer.echo(printable_lines(str(error)), err=True)
        raise typer.Exit(2) from error
    table = Table(box=None, pad_edge=False, show_header=False)
    rows = [("filter", str(where)), ("id", f"{where.id:016x}"), ("looks at", ", ".join(sorted(where.names)) or "-")]
    rows += [("event", ", ".join(f"{name} = {value!r}" for name, value in attributes.items()) or "without attributes")]
    rows += [*_evaluation(where, attributes), *_indexing(where), *_cost(where, attributes)]
    for name, text in rows:
        table.add_row(name, Text(printable(text), overflow="fold"))
    Console().print(table)


def _evaluation(where: Filter, attributes: dict[str, Value]) -> list[tuple[str, str]]:
    value, error = where.evaluate(attributes)
    missing = sorted(where.names - attributes.keys())
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    reason = f" (the event has no {', '.join(missing)})" if error == "missingAttribute" and missing else ""
    return [
        ("value", shown),
        ("error", f"{error}{reason}" if error else "none"),
        ("matches", "yes" if where.matches(attributes) else "no"),
    ]


def _indexing(where: Filter) -> list[tuple[str, str]]:
    conjuncts = normal_form(where)
    if not conjuncts:
        return [("indexed", "not at all: no event can match")]
    rows = []
    for number, conjunct in enumerate(conjuncts, 1):
        found, rest = describe(conjunct)
        label = "indexed" if len(conjuncts) == 1 else f"indexed {number}"
        rows += [(label, "; ".join(found)), ("then", rest)]
    return rows


def _cost(where: Filter, attributes: dict[str, Value]) -> list[tuple[str, str]]:
    """Measured here and now, since it depends on the machine."""
    batch = Rows([attributes] * _BATCH)
    for name in where.names:
        batch.column(name)
    crowd = PairIndex()
    for number in range(_CROWD):
        crowd.add(Filter(f"stentor_other = {number}"), number)
    crowd.add(where, _CROWD)
    one = _fastest(lambda: [where.matches(attributes) for _ in range(_BATCH)])
    many = _fastest(lambda: where.select(batch.column, _BATCH))
    among = _fastest(lambda: [crowd.match_one(attributes) for _ in range(_BATCH)])
    return [
        ("cost", f"{one:.2f} µs an event, evaluated alone"),
        ("", f"{many:.3f} µs an event, {_BATCH:,} at once"),
        ("", f"{among:.2f} µs an event in an index with {_CROWD:,} others"),
    ]


def _fastest(work: Callable[[], object]) -> float:
    """Microseconds for each event of a batch."""
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best / _BATCH * 1e6
