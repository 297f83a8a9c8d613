"""What a configuration says: the nodes to run, what joins them, and what they have in common."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from stentor.config.address import Address
from stentor.config.topology import ROOT, Connect
from stentor.model.colours.wave_messages import MOST_DEEP
from stentor.model.errors import ConfigError, InvalidInput
from stentor.model.limits import Count, DiskSize, Limits, Seconds
from stentor.model.scope import LARGEST_UNIT, ScopePath
from stentor.model.wording.suggestion import suggestion
from stentor.policies.access import AccessRule

CERTIFICATE_FILES = ("ca.pem", "cert.pem", "key.pem")  # what a certificate directory holds

Role = Literal["broker"]
LogLevel = Literal["debug", "info", "warning", "error"]
Forwarding = Literal["content", "flooding", "coloured"]
Cost = Annotated[float, Meta(gt=0, le=1_000_000)]
Number = Annotated[int, Meta(ge=0, le=LARGEST_UNIT - 1)]
Hops = Annotated[float, Meta(ge=0, le=LARGEST_UNIT)]
Brokers = Annotated[int, Meta(ge=1, le=LARGEST_UNIT)]
ScopeSize = Annotated[int, Meta(ge=2, le=1_000_000)]
TreeDegree = Annotated[int, Meta(ge=1, le=1_000_000)]
TreeHeight = Annotated[int, Meta(ge=1, le=MOST_DEEP)]

Traces = Literal["summed", "all", "none"]
AccessDefault = Literal["granted", "open"]

COSTS = (1.0, 2.0, 3.0, 4.0)


class FabricTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table [fabric]: what all nodes of the file share."""

    data: Annotated[Path, Meta(description="where nodes keep what must survive; relative to this file")]
    log: Annotated[LogLevel, Meta(description="the least important messages that are logged")] = "info"
    forwarding: Annotated[
        Forwarding,
        Meta(
            description="how events travel in scopes that set nothing else: to those who want them, by the cheapest "
            "way; to everybody; or to those who want them, by the tree of the scope's waves alone"
        ),
    ] = "content"
    costs: Annotated[
        tuple[Cost, ...],
        Meta(description="of a link by its level: within a cluster, between clusters, …; the last goes on"),
    ] = COSTS
    traces: Annotated[
        Traces,
        Meta(
            description="whether nodes tell what becomes of events, on $stentor/trace: sums of it, all, or none; "
            "repositories keep it a day"
        ),
    ] = "summed"
    access: Annotated[
        AccessDefault | None,
        Meta(description="whether topics are open, or as [[access]] grants; default: granted with TLS, open without"),
    ] = None
    token: Annotated[
        Path | None,
        Meta(
            description="the file of the secret that nodes without TLS prove to each other; default <data>/fabric.token"
        ),
    ] = None


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Certificates of a node: what `stentor certs` wrote."""

    directory: Annotated[Path, Meta(description="holds ca.pem, cert.pem and key.pem; relative to this file")]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node, with everything resolved: what it does not set comes from the file's other tables."""

    name: Annotated[ScopePath, Meta(description="unique path of scope names, such as campus/library/b1")]
    role: Annotated[Role, Meta(description="what the node does")] = "broker"
    number: Annotated[Number, Meta(description="of this member of its unit; default: its place there")] = 0
    listen: Annotated[
        Address,
        Meta(description="host:port for links; port 0 is any free one; default 127.0.0.1:7420 + its place in the file"),
    ]
    advertise: Annotated[
        Address | None, Meta(description="host:port at which others reach it, if not where it listens")
    ] = None
    http: Annotated[Address | None, Meta(description='host:port for health and metrics; "" turns it off')]
    storage: Annotated[Path, Meta(description="where this node keeps what must survive; default <data>/<name>")]
    tls: Annotated[Tls | None, Meta(description="instead of the file's [tls]")] = None
    limits: Annotated[Limits, Meta(description="single limits that differ from the file's [limits]")] = Limits()


class ColourKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What [colours] sets for all scopes, and [[unit]] for one; the rest follows from the file."""

    xi: Annotated[
        Seconds | None, Meta(description="from one wave to the next; default: 1 s, or the smallest that works")
    ] = None
    eta: Annotated[
        ScopeSize | None,
        Meta(description="brokers that the scope may have; default: those of the file and all that [elasticity] adds"),
    ] = None
    delta_max: Annotated[
        Seconds | None, Meta(description="that a wave needs from one broker to the next, at most; default: 100 ms")
    ] = None
    degree: Annotated[
        TreeDegree | None,
        Meta(description="brokers to which one passes a wave on; default: 8, or as many as one has links"),
    ] = None
    height: Annotated[
        TreeHeight | None, Meta(description="links that a wave takes from the root to anybody, at most; default: eta")
    ] = None
    drain_within: Annotated[
        Seconds | None,
        Meta(description="that a plan waits for events under way by the former links, at most; default: 10 s"),
    ] = None
    audit: Annotated[
        Seconds | None,
        Meta(
            description="in which a broker audits all that it holds of what members want, some with each wave; "
            "default: 5,000 subscriptions with each"
        ),
    ] = None


class Unit(ColourKeys, frozen=True, kw_only=True):
    """A unit that brokers form by their names; a file names only those that it sets something of."""

    name: Annotated[ScopePath, Meta(description='such as campus/library; "" is the whole network')]
    number: Annotated[Number, Meta(description="of this member of its unit; default: its place there")] = 0
    forwarding: Annotated[
        Forwarding | None, Meta(description="how events travel in this scope and those inside it")
    ] = None
    connect: Annotated[
        Connect | None, Meta(description="links between its members, or the first broker of each if they are units")
    ] = None
    roots: Annotated[
        tuple[ScopePath, ...],
        Meta(description="brokers in it that begin its waves, the first that runs; default: the first by name"),
    ] = ()


class LinkTable(msgspec.Struct, frozen=True, kw_only=True):
    """Joins two brokers; the first dials the second."""

    between: Annotated[tuple[ScopePath, ScopePath], Meta(description="two brokers; the first dials the second")]
    cost: Annotated[Cost | None, Meta(description="instead of that of its level in [fabric] costs")] = None
    address: Annotated[
        Address | None, Meta(description="host:port at which the first reaches the second, if not where that listens")
    ] = None


class ChannelTable(msgspec.Struct, frozen=True, kw_only=True):
    """What may pass from one unit to another."""

    origin: Annotated[ScopePath, Meta(description="a unit or broker")] = msgspec.field(name="from")
    to: Annotated[ScopePath, Meta(description="another member of the same unit, or a broker if both are")]
    where: Annotated[tuple[str, ...], Meta(description="filters in CESQL; all must let an event pass")]


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """Stores the events of reliable topics; a process of its own, with a link to a broker."""

    name: Annotated[str, Meta(description="its own among repositories and nodes, such as r1")]
    broker: Annotated[
        ScopePath,
        Meta(description="whom it links to, and to others of its unit while that is away; default: the first"),
    ]
    unit: Annotated[ScopePath, Meta(description='the unit that it serves; "", the default, is the whole network')]
    storage: Annotated[
        str, Meta(description="sqlite:DIR, segments:DIR or postgresql://…; default sqlite:<data>/repositories")
    ]
    lake: Annotated[
        Path | None,
        Meta(description="the directory of a lake that has what repositories have forgotten; default: none"),
    ] = None
    http: Annotated[Address | None, Meta(description='host:port for health and metrics; "" turns it off')] = None
    accepts: Annotated[
        tuple[str, ...], Meta(description="topics and topic patterns that it is willing to manage; default: all")
    ] = ()
    most_topics: Annotated[
        Count | None, Meta(description="topics that it manages; default: reliable_topics of [limits]")
    ] = None
    most_bytes: Annotated[
        DiskSize | None,
        Meta(description="on its disk, with which it is still willing to manage more topics; default: any number"),
    ] = None


class Elasticity(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers that are started by load, and stopped when they are slow."""

    clients_per_broker: Count = 500  # more of them, on average in a cluster, start another broker
    most_brokers: Brokers = 8  # in a cluster, with those of the file
    purge_slow: bool = False  # stop a broker that answers health checks too slowly
    check_every: Seconds = 10.0
    path_length: Hops = 0.0  # add links where paths between a unit's members have more, on average; 0 adds none


class DialledLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that a node opens: to whom, and where that one listens; no cost is that of the link's level."""

    name: str
    address: str
    cost: float | None = None
    is_requested: bool = False  # it comes by a plan, when the node has joined


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file."""

    fabric: FabricTable
    limits: Limits = Limits()
    tls: Tls | None = None
    nodes: Annotated[tuple[Node, ...], Meta(description="the nodes to run")] = msgspec.field(name="node")
    # units and links are all that there are, also those that the file does not write out
    units: Annotated[tuple[Unit, ...], Meta(description="what units set")] = msgspec.field(name="unit", default=())
    links: Annotated[tuple[LinkTable, ...], Meta(description="what joins brokers")] = msgspec.field(
        name="link", default=()
    )
    channels: Annotated[tuple[ChannelTable, ...], Meta(description="what may pass from one unit to another")] = (
        msgspec.field(name="channel", default=())
    )
    repositories: Annotated[tuple[Repository, ...], Meta(description="what stores reliable topics")] = msgspec.field(
        name="repository", default=()
    )
    elasticity: Elasticity | None = None
    colours: ColourKeys = ColourKeys()
    access: Annotated[tuple[AccessRule, ...], Meta(description="who may do what on topics that are not reliable")] = ()

    @property
    def token(self) -> Path:
        """The file of the fabric's token."""
        return self.fabric.token or self.fabric.data / "fabric.token"

    def node(self, name: str) -> Node | Repository:
        """The broker or repository of this name."""
        found: dict[str, Node | Repository] = {str(node.name): node for node in self.nodes}
        found.update((each.name, each) for each in self.repositories)
        if name not in found:
            raise ConfigError(f"no node is called {name!r}{suggestion(name, found)}")
        return found[name]

    def broker_of(self, repository: Repository) -> Node:
        """The broker that a repository links to."""
        return next(node for node in self.nodes if node.name == repository.broker)

    def brokers_for(self, repository: Repository) -> tuple[Node, ...]:
        """Whom a repository may link to: its broker, then others of the unit that it serves, the nearest first."""
        inside = [node for node in self.nodes if node.name.parts[: len(repository.unit.parts)] == repository.unit.parts]
        return tuple(sorted(inside, key=lambda node: node.name.level_of_difference(repository.broker)))

    def numbers(self, node: Node) -> tuple[int, ...]:
        """The member number of each part of a node's name, outermost first."""
        known = {unit.name.parts: unit.number for unit in self.units}
        parts = node.name.parts
        return (*(known.get(parts[:length], 0) for length in range(1, len(parts))), node.number)

    def dials(self, node: Node) -> tuple[DialledLink, ...]:
        """The links that a node opens; the others of its links are opened by their other ends."""
        found = {other.name: other.advertise or other.listen for other in self.nodes}
        return tuple(
            DialledLink(name=str(other), address=str(link.address or found[other]), cost=link.cost)
            for link in self.links
            for dialler, other in [link.between]
            if dialler == node.name
        )

    def forwarding(self, path: ScopePath) -> Forwarding:
        """How events travel in a scope: as the nearest scope around it says that says anything."""
        told = {unit.name.parts: unit.forwarding for unit in self.units if unit.forwarding is not None}
        around = (path.parts[:length] for length in range(len(path.parts), -1, -1))
        return next((told[scope] for scope in around if scope in told), self.fabric.forwarding)

    def forwarding_by_scope(self) -> dict[str, str]:
        """What scopes say of forwarding, by their names; the network's, "", is always there."""
        told = {str(unit.name): unit.forwarding for unit in self.units if unit.forwarding is not None}
        return {str(ROOT): self.fabric.forwarding, **told}


DATA = Path(".stentor")
LISTEN = Address("127.0.0.1", 7420)
ANY_HTTP: Address | None = Address("127.0.0.1", 0)  # health is always there, and nodes of one file never collide on it


def default_listen(place: int) -> Address:
    """Where the node at this place of a file listens if it does not say."""
    port = LISTEN.port + place
    if port > 65535:
        raise InvalidInput(f"missing; expected host:port, because {port}, its default port, is more than 65535")
    return Address(LISTEN.host, port)


def storage_in(data: Path) -> Path:
    """Where repositories keep ledgers if they do not say, each in a directory of its own."""
    return data / "repositories"


def home_of(repository: str, data: Path) -> Path:
    """The directory of a repository, which only one process may use."""
    return storage_in(data) / repository


def default(data: Path = DATA) -> Config:
    """What runs when there is no file: a broker that only this machine can reach, and a repository inside it."""
    local = Node(name=ScopePath(("local",)), listen=LISTEN, http=Address("127.0.0.1", 7480), storage=data / "local")
    main = Repository(name="main", broker=local.name, unit=ROOT, storage=f"sqlite:{storage_in(data)}")
    return Config(fabric=FabricTable(data=data), nodes=(local,), repositories=(main,))
