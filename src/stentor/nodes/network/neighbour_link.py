"""A broker's links to its neighbours: those that it opens, and what it knows of who is at the other end."""

from stentor.machine import MILLISECOND, Timer
from stentor.model.ids import LinkId
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.settings import GatewaySettings
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.relay import NextHop

FIRST_PAUSE = 50 * MILLISECOND
_SLOW_TRIP = 10 * MILLISECOND  # a round trip that costs as much as its level says; each doubling adds that again
_DOUBTS = 5  # round trips in a row that must tell of another cost


class Redial(Timer, frozen=True, gc=False, tag="redial neighbour"):
    """The pause after a link that this broker had dialled is over."""

    address: str


class OutgoingLink:
    """A link that is opened from here, and again whenever it is lost."""

    __slots__ = ("link", "pause", "settings")

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.link: LinkId | None = None
        self.pause = FIRST_PAUSE


class NeighbourLink:
    """A neighbouring broker."""

    __slots__ = ("address", "base", "clients", "doubts", "hop", "session", "steps", "trip")

    def __init__(self, session: LinkSession, hop: NextHop[Outbox], address: str, base: int) -> None:
        self.session = session
        self.address = address  # where it listens
        self.hop = hop
        self.base = base  # what the link costs if it is quick, in thousandths
        self.steps = 0  # by how much more it costs now
        self.doubts = 0  # how often in a row that seemed wrong
        self.trip = 0  # smoothed round trip in ns
        self.clients = 0  # that it serves, as it last said

    @property
    def cost(self) -> int:
        return self.base * (1 + self.steps)

    def measure(self, trip: int) -> bool:
        """Take in a round trip; return whether the link costs something else now.

        Long trips and what waits for the peer make a link dearer, in steps. A new way may let events overtake each
        other: that is not for a moment's sake.
        """
        self.trip = trip if not self.trip else (7 * self.trip + trip) // 8
        steps = (self.trip // _SLOW_TRIP).bit_length() + (2 if self.session.connection.outbox.slow else 0)
        self.doubts = self.doubts + 1 if steps != self.steps else 0
        if self.doubts <= _DOUBTS:
            return False
        self.steps, self.doubts = steps, 0
        return True
