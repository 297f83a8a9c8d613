"""`stentor broker`: a broker joins a running network by knowing one other, or leaves it for good."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from stentor.admin import network as operation
from stentor.cli.network.departure import depart
from stentor.cli.network.links import AtOnceOption, CostOption, ForceOption, TimeoutOption, check_cost
from stentor.cli.network.placement import numbers_for, parted_without
from stentor.cli.network.search import Found, Search, level_in, member_of
from stentor.cli.running.process import Assignment, become
from stentor.cli.running.up import ChaosOption, JsonLogOption, LogOption, check_level, parse_access
from stentor.cli.terminal.options import (
    AccessOption,
    HttpOption,
    NoTracesOption,
    TlsOption,
    TokenOption,
    TracesOption,
    UrlOption,
    WaitOption,
    check_traces,
    http_address,
)
from stentor.client.connection.url import address_of
from stentor.config import Address, DialledLink, check_exposure
from stentor.config.settings import DATA
from stentor.model.errors import InvalidInput, Refusal, Refused, Unreachable
from stentor.model.limits import Limits
from stentor.model.messages import AdminTask
from stentor.model.reports.view import MemberView, NetworkView
from stentor.model.scope import ScopePath
from stentor.runtime.token import pointed_path

app = typer.Typer(help="Brokers that join and leave a running network.", no_args_is_help=True)

_PAUSE = 0.1


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Such as campus/library/b4: says which unit it joins, or makes.")],
    knowing: Annotated[str, typer.Option(help="Any broker of the network: host:port or URL.")],
    listen: Annotated[str, typer.Option(help="host:port; port 0 takes a free one at each start.")] = "127.0.0.1:0",
    http: HttpOption = "127.0.0.1:0",
    data: Annotated[Path, typer.Option(help="Where to keep data.")] = DATA,
    link: Annotated[
        list[str] | None, typer.Option(help="A broker to link with, by name or host:port; may be given repeatedly.")
    ] = None,
    cost: CostOption = None,
    number: Annotated[
        int | None, typer.Option(help="Its member number, 0 to 63; by default what its name says, or a free one.")
    ] = None,
    traces: TracesOption = None,
    no_traces: NoTracesOption = False,
    tls: TlsOption = None,
    access: AccessOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
    chaos: ChaosOption = False,
    log: LogOption = None,
    json_log: JsonLogOption = False,
) -> None:
    """Run a new broker in this terminal until Ctrl-C; it joins the network that another broker is in."""
    check_level(log)
    check_cost(cost)
    path, address = ScopePath.parse(name), Address.parse(listen)
    check_exposure(address, secured=tls is not None)
    default, rules = parse_access(access, tls)
    views, links = asyncio.run(_look_around(Search(address_of(knowing), tls, wait, token), path, link or []))
    around = [each for view in views for each in view.scopes if _holds(each.scope, name)]
    assignment = Assignment(
        name=name,
        listen=str(address),
        http=http_address(http, tls),
        storage=str(data.joinpath(*path.parts)),
        certificates=None if tls is None else str(tls),
        token=str(token or pointed_path(address_of(knowing)) or ""),
        limits=Limits(),
        log=log or "info",
        json_log=json_log,
        numbers=numbers_for(path, views, number),
        gateways=tuple(DialledLink(name=each.name, address=each.address, cost=cost) for each in links),
        forwarding={each.scope: each.forwarding for each in around},
        colours={each.scope: each.colour_settings for each in around},
        traces="none" if no_traces else check_traces(traces),
        rules=rules,
        access=default,
        chaos=chaos,
    )
    become(assignment)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="The broker's name.")],
    force: ForceOption = False,
    timeout: TimeoutOption = 10.0,
    at_once: AtOnceOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Make a broker leave the network for good and end; of one that is dead already, free the place.

    Its clients are asked to move to a neighbour, and its links are removed by plans, from the outer scopes inwards.
    With --force or --at-once it leaves at once.
    """
    search = Search(url, tls, wait, token)
    asyncio.run(_remove(search, ScopePath.parse(name), timeout, force=force, at_once=at_once))


