"""What a node tells about itself: for `stentor status`, the metrics and the console."""

import msgspec


class SubscriptionStatus(msgspec.Struct, frozen=True, gc=False):
    client: str
    principal: str
    id: int
    pattern: str
    where: str
    accepted: int
    rejected: int


class LinkStatus(msgspec.Struct, frozen=True, gc=False):
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


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
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
    dropped: dict[str, int]  # events, by reason
    refused: dict[str, int]  # peers and requests, by reason
    queued: int
    slow: int
    links: tuple[LinkStatus, ...]  # the slow and the busy first
    interests: tuple[SubscriptionStatus, ...]
