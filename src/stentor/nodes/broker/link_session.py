"""A link at a broker: whoever is at its other end, a client or another broker, and how far they have come."""

import enum
from collections import deque

from stentor.machine import Timer
from stentor.model.ids import LinkId
from stentor.nodes.broker.access.credentials import Credentials
from stentor.nodes.greeting import Greeting
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.mask_plans import NextHop
from stentor.protocols.dissemination.routes import FlowTable
from stentor.protocols.dissemination.subscriptions import SubscriptionList


class HelloTimeout(Timer, frozen=True, gc=False, tag="hello"):
    """The peer on a link has not said who it is."""

    link: LinkId


class LinkState(enum.Enum):
    """How far a link has come."""

    GREETING = "greeting"  # nobody knows yet who is at the other end
    CLIENT = "client"  # a client is served
    NEIGHBOUR = "neighbour"  # the other end is a broker, and events are routed over the link
    REPLACED = "replaced"  # another link to the same broker has taken its place: it is closed in the same step
    CLOSED = "closed"  # it is forgotten, and nothing that still comes is looked at


class LinkChange(enum.Enum):
    """What happens to a link."""

    CLIENT_GREETED = "client greeted"
    BROKER_GREETED = "broker greeted"
    SUPERSEDED = "superseded"
    ENDED = "ended"


TRANSITIONS = {
    (LinkState.GREETING, LinkChange.CLIENT_GREETED): LinkState.CLIENT,
    (LinkState.GREETING, LinkChange.BROKER_GREETED): LinkState.NEIGHBOUR,
    (LinkState.NEIGHBOUR, LinkChange.SUPERSEDED): LinkState.REPLACED,
    (LinkState.GREETING, LinkChange.ENDED): LinkState.CLOSED,
    (LinkState.CLIENT, LinkChange.ENDED): LinkState.CLOSED,
    (LinkState.NEIGHBOUR, LinkChange.ENDED): LinkState.CLOSED,
    (LinkState.REPLACED, LinkChange.ENDED): LinkState.CLOSED,
}


class LinkSession:
    """A link at the broker: its connection, the flows that come over it and the subscriptions behind it."""

    __slots__ = (
        "backlog",
        "can_move",
        "connection",
        "credentials",
        "dialled",
        "events_in",
        "flows",
        "greeting",
        "hop",
        "redirected_to",
        "rest",
        "state",
        "subscriptions",
    )

    def __init__(self, connection: Connection, credentials: Credentials, *, dialled: bool) -> None:
        self.connection = connection
        self.credentials = credentials
        self.dialled = dialled
        self.state = LinkState.GREETING
        self.greeting: Greeting | None = None  # if we dialled it
        self.hop: NextHop[Outbox] | None = None  # Invariant: a NEIGHBOUR has one; GREETING, CLIENT, REPLACED have none.
        self.can_move = False  # whether it may be asked to go to another broker
        self.redirected_to = ""  # the address of the broker to which it was last asked to go
        self.flows: FlowTable[Outbox] = FlowTable(connection.link)
        self.subscriptions: SubscriptionList[Outbox] = SubscriptionList()
        self.events_in = 0
        self.rest: tuple[bytes, int] | None = None  # a chunk that was too much for a step, and where to go on in it
        self.backlog: deque[bytes] = deque()  # chunks that came after it

    def change(self, change: LinkChange) -> None:
        """Go over to the state that follows."""
        following = TRANSITIONS.get((self.state, change))
        assert following is not None, f"a link that is {self.state.value} cannot be {change.value}"
        self.state = following

    def join_network(self, hop: NextHop[Outbox]) -> None:
        """The other end is a broker, and has been greeted."""
        self.change(LinkChange.BROKER_GREETED)
        self.hop = hop
        self.connection.seal()

    def serve(self) -> None:
        """The other end is a client, and has been greeted."""
        self.change(LinkChange.CLIENT_GREETED)
        self.connection.seal()

    def leave_network(self) -> None:
        """Another link to the same broker takes the place of this one."""
        self.change(LinkChange.SUPERSEDED)
        self.hop = None