async def _look_around(search: Search, path: ScopePath, wanted: list[str]) -> tuple[list[NetworkView], list[Found]]:
    """Views of brokers nearer and nearer to where a new one belongs, and those that it is to be linked with."""
    views = await search.towards(path)
    around = _common(views[-1].node, path)  # the smallest unit around the new broker that there is
    if not wanted:
        known = views[0] if _common(views[0].node, path) == around else views[-1]
        return views, [Found(known.node, known.address)]
    links = [await search.find(each) for each in wanted]
    if not any(_common(each.name, path) == around for each in links if each.name):
        raise InvalidInput(
            f"none of these brokers is in {around or 'the network'}: members of a unit must reach each other inside "
            f"it; --link {views[-1].node} would do"
        )
    return views, links


async def _remove(search: Search, path: ScopePath, timeout: float, *, force: bool, at_once: bool) -> None:
    name, end = str(path), asyncio.get_running_loop().time() + timeout
    if await _dismiss_unit(search, path, force):
        return
    found = await search.find(name)
    try:
        view = await search.look(found.address)
        alive = view.node == name
    except Unreachable:
        alive = False
    if not alive:
        await _dismiss(search, path, end)
        typer.echo(f"{name} was dead already; the network forgets it")
        return
    parted = parted_without(view)
    if parted and not force:
        raise Refused(Refusal.PROTOCOL, f"{parted}; --force removes it anyway")
    neighbours = [each.address for each in view.links if each.state == "up"]
    has_departed = not (force or at_once) and await depart(search, view, end)
    async with search.connect(found.address) as fabric:
        await operation.order(fabric, AdminTask.LEAVE)
    if has_departed:  # it had no links left to tell anybody
        await _dismiss(search, path, end + timeout)
    for address in neighbours[:1]:
        while _stays(await search.look(address), path):
            if asyncio.get_running_loop().time() > end:
                raise Unreachable(f"{name} was told to leave, and is still there after {timeout:g} s")
            await asyncio.sleep(_PAUSE)
    typer.echo(f"{name} left the network")


async def _dismiss_unit(search: Search, path: ScopePath, force: bool) -> bool:
    """If nobody in a broker's unit can be reached, those around that unit can only forget all of it."""
    seer = (await search.towards(path))[-1]
    level = level_in(seer, path)
    unit = member_of(seer, path, level)
    if level == 0 or unit is None or not unit.members or unit.reachable:
        return False
    if unit.members > 1 and not force:
        raise Refused(
            Refusal.PROTOCOL,
            f"{seer.node} cannot reach {unit.unit}, which had {unit.members} members: --force makes the network forget "
            "them all",
        )
    async with search.connect(seer.address) as fabric:
        await operation.order(fabric, AdminTask.DISMISS, unit.unit)
    typer.echo(f"{unit.unit} was dead already, with all that was in it; the network forgets it")
    return True


async def _dismiss(search: Search, path: ScopePath, end: float) -> None:
    """Say it to a broker of the dead one's unit; those there may need some time to notice that it is dead."""
    seer = (await search.towards(path))[-1]
    while True:
        try:
            async with search.connect(seer.address) as fabric:
                await operation.order(fabric, AdminTask.DISMISS, str(path))
            return
        except Refused as error:
            member = _member(await search.look(seer.address), path)
            if member is None or not member.reachable:
                raise
            if asyncio.get_running_loop().time() > end:
                raise Unreachable(f"{path} does not answer, but the network reaches it: {error}") from None
        await asyncio.sleep(_PAUSE)


def _member(view: NetworkView, path: ScopePath) -> MemberView | None:
    return member_of(view, path, 0) if _common(view.node, path) == str(path.parent or "") else None


def _stays(view: NetworkView, path: ScopePath) -> bool:
    """Whether a broker knows of a link to another, or that this is in its unit."""
    member = _member(view, path)
    return any(each.peer == str(path) and each.state != "down" for each in view.links) or (
        member is not None and member.members > 0
    )


def _common(name: str, path: ScopePath) -> str:
    """The smallest unit that holds both; "" is the network."""
    level = max(0, ScopePath.parse(name).level_of_difference(path))
    return "/".join(path.parts[: len(path.parts) - level - 1])


def _holds(scope: str, name: str) -> bool:
    return not scope or name.startswith(scope + "/")
