"""What a node tells about itself: for `stentor status`, the metrics and the console."""

import msgspec

from stentor.model.reports.colour_view import ColourView


class SubscriptionStatus(msgspec.Struct, frozen=True, gc=False):
    client: str
    principal: str
    id: int
    pattern: str
    where: str
    accepted: int
    rejected: int


class Traffic(msgspec.Struct, frozen=True, gc=False):
    """What a broker did for other brokers; counts of events, except where it says otherwise."""

    brokers: int = 0  # that it is linked with
    unreachable: int = 0  # members of the units around it that it cannot reach
    relayed: int = 0  # handed on
    entered: int = 0  # came for members of its units
    matched: int = 0  # batches matched for others
    stranded: int = 0  # for members that could not be reached, once for each of these
    circling: int = 0  # had been at too many brokers
    foreign: int = 0  # came from a broker that knew other members of a scope, or other numbers of them
    rerouted: int = 0  # waited on a link that was lost, and were sent on by others
    held: int = 0  # waited here because a plan had changed their way
    waiting: int = 0  # of these wait now
    overflowed: int = 0  # of these were dropped, because there was no room for them
    in_doubt: int = 0  # were sent over links that were lost, and may not have arrived; none is sent again


class LinkStatus(msgspec.Struct, frozen=True, gc=False):
    role: str  # client or broker
    name: str
    principal: str
    address: str
    subscriptions: int
    events_in: int
    events_out: int
    bytes_in: int
    bytes_out: int
    queued: int  # bytes that wait because this peer is slow
    dropped: int  # events dropped because it was too slow
    slow: bool
    idle: float  # seconds since we last heard of it


class TopicHealth(msgspec.Struct, frozen=True, gc=False):
    """Whether a repository serves a topic: it is ready, does not leave, and has no trouble. If `damaged` events are the
    trouble, it can write, and serves whoever does not need them.
    """

    ready: bool
    leaving: bool
    trouble: str  # why nothing can be written or some of it not be read; "" if nothing is wrong
    damaged: int = 0


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    node: str
    role: str
    boot: int
    version: str
    uptime: float
    clients: int
    subscriptions: int
    topics: int
    events_in: int
    events_out: int
    bytes_in: int
    bytes_out: int
    chunks: int  # batches as they came off the links
    accepted: int = 0  # pairs of an event and a filter of a subscription that took it
    rejected: int = 0  # pairs of an event and a filter that did not take it
    dropped: dict[str, int]  # events, by reason
    refused: dict[str, int]  # peers and requests, by reason
    queued: int
    slow: int
    traffic: Traffic
    reliable: int = 0  # reliable topics that it knows of; of a broker
    colours: dict[str, ColourView] = {}  # of the scopes around a broker, the smallest first; "" is the network
    repaired: int = 0  # how often a broker's ways, profiles or links were damaged, and were mended
    links: tuple[LinkStatus, ...]  # the slow and the busy first
    interests: tuple[SubscriptionStatus, ...]
