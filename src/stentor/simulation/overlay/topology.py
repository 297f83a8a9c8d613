"""Random networks: brokers in a tree of units, numbers in each, and links that make every unit whole."""

from collections import defaultdict
from random import Random

_PARTS = ("a", "a-b", "a.b", "b", "b1", "b10", "b2", "B", "c", "d", "e", "x", "y", "z", "0", "9")  # tricky to sort
_COSTS = (0.0, 0.0, 0.5, 1, 2, 3, 10)

Link = tuple[str, str, float]  # who dials whom, and what it costs; 0 is as much as the level says


class Topology:
    """Brokers by name with the numbers of their path, and the links between them; it may grow."""

    def __init__(self, random: Random, depth: int, brokers: int) -> None:
        self.random, self.depth = random, depth
        self.brokers: dict[str, tuple[int, ...]] = {}
        self.links: list[Link] = []
        self._numbers: defaultdict[str, dict[str, int]] = defaultdict(dict)  # of the members of each scope
        self._width = [self._draw_width(brokers, place) for place in range(depth)]
        for _ in range(20 * brokers):
            if len(self.brokers) < brokers:
                self.add()
        for scope in sorted(self._numbers):
            self._join(scope)
        for _ in range(random.randrange(1 + len(self.brokers))):
            self.link(*random.choices(sorted(self.brokers), k=2))

    def _draw_width(self, brokers: int, place: int) -> int:
        """How many members a unit may have, so that there is room for all."""
        fair = int(2 * brokers ** (1 / self.depth)) + 1
        least = fair if place == self.depth - 1 else 1 + fair // 2
        return min(60, self.random.randint(least, 2 * fair))

    def scopes(self) -> list[str]:
        """Return the names of all units that hold others, and of the network, which is ""."""
        return sorted({"/".join(name.split("/")[:length]) for name in self.brokers for length in range(self.depth)})

    def inside(self, scope: str) -> list[str]:
        """Return the brokers of a scope, by name."""
        return [name for name in sorted(self.brokers) if not scope or name.startswith(scope + "/")]

    def add(self) -> str:
        """One more broker, if there is none of the name that was drawn; it has no links yet."""
        name = "/".join(self._draw_part(self._width[place]) for place in range(self.depth))
        if name not in self.brokers:
            self.brokers[name] = tuple(self._number(prefix) for prefix in _prefixes(name))
        return name

    def _draw_part(self, width: int) -> str:
        place = self.random.randrange(width)
        return _PARTS[place] if place < len(_PARTS) else f"m{place}"

    def _number(self, unit: str) -> int:
        scope = unit.rpartition("/")[0]
        numbers = self._numbers[scope]
        if unit not in numbers:
            numbers[unit] = self.random.choice(sorted(set(range(64)) - set(numbers.values())))
        return numbers[unit]

    def _join(self, scope: str) -> None:
        """A tree of links between the members of a scope."""
        members = sorted(self._numbers[scope])
        self.random.shuffle(members)
        for place in range(1, len(members)):
            self.link(self._someone(members[place]), self._someone(members[self.random.randrange(place)]))

    def _someone(self, unit: str) -> str:
        return self.random.choice([name for name in sorted(self.brokers) if (name + "/").startswith(unit + "/")])

    def link(self, one: str, other: str) -> None:
        """A link between two brokers, if they are two and have none."""
        if one != other and not any({one, other} == set(link[:2]) for link in self.links):
            self.links.append((one, other, self.random.choice(_COSTS)))

    def add_exits(self, random: Random) -> str:
        """Let one unit of brokers have three more, and two further links, which cost the same, beside each link that
        leads out of it; return which unit.
        """
        unit = random.choice(sorted({name.rpartition("/")[0] for name in self.brokers}))
        inside = self.inside(unit)
        outward = [link for link in self.links if (link[0] in inside) != (link[1] in inside)]
        exits = [f"{unit}/exit{number}" for number in range(3)]
        for name in exits:
            self.brokers[name] = tuple(self._number(prefix) for prefix in _prefixes(name))
            self.links.append((name, random.choice(inside), 1))
        for near, far, cost in outward:
            beyond = far if near in inside else near
            linked = {each for link in self.links if beyond in link for each in link[:2]}
            free = [name for name in exits if name not in linked]
            self.links += [(name, beyond, cost) for name in random.sample(free, min(2, len(free)))]
        return unit

    def join(self, name: str) -> None:
        """Link a newcomer with its unit, and a new unit with those beside it."""
        for prefix in _prefixes(name)[::-1]:
            scope = prefix.rpartition("/")[0]
            others = sorted(self._numbers[scope].keys() - {prefix})
            if others:
                self.link(name, self._someone(self.random.choice(others)))
            if len([each for each in self.brokers if (each + "/").startswith(prefix + "/")]) > 1:
                return


def _prefixes(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
