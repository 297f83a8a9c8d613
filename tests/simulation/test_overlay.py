"""The mesh and the atlas by hand: what a network of brokers says when somebody comes, goes or fails."""

from random import Random

import pytest

from stentor.model.scope import ScopePath
from stentor.protocols.overlay.gateways import PATIENCE
from stentor.simulation.atlas import Atlas
from stentor.simulation.mesh import HEARTBEAT, Mesh
from stentor.simulation.outcome import Anomaly
from stentor.simulation.trace import Trace
from stentor.simulation.workload import Interest, covers

EVERYTHING = 10_000_000


def wish(pattern: str) -> Interest:
    return Interest(pattern, "", lambda topic, _: covers(pattern, topic))


def mesh_of(names: list[str], links: list[tuple[str, str]]) -> Mesh:
    """Brokers that are numbered in the order of their names, and settled."""
    mesh = Mesh(Random(1), Trace(), [])
    mesh.echoes = False
    for name in names:
        add(mesh, name)
    for level in range(4):  # from the inside outwards, that less is said twice
        for near, far in links:
            if ScopePath.parse(near).level_of_difference(ScopePath.parse(far)) == level:
                mesh.connect(near, far, 0.0)
        mesh.deliver(EVERYTHING)
    return mesh


def add(mesh: Mesh, name: str) -> None:
    parts = name.split("/")
    numbers = tuple(int(part[1:]) for part in parts)
    mesh.start(mesh.add(name, numbers))


def beat(mesh: Mesh, times: int = 1) -> None:
    for _ in range(times):
        mesh.now += HEARTBEAT // 2
        for site in mesh.alive():
            for peer in site.network.peers.values():
                peer.session.connection.heard = mesh.now
            mesh.beat(site)
        mesh.deliver(EVERYTHING)


def wrong(mesh: Mesh) -> list[Anomaly]:
    return [*mesh.anomalies, *Atlas(mesh.spots()).check([("a", {}), ("b", {"n": 1})])]


def test_who_leaves_is_no_member_any_more() -> None:
    mesh = mesh_of(["u1/b1", "u1/b2", "u1/b3", "u2/b1"], [("u1/b1", "u1/b2"), ("u1/b2", "u1/b3"), ("u1/b2", "u2/b1")])
    mesh.leave(mesh.sites["u1/b2"])
    mesh.deliver(EVERYTHING)
    for name in ("u1/b1", "u1/b3"):
        presence = mesh.sites[name].network.gateways.graph.find("u1/b2")
        assert presence is not None
        assert presence.left
    beat(mesh, 2 * PATIENCE + 2)  # those whom we let speak for our unit may have been on the other side
    assert wrong(mesh) == []


def test_who_starts_anew_is_not_taken_for_who_it_was() -> None:
    mesh = mesh_of(["b1", "b2", "b3"], [("b1", "b2")])
    one = mesh.sites["b1"]
    mesh.act(one, "wants", lambda: one.want(wish("a")))
    mesh.deliver(EVERYTHING)
    mesh.crash(one)
    mesh.notice(10)
    mesh.start(one)
    mesh.act(one, "wants", lambda: one.want(wish("b")))
    mesh.connect("b1", "b3", 0.0)
    mesh.connect("b3", "b2", 0.0)
    mesh.deliver(EVERYTHING)
    assert wrong(mesh) == []


def thousand(levels: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Brokers in units of ten, or of five or six, each unit in a ring with one link to the next."""
    width = {3: (10, 10, 10), 4: (6, 6, 6, 5)}[levels]
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


@pytest.mark.parametrize("levels", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_a_newcomer_in_a_large_network_is_news_to_its_unit_alone(levels: int) -> None:
    mesh = mesh_of(*thousand(levels))
    unit = "/".join(["m0"] * (levels - 1))
    mates = [name for name in mesh.sites if name.startswith(unit + "/")]
    mesh.heard.clear()
    newcomer = f"{unit}/m20"
    add(mesh, newcomer)
    mesh.connect(newcomer, f"{unit}/m1", 0.0)
    mesh.deliver(EVERYTHING)
    assert {name for name in mesh.heard if mesh.heard[name]} <= {newcomer, *mates}
    assert sum(mesh.heard[name] for name in mates) <= 8 * len(mates)
    known = sum(map(len, mesh.sites[newcomer].network.gateways.graph.members))
    assert mesh.heard[newcomer] <= 4 * known  # everything that it has to know, said by one neighbour
    for name in mates:
        assert mesh.sites[name].network.neighbour_towards(newcomer)


def test_a_unit_that_was_dismissed_by_mistake_says_at_once_that_it_is_there() -> None:
    mesh = mesh_of(["u1/b1", "u2/b1"], [("u1/b1", "u2/b1")])
    one, other = mesh.sites["u1/b1"], mesh.sites["u2/b1"]
    mesh.crash(other)
    mesh.notice(2)
    mesh.act(one, "dismisses", lambda: one.network.gateways.dismiss("u2"))
    mesh.start(other)
    mesh.connect("u1/b1", "u2/b1", 0.0)
    mesh.deliver(EVERYTHING)
    assert one.network.neighbour_towards("u2") == "u2/b1"
    assert wrong(mesh) == []
