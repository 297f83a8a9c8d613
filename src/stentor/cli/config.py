"""`stentor config`: is a configuration file right, and what may be in one."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stentor.cli.terminal.narrow_table import narrow_table
from stentor.config import Config, load, without_password
from stentor.config import schema as json_schema
from stentor.model.errors import ConfigError

app = typer.Typer(help="Check a configuration file, or describe it to an editor.", no_args_is_help=True)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="the configuration, in TOML")],
    node: Annotated[str | None, typer.Option(help="check the certificates of this node only")] = None,
) -> None:
    """Say whether a file can be used; if not, everything that is wrong with it."""
    try:
        config = load(file, node=node)
        _check_certificates(config, node)
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    console = Console()
    console.print(f"ok: {file}", markup=False, highlight=False, soft_wrap=True)
    console.print(_table(config, console.width))


@app.command()
def schema() -> None:
    """Print the JSON Schema of a configuration file, for editors."""
    typer.echo(json.dumps(json_schema(), indent=2))


def _check_certificates(config: Config, only: str | None) -> None:
    directories = [node.tls.directory for node in config.nodes if node.tls and only in (None, str(node.name))]
    if directories:
        from stentor.runtime.tls import server_context  # heavy: only for those who need it
    for directory in dict.fromkeys(directories):
        server_context(directory)


def _table(config: Config, width: int) -> Table:
    rows: list[tuple[str, ...]] = []
    for node in config.nodes:
        http, tls = str(node.http or "off"), str(node.tls.directory) if node.tls else "off"
        rows.append((str(node.name), node.role, str(node.listen), http, tls, str(node.storage)))
    for repository in config.repositories:
        guard = config.broker_of(repository).tls
        http, tls = str(repository.http or "off"), str(guard.directory) if guard else "off"
        storage = without_password(repository.storage)
        rows.append((repository.name, "repository", f"to {repository.broker}", http, tls, storage))
    headings = ("node", "role", "listen", "http", "tls", "storage")
    return narrow_table(
        {name: [Text(cell) for cell in cells] for name, cells in zip(headings, zip(*rows, strict=True), strict=True)},
        width,
    )
