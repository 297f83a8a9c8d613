"""`stentor send`: an event for clients by their names, from the command line."""

import asyncio
from typing import Annotated

import typer

from stentor.admin.topics import Registrar
from stentor.cli.terminal.options import AttributesOption, TlsOption, UrlOption, WaitOption, parse_attributes
from stentor.cli.terminal.printable import printable
from stentor.client.fabric import Fabric, connect
from stentor.model.errors import InvalidInput
from stentor.model.mail import MAIL, RECIPIENT


def send(
    to: Annotated[str, typer.Argument(help="The names of its destinations, such as alice,bob.")],
    body: Annotated[str, typer.Argument(help="The body.")] = "",
    guaranteed: Annotated[
        bool, typer.Option("--guaranteed", help="Store it until each of them has it: returns when it is stored.")
    ] = False,
    attr: AttributesOption = None,
    name: Annotated[str | None, typer.Option(help="Who sends it.", show_default="a fresh name")] = None,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Send an event to clients by their names, wherever they are.

    Without --guaranteed those get it that read their inbox now. With it, repositories keep it until each of them has
    it, whenever it comes: `stentor sub '$mail' --name alice` gets what is for alice. The first time, if you run the
    fabric, it creates the topic of mail at all repositories; `stentor topic create '$mail' --reliable` chooses some.
    """
    names = [each for each in to.split(",") if each]
    if not names:
        raise InvalidInput("name at least one destination, such as alice,bob")
    attributes = parse_attributes(attr or [])
    if {RECIPIENT, "body", "guaranteed"} & attributes.keys():
        raise InvalidInput(f"an event that is sent has no attributes {RECIPIENT}, body or guaranteed of its own")

    async def run() -> None:
        async with connect(url, name=name, tls=tls, wait=wait) as fabric:
            if guaranteed and fabric.is_operator:
                await _create_mail(fabric)
            await fabric.send(names, body.encode(), guaranteed=guaranteed, **attributes)
            await fabric.flush()

    asyncio.run(run())
    typer.echo(printable(f"{'stored' if guaranteed else 'sent'} for {', '.join(names)}"))


async def _create_mail(fabric: Fabric) -> None:
    """Create the topic of mail, unless there is one."""
    async with Registrar(fabric) as registrar:
        found = await registrar.find()
        if found and not any(MAIL in report.topics for report in found.values()):
            await registrar.create(MAIL)
            typer.echo(f"{MAIL} was created at {', '.join(found)}", err=True)
