"""`stentor broker`: a broker joins a running network by knowing one other, or leaves it for good."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from stentor.admin.survey import within_unit
from stentor.cli.network.links import AtOnceOption, CostOption, ForceOption, TimeoutOption, check_cost
from stentor.cli.network.placement import numbers_for
from stentor.cli.network.search import Found, Search, common_unit
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
from stentor.cli.topology import departure
from stentor.client.connection.url import address_of
from stentor.config import Address, DialledLink, check_exposure
from stentor.config.settings import DATA
from stentor.model.errors import InvalidInput
from stentor.model.limits import Limits
from stentor.model.reports.view import NetworkView
from stentor.model.scope import ScopePath
from stentor.runtime.token import pointed_path

app = typer.Typer(help="Brokers that join and leave a running network.", no_args_is_help=True)


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
    """Run a new broker in this terminal until Ctrl-C; it joins the network that another broker is in.

    With its first link it moves nobody's way; further ones come by plans, so that no event is lost or overtaken.
    """
    check_level(log)
    check_cost(cost)
    path, address = ScopePath.parse(name), Address.parse(listen)
    check_exposure(address, secured=tls is not None)
    default, rules = parse_access(access, tls)
    views, links = asyncio.run(_look_around(Search(address_of(knowing), tls, wait, token), path, link or []))
    around = [each for view in views for each in view.scopes if within_unit(name, each.scope)]
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
        gateways=tuple(
            DialledLink(
                name=each.name, address=each.address, cost=cost, is_requested=bool(each.name) and each is not links[0]
            )
            for each in links
        ),
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
    asyncio.run(departure.remove(search, ScopePath.parse(name), timeout, force=force, at_once=at_once))


async def _look_around(search: Search, path: ScopePath, wanted: list[str]) -> tuple[list[NetworkView], list[Found]]:
    """Views of brokers nearer and nearer to where a new one belongs, and those that it is to be linked with: first one
    by which it joins.
    """
    views = await search.towards(path)
    around = common_unit(views[-1].node, path)  # the smallest unit around the new broker that there is
    if not wanted:
        known = views[0] if common_unit(views[0].node, path) == around else views[-1]
        return views, [Found(known.node, known.address)]
    links = [await search.find(each) for each in wanted]
    links.sort(key=lambda each: not each.name or common_unit(each.name, path) != around)
    if not links[0].name or common_unit(links[0].name, path) != around:
        raise InvalidInput(
            f"none of these brokers is in {around or 'the network'}: members of a unit must reach each other inside "
            f"it; --link {views[-1].node} would do"
        )
    return views, links
