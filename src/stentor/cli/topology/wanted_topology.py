"""What has to change in a running network so that it is as a file says, as plans in the order in which they can run."""

from collections.abc import Iterable, Sequence

import msgspec

from stentor.admin.survey import UP, LinkSeen, Survey
from stentor.cli.topology.newcomers import Newcomer, newcomers
from stentor.config import Config, LinkTable, colours_around
from stentor.model.colours.plan import TopologyChange
from stentor.model.errors import InvalidInput, Unreachable
from stentor.model.scope import ScopePath
from stentor.model.wording.count import counted
from stentor.nodes.network.link_cost import thousandths


class ScopeChanges(msgspec.Struct, frozen=True):
    """What changes in one scope at one time."""

    scope: str  # "" is the network
    level: int  # of its members
    changes: tuple[TopologyChange, ...]
    roots: tuple[str, ...] | None = None  # its root group from then on; None if it stays


class WantedTopology(msgspec.Struct, frozen=True):
    """What has to change: brokers join, then links come and go by plans, one after the other, then brokers leave."""

    joining: list[Newcomer]
    plans: list[ScopeChanges]
    leaving: list[str]  # brokers; with them go their links


def differences(config: Config, survey: Survey) -> WantedTopology:
    """Return what to change, step by step; InvalidInput if the file wants what cannot be done while the network runs.

    What comes is there in inner scopes before outer ones need it; what goes, goes from outer scopes first.
    """
    running = sorted(name for name, broker in survey.brokers.items() if broker.state == UP)
    _check_rest(config, survey)
    silent = next(
        (str(node.name) for node in config.nodes if str(node.name) in survey.brokers.keys() - set(running)), ""
    )
    if silent:
        raise Unreachable(
            f"{silent} is known, and does not answer: start it again, or take it out of the file and say `stentor "
            f"broker remove {silent}`"
        )
    joining = newcomers(config, running)
    leaving = sorted(set(running) - {str(node.name) for node in config.nodes})
    wanted = {frozenset(map(str, link.between)): link for link in config.links}
    there = {
        frozenset((link.one, link.other)): link
        for link in survey.links
        if link.state == UP and link.other and not {link.one, link.other} & set(leaving)
    }
    by_itself = {frozenset((each.name, each.neighbour)) for each in joining}
    coming = [
        change
        for pair, link in wanted.items()
        if pair not in by_itself and (change := _wanted_change(config, survey, link, there.get(pair))) is not None
    ]
    going = [_removal(link, survey) for pair, link in sorted(there.items(), key=str) if pair not in wanted]
    plans = [*_by_scope(coming), *reversed(_by_scope(going))]
    if len({plan.scope for plan in plans}) == 1 and len(plans) > 1:  # in one scope all of it is one plan
        every = tuple(change for plan in plans for change in plan.changes)
        plans = [msgspec.structs.replace(plans[0], changes=every)]
    return WantedTopology(joining, _with_roots(plans, _wanted_roots(config, survey)), leaving)


def _wanted_change(config: Config, survey: Survey, link: LinkTable, seen: LinkSeen | None) -> TopologyChange | None:
    """Return how a link becomes what the file says; None if it is that."""
    near, far = map(str, link.between)
    after = thousandths(link.cost or _usual_cost(config, near, far))
    before = 0 if seen is None else thousandths(seen.base or seen.cost)
    if before == after:
        return None
    known = survey.brokers.get(far)
    node = next(node for node in config.nodes if str(node.name) == far)
    address = str(link.address or "") or (str(node.advertise or node.listen) if known is None else known.address)
    return TopologyChange(near=near, far=far, before=before, after=after, address=address)


def _check_rest(config: Config, survey: Survey) -> None:
    """Raise InvalidInput if the file differs from the network in what is no matter of brokers and links."""
    views = survey.views()
    depths = {name.count("/") + 1 for name in views}
    for node in config.nodes:
        depth = len(node.name.parts)
        if depth not in depths:
            raise InvalidInput(f"{node.name} has {counted(depth, 'part')}, and brokers here have {min(depths)}")
    for scope in {scope.scope: scope for view in views.values() for scope in view.scopes}.values():
        title, forwarding = (
            scope.scope or "the network",
            config.forwarding(ScopePath(tuple(scope.scope.split("/")) if scope.scope else ())),
        )
        if forwarding != scope.forwarding:
            raise InvalidInput(
                f"the file changes how events are forwarded in {title}, from {scope.forwarding} to {forwarding}: "
                "that is no topology, and needs brokers that are started again"
            )


def _wanted_roots(config: Config, survey: Survey) -> list[ScopeChanges]:
    """Return the scopes whose root group the file changes."""
    wanted = {scope: settings for node in config.nodes for scope, settings in colours_around(config, node).items()}
    known = {scope.scope: scope for view in survey.views().values() for scope in view.scopes}
    return [
        ScopeChanges(name, known[name].level, (), wanted[name].roots)
        for name in sorted(wanted.keys() & known.keys())
        if wanted[name].roots != known[name].colour_settings.roots
    ]


def _with_roots(plans: Sequence[ScopeChanges], regrouped: Iterable[ScopeChanges]) -> list[ScopeChanges]:
    """Return plans that change root groups, too: where the scope has a plan, that one does."""
    found = list(plans)
    for group in regrouped:
        place = next((place for place, plan in enumerate(found) if plan.scope == group.scope), None)
        if place is None:
            found.append(group)
        else:
            found[place] = msgspec.structs.replace(found[place], roots=group.roots)
    return found


def _usual_cost(config: Config, near: str, far: str) -> float:
    level, costs = ScopePath.parse(near).level_of_difference(ScopePath.parse(far)), config.fabric.costs
    return costs[min(level, len(costs) - 1)]


def _removal(link: LinkSeen, survey: Survey) -> TopologyChange:
    return TopologyChange(
        near=link.one,
        far=link.other,
        before=thousandths(link.base or link.cost),
        after=0,
        address=survey.brokers[link.other].address,
    )


def _by_scope(changes: Iterable[TopologyChange]) -> list[ScopeChanges]:
    """Return changes by the scope that they are in, the inner scopes first."""
    found: dict[tuple[int, str], list[TopologyChange]] = {}
    for change in changes:
        near = ScopePath.parse(change.near)
        level = near.level_of_difference(ScopePath.parse(change.far))
        scope = "/".join(near.parts[: len(near.parts) - level - 1])
        found.setdefault((level, scope), []).append(change)
    return [ScopeChanges(scope, level, tuple(found[level, scope])) for level, scope in sorted(found)]
