"""What a broker tells of access and of the network around it: for `stentor map`, `route`, `explain` and `access`."""

import msgspec

from stentor.model.colours.wave_timing import ColourSettings
from stentor.model.reports.colour_view import ColourView


class GatewayView(msgspec.Struct, frozen=True, gc=False):
    """Links between two units, as one of them sees them."""

    unit: str
    level: int
    links: int
    cost: float


class MemberView(msgspec.Struct, frozen=True):
    """A member of a scope around the broker."""

    unit: str
    number: int  # its bit in the scope's masks
    speaker: str  # the broker that speaks for it
    address: str  # where that one listens
    members: int  # inside it, as many as the speaker can reach
    reachable: bool
    hop: str  # the neighbour to go to; "" for our own units and for what cannot be reached
    distance: tuple[float, ...]  # per level, the highest first; () if it cannot be reached
    gateways: tuple[GatewayView, ...]
    wants: int  # size of its profile
    predicates: int  # subscriptions of clients that the profile sums up
    exits: tuple[str, ...] = ()  # units by which events leave ours, where others cost the same; the highest level first


class ScopeView(msgspec.Struct, frozen=True):
    """A scope around the broker, and who is in it."""

    scope: str  # "" is the network
    level: int  # of its members
    forwarding: str
    members: tuple[MemberView, ...]
    path_length: float = 0.0  # links from one member that the broker reaches to another, on average
    colours: ColourView | None = None  # None of a broker that knows no colours
    colour_settings: ColourSettings = ColourSettings()  # of its waves; whoever joins needs the same


class LinkView(msgspec.Struct, frozen=True, gc=False):
    """A link of the broker to another one."""

    peer: str  # "" if nobody has answered there yet
    address: str
    level: int
    state: str  # up, suspected or down
    cost: float
    round_trip: float  # seconds; 0 if it was not measured
    events_in: int
    events_out: int
    bytes_in: int
    bytes_out: int
    queued: int
    base: float = 0.0  # what it costs if it is quick; 0 if it is down


class NetworkView(msgspec.Struct, frozen=True):
    """All that one broker knows."""

    node: str
    address: str
    clients: int
    subscriptions: int
    speaks_for: tuple[str, ...]
    scopes: tuple[ScopeView, ...]  # the smallest first
    links: tuple[LinkView, ...]
    parted: tuple[str, ...]  # members that it knew and cannot reach
    relayed: int  # events handed on to other brokers
    entered: int  # events that came from other brokers for its units
    matched: int  # batches matched for other brokers
    stranded: int  # events for members that cannot be reached
    circling: int  # events that had been at too many brokers
    most_matchings: int  # on the way of any event to one of its clients
    foreign: int = 0  # events from a broker that knew other members of a scope, or other numbers of them
    repaired: int = 0  # how often its ways, profiles or links were damaged, and were mended


class HopView(msgspec.Struct, frozen=True):
    """Where an event would go next, and for whom."""

    peer: str
    address: str
    level: int  # at which the peer differs
    masks: dict[int, int]
    units: tuple[str, ...]  # the members that the masks stand for
    passes: bool  # whether the channel to the peer lets it pass
    way: str = ""  # whether the link is one of the tree by which events are to go; "" where they go the cheapest way
    exits: tuple[int, ...] = ()  # by level, as the parcel names them


class Explanation(msgspec.Struct, frozen=True):
    """What one broker would do with an event."""

    node: str
    enters: bool  # it comes for members of units around the broker, its own clients included
    matched: tuple[str, ...]  # the scopes whose members were matched here
    clients: tuple[str, ...]  # those of its own clients that want it
    hops: tuple[HopView, ...]
    stranded: tuple[str, ...]  # members that want it and cannot be reached
    wanted: bool = False  # somebody subscribes to its topic, here or elsewhere, whatever the filter


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether somebody may do something; if not, why, and what would allow it."""

    act: str
    allowed: bool
    reason: str = ""


class AccessView(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force at a broker, as far as it is told to whoever asked."""

    node: str
    default: str  # "granted" or "open": what holds for topics that no rule is about
    rules: tuple[str, ...] = ()  # as they are written in a file
    principal: str = ""  # whom it is about
    topic: str = ""
    reliable: str = ""  # the owner, if the topic is a reliable one
    verdicts: tuple[Verdict, ...] = ()
