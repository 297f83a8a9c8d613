"""A neighbouring broker: the link to it, and what it told of itself."""

from stentor.model.messages import Ping
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.link_cost import MeasuredCost
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.mask_plans import NextHop


class NeighbourLink:
    """A link whose other end is a broker."""

    __slots__ = ("_confirmed", "_pinged", "address", "clients", "cost", "hop", "session")

    def __init__(self, session: LinkSession, hop: NextHop[Outbox], address: str, cost: MeasuredCost) -> None:
        self.session = session
        self.address = address  # where it listens
        self.hop = hop
        self.cost = cost
        self.clients = 0  # that it serves, as it last said
        self._pinged: tuple[int, int] | None = None  # a ping without an answer: when, and events before it
        self._confirmed = 0  # events that the other end has read for sure

    def ping(self, now: int) -> Ping:
        """Return a ping; its answer tells that all events which were sent before it have been read."""
        if self._pinged is None:
            self._pinged = now, self.session.connection.outbox.events
        return Ping(now)

    def on_pong(self, token: int) -> None:
        if self._pinged is not None and token == self._pinged[0]:
            self._confirmed = self._pinged[1]
            self._pinged = None

    def confirm_all(self) -> None:
        """Everything that was sent is known to have arrived."""
        self._confirmed = self.session.connection.outbox.events

    @property
    def in_doubt(self) -> int:
        """How many events were sent of which nobody knows whether the other end has read them."""
        return max(0, self.session.connection.outbox.events - self._confirmed)

    def measure(self, trip_ns: int) -> bool:
        """Take in a round trip; return whether the link costs something else now."""
        return self.cost.measure(trip_ns, is_slow=self.session.connection.outbox.slow)
