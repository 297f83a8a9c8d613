"""`stentor plan`: how large a network must be for so many clients, and how far apart its brokers would be."""

import sys
from typing import Annotated, get_args

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stentor.cli.terminal.printable import print_json
from stentor.model.errors import InvalidInput
from stentor.planning.shape import Shape
from stentor.planning.survey import Graph, NetworkPlan, PlanRequest
from stentor.planning.survey import plan as survey
from stentor.wire.parcel import MOST_HOPS

SHAPES: tuple[Shape, ...] = get_args(Shape)


def plan(
    clients: Annotated[str, typer.Option(help="How many there will be: 1e9, 250000.")],
    levels: Annotated[int, typer.Option(help="Parts of a broker's name: 4 is group/super-cluster/cluster/broker.")] = 4,
    unit: Annotated[int, typer.Option(help="Members of a unit, at most; no unit has more than 64.")] = 64,
    links_per_member: Annotated[int, typer.Option(help="Links of each member of a unit, unless it is a mesh.")] = 4,
    clients_per_broker: Annotated[int, typer.Option(help="Clients that a broker shall have.")] = 500,
    shape: Annotated[str, typer.Option(help=f"How members of units are linked: {', '.join(SHAPES)}.")] = "mesh",
    seed: Annotated[int, typer.Option(help="Decides which brokers hold links between units.")] = 1,
    samples: Annotated[int, typer.Option(help="Pairs of brokers whose way is looked at.")] = 30,
    json: Annotated[bool, typer.Option("--json", help="The plan as JSON.")] = False,
) -> None:
    """Size a network: units and brokers of each level, hops between brokers, what a broker must know."""
    request = PlanRequest(
        clients=_count(clients),
        levels=levels,
        unit=unit,
        clients_per_broker=clients_per_broker,
        shape=_shape(shape),
        links_per_member=links_per_member,
        seed=seed,
        samples=samples,
    )
    console = Console(highlight=False)
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("following events", total=samples)
        found = survey(request, lambda done, total: progress.update(task, completed=done, total=total))
    if json:
        print_json(found)
        return
    console.print(_levels(found))
    console.print(_graphs(found))
    _tell(found, console)


def _shape(text: str) -> Shape:
    for shape in SHAPES:
        if shape == text:
            return shape
    raise InvalidInput(f"--shape {text}: expected {', '.join(SHAPES)}")


def _count(text: str) -> int:
    try:
        count = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise InvalidInput(f"--clients {text!r}: expected a number such as 1e9") from None
    if not 1 <= count <= 1e15:
        raise InvalidInput(f"--clients {text!r}: expected 1 to 1e15")
    return int(count)


def _levels(found: NetworkPlan) -> Table:
    table = Table("level", "unit", "how many", "in one unit", "links")
    for column in table.columns[2:]:
        column.justify = "right"
    for each in reversed(found.levels):
        table.add_row(str(each.level), each.name, f"{each.units:,}", str(each.members), f"{each.links:,}")
    return table


def _graphs(found: NetworkPlan) -> Table:
    table = Table("", "links between two brokers", "clustering coefficient")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = {"this network": found.measured, "a regular graph": found.regular, "a random graph": found.random}
    for name, graph in rows.items():
        table.add_row(name, *_figures(graph), style="bold" if graph is found.measured else "")
    return table


def _figures(graph: Graph) -> tuple[str, str]:
    path = f"{graph.path:,.0f}" if graph.path >= 100 else f"{graph.path:.1f}"
    return path, f"{graph.clustering:.2f}" if graph.clustering >= 0.005 else f"{graph.clustering:.1g}"


def _tell(found: NetworkPlan, console: Console) -> None:
    console.print(
        f"{found.brokers:,} brokers with room for {found.clients:,} clients; {found.links:,} links, "
        f"{found.links_per_broker:.1f} at a broker"
    )
    console.print(
        f"a broker knows {found.graph_nodes} units and {found.graph_edges:,} edges; an event is matched at most "
        f"{len(found.levels) + 1} times on its way to anyone"
    )
    console.print(
        f"[dim]{found.pairs} pairs of brokers, the farthest {found.longest} links apart; seed {found.request.seed}[/]"
    )
    if not found.arrives:
        console.print(
            f"[yellow]{found.lost} of {found.pairs} pairs are {MOST_HOPS} links or more apart: events between them "
            "would be dropped. Take more links per member, a mesh, or fewer levels.[/]"
        )
