"""What the oracle of a network looks at, taken from brokers and clients as they run."""

from collections.abc import Iterable, Mapping

from stentor.nodes.broker.broker import Broker
from stentor.simulation.checkers.network_oracle import BrokerView
from stentor.simulation.clients.application import SimApplication
from stentor.simulation.overlay.topology import Topology


def views_of(
    brokers: Mapping[str, Broker],
    topology: Topology,
    addresses: Mapping[str, str],
    applications: Iterable[SimApplication],
) -> dict[str, BrokerView]:
    """Return the place of each broker that runs, the links that it trusts, and what its clients want."""
    views = {}
    for name, broker in brokers.items():
        neighbours = broker.network.gateways.neighbours
        links = {peer: each.cost for peer, each in neighbours.items() if each.is_used}
        wants = tuple(
            history.reader.wants
            for application in applications
            if application.life.node == name and application.life.linked.open
            for history in application.life.subscriptions.values()
        )
        views[name] = BrokerView(topology.brokers[name], addresses[name], links, wants, broker.network)
    return views
