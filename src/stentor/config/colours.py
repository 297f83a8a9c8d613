"""The colours of a file's scopes: [colours], and the same keys in [[unit]], with defaults that follow from the file.

A bound holds only if nothing of the file can break it. So a scope has room for all brokers that the file and its
[elasticity] may run there, and for all their links; what is set to less is refused, with the smallest that works.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from stentor.config import value as values
from stentor.config.lines import Key
from stentor.config.problem import Problems, describe, dotted
from stentor.config.settings import (
    ColourKeys,
    Config,
    Elasticity,
    Node,
    ScopeSize,
    TreeDegree,
    TreeHeight,
    Unit,
)
from stentor.config.table import Table, Tables
from stentor.config.topology import Pair, scopes_around, title
from stentor.model.colours.wave_messages import MOST_DEEP
from stentor.model.colours.wave_timing import ColourSettings, timing_of
from stentor.model.errors import InvalidInput
from stentor.model.limits import Seconds
from stentor.model.scope import ScopePath
from stentor.model.wording.count import counted

COLOUR_KINDS: dict[str, Any] = {
    "xi": Seconds,
    "eta": ScopeSize,
    "delta_max": Seconds,
    "degree": TreeDegree,
    "height": TreeHeight,
    "drain_within": Seconds,
    "audit": Seconds,
}
_ROOTS = 'a list of brokers, such as ["campus/library/b1", "campus/library/b2"]'
_SMALLEST = 2  # brokers: one that is alone may get company
_DEGREE = 8  # children of a broker, unless it has more links: as many links as brokers add by path_length


def read_colour_keys(tables: Tables, table: Table, key: Key) -> dict[str, Any]:
    """Return what a table sets of the keys that [colours] and [[unit]] have in common; None is left out."""
    return {name: tables.take(table, (*key, name), values.bounded(kind), None) for name, kind in COLOUR_KINDS.items()}


def read_roots(
    tables: Tables,
    table: Table,
    key: Key,
    unit: ScopePath | None,
    broker_name: Callable[[object], ScopePath | None],
) -> tuple[ScopePath, ...]:
    """Return the brokers that are to begin the waves of a unit; None is a unit whose name is wrong."""
    found: dict[ScopePath, Key] = {}
    named = tables.each(table, (*key, "roots"), values.several(_ROOTS), broker_name)
    for index, broker in enumerate(named):
        at: Key = (*key, "roots", index)
        if broker is None:
            continue
        if unit is not None and unit not in scopes_around(broker):
            tables.problems.add(at, f"expected a broker in {unit}, found {broker}; it is in {str(broker.parent)!r}")
        elif found.setdefault(broker, at) is not at:
            tables.problems.add(at, f"expected another broker, found that of {dotted(found[broker])}: {broker}")
    return tuple(found)


class FileColours:
    """What the brokers of each scope of a file are told of its colours."""

    def __init__(
        self,
        shared: ColourKeys,
        units: Mapping[ScopePath, Unit],
        brokers: Iterable[ScopePath],
        links: Iterable[Pair],
        elasticity: Elasticity | None,
    ) -> None:
        """`shared` holds where `units`, by their names, set nothing."""
        self.shared = shared
        self._units = units
        self.brokers: Counter[ScopePath] = Counter()  # of the file, by scope
        self.startable: Counter[ScopePath] = Counter()  # brokers that load may start, by scope
        self._most_links: dict[ScopePath, int] = {}  # that a broker may have to others in the scope
        known = list(brokers)
        most = 0 if elasticity is None else elasticity.most_brokers
        room = {
            cluster: max(0, most - size) for cluster, size in Counter(scopes_around(each)[-1] for each in known).items()
        }
        linked = Counter((scope, end) for link in links for scope in _shared_scopes(link) for end in link)
        for cluster, more in room.items():
            for scope in (*scopes_around(cluster), cluster):
                self.startable[scope] += more
        for broker in known:
            around = scopes_around(broker)
            self.brokers.update(around)
            for scope in around:  # whoever is started by load may link with this one
                here = linked[scope, broker] + room[around[-1]]
                self._most_links[scope] = max(self._most_links.get(scope, 0), here)

    def own(self, scope: ScopePath) -> Unit:
        """Return what the file sets for one scope."""
        return self._units.get(scope, Unit(name=scope))

    def fewest(self, scope: ScopePath) -> int:
        """Return the smallest eta: as many brokers as the file may run in a scope."""
        return max(_SMALLEST, self.brokers[scope] + self.startable[scope])

    def settings(self, scope: ScopePath) -> ColourSettings:
        """Return what the brokers of a scope are told; how long waves take by default is for `timing_of` to say."""
        own, shared = self.own(scope), self.shared
        eta = own.eta or shared.eta or self.fewest(scope)
        return ColourSettings(
            period=own.xi or shared.xi or 0.0,
            brokers_max=eta,
            delay_max=own.delta_max or shared.delta_max or 0.0,
            degree=own.degree or shared.degree or max(_DEGREE, self._most_links.get(scope, 0)),
            height=min(own.height or shared.height or eta, eta, MOST_DEEP),  # no tree is higher than it has brokers
            drain_within=own.drain_within or shared.drain_within or 0.0,
            audit=own.audit or shared.audit or 0.0,
            roots=tuple(str(root) for root in own.roots),
        )


def colours_around(config: Config, node: Node) -> dict[str, ColourSettings]:
    """Return what a broker is told of the colours of the scopes around it, by their names."""
    units = {unit.name: unit for unit in config.units}
    links = [link.between for link in config.links]
    found = FileColours(config.colours, units, [each.name for each in config.nodes], links, config.elasticity)
    return {str(scope): found.settings(scope) for scope in scopes_around(node.name)}


class _Fault(NamedTuple):
    name: str  # of the key
    least: float  # that works
    reason: str


def check_colours(
    found: FileColours, scopes: Iterable[ScopePath], units: Mapping[ScopePath, Key], problems: Problems
) -> None:
    """Report what does not fit together. Of the scopes that share a key, the one that needs most is told."""
    worst: dict[Key, _Fault] = {}
    for scope in scopes:
        fault = next(_faults(found, scope), None)
        if fault is None:
            continue
        is_own = getattr(found.own(scope), fault.name) is not None
        key: Key = (*units[scope], fault.name) if is_own else ("colours", fault.name)
        if key not in worst or worst[key].least < fault.least:
            worst[key] = fault
    for key, fault in worst.items():
        problems.add(key, fault.reason)


def _faults(found: FileColours, scope: ScopePath) -> Iterator[_Fault]:
    """Yield what is wrong with a scope; each may be the reason of what comes after it."""
    settings, fewest, called = found.settings(scope), found.fewest(scope), title(scope)
    eta = settings.brokers_max
    if eta < fewest:
        more = found.startable[scope]
        also = f", and [elasticity] may start {more:,} more" if more else ""
        brokers = counted(found.brokers[scope], "broker")
        yield _Fault("eta", fewest, f"expected at least {fewest}, found {describe(eta)}: {called} has {brokers}{also}")
    height = found.own(scope).height
    if height is not None and height > eta:
        yield _Fault("height", eta, f"expected at most {eta}, the eta of {called}, found {describe(height)}")
    least = _smallest_height(settings.degree, eta)
    if settings.height < least:
        reason = f"{called} may have {counted(eta, 'broker')}, and each at most {settings.degree} right below it"
        yield _Fault("height", least, f"expected at least {least}, found {describe(settings.height)}: {reason}")
    try:
        timing_of(settings)
    except InvalidInput as error:
        crossing = timing_of(msgspec.structs.replace(settings, period=0.0)).crossing
        yield _Fault("xi", crossing, f"{called}: {error}")


def _smallest_height(degree: int, brokers: int) -> int:
    """Return how high a tree must be that is to hold all brokers."""
    height, held, lowest = 0, 1, 1
    while held < brokers:
        height, lowest = height + 1, lowest * degree
        held += lowest
    return height


def _shared_scopes(link: Pair) -> list[ScopePath]:
    """Return the scopes that both ends of a link are in."""
    around = set(scopes_around(link[1]))
    return [scope for scope in scopes_around(link[0]) if scope in around]
