"""Plans: sizes that fit, and figures that an exact computation over a network that is built whole confirms."""

import math
from collections import defaultdict
from itertools import combinations
from random import Random

import pytest

from stentor.model.context import Context
from stentor.model.errors import InvalidInput
from stentor.model.messages import Gateway, Presence
from stentor.model.scope import ScopePath
from stentor.planning.network import Digits, PlannedNetwork
from stentor.planning.shape import link, sizes
from stentor.planning.survey import PlanRequest, clustering, plan, regular, scattered
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph

NETWORKS = [((5, 4, 3), "ring", 2), ((4, 3, 3), "mesh", 4), ((6, 5, 4), "random", 3), ((3, 2, 3, 2), "ring", 2)]


class Built:
    """The same network, built whole: every link, and the graph of every broker from the links alone."""

    def __init__(self, network: PlannedNetwork) -> None:
        self.brokers = [network.broker(number) for number in range(network.brokers)]
        self.links = {frozenset((broker, other)) for broker in self.brokers for other in network.neighbours(broker)}
        self.near: defaultdict[Digits, set[Digits]] = defaultdict(set)
        for one, other in map(tuple, self.links):
            self.near[one].add(other)
            self.near[other].add(one)
        self.graphs = {broker: self._graph(broker) for broker in self.brokers}

    def _graph(self, broker: Digits) -> ConnectivityGraph:
        graph = ConnectivityGraph(Context(name(broker)))
        outward: defaultdict[str, set[str]] = defaultdict(set)
        for ends in self.links:
            for one, other in (tuple(ends), tuple(ends)[::-1]):
                depth = next(place for place in range(len(one)) if one[place] != other[place])
                for length in range(depth + 1, len(one) + 1):  # every unit that the link leads out of
                    outward[str(name(one[:length]))].add(str(name(other[: depth + 1])))
        units = {str(name(each[:length])) for each in self.brokers for length in range(1, len(each) + 1)}
        for unit in sorted(units):
            if graph.context.level(unit) is not None:
                gateways = tuple(Gateway(other, 1, 1000) for other in sorted(outward[unit]))
                graph.take(Presence(unit=unit, version=1, speaker=unit, number=0, address="", gateways=gateways))
        return graph

    def length(self, one: Digits, other: Digits) -> int:
        length = 0
        while one != other:
            context = self.graphs[one].context
            first = self.graphs[one].cache.hop(context.view(name(other))[1])
            one = min(each for each in self.near[one] if context.view(name(each))[1] == first)
            length += 1
        return length


def name(digits: Digits) -> ScopePath:
    return ScopePath(tuple(map(str, digits)))


@pytest.mark.req("GE-19")
@pytest.mark.parametrize(("members", "shape", "links"), NETWORKS)
def test_paths_are_those_of_the_network_built_whole(members: tuple[int, ...], shape: str, links: int) -> None:
    network = PlannedNetwork(members, shape, links, seed=7)  # type: ignore[arg-type]
    built = Built(network)
    assert len(built.links) == sum(network.links(level) for level in range(network.depth))
    for one in built.brokers:
        for other in built.brokers[:: max(1, len(built.brokers) // 20)]:
            assert network.path(one, other, 64) == built.length(one, other)
    exact = []
    for broker in built.brokers:
        pairs = list(combinations(sorted(built.near[broker]), 2))
        exact.append(sum(other in built.near[one] for one, other in pairs) / len(pairs) if pairs else 0.0)
    assert clustering(network, 10, Random(1)) == pytest.approx(sum(exact) / len(exact))


@pytest.mark.req("GE-19")
def test_a_sample_is_near_the_mean_of_all_pairs() -> None:
    request = PlanRequest(clients=1000 * 500, levels=3, shape="random", links_per_member=4, samples=150, seed=3)
    found = plan(request)
    assert found.brokers == 1000
    network = PlannedNetwork((10, 10, 10), "random", 4, seed=3)
    brokers = [network.broker(number) for number in range(1000)]
    dice = Random(9)
    pairs = [(dice.choice(brokers), dice.choice(brokers)) for _ in range(2000)]
    lengths = [network.path(one, other, 64) or 0 for one, other in pairs if one != other]
    mean = sum(lengths) / len(lengths)
    spread = math.sqrt(sum((length - mean) ** 2 for length in lengths) / len(lengths))
    assert abs(found.measured.path - mean) < 4 * spread / math.sqrt(150)


@pytest.mark.req("GE-19")
def test_a_network_for_a_billion_clients_is_planned() -> None:
    found = plan(PlanRequest(clients=10**9, samples=2))
    assert found.clients >= 10**9
    assert [level.members for level in found.levels] == [38, 38, 38, 37]
    assert found.graph_nodes == 38 * 3 + 37
    assert found.measured.path <= 15  # in a mesh of meshes each level at most doubles the way, and adds a link
    assert found.arrives
    assert found.random.path < found.measured.path < found.regular.path
    assert found.measured.clustering > 0.5


@pytest.mark.parametrize(
    ("brokers", "levels", "unit"), [(1, 1, 64), (64**4, 4, 64), (65, 2, 64), (1000, 3, 64), (7, 3, 2)]
)
def test_units_are_as_small_as_they_can_be(brokers: int, levels: int, unit: int) -> None:
    found = sizes(brokers, levels, unit)
    assert len(found) == levels
    assert math.prod(found) >= brokers
    assert max(found) <= unit
    assert all(math.prod(found) // size * (size - 1) < brokers for size in found)


@pytest.mark.parametrize("shape", ["mesh", "ring", "random"])
@pytest.mark.parametrize("members", [1, 2, 3, 10, 64])
def test_members_of_a_unit_reach_each_other(shape: str, members: int) -> None:
    graph = link(members, shape, 4, Random(1))  # type: ignore[arg-type]
    reached, queue = {0}, [0]
    while queue:
        for other in graph[queue.pop()]:
            if other not in reached:
                reached.add(other)
                queue.append(other)
    assert len(reached) == members
    assert all(one in graph[other] for one, linked in enumerate(graph) for other in linked)


def test_the_formulas_of_the_paper() -> None:
    assert regular(1000, 10).path == pytest.approx(50)
    assert regular(10**6, 10**4).clustering == pytest.approx(0.75, abs=1e-3)
    assert scattered(1000, 10).path == pytest.approx(3)
    assert scattered(1000, 10).clustering == pytest.approx(0.01)
    assert regular(1, 0) == scattered(1, 0)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (PlanRequest(clients=10**9, levels=3), "take 4 levels"),
        (PlanRequest(clients=10**18, levels=4), "more clients per broker"),
        (PlanRequest(clients=10, levels=9), "expected 1 to 8"),
        (PlanRequest(clients=10, unit=65), "expected 2 to 64"),
        (PlanRequest(clients=0), "at least 1"),
        (PlanRequest(clients=10**6, shape="ring", links_per_member=1), "hold a unit together"),
    ],
)
def test_networks_that_cannot_be_planned_are_refused(asked: PlanRequest, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        plan(asked)
