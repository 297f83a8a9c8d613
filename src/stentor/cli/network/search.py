"""Finds brokers of a running network: from one that is known, by what each tells of the units around it."""

from pathlib import Path
from typing import NamedTuple

from stentor.admin import network as operation
from stentor.client.connection.url import address_of
from stentor.client.fabric import DEFAULT_URL, Fabric, connect
from stentor.model.errors import InvalidInput, Unreachable
from stentor.model.reports.view import MemberView, NetworkView
from stentor.model.scope import ScopePath
from stentor.model.wording.suggestion import suggestion

_WITHIN = 5.0  # seconds to connect


class Found(NamedTuple):
    """A broker of the network."""

    name: str  # "" if nobody answers there
    address: str
    reachable: bool = True


class Search:
    """What brokers told, each asked once."""

    def __init__(self, url: str | None, tls: Path | None, wait: float = 0.0, token: Path | None = None) -> None:
        """`wait` is for the brokers whose addresses people gave; others were there a moment ago."""
        self._url = url or DEFAULT_URL
        self._tls = tls
        self._token = token
        self._wait = wait
        self._views: dict[str, NetworkView] = {}

    def anew(self) -> "Search":
        """A search that has asked nobody yet: the network has changed."""
        return Search(self._url, self._tls, self._wait, self._token)

    def connect(self, address: str, wait: float = _WITHIN) -> Fabric:
        """A client of a broker that others know; it may be down for a moment, because it is started again."""
        url = f"stentor://{address}"
        return connect(url, tls=self._tls, token=self._token, timeout=_WITHIN, wait=wait, stay=True)

    async def view_at(self, address: str, wait: float = _WITHIN) -> NetworkView:
        """What the broker at an address told when it was first asked."""
        if address not in self._views:
            self._views[address] = await self.look(address, wait)
        return self._views[address]

    async def look(self, address: str, wait: float = _WITHIN) -> NetworkView:
        """What the broker at an address tells now."""
        async with self.connect(address, wait) as fabric:
            return await operation.view(fabric)

    async def here(self) -> NetworkView:
        """What the broker tells that we know."""
        return await self.view_at(self._url.rpartition("//")[2], self._wait)  # may name several, of which one answers

    async def towards(self, path: ScopePath) -> list[NetworkView]:
        """The views of brokers nearer and nearer to a name; the last is of the smallest unit around it that there is.

        Each differs from the name at a lower level than the one before, which named it as the speaker of a unit.
        """
        views = [await self.here()]
        while True:
            level = level_in(views[-1], path)
            member = member_of(views[-1], path, level) if level > 0 else None
            if member is None or not member.reachable:
                return views
            try:
                view = await self.view_at(member.address)
            except Unreachable:  # it died a moment ago
                return views
            if level_in(view, path) >= level:  # somebody else speaks by now, or listens there
                return views
            views.append(view)

    async def find(self, who: str) -> Found:
        """A broker by its name or its host:port; InvalidInput if the network knows none of that name."""
        if ":" in who:
            return await self._find_address(address_of(who))
        path = ScopePath.parse(who)
        last = (await self.towards(path))[-1]
        if last.node == who:
            return Found(who, last.address)
        level = level_in(last, path)
        member = member_of(last, path, level)
        if member is None or not member.members:
            known = [each.unit for each in members(last, level)]
            kind = "broker" if level == 0 else f"unit {'/'.join(path.parts[: len(path.parts) - level])!r}, so no broker"
            raise InvalidInput(f"there is no {kind} {who!r}{suggestion(who if level == 0 else '', known)}")
        if level > 0:
            raise Unreachable(f"{last.node} cannot reach {member.unit}, so nobody knows where {who} is")
        return Found(who, member.address, member.reachable)

    async def _find_address(self, address: str) -> Found:
        try:
            view = await self.view_at(address, self._wait)
        except Unreachable:
            return Found("", address, reachable=False)
        return Found(view.node, view.address)


def members(view: NetworkView, level: int) -> list[MemberView]:
    """Those who are in the scope around a broker at a level, present or missing; not those that left."""
    return [each for each in view.scopes[level].members if each.members]


def member_of(view: NetworkView, path: ScopePath, level: int) -> MemberView | None:
    """What a broker knows of the unit of a level that holds a name, also if that left."""
    unit = "/".join(path.parts[: len(path.parts) - level])
    return next((each for each in view.scopes[level].members if each.unit == unit), None)


def level_in(view: NetworkView, path: ScopePath) -> int:
    """The level at which a name differs from a broker's; 0 also if it is that broker's own."""
    own = ScopePath.parse(view.node)
    if len(own.parts) != len(path.parts):
        raise InvalidInput(f"{path} cannot be in this network: its brokers have names of {len(own.parts)} parts")
    return max(0, own.level_of_difference(path))


def common_unit(name: str, path: ScopePath) -> str:
    """The smallest unit that holds two brokers; "" is the network."""
    level = max(0, ScopePath.parse(name).level_of_difference(path))
    return "/".join(path.parts[: len(path.parts) - level - 1])
