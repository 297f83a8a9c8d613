"""A network of gateway and profile machines without sockets: what they say to each other is handed over in order."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from tests.unit.protocols.message_ports import KeepingPort

from stentor.machine import SECOND, Step
from stentor.model.filter import Filter
from stentor.model.messages import Message, Presence, ProfileChange
from stentor.model.scope import ScopePath
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.dissemination.routes import RouteTable
from stentor.protocols.neighbours import Neighbours
from stentor.protocols.overlay.gateways import Gateways


class Brokers:
    """Brokers by name, links between them, and who heard what of whom."""

    def __init__(self, names: Iterable[str], links: Iterable[tuple[str, str]], costs: Mapping[int, int]) -> None:
        self._under_way: deque[tuple[str, str, Message]] = deque()
        self._costs = costs
        self.heard: dict[str, Counter[str]] = {}  # by broker: of which units it was told
        self.gateways: dict[str, Gateways] = {}
        self.profiles: dict[str, Profiles] = {}
        numbers: dict[str, int] = {}
        siblings: Counter[str] = Counter()
        for name in names:
            path = ScopePath.parse(name)
            for length in range(1, len(path.parts) + 1):
                unit = "/".join(path.parts[:length])
                if unit not in numbers:
                    numbers[unit] = siblings[unit.rpartition("/")[0]]
                    siblings[unit.rpartition("/")[0]] += 1
            own = tuple(numbers["/".join(path.parts[:length])] for length in range(1, len(path.parts) + 1))
            self._add(name, path, own)
        for one, other in links:
            self.link(one, other)

    def _add(self, name: str, path: ScopePath, numbers: tuple[int, ...]) -> None:
        neighbours = Neighbours()
        gateways = self.gateways[name] = Gateways(path, numbers, name, SECOND, neighbours, Step())
        self.heard[name] = Counter()
        self.profiles[name] = Profiles(gateways.context, neighbours, RouteTable())

    def _port(self, near: str, far: str) -> KeepingPort:
        return KeepingPort(far, lambda to, message: self._under_way.append((near, to, message)))

    def link(self, one: str, other: str) -> None:
        for near, far in ((one, other), (other, one)):
            level = ScopePath.parse(one).level_of_difference(ScopePath.parse(other))
            self.gateways[near].link_up(ScopePath.parse(far), self._costs[level], self._port(near, far))
        for near, far in ((one, other), (other, one)):
            level = self.gateways[near].neighbours[far].level
            for each in range(level, self.gateways[near].context.depth):
                self.gateways[near].compare(far, each, {})
                self.profiles[near].compare(far, each, {})
        self.settle()

    def cut(self, one: str, other: str) -> None:
        self.gateways[one].link_down(other)
        self.gateways[other].link_down(one)
        self.settle()

    def subscribe(self, name: str, pattern: str, where: str) -> None:
        self.profiles[name].subscribe(pattern, Filter(where) if where else None)
        self.settle()

    def settle(self) -> None:
        """Until nobody has anything to say any more."""
        while True:
            while self._under_way:
                sender, receiver, message = self._under_way.popleft()
                if sender not in self.gateways[receiver].neighbours:
                    continue
                assert isinstance(message, Presence | ProfileChange)
                self.heard[receiver][message.unit] += 1
                if isinstance(message, Presence):
                    self.gateways[receiver].hear(sender, message)
                else:
                    self.profiles[receiver].hear(sender, message)
            for name, profiles in self.profiles.items():
                self._sum_up(self.gateways[name], profiles)
                profiles.flush()
            if not self._under_way:
                return

    def _sum_up(self, gateways: Gateways, profiles: Profiles) -> None:
        graph, context = gateways.graph, gateways.context
        for level in range(1, context.depth):
            inside = {each.unit for each in graph.present(level - 1) if graph.reaches(each.unit)}
            profiles.sum_up(level, inside if gateways.speaks(level) else None)
