"""A neighbouring broker: the link to it, and what it told of itself."""

from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.link_cost import MeasuredCost
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.mask_plans import NextHop


class NeighbourLink:
    """A link whose other end is a broker."""

    __slots__ = ("address", "clients", "cost", "hop", "session")

    def __init__(self, session: LinkSession, hop: NextHop[Outbox], address: str, cost: MeasuredCost) -> None:
        self.session = session
        self.address = address  # where it listens
        self.hop = hop
        self.cost = cost
        self.clients = 0  # that it serves, as it last said

    def measure(self, trip_ns: int) -> bool:
        """Take in a round trip; return whether the link costs something else now."""
        return self.cost.measure(trip_ns, is_slow=self.session.connection.outbox.slow)
