"""`stentor link`: join brokers of a running network, part them, and say what a link costs.

All of it goes by plans, which lose no event; `--at-once` is the sudden way, for networks that are not well.
"""

import asyncio
import enum
from typing import Annotated

import typer

from stentor.admin import network as operation
from stentor.admin.plans import draw_plan
from stentor.cli.network.search import Found, Search, level_in, member_of
from stentor.cli.terminal.options import TlsOption, TokenOption, UrlOption, WaitOption
from stentor.cli.topology.planned import carry_out
from stentor.model.colours.plan import TopologyChange
from stentor.model.errors import InvalidInput, Refusal, Refused, StentorError, Unreachable
from stentor.model.messages import AdminTask
from stentor.model.reports.view import LinkView, NetworkView
from stentor.model.scope import ScopePath
from stentor.nodes.network.link_cost import thousandths

app = typer.Typer(help="Links between brokers of a running network; brokers remember them.", no_args_is_help=True)

FromArgument = Annotated[str, typer.Argument(metavar="FROM", help="A broker: its name, or host:port.")]
ToArgument = Annotated[str, typer.Argument(metavar="TO", help="Another broker.")]
CostOption = Annotated[float | None, typer.Option("--cost", help="Instead of that of the link's level.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Also if the network falls apart.")]
AtOnceOption = Annotated[
    bool, typer.Option("--at-once", help="Not by a plan: events under way may be lost, or come too late.")
]
TimeoutOption = Annotated[float, typer.Option("--timeout", help="Seconds to wait until it is so.")]

_PAUSE = 0.1


@app.command()
def add(
    origin: FromArgument,
    target: ToArgument,
    cost: CostOption = None,
    timeout: TimeoutOption = 10.0,
    at_once: AtOnceOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Make FROM open a link to TO, and again whenever it is lost, also after a restart.

    Events use it from one moment on, everywhere; none is lost or overtaken.
    """
    check_cost(cost)
    search = Search(url, tls, wait, token)
    if at_once:
        ends = asyncio.run(_add(search, origin, target, cost, timeout))
    else:
        ends = asyncio.run(_add_planned(search, origin, target, cost, timeout))
    typer.echo(f"{ends} are linked" + ("" if cost is None else f", cost {cost:g}"))


@app.command()
def remove(
    origin: FromArgument,
    target: ToArgument,
    force: ForceOption = False,
    at_once: AtOnceOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Remove the link between two brokers, for good; refused if the network would be in two parts.

    It is closed when nothing is under way on it any more. With --force, at once.
    """
    search = Search(url, tls, wait, token)
    if at_once or force:
        ends = asyncio.run(_change(search, origin, target, AdminTask.REMOVE_LINK, force=force))
    else:
        ends = asyncio.run(change_link(search, origin, target, LinkIntent.REMOVE))
    typer.echo(f"{ends} are no longer linked")


@app.command()
def cost(
    origin: FromArgument,
    target: ToArgument,
    cost: Annotated[float, typer.Argument(help="More than 0; distances are sums of costs.")],
    at_once: AtOnceOption = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Set what the link between two brokers costs; it is dearer while it is slow."""
    check_cost(cost)
    search = Search(url, tls, wait, token)
    if at_once:
        ends = asyncio.run(_change(search, origin, target, AdminTask.SET_COST, cost=cost))
    else:
        ends = asyncio.run(change_link(search, origin, target, LinkIntent.REPRICE, cost))
    typer.echo(f"the link of {ends} costs {cost:g}")


def check_cost(cost: float | None) -> None:
    if cost is not None and not 0 < cost <= 1_000_000:
        raise InvalidInput(f"a cost of {cost:g}: expected more than 0, at most 1,000,000")


async def _add_planned(search: Search, origin: str, target: str, cost: float | None, timeout: float) -> str:
    """Add a link by a plan, or at once if the other end cannot be reached without it: then it moves no way."""
    one, other = await _ends(search, origin, target)
    if other.name and one.name != other.name:
        view, path = await search.view_at(one.address), ScopePath.parse(other.name)
        member = member_of(view, path, level_in(view, path))
        if member is None or not member.reachable:
            return await _add(search, origin, target, cost, timeout)
    return await change_link(search, origin, target, LinkIntent.ADD, cost)


async def _add(search: Search, origin: str, target: str, cost: float | None, timeout: float) -> str:
    one, other = await _ends(search, origin, target)
    async with search.connect(one.address) as fabric:
        await operation.order(fabric, AdminTask.ADD_LINK, other.name, address=other.address, cost=cost or 0.0)
        end = asyncio.get_running_loop().time() + timeout
        while True:
            link = _link(other, (await operation.view(fabric)).links)
            if link is not None and link.state == "up":
                return f"{one.name} and {link.peer}"
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


class LinkIntent(enum.Enum):
    """What an operator wants of the link between two brokers."""

    ADD = "add"
    REPRICE = "reprice"
    REMOVE = "remove"


async def change_link(search: Search, origin: str, target: str, intent: LinkIntent, cost: float | None = None) -> str:
    """Change one link by a plan; returns who its ends are."""
    one, other = await _ends(search, origin, target)
    view = await search.view_at(one.address)
    known = _link(other, view.links)
    if intent is LinkIntent.REMOVE and known is not None and known.state == "down":  # nothing is under way on it
        return await _change(search, origin, target, AdminTask.REMOVE_LINK)
    if not other.name:
        raise Unreachable(f"no broker answers at {other.address}: --at-once makes {one.name} dial it until one does")
    level = ScopePath.parse(one.name).level_of_difference(ScopePath.parse(other.name))
    if level < 0:
        raise Refused(Refusal.PROTOCOL, f"{one.name} cannot be linked with itself")
    if known is None and intent is not LinkIntent.ADD:
        raise Refused(Refusal.PROTOCOL, f"there is no link to {other.name!r}")
    if known is not None and intent is LinkIntent.ADD:
        raise Refused(Refusal.PROTOCOL, f"there is a link to {other.name} already")
    scope = view.scopes[level].scope
    change = TopologyChange(
        near=one.name,
        far=other.name,
        before=0 if known is None else thousandths(known.base or known.cost),
        after=0 if intent is LinkIntent.REMOVE else thousandths(cost or _usual_cost(view, level)),
        address=other.address,
    )
    if change.before == change.after:
        return f"{one.name} and {other.name}"
    try:
        await carry_out(search, view, scope, draw_plan([change]))
    except Refused as error:
        if intent is not LinkIntent.REMOVE or "could not be reached" not in error.reason:
            raise
        reason = f"{error.reason}: the network would be in two parts: --force removes it anyway"
        raise Refused(error.code, reason) from None
    return f"{one.name} and {other.name}"


def _usual_cost(view: NetworkView, level: int) -> float:
    """Return what links of a level cost, as far as a broker has any; otherwise as much as by default."""
    costs = [each.base or each.cost for each in view.links if each.level == level]
    return min(costs) if costs else float(level + 1)


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
