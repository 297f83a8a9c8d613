"""A network that is never built: all units of a level look alike, so what a broker sees of it follows from its place.

A broker is its digits, the outermost first: its member numbers in the units around it. A link of a level joins one
broker of each of two units; which ones, the seed decides. From this follow a broker's neighbours and the graph that it
holds, which is the real one: the same presences, the same connectivity, the same routing cache.
"""

from collections import defaultdict
from functools import lru_cache
from random import Random

from stentor.model.context import Context
from stentor.model.messages import Gateway, Presence
from stentor.model.scope import ScopePath
from stentor.planning.shape import Shape, link
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph

Digits = tuple[int, ...]

_COST = 1000  # of a link, in thousandths; of levels the higher always outweighs, so one number does for all
_KEPT = 4096  # graphs of brokers


class PlannedNetwork:
    """The members of the units of each level, the lowest first, and the links between them."""

    def __init__(self, sizes: tuple[int, ...], shape: Shape, links: int, seed: int) -> None:
        self.sizes = sizes
        self.depth = len(sizes)
        self._seed = seed
        self.graphs = tuple(
            link(size, shape, links, Random(f"{seed}/links/{level}")) for level, size in enumerate(sizes)
        )
        self.graph_of = lru_cache(_KEPT)(self._graph_of)
        self._end = lru_cache(1 << 16)(self._draw_end)

    @property
    def brokers(self) -> int:
        count = 1
        for size in self.sizes:
            count *= size
        return count

    def broker(self, number: int) -> Digits:
        """The brokers in order."""
        digits = []
        for size in self.sizes:
            number, digit = divmod(number, size)
            digits.append(digit)
        return tuple(digits[::-1])

    def links(self, level: int) -> int:
        """All links of a level."""
        units = 1
        for size in self.sizes[level + 1 :]:
            units *= size
        return units * sum(map(len, self.graphs[level])) // 2

    def neighbours(self, broker: Digits) -> list[Digits]:
        """The brokers at the other ends of its links."""
        found: list[Digits] = []
        for level in range(len(broker)):
            above, own, inside = _split(broker, level)
            found += [
                (*above, other, *self._end(level, other, own))
                for other in self.graphs[level][own]
                if self._end(level, own, other) == inside
            ]
        return found

    def step(self, broker: Digits, target: Digits) -> Digits | None:
        """The broker that gets next what is for another one, as the routing cache of this one says."""
        # between members of a unit nothing leaves it, so the unit is looked at as if it were all that there is
        common = _first_difference(broker, target)
        around, inside = broker[:common], broker[common:]
        graph = self.graph_of(inside)
        first = graph.cache.hop(_name(target[common : common + 1]))
        context = graph.context
        near = [each for each in self.neighbours(inside) if context.view(ScopePath(_parts(each)))[1] == first]
        return (*around, *min(near)) if near else None

    def path(self, broker: Digits, target: Digits, most: int) -> int | None:
        """How many links lead from one broker to another; None if they are more than that."""
        for length in range(most + 1):
            if broker == target:
                return length
            following = self.step(broker, target)
            assert following is not None, "all brokers of a network that is planned reach each other"
            broker = following
        return None

    def _graph_of(self, broker: Digits) -> ConnectivityGraph:
        """What a broker knows when it has heard everything; with fewer digits, of a unit as if it were all."""
        context = Context(ScopePath(_parts(broker)))
        gateways: defaultdict[str, list[Gateway]] = defaultdict(list)
        names: list[list[str]] = []
        for level, graph in enumerate(self.graphs[: len(broker)]):
            above, own, _ = _split(broker, level)
            names.append([_name((*above, member)) for member in range(self.sizes[level])])
            for member, linked in enumerate(graph):
                gateways[names[level][member]] += [Gateway(names[level][other], 1, _COST) for other in linked]
            for other in graph[own] if level else ():
                end = (*above, own, *self._end(level, own, other))
                outward = Gateway(names[level][other], 1, _COST)
                lowest = len(end) - 1 if end == broker else _first_difference(end, broker)
                for length in range(len(above) + 2, lowest + 2):  # all units below that hold the end and are seen
                    gateways[_name(end[:length])].append(outward)
        found = ConnectivityGraph(context)
        for level, members in enumerate(names):
            for number, unit in enumerate(members):
                found.take(
                    Presence(
                        unit=unit,
                        version=1,
                        speaker=unit,
                        number=number,
                        address="",
                        gateways=tuple(gateways[unit]),
                        members=self._inside(level),
                    )
                )
        return found

    def _inside(self, level: int) -> int:
        return self.sizes[level - 1] if level else 1

    def _draw_end(self, level: int, own: int, other: int) -> Digits:
        """The broker inside a unit that holds its link to another one."""
        dice = Random(f"{self._seed}/end/{level}/{own}/{other}")
        return tuple(dice.randrange(size) for size in self.sizes[:level][::-1])


def _split(broker: Digits, level: int) -> tuple[Digits, int, Digits]:
    """A broker's digits above a level, at it and below it."""
    place = len(broker) - 1 - level
    return broker[:place], broker[place], broker[place + 1 :]


def _parts(broker: Digits) -> tuple[str, ...]:
    return tuple(map(str, broker))


def _name(digits: Digits) -> str:
    return "/".join(map(str, digits))


def _first_difference(one: Digits, other: Digits) -> int:
    return next(place for place, (mine, theirs) in enumerate(zip(one, other, strict=True)) if mine != theirs)
