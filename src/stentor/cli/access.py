"""`stentor access`: which rules are in force, and what a principal may do on a topic."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stentor.admin import network as operation
from stentor.cli.terminal.options import TlsOption, UrlOption, WaitOption
from stentor.cli.terminal.printable import print_json, printable
from stentor.client.fabric import connect
from stentor.config import load
from stentor.model.errors import Refusal, Refused
from stentor.model.reports.view import AccessView

app = typer.Typer(help="Who may publish, subscribe, send and take names.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("list")
def list_rules(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Of this file, instead of a running broker.")
    ] = None,
    json: JsonOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """List the [[access]] lines in force; of a broker, a client is told those that are about itself."""
    view = _view_of(config) if config is not None else asyncio.run(_ask(url, tls, wait))
    if json:
        print_json(view)
        return
    told = "everybody may do everything" if view.default == "open" else "only what is granted is allowed"
    lines = [f"{view.node}: {told} on topics that are not reliable", *(view.rules or ["no [[access]] lines"])]
    _print(lines)


@app.command()
def check(
    principal: Annotated[str, typer.Argument(help="The common name of a certificate.")],
    topic: Annotated[str, typer.Argument(help="A topic, or a pattern with + and #.")],
    attribute: Annotated[
        list[str] | None, typer.Option(help="Of the principal's certificate, such as OU=trading; repeatable.")
    ] = None,
    json: JsonOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Ask a running broker what a principal may do on a topic, and if not, what would allow it."""
    view = asyncio.run(_ask(url, tls, wait, principal, topic, attribute or []))
    if not view.topic:
        raise Refused(Refusal.NOT_AUTHORISED, view.verdicts[0].reason)
    if json:
        print_json(view)
        return
    lines = [f"{view.topic} is a reliable topic of {view.reliable}"] if view.reliable else []
    for verdict in view.verdicts:
        reason = f": {verdict.reason}" if verdict.reason else ""
        lines.append(f"{'yes' if verdict.allowed else 'no '}  {verdict.act}{reason}")
    _print(lines)


def _print(lines: Sequence[str]) -> None:
    console = Console(highlight=False)
    for line in lines:
        console.print(printable(line), markup=False, soft_wrap=True)


async def _ask(
    url: str | None, tls: Path | None, wait: float, principal: str = "", topic: str = "", attributes: Sequence[str] = ()
) -> AccessView:
    async with connect(url, tls=tls, wait=wait, stay=True) as fabric:
        return await operation.access(fabric, principal, topic, attributes)


def _view_of(file: Path) -> AccessView:
    config = load(file)
    secured = any(node.tls is not None for node in config.nodes)
    default = config.fabric.access or ("granted" if secured else "open")
    return AccessView(node=str(file), default=default, rules=tuple(map(str, config.access)))
