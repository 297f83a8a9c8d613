"""`stentor topic leave`: the end of a subscription."""

import asyncio
from typing import Annotated

import typer

from stentor.cli.options import TlsOption, UrlOption, WaitOption
from stentor.cli.registrar import WithinOption
from stentor.client import connect
from stentor.model.errors import InvalidInput
from stentor.registration import Registrar

_Topic = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]


def leave(
    name: _Topic,
    end: Annotated[str, typer.Option("--name", metavar="NAME", help="Your name as a subscriber.")],
    timeout: WithinOption = 30.0,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """End your own subscription: nothing is kept for it any more. Whoever holds the name now is turned away.

    What its owner granted stays: the name may subscribe again, and begins anew then.
    """

    async def run() -> None:
        async with connect(url, tls=tls, wait=wait) as fabric:
            async with Registrar(fabric) as asking:
                seen = [report.subscribers.get(end) for report in (await asking.show(name)).values()]
            if not any(each is not None and each.known for each in seen):
                raise InvalidInput(f"{end} is no subscriber of {name}: there is nothing to leave")
            async with fabric.subscribe(name, name=end) as subscription:
                await subscription.unsubscribe(timeout)

    asyncio.run(run())
    typer.echo(f"{end} is no subscriber of {name} any more; nothing is kept for it")
