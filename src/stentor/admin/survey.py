"""A survey of the network: a broker sees only its own surroundings, so all are asked and their answers laid together.

The walk begins at one broker and goes wherever an answer points to: to the speaker of every member, and to the other
end of every link. It ends when all addresses that anybody knows were tried, so every unit is seen from inside unless
nobody in it answers.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from stentor.admin import network as operation
from stentor.admin.legality_survey import ColoursSeen, colours_of
from stentor.client.connection.first_connection import HINT
from stentor.client.fabric import connect
from stentor.model.errors import StentorError
from stentor.model.reports.view import LinkView, MemberView, NetworkView
from stentor.model.scope import ScopePath

WITHIN = 4.0  # seconds for a visit
_AT_ONCE = 16  # visits
_REASONS_MAX = 3  # in words for people: one fault is seen from several brokers, and JSON has all of it
UP, RETURNING, SUSPECTED, DOWN, UNREACHABLE = "up", "returning", "suspected", "down", "unreachable"
_WORSE = (UP, RETURNING, SUSPECTED, DOWN)


class BrokerSeen(msgspec.Struct, frozen=True):
    """A broker that somebody knows."""

    name: str
    address: str
    state: str  # up: it answered; suspected: it did not, but has links; unreachable: it did not, and has none
    trouble: str  # why it could not be asked
    view: NetworkView | None


class LinkSeen(msgspec.Struct, frozen=True):
    """A link between two brokers, as far as both ends tell."""

    one: str
    other: str  # "" if nobody has ever answered there
    address: str  # of the other end
    level: int
    cost: float
    state: str  # the worse of what the two ends say
    ends: tuple[str, str]  # what each end says; "" if it was not asked, or knows nothing of it
    round_trip: float  # seconds; 0 if it was not measured
    onward: int  # events from one to the other
    backward: int
    base: float = 0.0  # what it costs if it is quick; 0 if nobody tells


class UnitSeen(msgspec.Struct, frozen=True):
    """A unit of the tree; the root, "", is the network."""

    name: str
    level: int  # a unit of brokers has 1
    seen: bool  # whether anybody inside it answered
    told: int  # members, as told from outside; 0 if nobody did
    units: tuple["UnitSeen", ...]
    brokers: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]  # members that reach each other inside the unit; more than one: it is parted
    colours: ColoursSeen | None  # of the unit as a scope; None if nobody in it tells


class Survey(msgspec.Struct, frozen=True):
    """All that could be found out."""

    origin: str  # the broker that was asked first
    network: UnitSeen
    brokers: dict[str, BrokerSeen]
    links: tuple[LinkSeen, ...]

    def views(self) -> dict[str, NetworkView]:
        return {name: each.view for name, each in self.brokers.items() if each.view is not None}

    def units(self) -> Iterator[UnitSeen]:
        """All units, the outer ones first."""
        waiting = [self.network]
        while waiting:
            unit = waiting.pop(0)
            yield unit
            waiting += unit.units


async def survey(
    url: str | None, tls: str | Path | None = None, *, wait: float = 0.0, is_judged: bool = False
) -> Survey:
    """Walk the network from one broker on; raises only if that one cannot be asked.

    Brokers answer one after another, and what they tell may not fit together because something changed between two
    answers. If the scopes are to be judged, the brokers of those that are not legal are asked once more.
    """
    first = await _visit(url, tls, wait)
    walk = _Walk(tls)
    async with asyncio.TaskGroup() as walk.group:
        walk.take(first, url)
    found = lay_together(first.node, walk.views, walk.troubles)
    doubtful = _doubtful(found) if is_judged else set()
    if doubtful:
        async with asyncio.TaskGroup() as walk.group:
            walk.look_again(doubtful)
        found = lay_together(first.node, walk.views, walk.troubles)
    return found


def _doubtful(survey: Survey) -> set[str]:
    """Return the brokers of all scopes that seem not to be in their correct state, as far as they answered."""
    scopes = [unit.name for unit in survey.units() if unit.colours is not None and not unit.colours.is_legal]
    return {name for name in survey.views() if any(within_unit(name, scope) for scope in scopes)}


async def _visit(url: str | None, tls: str | Path | None, wait: float = 0.0) -> NetworkView:
    async with connect(url, tls=tls, timeout=WITHIN, wait=wait, stay=True) as fabric:
        view = await operation.view(fabric, WITHIN)
    return msgspec.structs.replace(view, clients=view.clients - 1)  # we are none that counts


class _Walk:
    """Visits, some at a time."""

    def __init__(self, tls: str | Path | None) -> None:
        self.views: dict[str, NetworkView] = {}
        self.troubles: dict[str, str] = {}  # by address
        self.group: asyncio.TaskGroup
        self._tls = tls
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._known: set[str] = set()
        self._urls: dict[str, str | None] = {}  # by which each broker in `views` answered

    def take(self, view: NetworkView, url: str | None) -> None:
        """Keep an answer, and go where it points to."""
        self.views.setdefault(view.node, view)
        self._urls.setdefault(view.node, url)
        self._known.add(view.address)
        for address in sorted(set(_addresses(view)) - self._known):
            self._known.add(address)
            self.group.create_task(self._go(address, f"stentor://{address}"))

    def look_again(self, names: Iterable[str]) -> None:
        """Ask brokers once more, where they answered before; whoever does not is silent now."""
        for name in sorted(names):
            self.group.create_task(self._go(self.views.pop(name).address, self._urls[name]))

    async def _go(self, address: str, url: str | None) -> None:
        async with self._turns:
            try:
                view = await _visit(url, self._tls)
            except (StentorError, msgspec.DecodeError) as error:
                self.troubles[address] = str(error).removesuffix(HINT)
                return
        if view.node in self.views:
            self.troubles[address] = f"{view.node} answers at {address}"
        self.take(view, url)


def _addresses(view: NetworkView) -> Iterator[str]:
    for member in _members(view):
        if member.address:
            yield member.address
    for link in view.links:
        if link.address:
            yield link.address


def _members(view: NetworkView) -> Iterator[MemberView]:
    """Those that are, or may come back; who has left for good has no members."""
    return (member for scope in view.scopes for member in scope.members if member.members)


# ---- laying together


def lay_together(origin: str, views: Mapping[str, NetworkView], troubles: Mapping[str, str]) -> Survey:
    """One picture of all answers; `troubles` says at which addresses nobody gave one."""
    addresses = _brokers(views)
    links = _links(views, addresses)
    brokers = {}
    for name, address in sorted(addresses.items()):
        touching = {link.state for link in links if name in (link.one, link.other)}
        silent = SUSPECTED if touching & {UP, SUSPECTED} else UNREACHABLE
        trouble = "" if name in views else troubles.get(address) or "nobody knows its address"
        brokers[name] = BrokerSeen(name, address, UP if name in views else silent, trouble, views.get(name))
    depth = max((name.count("/") + 1 for name in brokers), default=1)
    told = {member.unit: member.members for view in views.values() for member in _members(view)}
    return Survey(origin, _unit("", depth, brokers, links, told), brokers, tuple(links))


def _brokers(views: Mapping[str, NetworkView]) -> dict[str, str]:
    """Every broker that anybody speaks of, and where it listens."""
    found: dict[str, str] = {}
    for view in views.values():
        found.update((member.speaker, member.address) for member in _members(view))
    for view in views.values():
        for link in view.links:
            if link.peer:
                found.setdefault(link.peer, link.address)
    gone = {
        member.unit
        for view in views.values()
        for scope in view.scopes
        for member in scope.members
        if not member.members and not scope.level
    }
    staying = {member.unit for view in views.values() for member in _members(view)}
    for name in gone - staying:
        found.pop(name, None)
    depths = {name.count("/") for name in views}  # a broker whose memory is damaged may speak of what cannot be
    possible = {name: address for name, address in found.items() if name.count("/") in depths}
    return possible | {name: view.address for name, view in views.items()}


def _links(views: Mapping[str, NetworkView], addresses: Mapping[str, str]) -> list[LinkSeen]:
    names = {address: name for name, address in addresses.items()}
    ends: dict[tuple[str, str], list[LinkView | None]] = {}
    for view in views.values():
        for link in view.links:
            peer = link.peer or names.get(link.address, "")
            if peer and peer not in addresses:
                continue  # it has left for good; somebody still dials it
            one, other = sorted((view.node, peer)) if peer else (view.node, link.address)
            ends.setdefault((one, other), [None, None])[view.node != one] = link
    found = [_link(one, other if other in addresses else "", *both) for (one, other), both in sorted(ends.items())]
    return found + list(_remembered(views, {(link.one, link.other) for link in found}, addresses))


def _link(one: str, other: str, near: LinkView | None, far: LinkView | None) -> LinkSeen:
    known = [end for end in (near, far) if end is not None]
    return LinkSeen(
        one=one,
        other=other,
        address=near.address if near is not None else "",
        level=ScopePath.parse(one).level_of_difference(ScopePath.parse(other)) if other else known[0].level,
        cost=max(end.cost for end in known),
        state=max((end.state for end in known), key=_WORSE.index),
        ends=("" if near is None else near.state, "" if far is None else far.state),
        round_trip=max(end.round_trip for end in known),
        onward=near.events_out if near is not None else known[0].events_in,
        backward=near.events_in if near is not None else known[0].events_out,
        base=max(end.base for end in known),
    )


def _remembered(
    views: Mapping[str, NetworkView], known: set[tuple[str, str]], addresses: Mapping[str, str]
) -> Iterator[LinkSeen]:
    """Links that a silent broker had inside its unit, as the others remember: who was dialled does not know them."""
    for view in views.values():
        for member in _members(view):
            if member.unit in addresses and member.unit not in views:
                for gateway in member.gateways:
                    one, other = sorted((member.unit, gateway.unit))
                    if gateway.unit in addresses and (one, other) not in known:
                        known.add((one, other))
                        address = addresses[other]
                        yield LinkSeen(one, other, address, gateway.level, gateway.cost, DOWN, ("", ""), 0.0, 0, 0)


def _unit(
    name: str, level: int, brokers: Mapping[str, BrokerSeen], links: list[LinkSeen], told: Mapping[str, int]
) -> UnitSeen:
    inside = [each for each in brokers if within_unit(each, name)]
    start = len(name) + 1 if name else 0
    members = sorted({each if level == 1 else each[: each.index("/", start)] for each in inside})
    answering = {each for each in members if any(brokers[one].view for one in inside if within_unit(one, each))}
    units = () if level == 1 else tuple(_unit(each, level - 1, brokers, links, told) for each in members)
    return UnitSeen(
        name=name,
        level=level,
        seen=bool(answering),
        told=told.get(name, 0),
        units=units,
        brokers=tuple(members) if level == 1 else (),
        parts=tuple(_parts(sorted(answering), links)),
        colours=colours_of(name, {each: brokers[each].view for each in inside}),
    )


def within_unit(name: str, unit: str) -> bool:
    """Whether a broker or unit is, or is in, a unit."""
    return not unit or name == unit or name.startswith(unit + "/")


def _parts(members: list[str], links: Iterable[LinkSeen]) -> list[tuple[str, ...]]:
    """Members that reach each other by links between them."""
    part = {member: member for member in members}
    for link in links:
        ends = [member for end in (link.one, link.other) for member in members if end and within_unit(end, member)]
        if link.state == UP and len(ends) == 2 and part[ends[0]] != part[ends[1]]:
            kept, given = sorted(part[end] for end in ends)
            part = {member: kept if of == given else of for member, of in part.items()}
    return [tuple(each for each in members if part[each] == first) for first in sorted(set(part.values()))]


# ---- in words


def concerns(survey: Survey) -> list[str]:
    """What an operator must know, a sentence each; the largest first."""
    found, silent = [], set()
    for unit in survey.units():
        if len(unit.parts) > 1:
            parts = " | ".join(", ".join(part) for part in unit.parts)
            found.append(
                f"{unit.name or 'the network'} is in {len(unit.parts)} parts that do not reach each other: {parts}"
            )
        if not unit.seen:
            silent.add(unit.name)
            if not unit.name or unit.name.rpartition("/")[0] not in silent:
                told = f", which had {unit.told} members that reached each other" if unit.told > 1 else ""
                found.append(f"nobody answers in {unit.name or 'the network'}{told}")
        if unit.colours is not None and not unit.colours.is_legal:
            found.append(f"{unit.name or 'the network'} is not in its correct state: {_reasons(unit.colours)}")
        if unit.colours is not None and unit.colours.unlike:
            unlike = _some(list(unit.colours.unlike))
            found.append(
                f"the [colours] section of {unlike} in {unit.name or 'the network'} is not the root's: brokers that "
                "wait less for a wave than others take leave the tree again and again; give all of them the same file"
            )
    views = survey.views()
    lost = {member.unit for view in views.values() for member in _members(view) if not member.reachable}
    for unit_name in sorted(lost):
        without = sorted(name for name, view in views.items() if unit_name in view.parted)
        if without and any(within_unit(each, unit_name) for each in views):
            found.append(f"{unit_name} answers us, but cannot be reached by {_some(without)}")
    silent_ones = [broker for broker in survey.brokers.values() if broker.view is None]
    return found + [f"{broker.name} is {broker.state}: {broker.trouble}" for broker in silent_ones]


def _reasons(colours: ColoursSeen) -> str:
    """Return why a scope is not legal, the first reasons, and the time in which it heals itself."""
    more = len(colours.reasons) - _REASONS_MAX
    shown = [*colours.reasons[:_REASONS_MAX], *([f"{more} more"] if more > 0 else [])]
    return f"{'; '.join(shown)} (bound {colours.bound:.0f} s)"


def _some(names: list[str]) -> str:
    shown = names if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
