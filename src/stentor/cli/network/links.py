"""`stentor link`: join brokers of a running network, part them, and say what a link costs."""

import asyncio
from typing import Annotated

import typer

from stentor.admin import network as operation
from stentor.cli.network.search import Found, Search
from stentor.cli.terminal.options import TlsOption, TokenOption, UrlOption, WaitOption
from stentor.model.errors import InvalidInput, Refused, StentorError, Unreachable
from stentor.model.messages import AdminTask
from stentor.model.reports.view import LinkView
from stentor.model.scope import ScopePath

app = typer.Typer(help="Links between brokers of a running network; brokers remember them.", no_args_is_help=True)

FromArgument = Annotated[str, typer.Argument(metavar="FROM", help="A broker: its name, or host:port.")]
ToArgument = Annotated[str, typer.Argument(metavar="TO", help="Another broker.")]
CostOption = Annotated[float | None, typer.Option("--cost", help="Instead of that of the link's level.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Also if the network falls apart.")]
TimeoutOption = Annotated[float, typer.Option("--timeout", help="Seconds to wait until it is so.")]

_PAUSE = 0.1


@app.command()
def add(
    origin: FromArgument,
    target: ToArgument,
    cost: CostOption = None,
    timeout: TimeoutOption = 10.0,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Make FROM open a link to TO, and again whenever it is lost, also after a restart."""
    check_cost(cost)
    asyncio.run(_add(Search(url, tls, wait, token), origin, target, cost, timeout))


@app.command()
def remove(
    origin: FromArgument,
    target: ToArgument,
    force: ForceOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Remove the link between two brokers, for good; refused if the network would be in two parts."""
    ends = asyncio.run(_change(Search(url, tls, wait, token), origin, target, AdminTask.REMOVE_LINK, force=force))
    typer.echo(f"{ends} are no longer linked")


@app.command()
def cost(
    origin: FromArgument,
    target: ToArgument,
    cost: Annotated[float, typer.Argument(help="More than 0; distances are sums of costs.")],
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Set what the link between two brokers costs; it is dearer while it is slow."""
    check_cost(cost)
    ends = asyncio.run(_change(Search(url, tls, wait, token), origin, target, AdminTask.SET_COST, cost=cost))
    typer.echo(f"the link of {ends} costs {cost:g}")


def check_cost(cost: float | None) -> None:
    if cost is not None and not 0 < cost <= 1_000_000:
        raise InvalidInput(f"a cost of {cost:g}: expected more than 0, at most 1,000,000")


async def _add(search: Search, origin: str, target: str, cost: float | None, timeout: float) -> None:
    one, other = await _ends(search, origin, target)
    price = "" if cost is None else f", cost {cost:g}"
    async with search.connect(one.address) as fabric:
        await operation.order(fabric, AdminTask.ADD_LINK, other.name, address=other.address, cost=cost or 0.0)
        end = asyncio.get_running_loop().time() + timeout
        while True:
            link = _link(other, (await operation.view(fabric)).links)
            if link is not None and link.state == "up":
                typer.echo(f"{one.name} and {link.peer} are linked{price}")
                return
            if asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(_PAUSE)
    raise StentorError(
        f"{one.name} has no link to {other.name or other.address} after {timeout:g} s, and keeps trying; "
        f"`stentor link remove {one.name} {other.name or other.address}` ends that"
    )


async def _change(
    search: Search,
    origin: str,
    target: str,
    task: AdminTask,
    *,
    cost: float = 0.0,
    force: bool = False,
) -> str:
    """Order it at the end that opens the link, or at both if both do; returns who they are."""
    one, other = await _ends(search, origin, target)
    done, refusals = False, list[StentorError]()
    for here, there in ((one, other), (other, one)):
        try:
            async with search.connect(here.address) as fabric:
                await operation.order(fabric, task, there.name, address=there.address, cost=cost, force=force)
            done = True
        except Refused as error:
            if "--force" in error.reason:
                raise
            refusals.append(error)
        except Unreachable as error:
            refusals.append(error)
    if not done:
        # "ask there" is no answer for somebody who asked at both ends
        raise next((error for error in refusals if "ask there" not in str(error)), refusals[0])
    return f"{one.name} and {other.name or other.address}"


async def _ends(search: Search, origin: str, target: str) -> tuple[Found, Found]:
    one, other = await search.find(origin), await search.find(target)
    if not one.name:
        raise Unreachable(f"no broker answers at {one.address}")
    if other.name:
        ScopePath.parse(one.name).level_of_difference(ScopePath.parse(other.name))  # raises if depths differ
    return one, other


def _link(other: Found, links: tuple[LinkView, ...]) -> LinkView | None:
    """The link to the other end, whose name nobody may know yet."""
    return next((each for each in links if each.address == other.address or each.peer == (other.name or None)), None)
