"""Whether a plan can be carried out in a scope: its links are what it says they are, and the scope stays whole."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from stentor.model.colours.plan import TopologyChange, TopologyPlan
from stentor.model.errors import InvalidInput
from stentor.model.ids import link_number
from stentor.model.messages import Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph


def plan_refusal(graph: ConnectivityGraph, level: int, plan: TopologyPlan) -> str:
    """Return why a plan for the scope that holds the units of a level cannot be carried out; "" if it can."""
    if not plan.size:
        return "the plan changes nothing"
    pairs = Counter(
        (change.near, change.far) if change.is_measured else tuple(sorted((change.near, change.far)))
        for change in plan.changes
    )
    twice = next((pair for pair, count in pairs.items() if count > 1), None)
    if twice is not None:
        return f"the plan changes the link between {' and '.join(twice)} twice"
    for change in plan.changes:
        refusal = _refusal_of(graph, level, change)
        if refusal:
            return refusal
    refusal = "" if plan.roots is None else _refusal_of_roots(graph, level, plan.roots)
    refusal = refusal or _refusal_of_choosers(graph, level, plan.choosers)
    if refusal:
        return refusal
    lost = _parted(graph, level, plan)
    return f"without these links {', '.join(lost)} could not be reached" if lost else ""


def _refusal_of_roots(graph: ConnectivityGraph, level: int, roots: Sequence[str]) -> str:
    """Return what is wrong with a root group."""
    scope = graph.context.scopes[level] or "the network"
    away = [each.unit for each in graph.present(level) if not graph.reaches(each.unit)]
    if away:  # it would come back with the former group, and claim to be the root by that
        return f"{away[0]} cannot be reached: it has to know the root group of {scope}, or be gone for good"
    if len(set(roots)) < len(roots):
        return f"the root group of {scope} names a broker twice: {', '.join(roots)}"
    for root in roots:
        try:
            path = ScopePath.parse(root)
        except InvalidInput as error:
            return str(error)
        known = graph.find(_unit(path, level)) if len(path.parts) == graph.context.depth else None
        if known is None or known.left:
            return f"{root} cannot be a root of {scope}: it is not there, as far as is known here"
    return ""


def _refusal_of_choosers(graph: ConnectivityGraph, level: int, choosers: Sequence[str]) -> str:
    """Return which broker is none of the scope that is said to choose its exits again."""
    scope = graph.context.scopes[level]
    for name in choosers:
        try:
            path = ScopePath.parse(name)
        except InvalidInput as error:
            return str(error)
        if len(path.parts) != graph.context.depth or (scope and not name.startswith(scope + "/")):
            return f"{name} is no broker of {scope or 'the network'}"
    return ""


def _refusal_of(graph: ConnectivityGraph, level: int, change: TopologyChange) -> str:
    """Return what is wrong with one change."""
    scope, link = graph.context.scopes[level], f"the link from {change.near} to {change.far}"
    try:
        near, far = ScopePath.parse(change.near), ScopePath.parse(change.far)
        difference = near.level_of_difference(far)
    except InvalidInput as error:
        return str(error)
    if difference != level or len(near.parts) != graph.context.depth:
        return f"{link} is none between members of {scope or 'the network'}"
    if scope and not (change.near.startswith(scope + "/") and change.far.startswith(scope + "/")):
        return f"{link} is not inside {scope}"
    if change.before == change.after:
        return f"{link} would stay as it is"
    if change.comes and not (change.address or change.is_return):
        return f"{link} is to come, and nobody says where {change.far} listens"
    ends = [graph.find(_unit(broker, level)) for broker in (near, far)]
    for broker, known in zip((change.near, change.far), ends, strict=True):
        if known is None or known.left or not graph.reaches(known.unit):
            return f"{broker} is not in {scope or 'the network'}, as far as is known here"
    is_there = all(_speaks_of(known, link_number(change.near, change.far)) for known in ends)
    if is_there == change.comes:
        return f"{link} is there already" if is_there else f"{link} is not there"
    return ""


def _speaks_of(presence: Presence | None, link: int) -> bool:
    """Return whether a member says that it has a link."""
    return presence is not None and any(each.link == link for each in presence.gateways)


def _parted(graph: ConnectivityGraph, level: int, plan: TopologyPlan) -> list[str]:
    """Return the members that can be reached now and could not be after the plan."""
    links: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    members = {each.unit for each in graph.present(level) if graph.reaches(each.unit)}
    for presence in graph.present(level):
        for gateway in presence.gateways:
            links[presence.unit, gateway.unit].add(gateway.link)
    for change in plan.changes:
        near, far = (_unit(ScopePath.parse(name), level) for name in (change.near, change.far))
        number = {link_number(change.near, change.far)}
        for pair in ((near, far), (far, near)):
            links[pair] = links[pair] - number if change.goes else links[pair] | number
    reached, fresh = {graph.context.units[level]}, [graph.context.units[level]]
    while fresh:
        unit = fresh.pop()
        for other in members - reached:
            if links[unit, other] & links[other, unit]:
                reached.add(other)
                fresh.append(other)
    return sorted(members - reached - set(plan.leaves))


def _unit(broker: ScopePath, level: int) -> str:
    return "/".join(broker.parts[: len(broker.parts) - level])
