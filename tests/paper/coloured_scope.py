"""A scope of real brokers whose events go by its tree, each with one client; links are as slow as a test wants."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from stentor.machine import MILLISECOND, SECOND, Effect
from stentor.model.attribute import Value
from stentor.model.colours.colour import current_colour
from stentor.model.colours.legality import illegalities
from stentor.model.colours.plan import ENDED, PlanPhase, TopologyPlan
from stentor.model.colours.wave_timing import ColourSettings
from stentor.model.ids import Incarnation, SubscriptionId
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.client import Client, Settings
from stentor.nodes.client_api import Deliver, MoreRequested, SubscribeRequested, TurnEnded, UnsubscribeRequested
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.protocols.colours.scope_tree import ScopeTree, TreeRole
from stentor.simulation.clients.typed_calls import PublishCalled
from stentor.simulation.faults import Faults, LinkFaults
from stentor.simulation.host import Factory
from stentor.simulation.scenarios.plans import PlanDrawn
from stentor.simulation.world import World

Pair = frozenset[str]
_LIMITS = Limits(heartbeat=1.0)
_WINDOW = 1 << 20
_LONGEST_NS = 60 * SECOND  # that anything takes


class PaperClient:
    """A client of one broker, and the bodies of the events that it got, in order."""

    def __init__(self, world: World, host: str) -> None:
        self._world = world
        self._host = host
        self.got: list[bytes] = []
        self._subscriptions = 0

    @property
    def machine(self) -> Client:
        machine = self._world.hosts[self._host].machine
        assert isinstance(machine, Client)
        return machine

    def subscribe(self, pattern: str, where: str = "") -> SubscriptionId:
        self._subscriptions += 1
        subscription = SubscriptionId(self._subscriptions)
        self._world.tell(self._host, SubscribeRequested(subscription, pattern, where))
        self._world.tell(self._host, MoreRequested(subscription))
        return subscription

    def unsubscribe(self, subscription: SubscriptionId) -> None:
        self._world.tell(self._host, UnsubscribeRequested(subscription))

    def publish(self, topic: str, body: bytes, attributes: Mapping[str, Value] | None = None) -> None:
        self._world.tell(self._host, PublishCalled(topic, attributes or {}, body, self._world.now))
        self._world.tell(self._host, TurnEnded())

    def told(self, effect: Effect) -> None:
        if isinstance(effect, Deliver):
            for block in effect.blocks:
                self.got += block.bodies()
            self._world.tell(self._host, MoreRequested(effect.subscription))

    def died(self) -> None:
        """Clients live as long as the test."""


class ColouredScope:
    """Brokers by name, and the links between them, which cost whatever is said."""

    def __init__(
        self,
        names: Iterable[str],
        links: Iterable[tuple[str, str, float]],
        forwarding: Mapping[str, str] | None = None,
        delay_ns: int = MILLISECOND,
    ) -> None:
        self.world = World(1, Faults(weather=LinkFaults(mean_delay=delay_ns)))
        self._forwarding = {"": "coloured"} if forwarding is None else dict(forwarding)
        self._names = list(names)
        self._links = list(links)
        self.clients: dict[str, PaperClient] = {}
        for place, name in enumerate(self._names):
            self.world.add(_address(name), self._broker(name, place))
        for name in self._names:
            client = self.clients[name] = PaperClient(self.world, f"client of {name}")
            self.world.add(f"client of {name}", self._client(name), client)
        for host in self.world.hosts.values():
            host.start()
        self.run_until_on_the_tree()

    def _broker(self, name: str, place: int) -> Factory:
        colours = ColourSettings(delay_max=0.05, brokers_max=len(self._names))
        scopes = {"/".join(each.split("/")[:length]) for each in self._names for length in range(each.count("/") + 1)}
        settings = NetworkSettings(
            numbers=(place,) * (name.count("/") + 1),
            address=_address(name),
            gateways=tuple(
                GatewaySettings(name=far, address=_address(far), cost=cost)
                for near, far, cost in self._links
                if near == name
            ),
            forwarding=self._forwarding,
            colours=dict.fromkeys(scopes, colours),
        )

        def build() -> Broker:
            broker = Broker(ScopePath.parse(name), _LIMITS, network=settings)
            broker._inputs[PlanDrawn] = lambda drawn: self._request(broker, drawn)
            return broker

        return build

    def _client(self, name: str) -> Factory:
        return lambda: Client(
            Settings(
                name=f"client-of-{name.replace('/', '-')}",
                addresses=(_address(name),),
                incarnation=Incarnation(1),
                window=_WINDOW,
                buffer=2 * _WINDOW,
                heartbeat=1.0,
            )
        )

    def __getitem__(self, name: str) -> Broker:
        machine = self.world.hosts[_address(name)].machine
        assert isinstance(machine, Broker)
        return machine

    # ---- time

    def run(self, seconds: float = 1.0) -> None:
        self.world.run(self.world.now + int(seconds * SECOND))
        assert not self.world.anomalies, self.world.anomalies

    def run_until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until something holds."""
        until = self.world.now + _LONGEST_NS
        while not holds():
            assert self.world.now < until, f"not within a minute: {self.wrong()}, {self.detours()} detours"
            self.run(0.01)

    def run_until_on_the_tree(self) -> None:
        """Let time pass until all scopes are in their correct state, and events go by their trees."""
        self.run()
        self.run_until(lambda: not self.detours() and not self.wrong() and not self.is_planning())

    # ---- looking

    def trees(self) -> dict[str, set[Pair]]:
        """Return the edges of each scope's tree of the current colour, as children name their parents."""
        found: dict[str, set[Pair]] = {}
        for name in self._names:
            for colours in self[name].network.colouring.scopes:
                parent = colours.tree.pointers[current_colour(colours.tree.round)].parent
                found.setdefault(colours.scope, set()).update([frozenset((name, parent))] if parent else [])
        return found

    def tree_of(self, name: str, level: int = 0) -> ScopeTree:
        return self[name].network.colouring.scopes[level].tree

    def wrong(self) -> list[str]:
        found: list[str] = []
        for scope in self.trees():
            inside = {name: self[name].network.colouring.of_scope(scope) for name in self._names}
            found += illegalities({name: each.tree.view() for name, each in inside.items() if each is not None})
        return found

    def detours(self) -> int:
        views = [view for name in self._names for view in self[name].network.colouring.views().values()]
        return sum(view.detours for view in views)

    def is_planning(self) -> bool:
        return any(colours.announced.is_open for name in self._names for colours in self[name].network.colouring.scopes)

    def carried(self) -> Counter[Pair]:
        """Return how many events each link has carried since it was opened, in both directions."""
        found: Counter[Pair] = Counter()
        for name in self._names:
            for far, peer in self[name].network.peers.items():
                found[frozenset((name, far))] += peer.session.connection.outbox.events
        return +found

    def root(self, scope: str = "") -> str:
        found = {name: self[name].network.colouring.of_scope(scope) for name in self._names}
        (root,) = [name for name, each in found.items() if each is not None and each.tree.role is TreeRole.ROOT]
        return root

    # ---- changing

    def plan(self, plan: TopologyPlan, scope: str = "") -> None:
        """Have a plan carried out, and wait for its end."""
        root = self.root(scope)
        self.world.tell(_address(root), PlanDrawn(scope, plan))
        colours = self[root].network.colouring.of_scope(scope)
        assert colours is not None
        self.run_until(
            lambda: any(each.number == plan.number and each.phase in ENDED for each in colours.planning.views())
        )
        (view,) = [each for each in colours.planning.views() if each.number == plan.number]
        assert view.phase is PlanPhase.DONE, view

    @staticmethod
    def _request(broker: Broker, drawn: PlanDrawn) -> None:
        colours = broker.network.colouring.of_scope(drawn.scope)
        assert colours is not None
        assert colours.request(drawn.plan) == ""

    def part(self, one: str, other: str) -> None:
        """The link between two brokers fails, and stays so."""
        network = self.world.network
        for link in network.between(_address(one), _address(other)):
            network.sever(link, "connection reset by peer")
        network.block(_address(one), _address(other))
        network.block(_address(other), _address(one))


def _address(name: str) -> str:
    return f"at-{name.replace('/', '_')}"
