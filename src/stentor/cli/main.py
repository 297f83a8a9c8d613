"""All commands in one place; each is imported when it is asked for, since all of them take most of a second."""

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Final

import typer

from stentor.version import __version__

COMMANDS: Final = {  # where each is, in the order of the help
    "up": "running.up.up",
    "node": "running.up.node",
    "pub": "events.publish.pub",
    "sub": "events.subscribe.sub",
    "send": "events.send.send",
    "status": "network.status.status",
    "map": "network.network_map.network_map",
    "route": "network.route.route",
    "explain": "network.explain.explain",
    "reconfigure": "topology.reconfigure.reconfigure",
    "corrupt": "network.corrupt.corrupt",
    "demo": "demo.play.demo",
    "simulate": "simulate.simulate",
    "plan": "plan.plan",
    "pipeline": "pipeline.commands.app",
    "config": "config.app",
    "certs": "certs.app",
    "access": "access.app",
    "filter": "filters.app",
    "bench": "bench.app",
    "link": "network.links.app",
    "broker": "network.broker.app",
    "topic": "reliable.topic.app",
    "repository": "reliable.repository.app",
}


def _version(value: bool) -> None:
    if value:
        typer.echo(f"stentor {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


def named(words: list[str]) -> Iterable[str]:
    """The commands that must be there to understand these words."""
    if words[:1] == ["--version"]:
        return ()
    return words[:1] if words and words[0] in COMMANDS else COMMANDS


def build(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with some of its commands."""
    app = typer.Typer(
        name="stentor",
        help="Stentor: an event fabric.\n\nExit codes: 0 done, 1 it failed, 2 wrong use or input, 3 no broker there, "
        "4 refused, 130 interrupted.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        module, _, attribute = COMMANDS[name].rpartition(".")
        command = getattr(import_module(f"stentor.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app
