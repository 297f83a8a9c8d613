"""What has to change in a running network so that it is as a file says, as plans in the order in which they can run."""

from collections.abc import Iterable, Sequence

import msgspec

from stentor.admin.survey import UP, LinkSeen, Survey
from stentor.config import Config
from stentor.model.colours.plan import TopologyChange
from stentor.model.errors import InvalidInput
from stentor.model.scope import ScopePath
from stentor.nodes.network.link_cost import thousandths

_SHOWN = 5  # brokers in a sentence


class ScopeChanges(msgspec.Struct, frozen=True):
    """What changes in one scope at one time."""

    scope: str  # "" is the network
    level: int  # of its members
    changes: tuple[TopologyChange, ...]


def differences(config: Config, survey: Survey) -> list[ScopeChanges]:
    """Return what to change, step by step; InvalidInput if the file wants what no plan can do.

    What comes is there in inner scopes before outer ones need it; what goes, goes from outer scopes first.
    """
    _check_brokers(config, survey)
    wanted = {frozenset(map(str, link.between)): link for link in config.links}
    there = {frozenset((link.one, link.other)): link for link in survey.links if link.state == UP and link.other}
    coming: list[TopologyChange] = []
    for pair, link in wanted.items():
        near, far = map(str, link.between)
        after = thousandths(link.cost or _usual_cost(config, near, far))
        before = thousandths(there[pair].base or there[pair].cost) if pair in there else 0
        if before != after:
            address = str(link.address or "") or survey.brokers[far].address
            coming.append(TopologyChange(near=near, far=far, before=before, after=after, address=address))
    going = [_removal(link, survey) for pair, link in sorted(there.items(), key=str) if pair not in wanted]
    steps = [*_by_scope(coming), *reversed(_by_scope(going))]
    if len({step.scope for step in steps}) == 1 and len(steps) > 1:  # in one scope all of it is one plan
        return [msgspec.structs.replace(steps[0], changes=tuple(change for step in steps for change in step.changes))]
    return steps


def _check_brokers(config: Config, survey: Survey) -> None:
    wanted = {str(node.name) for node in config.nodes if node.role == "broker"}
    running = {name for name, broker in survey.brokers.items() if broker.state == UP}
    missing, spare = sorted(wanted - running), sorted(running - wanted)
    if missing:
        raise InvalidInput(
            f"in the file, and not running: {_some(missing)}. A plan changes links between brokers that run: start "
            f"them first, as in `stentor broker add {missing[0]} --knowing {survey.brokers[survey.origin].address}`"
        )
    if spare:
        raise InvalidInput(
            f"running, and not in the file: {_some(spare)}. `stentor broker remove {spare[0]}` makes one leave"
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


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
