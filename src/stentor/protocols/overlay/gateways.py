"""Gateway propagation: who is in the scopes around a broker and how they are linked, told by one speaker per unit.

A broker speaks for itself. The reachable member with the smallest name speaks for the unit around it, and so on
upwards: it tells which links lead out of the unit, and not from whom, so that nobody outside sees what is inside. What
is said of a member goes to all brokers of its scope, from neighbour to neighbour, once.
"""

from collections.abc import Mapping

import msgspec

from stentor.machine import Step
from stentor.model.colours.manifest import ManifestRow, OwnersWords
from stentor.model.context import Context
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import fingerprint, link_number
from stentor.model.messages import NEVER, Gateway, Presence, Stamp, next_version
from stentor.model.scope import LARGEST_UNIT, ScopePath
from stentor.protocols.neighbours import Neighbour, NeighbourPort, Neighbours
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph

LEASE = 720  # heartbeats for which a member that cannot be reached keeps its place: an hour
PATIENCE = 6  # heartbeats before a unit's speaker is contradicted by one who cannot reach it
_MOST_GATEWAYS = 4096


class Gateways:
    """What one broker says and knows of the members around it."""

    def __init__(
        self,
        path: ScopePath,
        numbers: tuple[int, ...],
        address: str,
        heartbeat: int,
        neighbours: Neighbours,
        step: Step,
    ) -> None:
        self.context = Context(path)
        self.owners = OwnersWords(self.context.depth)
        self.graph = ConnectivityGraph(self.context)
        self.neighbours = neighbours
        self.generation = 0  # counts changes of the graph
        self.parted: list[str] = []  # members that we knew and cannot reach
        self._numbers = numbers[::-1]  # that our units wish for, by level
        self._address = address
        self.patience = PATIENCE * heartbeat  # before whoever cannot be reached is given up
        self._lease = LEASE * heartbeat
        self._missing: dict[str, int] = {}  # members that cannot be reached, and since when
        self._step = step
        self._deferred: dict[str, int] = {}  # until when another may speak for a unit of ours
        self._contested: set[str] = set()  # units for which somebody else spoke after us
        self._boot = 0
        self._leaving = False
        self._refresh()

    def begin(self, boot: int) -> None:
        """Begin a life: what is said in it is newer than what was said in former ones, which others may remember."""
        self._boot = boot
        for level, unit in enumerate(self.context.units):
            known = self.graph.members[level][unit]
            self.graph.take(msgspec.structs.replace(known, version=next_version(0, boot)))

    # ---- what happens to links

    def link_up(self, peer: ScopePath, cost: int, port: NeighbourPort, *, hidden: bool = False) -> Neighbour:
        """A link to a broker stands: remember it, and say so unless it is hidden."""
        level, unit = self.context.view(peer)
        neighbour = self.neighbours[str(peer)] = Neighbour(str(peer), level, unit, cost, port)
        neighbour.hidden = hidden
        self._refresh()
        return neighbour

    def link_down(self, name: str) -> None:
        if self.neighbours.pop(name, None) is not None:
            self._refresh()

    def suspect(self, name: str, *, suspected: bool) -> None:
        """Nothing is routed over a link whose other end is suspected."""
        neighbour = self.neighbours[name]
        if neighbour.suspected != suspected:
            neighbour.suspected = suspected
            self._refresh()

    def hide(self, name: str, *, hidden: bool) -> None:
        """Nothing is routed over a link that is hidden."""
        neighbour = self.neighbours[name]
        if neighbour.hidden != hidden:
            neighbour.hidden = hidden
            self._refresh()

    def knows(self, broker: str) -> bool:
        """Return whether anything is known of a broker, or of the unit in which we see it: it may come back."""
        return self.graph.find(self.context.view(ScopePath.parse(broker))[1]) is not None

    def reprice(self, name: str, cost: int) -> None:
        neighbour = self.neighbours[name]
        if neighbour.cost != cost:
            neighbour.cost = cost
            self._refresh()

    def is_bridge(self, name: str) -> bool:
        """Return whether what is behind a link cannot be reached without it."""
        unit, vertex, cache = self.neighbours[name].unit, self.context.name, self.graph.cache
        if any(each.unit == unit and each.name != name and each.is_used for each in self.neighbours.values()):
            return False
        edge = next(((level, cost) for near, far, level, cost in cache.edges() if (near, far) == (vertex, unit)), None)
        if edge is None:
            return False
        cache.remove_edge(vertex, unit)
        alone = cache.distance(unit) is None
        cache.set_edge(vertex, unit, *edge)
        return alone

    def leave(self) -> None:
        """This broker goes for good, and says so; what its links do from now on is no news."""
        self._leaving = True
        empty = [unit for level, unit in enumerate(self.context.units) if self._is_alone(level)]
        for level, unit in enumerate(empty):  # units in which there is nobody else go with it
            self._withdraw(self.graph.members[level][unit])

    def _is_alone(self, level: int) -> bool:
        """Return whether nobody else is in our unit of a level, not even somebody whom we cannot reach."""
        return all(len(list(self.graph.present(lower))) == 1 for lower in range(level))

    def dismiss(self, unit: str) -> bool:
        """Forget a member that is gone for good; one that can be reached stays."""
        known = self.graph.find(unit)
        if known is None or known.left or self.graph.reaches(unit):
            return False
        self._withdraw(known)
        self._refresh()
        return True

    def _withdraw(self, known: Presence) -> None:
        level = self.context.level(known.unit)
        assert level is not None, "only what is around us is known"
        version = next_version(known.version, self._boot)
        self._take(
            Presence(unit=known.unit, version=version, speaker=self.context.name, number=known.number, left=True),
            level,
            "",
        )

    # ---- what neighbours say

    def hear(self, name: str, presence: Presence) -> None:
        neighbour = self.neighbours[name]
        level = self.context.level(presence.unit)
        if level is None or level < neighbour.level:
            raise FrameError(Refusal.PROTOCOL, f"{presence.unit!r} is no member of a scope that we share")
        if not 0 <= presence.number < LARGEST_UNIT or presence.version < 1:
            raise FrameError(Refusal.PROTOCOL, f"a presence of {presence.unit!r} that cannot be")
        if len(presence.gateways) > _MOST_GATEWAYS or any(gateway.cost < 1 for gateway in presence.gateways):
            raise FrameError(Refusal.PROTOCOL, f"gateways of {presence.unit!r} that cannot be")
        known = self.graph.members[level].get(presence.unit)
        if not presence.is_credible or (known is not None and known.is_credible and presence.stamp <= known.stamp):
            return
        if self.owners.contradict_presence(level, presence.unit, presence.stamp, presence.digest):
            return
        ours = presence.unit == self.context.units[level] and level > 0
        if known is not None and ours and known.speaker == self.context.name and self._beats(presence, known.members):
            self._defer(presence)
        self._take(presence, level, heard_from=name)
        self._refresh()

    def discard(self, unit: str) -> None:
        """Forget what we know of another member, because its owner says something else."""
        self.graph.drop(unit)
        self.generation += 1

    def correct_version(self, level: int, unit: str, version: int) -> None:
        """Give what we know of a member the version that its owner gave it."""
        members = self.graph.members[level]
        members[unit] = msgspec.structs.replace(members[unit], version=version)

    def rebuild(self) -> bool:
        """Work out all ways anew, and what follows from them; return whether any was wrong."""
        self.generation += 1
        return self.graph.rebuild()

    def inventory(self, level: int) -> dict[str, Stamp]:
        """Return how new what we know of each member is, as far as that can be believed."""
        return {unit: presence.stamp for unit, presence in self.graph.members[level].items() if presence.is_credible}

    def compare(self, name: str, level: int, stamps: dict[str, Stamp]) -> None:
        """Send a neighbour what it does not know of a scope."""
        for unit, presence in sorted(self.graph.members[level].items()):
            if presence.is_credible and presence.stamp > stamps.get(unit, NEVER):
                self.neighbours.say(name, presence)

    def digest(self, level: int) -> int:
        """Return a digest of what we know of the members of a level, by contents."""
        known = self.graph.members[level]
        said = [(unit, known[unit].version, known[unit].digest) for unit in sorted(known)]
        return fingerprint("presences", repr(said))

    def tick(self) -> None:
        """Speak again for units for which others had their time, and forget members whose lease is over."""
        now = self._step.now
        self._leaving = False  # who leaves ticks no more
        for unit in [unit for unit, until in self._deferred.items() if not now < until <= now + self.patience]:
            del self._deferred[unit]
        self._expire()
        self._contested -= {unit for level, unit in enumerate(self.context.units) if not self.speaks(level)}
        self._refresh()

    def _expire(self) -> None:
        """Forget members that could not be reached for a whole lease, if we speak for their scope."""
        now = self._step.now
        self._missing = {unit: self._missing.get(unit, now) for unit in self.parted}
        for unit, since in self._missing.items():
            level = self.context.level(unit)
            if level is not None and now - since > self._lease and self.speaks(level + 1) and self.dismiss(unit):
                self._step.report("warning", "forgotten", unit=unit, reason="nobody reached it for too long")

    # ---- speaking

    def speaks(self, level: int) -> bool:
        """Return whether this broker speaks for its unit of a level."""
        return all(self._first(lower) == self.context.units[lower] for lower in range(level))

    def _first(self, level: int) -> str:
        """Return the member that speaks for its scope: the smallest that can be reached."""
        own = self.context.units[level]
        return next((each.unit for each in self.graph.present(level) if self.graph.reaches(each.unit)), own)

    def _refresh(self) -> None:
        """Say what has changed of the units that we speak for; lower ones first, because the higher sum them up."""
        if self._leaving:
            return
        self._speak(0, self._own_gateways(), 1)  # somebody may have dismissed us, or we had a former life
        for level in range(1, self.context.depth):
            if not self.speaks(level):
                break
            inside = [each for each in self.graph.present(level - 1) if self.graph.reaches(each.unit)]
            if not self._is_silent(level, len(inside)):
                self._speak(level, self._outward(level, inside), len(inside))
        self._look_for_partitions()

    def _speak(self, level: int, gateways: tuple[Gateway, ...], members: int) -> None:
        unit, name = self.context.units[level], self.context.name
        known = self.graph.members[level].get(unit)
        version = next_version(0 if known is None else known.version, self._boot)
        presence = Presence(
            unit=unit,
            version=version,
            speaker=name,
            number=self._number(level),
            address=self._address,
            gateways=gateways,
            members=members,
        )
        if known is None or not known.is_credible or not _says_the_same(known, presence):
            self._take(presence, level, heard_from="")

    def _number(self, level: int) -> int:
        """Return the number of our unit of a level: the one that the root of the scope gave it, or else the one that it
        had before, or that it wishes for.
        """
        unit = self.context.units[level]
        row, known = self.owners.rows[level].get(unit), self.graph.members[level].get(unit)
        if row is not None:
            return row.number
        return known.number if known is not None and known.is_credible else self._numbers[level]

    def follow_manifest(self, level: int, rows: Mapping[str, ManifestRow]) -> None:
        """Take the owners' own words for the members of a level, and the root's for our own number there."""
        self.owners.rows[level] = rows
        known = self.graph.members[level].get(self.context.units[level])
        if known is not None and known.number != self._number(level):
            self._refresh()

    def _outward(self, level: int, members: list[Presence]) -> tuple[Gateway, ...]:
        """Return the gateways that lead from members of our unit of a level out of it."""
        inside = self.context.units[level] + "/"
        found = {gateway for presence in members for gateway in presence.gateways}
        return tuple(sorted(gateway for gateway in found if not gateway.unit.startswith(inside)))

    def _own_gateways(self) -> tuple[Gateway, ...]:
        used = [each for each in self.neighbours.values() if each.is_used]
        name = self.context.name
        return tuple(sorted(Gateway(each.unit, link_number(name, each.name), each.cost) for each in used))

    def _take(self, presence: Presence, level: int, heard_from: str) -> None:
        self.graph.take(presence)
        self.generation += 1
        for neighbour in self.neighbours.sharing(level):
            if neighbour.name != heard_from:
                neighbour.port.post(presence)

    # ---- partitions

    def _is_silent(self, level: int, members: int) -> bool:
        """Return whether we let another speak for our unit, who knows more of it: it may be in two parts."""
        unit = self.context.units[level]
        known = self.graph.members[level].get(unit)
        return unit in self._deferred and known is not None and self._beats(known, members)

    def _beats(self, presence: Presence, members: int) -> bool:
        """Return whether another has the better right to speak: for more members, or with a smaller name. Nobody has a
        right to say that a unit is gone while it is there.
        """
        name = self.context.name
        is_alive = presence.is_credible and not presence.left
        return presence.speaker != name and is_alive and (-presence.members, presence.speaker) < (-members, name)

    def _defer(self, presence: Presence) -> None:
        """Our word for a unit was contradicted. If that goes on, somebody whom we cannot reach inside it is alive."""
        self._deferred[presence.unit] = self._step.now + self.patience
        if presence.unit in self._contested:
            self._step.report("warning", "unit in two parts", **{"unit": presence.unit, "other part": presence.speaker})
        self._contested.add(presence.unit)

    def _look_for_partitions(self) -> None:
        parted = self.graph.lost()
        if parted == self.parted:
            return
        lost, found = sorted(set(parted) - set(self.parted)), sorted(set(self.parted) - set(parted))
        self.parted = parted
        if lost:
            self._step.report("warning", "cannot reach", units=", ".join(lost))
        if found:
            self._step.report("info", "can reach again", units=", ".join(found))


def _says_the_same(known: Presence, presence: Presence) -> bool:
    """Return whether a presence tells nothing new; how many members there are is no news to those outside."""
    return known == msgspec.structs.replace(presence, version=known.version, members=known.members)
