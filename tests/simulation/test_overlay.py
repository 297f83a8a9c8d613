"""The mesh and the atlas by hand: what a network of brokers says when somebody comes, goes or fails."""

from random import Random

import pytest

from stentor.model.scope import ScopePath
from stentor.protocols.overlay.gateways import PATIENCE
from stentor.simulation.checkers.network_oracle import NetworkOracle
from stentor.simulation.clients.workload import Interest, covers
from stentor.simulation.outcome import Anomaly
from stentor.simulation.overlay.overlay_world import HEARTBEAT, OverlayWorld
from stentor.simulation.replay_trace import ReplayTrace

EVERYTHING = 10_000_000


def wish(pattern: str) -> Interest:
    return Interest(pattern, "", lambda topic, _: covers(pattern, topic))


def mesh_of(names: list[str], links: list[tuple[str, str]]) -> OverlayWorld:
    """Brokers that are numbered in the order of their names, and settled."""
    world = OverlayWorld(Random(1), ReplayTrace(), [])
    world.echoes = False
    for name in names:
        add(world, name)
    for level in range(4):  # from the inside outwards, that less is said twice
        for near, far in links:
            if ScopePath.parse(near).level_of_difference(ScopePath.parse(far)) == level:
                world.connect(near, far, 0.0)
        world.deliver(EVERYTHING)
    return world


def add(mesh: OverlayWorld, name: str) -> None:
    parts = name.split("/")
    numbers = tuple(int(part[1:]) for part in parts)
    mesh.start(mesh.add(name, numbers))


def beat(mesh: OverlayWorld, times: int = 1) -> None:
    for _ in range(times):
        mesh.now += HEARTBEAT // 2
        for broker in mesh.alive():
            for peer in broker.network.peers.values():
                peer.session.connection.heard = mesh.now
            mesh.beat(broker)
        mesh.deliver(EVERYTHING)


def wrong(mesh: OverlayWorld) -> list[Anomaly]:
    return [*mesh.anomalies, *NetworkOracle(mesh.spots()).check([("a", {}), ("b", {"n": 1})])]


def test_who_leaves_is_no_member_any_more() -> None:
    world = mesh_of(["u1/b1", "u1/b2", "u1/b3", "u2/b1"], [("u1/b1", "u1/b2"), ("u1/b2", "u1/b3"), ("u1/b2", "u2/b1")])
    world.leave(world.brokers["u1/b2"])
    world.deliver(EVERYTHING)
    for name in ("u1/b1", "u1/b3"):
        presence = world.brokers[name].network.gateways.graph.find("u1/b2")
        assert presence is not None
        assert presence.left
    beat(world, 2 * PATIENCE + 2)  # those whom we let speak for our unit may have been on the other side
    assert wrong(world) == []


def test_who_starts_anew_is_not_taken_for_who_it_was() -> None:
    world = mesh_of(["b1", "b2", "b3"], [("b1", "b2")])
    one = world.brokers["b1"]
    world.act(one, "wants", lambda: one.want(wish("a")))
    world.deliver(EVERYTHING)
    world.crash(one)
    world.notice(10)
    world.start(one)
    world.act(one, "wants", lambda: one.want(wish("b")))
    world.connect("b1", "b3", 0.0)
    world.connect("b3", "b2", 0.0)
    world.deliver(EVERYTHING)
    assert wrong(world) == []


def rings(*width: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Brokers in units of so many members on each level, each unit in a ring with one link to the next."""
    names = [""]
    for each in width:
        names = [f"{name}/m{place}".lstrip("/") for name in names for place in range(each)]
    links = []
    for name in names:
        parts = name.split("/")
        for place, part in enumerate(parts):
            if all(below == "m0" for below in parts[place + 1 :]):
                beside = f"m{(int(part[1:]) + 1) % width[place]}"
                links.append((name, "/".join([*parts[:place], beside, *parts[place + 1 :]])))
    return names, links


@pytest.mark.parametrize(
    "width",
    [
        (6, 6, 5),
        pytest.param((10, 10, 10), marks=pytest.mark.slow),
        pytest.param((6, 6, 6, 5), marks=pytest.mark.slow),
    ],
)
def test_a_newcomer_in_a_large_network_is_news_to_its_unit_alone(width: tuple[int, ...]) -> None:
    levels = len(width)
    world = mesh_of(*rings(*width))
    unit = "/".join(["m0"] * (levels - 1))
    mates = [name for name in world.brokers if name.startswith(unit + "/")]
    world.heard.clear()
    newcomer = f"{unit}/m20"
    add(world, newcomer)
    world.connect(newcomer, f"{unit}/m1", 0.0)
    world.deliver(EVERYTHING)
    assert {name for name in world.heard if world.heard[name]} <= {newcomer, *mates}
    assert sum(world.heard[name] for name in mates) <= 8 * len(mates)
    known = sum(map(len, world.brokers[newcomer].network.gateways.graph.members))
    assert world.heard[newcomer] <= 4 * known  # everything that it has to know, said by one neighbour
    for name in mates:
        assert world.brokers[name].network.routes.way_towards(newcomer)[0]


def test_a_unit_that_was_dismissed_by_mistake_says_at_once_that_it_is_there() -> None:
    world = mesh_of(["u1/b1", "u2/b1"], [("u1/b1", "u2/b1")])
    one, other = world.brokers["u1/b1"], world.brokers["u2/b1"]
    world.crash(other)
    world.notice(2)
    world.act(one, "dismisses", lambda: one.network.gateways.dismiss("u2"))
    world.start(other)
    world.connect("u1/b1", "u2/b1", 0.0)
    world.deliver(EVERYTHING)
    assert one.network.routes.way_towards("u2")[0] == "u2/b1"
    assert wrong(world) == []
