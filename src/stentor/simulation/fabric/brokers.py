"""The brokers of a fabric, and what its processes share: a world in which letters travel over real links."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from stentor.machine import SECOND, Report
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.protocols.delivery.transport import SendLetter
from stentor.simulation.delivery.letter_network import Addressee, LetterNetwork
from stentor.simulation.delivery.process import TOPIC, DeliveryWorld
from stentor.simulation.disk import SimulatedDisk
from stentor.simulation.fabric.doorman import Doorman
from stentor.simulation.fabric.plan import NODES
from stentor.simulation.host import Factory, Host
from stentor.simulation.outcome import Anomaly
from stentor.simulation.overlay.topology import Link, Topology
from stentor.simulation.world import World
from stentor.wire.block import Block

HEARTBEAT = 0.5  # seconds; who is silent for three of them is gone
_LIMITS = Limits(window=1 << 20, queue=1 << 20, heartbeat=HEARTBEAT, hello_within=1.0)
_LINKS: tuple[Link, ...] = tuple((near, far, 0.0) for near, far in pairwise(NODES))


class FabricWorld(World):
    """A world of nodes with ledgers. An exception that a repository survives is an anomaly, unless it is on purpose."""

    def reported(self, host: Host, report: Report) -> None:
        super().reported(host, report)
        if report.what == "a message could not be handled" and "Stumble" not in str(report.details["error"]):
            self.anomalies.append(Anomaly("unhandled", f"{host.name}: {report.details['trace']}"))


class _NoOffice(LetterNetwork):
    """Carries nothing: what processes send leaves their nodes as bytes. It can be overheard nevertheless."""

    def post(self, sender: Addressee, post: SendLetter) -> None:
        self.overhear(sender, post)

    def publish(self, sender: Addressee, block: Block, to: str = "") -> None:
        pass


class FabricStage(DeliveryWorld):
    """What all processes of a run share, and the brokers that connect them."""

    def __init__(self, seed: int, world: FabricWorld, units: Sequence[str]) -> None:
        office = _NoOffice(world.schedule, Random(f"{seed}/post"), TOPIC)
        super().__init__(seed, world.schedule, world.trace, office, world.anomalies)
        self.world = world
        self.principals: dict[str, str] = {}  # by host
        self._random = Random(f"{seed}/brokers of a fabric")
        self._numbers, self._links = dict(NODES), list(_LINKS)
        if not units:
            topology = Topology(self._random, self._random.randint(1, 2), self._random.choice((1, 1, 2, 2, 3, 4)))
            self._numbers, self._links = topology.brokers, topology.links
        self.addresses = {name: f"at-{name.replace('/', '_')}" for name in self._numbers}
        self.traces = self._random.random() < 0.5
        for name in self._numbers:
            world.add(self.addresses[name], self._broker(name))

    def _broker(self, name: str) -> Factory:
        settings = NetworkSettings(
            numbers=self._numbers[name],
            address=self.addresses[name],
            gateways=tuple(
                GatewaySettings(address=self.addresses[far], cost=cost or None)
                for near, far, cost in self._links
                if near == name
            ),
            traces=self.traces,
            sums=self.sums,
        )
        return lambda: Doorman(Broker(ScopePath.parse(name), _LIMITS, network=settings), self._prove)

    def _prove(self, host: str) -> tuple[str, bool]:
        """Return who runs a host; brokers and repositories are nodes."""
        return self.principals.get(host, "nodes"), host in self.addresses.values() or host.startswith("repository:")

    def open(self) -> None:
        """Start all brokers, and let them find each other."""
        for address in self.addresses.values():
            self.world.hosts[address].start()
        self.world.run(self.now + 2 * SECOND)

    def draw_addresses(self, node: str = "") -> tuple[str, ...]:
        """Return where a client looks for a broker; one that belongs to a broker has no choice."""
        if node:
            return (self.addresses[node],)
        brokers = list(self.addresses.values())
        return tuple(self._random.sample(brokers, self._random.randint(1, min(3, len(brokers)))))

    def new_disk(self, host: str, ledger: str) -> SimulatedDisk:
        """Return a disk of a host that fails when its power is cut."""
        disks = self.world.hosts[host].disks
        disk = SimulatedDisk(self.world.stream(f"{host}/disk/{ledger}"), disks[0].faults)
        disks.append(disk)
        return disk
