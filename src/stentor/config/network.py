"""What joins the nodes of a file: its units, links and channels, and whether everybody reaches everybody."""

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

import msgspec

from stentor.config import value as values
from stentor.config.colours import read_colour_keys, read_roots
from stentor.config.lines import Key
from stentor.config.problem import dotted
from stentor.config.settings import ChannelTable, Cost, Forwarding, LinkTable, Node, Number, Unit
from stentor.config.table import Table, Tables
from stentor.config.topology import ROOT, Connect, Tree, number, title
from stentor.model.errors import InvalidInput
from stentor.model.filter import Filter
from stentor.model.scope import LARGEST_UNIT, ScopePath
from stentor.model.wording.suggestion import suggestion

FORWARDING: tuple[Forwarding, ...] = get_args(Forwarding)
SHAPES: tuple[Connect, ...] = get_args(Connect)

_A_LINK = 'two brokers, such as ["campus/library/b1", "campus/hall/b1"]'
_FILTERS = 'a list of filters, such as ["price < 5.0", "secret = FALSE"]'
_MOST_SHOWN = 8  # parts of a network, or members of a part


class NetworkReader:
    """Reads [[unit]], [[link]] and [[channel]] over the nodes that are known already."""

    def __init__(self, tables: Tables, nodes: Sequence[Node], claims: Mapping[Key, int], *, sound: bool) -> None:
        self.tables, self.problems = tables, tables.problems
        self.nodes = nodes
        self.tree = Tree(node.name for node in nodes if node.name.parts)
        self.nameless = not nodes or any(not node.name.parts for node in nodes)  # then nobody knows who is unknown
        self.sound = sound  # whether the names of nodes make a tree of one depth
        self.whole = True  # whether all links could be read
        self.claims = {nodes[int(key[1])].name: (key, wanted) for key, wanted in claims.items()}
        self.told: dict[ScopePath, tuple[Key, Unit]] = {}  # what units set
        self.links: list[LinkTable] = []
        self.channels: list[ChannelTable] = []

    def read(self, top: Table) -> None:
        for key, value in self.tables.array(top, "unit"):
            self.unit(value, key)
        linked: dict[frozenset[ScopePath], Key] = {}
        for key, value in self.tables.array(top, "link"):
            self.link(value, key, linked)
        passages: dict[tuple[ScopePath, ScopePath], Key] = {}
        for key, value in self.tables.array(top, "channel"):
            self.channel(value, key, passages)
        if self.sound:
            self.check_numbers()
            self.connect(linked)
            if self.whole and not self.tables.reported & {("unit",), ("link",)}:
                self.check_parts()

    def numbered(self) -> tuple[Node, ...]:
        """The nodes, each with its number."""
        found = self.numbers()
        return tuple(msgspec.structs.replace(node, number=found[node.name]) for node in self.nodes)

    def units(self) -> tuple[Unit, ...]:
        """All units, the network first, each with its number."""
        found = {ROOT: 0, **self.numbers()}
        told = {name: unit for name, (_, unit) in self.told.items()}
        return tuple(
            msgspec.structs.replace(told.get(name, Unit(name=name)), number=found[name]) for name in self.tree.members
        )

    def numbers(self) -> dict[ScopePath, int]:
        wanted = {member: claim for member, (_, claim) in self.claims.items()}
        found: dict[ScopePath, int] = {}
        for members in self.tree.members.values():
            found.update(number(members, wanted))
        return found

    # ---- one table each

    def unit(self, value: object, key: Key) -> None:
        take = self.tables.take
        table = self.tables.table(value, key, Unit)
        self.tables.require(table, (*key, "name"), 'a unit such as "campus/library", or "" for the whole network')
        name = take(table, (*key, "name"), self.unit_name, None)
        wanted = take(table, (*key, "number"), values.bounded(Number), None)
        unit = Unit(
            name=name or ROOT,
            forwarding=take(table, (*key, "forwarding"), lambda found: values.choice(found, FORWARDING), None),
            connect=take(table, (*key, "connect"), lambda found: values.choice(found, SHAPES), None),
            roots=read_roots(self.tables, table, key, name, self.broker_name),
            **read_colour_keys(self.tables, table, key),
        )
        if name is None or (*key, "connect") in self.tables.reported:
            self.whole = False
        if name is None:
            return
        if name in self.told:
            other = self.where(self.told[name][0])
            self.problems.add((*key, "name"), f"expected a unit of its own, found that of {other}: {title(name)}")
            self.whole = False
            return
        self.told[name] = key, unit
        if wanted is not None and name == ROOT:
            self.problems.add((*key, "number"), "unexpected: the whole network is no member of anything")
        elif wanted is not None:
            self.claims[name] = key, wanted

    def link(self, value: object, key: Key, linked: dict[frozenset[ScopePath], Key]) -> None:
        table = self.tables.table(value, key, LinkTable)
        between: Key = (*key, "between")
        self.tables.require(table, between, _A_LINK)
        ends = self.tables.each(table, between, values.several(_A_LINK, exactly=2), self.broker_name)
        cost = self.tables.take(table, (*key, "cost"), values.bounded(Cost), None)
        address = self.tables.take(table, (*key, "address"), values.address, None)
        brokers = [broker for broker in ends if broker is not None]
        if len(brokers) < 2 or brokers[0] == brokers[1]:
            self.whole = False
            if len(brokers) == 2:
                self.problems.add(between, f"expected two brokers, found {brokers[0]} twice: no broker links to itself")
            return
        other = linked.setdefault(frozenset(brokers), key)
        if other is not key:
            reason = f"expected a pair of its own, found that of {self.where(other)}"
            self.problems.add(between, f"{reason}: {brokers[0]} and {brokers[1]}; one link goes both ways")
            return
        self.links.append(LinkTable(between=(brokers[0], brokers[1]), cost=cost, address=address))

    def channel(self, value: object, key: Key, passages: dict[tuple[ScopePath, ScopePath], Key]) -> None:
        table = self.tables.table(value, key, ChannelTable)
        for side in ("from", "to"):
            self.tables.require(table, (*key, side), 'a unit or broker such as "campus/library"')
        self.tables.require(table, (*key, "where"), _FILTERS)
        origin = self.tables.take(table, (*key, "from"), self._scope_name, None)
        to = self.tables.take(table, (*key, "to"), self._scope_name, None)
        where = self.tables.each(table, (*key, "where"), values.several(_FILTERS), _filter)
        if origin is None or to is None:
            return
        brokers = {origin, to} <= self.tree.brokers.keys()
        if origin == to:
            self.problems.add((*key, "to"), f"expected another than from, found {to}: what stays inside passes anyway")
        elif origin.parts[:-1] != to.parts[:-1] and not brokers:
            reason = f"expected two members of one unit, or two brokers, found {origin} and {to}"
            self.problems.add((*key, "to"), reason)
        elif (other := passages.setdefault((origin, to), key)) is not key:
            reason = f"expected a pair of its own, found that of {self.where(other)}"
            self.problems.add(key, f"{reason}: from {origin} to {to}; put all filters into one list")
        else:
            self.channels.append(ChannelTable(origin=origin, to=to, where=tuple(text for text in where if text)))

    # ---- names

    def unit_name(self, value: object) -> ScopePath | None:
        if value == "":
            return ROOT
        return self._known(values.name(value), "unit", self.tree.members)

    def broker_name(self, value: object) -> ScopePath | None:
        return self._known(values.name(value), "broker", self.tree.brokers)

    def _scope_name(self, value: object) -> ScopePath | None:
        return self._known(values.name(value), "unit or broker", self.tree.first)

    def _known(self, name: ScopePath, kind: str, known: Mapping[ScopePath, object]) -> ScopePath | None:
        if name in known:
            return name
        if self.nameless:
            return None
        choices = [str(each) for each in known if each != ROOT]
        if name in self.tree.members:
            found, hint = "unit", f"; its first broker is {str(self.tree.first[name])!r}"
        elif name in self.tree.brokers:
            parent = str(name.parent or "")
            found, hint = "broker", f"; it is in {parent!r}" if parent else '; it is in "", the whole network'
        else:
            hint = suggestion(str(name), choices) if choices else '; the only one is "", the whole network'
            raise InvalidInput(f"unknown {kind} {str(name)!r}{hint}")
        raise InvalidInput(f"expected a {kind}, found the {found} {str(name)!r}{hint}")

    def where(self, key: Key) -> str:
        return f"{dotted(key)} on line {self.problems.line(key)}"

    # ---- all of it

    def check_numbers(self) -> None:
        """At most 64 members a unit, each with a number of its own."""
        for unit, members in self.tree.members.items():
            if len(members) > LARGEST_UNIT:
                excess = members[LARGEST_UNIT]
                self.problems.add(
                    ("node", self.tree.brokers[self.tree.first[excess]], "name"),
                    f"{title(unit)} has {LARGEST_UNIT} members already, and {excess.name} is one more: "
                    "put some of them into another unit",
                )
            taken: dict[int, Key] = {}
            claimed = sorted((self.claims[member] for member in members if member in self.claims), key=self._line)
            for key, wanted in claimed:
                other = taken.setdefault(wanted, key)
                if other is not key:
                    reason = f"expected a number of its own in {title(unit)}, found that of {self.where(other)}"
                    self.problems.add((*key, "number"), f"{reason}: {wanted}")

    def _line(self, claim: tuple[Key, int]) -> int:
        return self.problems.line((*claim[0], "number"))

    def connect(self, linked: Mapping[frozenset[ScopePath], Key]) -> None:
        """Adds the links that units ask for, but for pairs that are linked already."""
        done = set(linked)
        for name, (_, unit) in self.told.items():
            for pair in self.tree.pairs(name, unit.connect) if unit.connect is not None else []:
                if frozenset(pair) not in done:
                    done.add(frozenset(pair))
                    self.links.append(LinkTable(between=pair))

    def check_parts(self) -> None:
        """Whether the members of each unit reach each other without leaving it."""
        for unit, parts in self.tree.parts(link.between for link in self.links).items():
            if len(parts) < 2:
                continue
            beyond = self.tree.brokers[self.tree.first[parts[1][0]]]
            key: Key = self.told[unit][0] if unit in self.told else ("node", beyond)
            told = _enumerate([_part(part) for part in parts])
            self.problems.add(key, f'{title(unit)}: {told} cannot reach each other: add a [[link]] or connect = "mesh"')


def _part(members: Sequence[ScopePath]) -> str:
    names = [member.name for member in members]
    return names[0] if len(names) == 1 else f"({', '.join(_shorten(names))})"


def _enumerate(words: Sequence[str]) -> str:
    """`b1, b2 and b3`"""
    shown = list(_shorten(words))
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def _shorten(words: Sequence[str]) -> Iterator[str]:
    yield from words[: _MOST_SHOWN if len(words) > _MOST_SHOWN + 1 else None]
    if len(words) > _MOST_SHOWN + 1:
        yield f"{len(words) - _MOST_SHOWN} more"


def _filter(value: object) -> str:
    text = values.text(value, "a filter")
    Filter(text)
    return text
