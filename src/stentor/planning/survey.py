"""What a planned network would be like, beside a regular and a random graph of the same size."""

import math
import statistics
from collections.abc import Callable
from itertools import combinations
from random import Random

import msgspec

from stentor.model.errors import InvalidInput
from stentor.planning.network import Digits, PlannedNetwork
from stentor.planning.shape import Shape, sizes
from stentor.wire.parcel import MOST_HOPS

_NAMES = ("broker", "cluster", "super-cluster")
_EXACT = 300  # brokers up to which all pairs are taken, not a sample


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a planned network is for, and how it is to be built."""

    clients: int
    levels: int = 4
    unit: int = 64  # members at most
    clients_per_broker: int = 500
    shape: Shape = "mesh"
    links_per_member: int = 4  # of shapes other than a mesh
    seed: int = 1
    samples: int = 30  # pairs of brokers


class Level(msgspec.Struct, frozen=True):
    """The units of one level."""

    level: int
    name: str
    units: int
    members: int  # in the unit around each of them
    links: int  # between them


class Graph(msgspec.Struct, frozen=True):
    """Small-world figures: links between two brokers on average, and how many neighbours of a broker are linked."""

    path: float
    clustering: float


class NetworkPlan(msgspec.Struct, frozen=True):
    """What a network for the request would be like."""

    request: PlanRequest
    brokers: int
    clients: int  # that it has room for
    levels: tuple[Level, ...]
    links: int
    links_per_broker: float
    measured: Graph
    longest: int  # path that was seen
    lost: int  # sampled pairs that are too far apart for an event to arrive
    regular: Graph
    random: Graph
    graph_nodes: int  # units that a broker knows
    graph_edges: int  # that lead from them
    pairs: int  # that were looked at

    @property
    def arrives(self) -> bool:
        return not self.lost


def plan(request: PlanRequest, tell: Callable[[int, int], None] | None = None) -> NetworkPlan:
    """Size a network and look at it; `tell` hears how many of how many pairs are done."""
    if request.clients < 1 or request.clients_per_broker < 1 or request.samples < 1:
        raise InvalidInput("clients, clients per broker and samples: expected at least 1")
    if request.shape != "mesh" and request.links_per_member < 2:
        raise InvalidInput("fewer than 2 links per member do not hold a unit together")
    members = sizes(math.ceil(request.clients / request.clients_per_broker), request.levels, request.unit)
    network = PlannedNetwork(members, request.shape, request.links_per_member, request.seed)
    dice = Random(f"{request.seed}/pairs")
    pairs = _pairs(network, request.samples, dice)
    lengths: list[int] = []
    for done, (one, other) in enumerate(pairs):
        if tell is not None:
            tell(done, len(pairs))
        length = network.path(one, other, MOST_HOPS)
        lengths.append(MOST_HOPS if length is None else length)
    brokers = network.brokers
    levels = tuple(_level(network, level) for level in range(network.depth))
    links = sum(level.links for level in levels)
    degree = 2 * links / brokers
    graph = network.graph_of(network.broker(0))
    return NetworkPlan(
        request=request,
        brokers=brokers,
        clients=brokers * request.clients_per_broker,
        levels=levels,
        links=links,
        links_per_broker=degree,
        measured=Graph(statistics.fmean(lengths) if lengths else 0.0, clustering(network, request.samples, dice)),
        longest=max(lengths, default=0),
        lost=sum(length >= MOST_HOPS for length in lengths),
        regular=regular(brokers, degree),
        random=scattered(brokers, degree),
        graph_nodes=sum(map(len, graph.members)),
        graph_edges=sum(1 for _ in graph.cache.edges()),
        pairs=len(pairs),
    )


def clustering(network: PlannedNetwork, samples: int, dice: Random) -> float:
    """The share of pairs of a broker's neighbours that are linked themselves, on average."""
    brokers = range(network.brokers)
    chosen = brokers if len(brokers) <= max(_EXACT, samples) else [dice.randrange(len(brokers)) for _ in range(samples)]
    shares = []
    for number in chosen:
        near = network.neighbours(network.broker(number))
        around = {each: set(network.neighbours(each)) for each in near}
        linked = sum(other in around[one] for one, other in combinations(near, 2))
        shares.append(linked / math.comb(len(near), 2) if len(near) > 1 else 0.0)
    return statistics.fmean(shares)


def regular(brokers: int, degree: float) -> Graph:
    """Each linked with its nearest k: n / 2k (section 2.3), but at least 1, and 3(k−2) / 4(k−1), which goes to 0.75."""
    if brokers < 2:
        return Graph(0.0, 0.0)
    clustered = 3 * (degree - 2) / (4 * (degree - 1)) if degree > 2 else 0.0
    return Graph(max(1.0, brokers / (2 * degree)), clustered)


def scattered(brokers: int, degree: float) -> Graph:
    """Links at random: log n / log k and k / n (section 2.3)."""
    if brokers < 2:
        return Graph(0.0, 0.0)
    path = math.log(brokers) / math.log(degree) if degree > 1 else float(brokers)
    return Graph(max(1.0, path), min(1.0, degree / brokers))


def _pairs(network: PlannedNetwork, samples: int, dice: Random) -> list[tuple[Digits, Digits]]:
    """Pairs of different brokers: all of a small network, else some."""
    brokers = network.brokers
    if brokers < 2:
        return []
    if brokers * (brokers - 1) <= samples:
        everyone = [network.broker(number) for number in range(brokers)]
        return [(one, other) for one in everyone for other in everyone if one != other]
    pairs: list[tuple[Digits, Digits]] = []
    while len(pairs) < samples:
        one, other = dice.randrange(brokers), dice.randrange(brokers)
        if one != other:
            pairs.append((network.broker(one), network.broker(other)))
    return pairs


def _level(network: PlannedNetwork, level: int) -> Level:
    name = _NAMES[level] if level < len(_NAMES) else f"{'super-' * (level - 1)}cluster"
    return Level(level, name, math.prod(network.sizes[level:]), network.sizes[level], network.links(level))
