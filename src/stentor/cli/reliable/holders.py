"""`stentor topic steer` and `stentor topic leave`: which repository serves a name, and the end of a subscription."""

import asyncio
from typing import Annotated

import typer

from stentor.cli.reliable.registrar import WithinOption, registrar, waiting
from stentor.cli.terminal.options import TlsOption, TokenOption, UrlOption, WaitOption
from stentor.model.communication import Role
from stentor.model.errors import InvalidInput

_Topic = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]


def steer(
    name: _Topic,
    to: Annotated[str, typer.Option("--to", metavar="REPOSITORY", help="Which repository is to serve it.")],
    publisher: Annotated[str | None, typer.Option(help="The publisher to be moved.")] = None,
    subscriber: Annotated[str | None, typer.Option(help="The subscriber to be moved.")] = None,
    timeout: WithinOption = 30.0,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Move a publisher or a subscriber to another repository of its topic; nothing is lost, and nothing comes twice.

    It stays there as if it had chosen that itself. The owner of the topic can do that, and operators.
    """
    if (publisher is None) == (subscriber is None):
        raise InvalidInput("who is to be moved? Give --publisher NAME or --subscriber NAME")
    role: Role = "subscriber" if publisher is None else "publisher"
    end = publisher or subscriber or ""

    async def run() -> None:
        async with registrar(url, tls, wait, token) as asking:
            with waiting(f"{end} moves to {to}"):
                await asking.steer(name, role, end, to, timeout)

    asyncio.run(run())
    typer.echo(f"{to} serves {end}, a {role} of {name}")


def leave(
    name: _Topic,
    end: Annotated[str, typer.Option("--name", metavar="NAME", help="Your name as a subscriber.")],
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """End your own subscription: nothing is kept for it any more. Whoever holds the name now is told that it has left.

    What its owner granted stays: the name may subscribe again, and begins anew then.
    """

    async def run() -> None:
        async with registrar(url, tls, wait) as asking:
            await asking.leave(name, end)

    asyncio.run(run())
    typer.echo(f"{end} is no subscriber of {name} any more; nothing is kept for it")
