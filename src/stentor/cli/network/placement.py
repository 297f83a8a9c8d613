"""Where a new broker belongs in a running network, and what would fall apart without one: decided from views alone."""

from collections.abc import Iterable, Mapping, Sequence

from stentor.cli.network.search import member_of, members
from stentor.model.errors import InvalidInput
from stentor.model.ids import fingerprint
from stentor.model.reports.view import MemberView, NetworkView
from stentor.model.scope import LARGEST_UNIT, ScopePath


def numbers_for(path: ScopePath, views: Sequence[NetworkView], wanted: int | None = None) -> tuple[int, ...]:
    """The member number of each part of a new broker's name, outermost first.

    `views` are of brokers nearer and nearer to it; units that are there keep their number.
    """
    depth = len(path.parts)
    found: list[int] = []
    for level in range(depth - 1, -1, -1):
        around = path.parts[: depth - level - 1]
        seers = [each for each in views if ScopePath.parse(each.node).parts[: len(around)] == around]
        name = "/".join(path.parts[: depth - level])
        if not seers:  # the unit around it is new as well
            found.append(_choose(name, {}, (), wanted if level == 0 else None))
            continue
        known = member_of(seers[-1], path, level)
        if level == 0 and known is not None and known.reachable:
            raise InvalidInput(f"{name} is taken by the broker at {known.address}")
        if level > 0 and known is not None and known.members:
            found.append(known.number)
            continue
        found.append(free_number(name, seers[-1], level, wanted if level == 0 else None))
    return tuple(found)


def free_number(name: str, view: NetworkView, level: int = 0, wanted: int | None = None) -> int:
    """A number for a new member of the scope at a level of a view: what it had before if it can, and else its own."""
    scope = view.scopes[level]
    others = [each for each in members(view, level) if each.unit != name]
    if len(others) >= LARGEST_UNIT:
        raise InvalidInput(
            f"{scope.scope or 'the network'} has {LARGEST_UNIT} members already: put {name} into another unit"
        )
    taken = {each.number: each.unit for each in others}
    former = next((each.number for each in scope.members if each.unit == name), None)
    away = [each.number for each in scope.members if not each.members and each.unit != name]
    return _choose(name, taken, away, former if wanted is None and former not in taken else wanted)


def _choose(name: str, taken: Mapping[int, str], away: Iterable[int], wanted: int | None) -> int:
    """The number that is wanted, or the first free one from where the name's own begins, so that it mostly stays."""
    if wanted is not None:
        if not 0 <= wanted < LARGEST_UNIT:
            raise InvalidInput(f"a number of {wanted}: expected 0 to {LARGEST_UNIT - 1}")
        if wanted in taken:
            raise InvalidInput(f"the number {wanted} is taken by {taken[wanted]}")
        return wanted
    first = fingerprint("member", name) % LARGEST_UNIT
    free = [number for each in range(LARGEST_UNIT) if (number := (first + each) % LARGEST_UNIT) not in taken]
    kept = set(away)  # those who left may come back
    return next((number for number in free if number not in kept), free[0])


def parted_without(view: NetworkView) -> str:
    """What would be in parts if this broker were gone, as far as it knows; "" if all else would hold together.

    Members of a unit reach each other by links of that unit, so each scope is looked at alone: the broker itself is
    gone, and so are its links out of the units around it, and units that hold nobody else.
    """
    own = next(each for each in view.scopes[0].members if each.unit == view.node)
    links = {gateway.unit: gateway.links for gateway in own.gateways}
    unit, vanishes = view.node, True
    for scope in view.scopes:
        present = {each.unit: each for each in scope.members if each.reachable}
        parts = _parts({name for name in present if not (vanishes and name == unit)}, present, unit, links)
        if len(parts) > 1:
            shown = " and ".join(", ".join(sorted(part)) for part in parts)
            return f"without {view.node}, {scope.scope or 'the network'} would be in {len(parts)} parts: {shown}"
        vanishes = vanishes and len(present) == 1
        unit = scope.scope
    return ""


def _parts(
    vertices: set[str], members: Mapping[str, MemberView], unit: str, links: Mapping[str, int]
) -> list[set[str]]:
    """The parts of a scope, without those links that the broker has out of its unit."""
    parts = [{vertex} for vertex in sorted(vertices)]
    for name in sorted(vertices):
        for gateway in members[name].gateways:
            left = gateway.links - (links.get(gateway.unit, 0) if name == unit else 0)
            # what another unit says of its links to ours counts those of the broker, so ours is believed
            if left > 0 and gateway.unit in vertices and gateway.unit != unit:
                one = next(part for part in parts if name in part)
                other = next(part for part in parts if gateway.unit in part)
                if one is not other:
                    one |= other
                    parts.remove(other)
    return parts
