"""What a broker is told about the network around it when it starts."""

import msgspec

from stentor.model.colours.wave_timing import ColourSettings
from stentor.policies.access import AccessSettings
from stentor.policies.channel import ChannelSettings
from stentor.policies.scope_policies import TopicPolicy


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """A link that this broker opens."""

    name: str = ""  # of the broker there, if that is known
    address: str
    cost: float | None = None
    is_requested: bool = False  # a plan of its scope shall bring it: it would move the ways of others


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a broker is in the network, and which links it opens."""

    numbers: tuple[int, ...] = ()  # the member number of each part of its name, outermost first; () is all 0
    address: str = ""  # where it listens, for others to find it
    gateways: tuple[GatewaySettings, ...] = ()
    costs: tuple[float, ...] = (1, 2, 3, 4)  # of links, by level
    forwarding: dict[str, str] = {}  # what scopes say of all topics; "" is the network
    topics: tuple[TopicPolicy, ...] = ()  # what they say of some
    channels: tuple[ChannelSettings, ...] = ()
    traces: bool = False  # whether clients, repositories and the broker tell what becomes of events
    sums: bool = False  # traces are told summed up
    access: AccessSettings = AccessSettings()
    path_length: float = 0.0  # links are added where paths of a unit are longer on average; 0 adds none
    colours: dict[str, ColourSettings] = {}  # of the scopes around it, as far as they are configured
    clients_per_broker: int = 0  # with more of them, newcomers are pointed to a neighbour; 0 is as many as come
    chaos: bool = False  # whether operators may damage what it remembers
