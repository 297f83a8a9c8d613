"""All commands in one place."""

from typing import Annotated

import typer

from stentor.cli import (
    bench,
    broker,
    certs,
    config,
    explain,
    filters,
    links,
    network_map,
    plan,
    publish,
    repository,
    route,
    simulate,
    status,
    subscribe,
    topic,
    up,
)
from stentor.cli.demo import play
from stentor.version import __version__

app = typer.Typer(
    name="stentor",
    help="Stentor: an event fabric.\n\nExit codes: 0 done, 1 it failed, 2 wrong use or input, 3 no broker there, "
    "4 refused, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"stentor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


app.command()(up.up)
app.command()(up.node)
app.command()(publish.pub)
app.command()(subscribe.sub)
app.command()(status.status)
app.command("map")(network_map.network_map)
app.command()(route.route)
app.command()(explain.explain)
app.command()(play.demo)
app.command()(simulate.simulate)
app.command()(plan.plan)
app.add_typer(config.app, name="config")
app.add_typer(certs.app, name="certs")
app.add_typer(filters.app, name="filter")
app.add_typer(bench.app, name="bench")
app.add_typer(links.app, name="link")
app.add_typer(broker.app, name="broker")
app.add_typer(topic.app, name="topic")
app.add_typer(repository.app, name="repository")
