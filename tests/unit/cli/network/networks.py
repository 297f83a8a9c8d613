"""Networks that exist only on paper: what their brokers would answer, had they been asked."""

from collections.abc import Collection, Sequence

from stentor.admin.survey import Survey, lay_together
from stentor.model.context import Context
from stentor.model.reports.view import GatewayView, LinkView, MemberView, NetworkView, ScopeView
from stentor.model.scope import ScopePath

Pair = tuple[str, str]
_COSTS = (1.0, 2.0, 5.0, 9.0)


def paper_network(
    names: Sequence[str], links: Sequence[Pair], *, silent: Collection[str] = (), suspected: Collection[Pair] = ()
) -> Survey:
    """The survey of a network from its first broker that answers; who is silent has lost its links."""
    views = {name: _view(name, names, links, silent, suspected) for name in names if name not in silent}
    troubles = {_address(name, names): f"no broker at {_address(name, names)}" for name in silent}
    return lay_together(next(iter(views), ""), views, troubles)


def clusters(prefix: str, *sizes: int) -> tuple[list[str], list[Pair]]:
    """Clusters of brokers, each a ring, in a row; with the links that join them."""
    names, links = [], []
    for number, size in enumerate(sizes):
        ring = [f"{prefix}c{number}/b{each}" for each in range(size)]
        links += [(one, other) for one, other in zip(ring, ring[1:] + ring[:1], strict=True) if one != other][
            : max(size - 1, size if size > 2 else 0)
        ]
        if number:
            links.append((f"{prefix}c{number - 1}/b0", ring[-1]))
        names += ring
    return names, links


def campus_of_22() -> tuple[list[str], list[Pair]]:
    """Three super-clusters with 22 brokers."""
    names, links = [], []
    for unit, sizes in (("east", (4, 3, 2)), ("west", (3, 3)), ("south", (4, 2, 1))):
        more_names, more_links = clusters(f"{unit}/", *sizes)
        names += more_names
        links += more_links
    links += [("east/c0/b1", "west/c0/b1"), ("west/c1/b1", "south/c0/b2"), ("south/c1/b1", "east/c2/b1")]
    return names, links


def _address(name: str, names: Sequence[str]) -> str:
    return f"127.0.0.1:{7420 + names.index(name)}"


def _view(
    name: str, names: Sequence[str], links: Sequence[Pair], silent: Collection[str], suspected: Collection[Pair]
) -> NetworkView:
    context = Context(ScopePath.parse(name))
    scopes = []
    for level, scope in enumerate(context.scopes):
        depth = context.depth - level
        units = sorted({"/".join(each.split("/")[:depth]) for each in names})
        inside = [unit for unit in units if unit.rpartition("/")[0] == scope]
        members = [_member(unit, number, level, name, names, links, silent) for number, unit in enumerate(inside)]
        scopes.append(ScopeView(scope, level, "content", tuple(members)))
    own = [(one, other) for one, other in links if name in (one, other)]
    seen = [_link(name, pair, names, silent, suspected) for pair in own]
    return NetworkView(
        node=name,
        address=_address(name, names),
        clients=len(name),
        subscriptions=0,
        speaks_for=(),
        scopes=tuple(scopes),
        links=tuple(each for each in seen if each is not None),
        parted=tuple(member.unit for scope in scopes for member in scope.members if not member.reachable),
        relayed=1000 * names.index(name),
        entered=0,
        matched=0,
        stranded=0,
        circling=0,
        most_matchings=0,
    )


def _member(
    unit: str,
    number: int,
    level: int,
    name: str,
    names: Sequence[str],
    links: Sequence[Pair],
    silent: Collection[str],
) -> MemberView:
    inside = [each for each in names if each == unit or each.startswith(unit + "/")]
    standing = [each for each in inside if each not in silent]
    speaker = (standing or inside)[0]
    hops = _hops(name, links, silent)
    hop = next((hops[each] for each in inside if each in hops), "")
    gateways = [GatewayView(other, 0, 1, 1.0) for pair in links for other in pair if unit in pair and other != unit]
    return MemberView(
        unit=unit,
        number=number,
        speaker=speaker,
        address=_address(speaker, names),
        members=len(standing) or 1,
        reachable=bool(hop) or name in inside,
        hop="" if name in inside else hop,
        distance=(1.0,) if hop else (),
        gateways=tuple(each for each in gateways if not level),
        wants=0,
        predicates=0,
    )


def _hops(start: str, links: Sequence[Pair], silent: Collection[str]) -> dict[str, str]:
    """The neighbour over whom each broker is reached."""
    found, waiting = {start: ""}, [start]
    while waiting:
        near = waiting.pop(0)
        for pair in links:
            if near in pair and not set(pair) & set(silent):
                far = pair[pair[0] == near]
                if far not in found:
                    found[far] = found[near] or far
                    waiting.append(far)
    del found[start]
    return found


def _link(
    name: str, pair: Pair, names: Sequence[str], silent: Collection[str], suspected: Collection[Pair]
) -> LinkView | None:
    peer = pair[pair[0] == name]
    state = "suspected" if pair in suspected else "down" if peer in silent else "up"
    if state == "down" and name != pair[0]:
        return None  # who was dialled does not know that there should be a link
    level = ScopePath.parse(name).level_of_difference(ScopePath.parse(peer))
    events = (names.index(name) + 1) * (names.index(peer) + 1) ** 2 if state == "up" else 0
    return LinkView(peer, _address(peer, names), level, state, _COSTS[level], 0.002, events, 2 * events, 0, 0, 0)
