"""Whoever is at the other end of a link to a broker: a client, or another broker."""

from collections import deque

from stentor.machine import Timer
from stentor.model.ids import LinkId
from stentor.nodes.broker.credentials import Credentials
from stentor.nodes.greeting import Greeting
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.relay import NextHop
from stentor.protocols.dissemination.routes import FlowTable
from stentor.protocols.dissemination.subscriptions import Wishes


class HelloTimeout(Timer, frozen=True, gc=False, tag="hello"):
    """The peer on a link has not said who it is."""

    link: LinkId


class LinkSession:
    """A link at the broker: its connection, the flows that come over it and the wishes behind it."""

    __slots__ = (
        "backlog", "can_move", "connection", "credentials", "dialled", "events_in", "flows", "greeting", "hop",
        "redirected_to", "rest", "wishes",
    )  # fmt: skip

    def __init__(self, connection: Connection, credentials: Credentials, *, dialled: bool) -> None:
        self.connection = connection
        self.credentials = credentials
        self.dialled = dialled
        self.greeting: Greeting | None = None  # if we dialled it
        self.hop: NextHop[Outbox] | None = None  # if it is one
        self.can_move = False  # whether it may be asked to go to another broker
        self.redirected_to = ""  # the address of the broker to which it was last asked to go
        self.flows: FlowTable[Outbox] = FlowTable(connection.link)
        self.wishes: Wishes[Outbox] = {}
        self.events_in = 0
        self.rest: tuple[bytes, int] | None = None  # a chunk that was too much for a step, and where to go on in it
        self.backlog: deque[bytes] = deque()  # chunks that came after it
