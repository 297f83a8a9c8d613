"""Whoever is at the other end of a link to a broker: a client, or another broker."""

from collections import deque

from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.relay import Hop
from stentor.protocols.dissemination.routing import FlowTable
from stentor.protocols.dissemination.subscriptions import Wishes


class Guest:
    """A link at the broker: its connection, the flows that come over it and the wishes behind it."""

    __slots__ = ("attributes", "backlog", "connection", "dialled", "events_in", "flows", "hop", "node", "rest",
                 "wishes")  # fmt: skip

    def __init__(
        self, connection: Connection, *, dialled: bool, node: bool, attributes: frozenset[str] = frozenset()
    ) -> None:
        self.connection = connection
        self.dialled = dialled
        self.node = node  # it proved that it may be a broker
        self.attributes = attributes  # of its certificate, such as OU=trading
        self.hop: Hop[Outbox] | None = None  # if it is one
        self.flows: FlowTable[Outbox] = FlowTable(connection.link)
        self.wishes: Wishes[Outbox] = {}
        self.events_in = 0
        self.rest: tuple[bytes, int] | None = None  # a chunk that was too much for a step, and where to go on in it
        self.backlog: deque[bytes] = deque()  # chunks that came after it
