"""Watches a network heal itself: asks all of its brokers again and again, until nothing is wrong any more."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import msgspec

from stentor.admin import network as operation
from stentor.admin.survey import concerns, lay_together
from stentor.cli.network.route import follow
from stentor.client.fabric import Fabric
from stentor.model.colours.legality import TreeView, illegalities
from stentor.model.errors import StentorError
from stentor.model.reports.view import MemberView, NetworkView
from stentor.model.wording.count import counted

_PAUSE = 0.1  # seconds between two looks: a tenth of the shortest round
_ANSWERS_WITHIN = 2.0  # seconds: a broker that is started again takes one
_STEADY_ROUNDS = 3  # a table that is wrong is found, and replaced everywhere, in so many rounds
_MOST_GOALS = 20  # brokers to which ways are followed from everywhere; in large networks all pairs take too long

Views = Mapping[str, NetworkView]


class Healing(msgspec.Struct, frozen=True, kw_only=True):
    """How a network healed, or did not."""

    bound: float  # seconds within which the network itself says that it heals
    limit: float  # seconds that it was given
    seconds: float  # after which nothing was wrong any more
    rounds: int  # in the scope that needed most of them
    troubles: tuple[str, ...]  # that are left


def trees(views: Views) -> dict[str, dict[str, TreeView]]:
    """Return what brokers tell of the trees of their scopes, by scope and broker."""
    found: dict[str, dict[str, TreeView]] = {}
    for name, view in views.items():
        for scope in view.scopes:
            if scope.colours is not None:
                found.setdefault(scope.scope, {})[name] = scope.colours.tree
    return found


def bound_of(views: Views) -> float:
    """Return the seconds in which all scopes are well: the inner ones first, since outer ones build on them."""
    bounds: dict[int, float] = {}
    for view in views.values():
        for scope in view.scopes:
            if scope.colours is not None:
                bounds[scope.level] = max(bounds.get(scope.level, 0.0), scope.colours.bound)
    return sum(bounds.values())


def illegal_scopes(views: Views) -> list[str]:
    """Return which scopes are not in their correct state, and why, by what brokers tell at one time."""
    return [
        f"{scope or 'the network'}: {reason}"
        for scope, told in sorted(trees(views).items())
        for reason in illegalities(told)
    ]


def broken_ways(origin: str, views: Views) -> list[str]:
    """Return which links are down, and who does not find whom, by what brokers tell at one time."""
    laid = lay_together(origin, views, {})
    found = concerns(laid)
    found += [
        f"{link.one} and {link.other or link.address} have no link: it is {link.state}"
        for link in laid.links
        if link.state == "down"
    ]
    names = sorted(views)
    for goal in names[:: max(1, len(names) // _MOST_GOALS)]:
        ways = (follow(laid, start, goal) for start in names if start != goal)
        found += [f"no way from {way.start} to {goal}: {way.reason}" for way in ways if not way.arrives]
    return found


def wrong_copies(views: Views) -> list[str]:
    """Return which brokers know something else of a member than the broker that speaks for it."""
    own: dict[str, MemberView] = {}
    for name, view in views.items():
        told = (member for scope in view.scopes for member in scope.members)
        own.update(
            (member.unit, member) for member in told if member.speaker == name and member.unit in view.speaks_for
        )
    return [
        f"{name} takes {member.unit} for number {member.number} with {counted(member.wants, 'want')}; "
        f"it is {own[member.unit].number} with {own[member.unit].wants:,}"
        for name, view in sorted(views.items())
        for scope in view.scopes
        for member in scope.members
        if member.unit in own and (member.number, member.wants) != (own[member.unit].number, own[member.unit].wants)
    ]


class RoundCounter:
    """Counts the waves that each broker takes in each of its scopes; a scope of one broker has none."""

    def __init__(self) -> None:
        self.rounds: Counter[tuple[str, str]] = Counter()  # by scope and broker
        self._last: dict[tuple[str, str], int] = {}

    def look(self, views: Views) -> None:
        for scope, told in trees(views).items():
            for name, tree in told.items() if len(told) > 1 else ():
                key = scope, name
                self.rounds[key] += self._last.setdefault(key, tree.round) != tree.round
                self._last[key] = tree.round


class Watch:
    """Looks at a network through a client at each of its brokers."""

    def __init__(self, origin: str, fabrics: Mapping[str, Fabric]) -> None:
        self._origin = origin
        self._fabrics = fabrics
        self._broken: set[str] = set()  # ways that were broken before anything happened
        self._wrong: set[str] = set()  # copies that were wrong when we looked last

    async def begin(self) -> float:
        """Look at the network before anything happens to it; return the bound that it computes."""
        views = await self._look()
        self._broken = set(broken_ways(self._origin, views))
        return bound_of(views)

    async def heal(self, bound: float, limit: float | None) -> Healing:
        """Wait until nothing is wrong and has not been for some rounds, or the time is over."""
        loop, counter = asyncio.get_running_loop(), RoundCounter()
        start, most = loop.time(), limit or bound
        seconds, before = 0.0, counter.rounds.copy()  # when something was last wrong
        while True:
            views = await self._look()
            counter.look(views)
            left, now = self._troubles(views), loop.time() - start
            if left:
                seconds, before = now, counter.rounds.copy()
            is_steady = all(rounds - before[key] >= _STEADY_ROUNDS for key, rounds in counter.rounds.items())
            if now > most or (is_steady and not left):
                rounds = max(before.values(), default=0)
                return Healing(bound=bound, limit=most, seconds=seconds, rounds=rounds, troubles=tuple(left))
            await asyncio.sleep(_PAUSE)

    def _troubles(self, views: Views) -> list[str]:
        silent = [f"{name} does not answer" for name in sorted(self._fabrics.keys() - views.keys())]
        broken = [each for each in broken_ways(self._origin, views) if each not in self._broken]
        wrong = wrong_copies(views)
        lasting = [each for each in wrong if each in self._wrong]  # others may just be under way
        self._wrong = set(wrong)
        return silent + illegal_scopes(views) + broken + lasting

    async def _look(self) -> dict[str, NetworkView]:
        """Return what those brokers tell that answer."""
        answers = await asyncio.gather(*map(_ask, self._fabrics.values()))
        return {name: view for name, view in zip(self._fabrics, answers, strict=True) if view is not None}


async def _ask(fabric: Fabric) -> NetworkView | None:
    try:
        return await operation.view(fabric, _ANSWERS_WITHIN)
    except StentorError:
        return None
