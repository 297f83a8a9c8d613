"""What sections 3.1 and 3.2.2 of the paper on the Grid Event Service say of its figures 2 and 3.

The pictures are not in the text, so the network is rebuilt from the words: SSC-A holds SC-1, SC-2 and SC-3; SC-1 holds
the clusters a, b and c; nodes 4, 5 and 6 are in c. Node 4 links c with b, node 5 SC-1 with SC-2, b is linked with
SC-3; a, SC-2 and SC-3 have links to other super-super-clusters; two links join SSC-B and SSC-D.
"""

from collections import Counter

import pytest
from tests.paper.brokers import Brokers

A = "SSC-A/SC-1"
NODE_4, NODE_5, NODE_6 = f"{A}/c/4", f"{A}/c/5", f"{A}/c/6"
IN_A, IN_B, ALSO_IN_B = f"{A}/a/1", f"{A}/b/7", f"{A}/b/8"
IN_SC2, IN_SC3 = "SSC-A/SC-2/d/10", "SSC-A/SC-3/g/13"
IN_SSC_B, ALSO_IN_SSC_B, IN_SSC_C = "SSC-B/SC-4/h/16", "SSC-B/SC-4/h/17", "SSC-C/SC-5/i/18"
IN_SSC_D, ALSO_IN_SSC_D = "SSC-D/SC-6/j/20", "SSC-D/SC-6/j/21"
NAMES = (
    NODE_4,
    NODE_5,
    NODE_6,
    IN_A,
    IN_B,
    ALSO_IN_B,
    IN_SC2,
    IN_SC3,
    IN_SSC_B,
    ALSO_IN_SSC_B,
    IN_SSC_C,
    IN_SSC_D,
    ALSO_IN_SSC_D,
)
LINKS = (
    (NODE_4, NODE_5),
    (NODE_4, NODE_6),
    (NODE_5, NODE_6),
    (NODE_4, IN_B),
    (IN_B, ALSO_IN_B),
    (IN_A, IN_B),
    (NODE_5, IN_SC2),
    (ALSO_IN_B, IN_SC3),
    (IN_SC2, IN_SC3),
    (IN_A, IN_SSC_C),
    (IN_SC3, IN_SSC_B),
    (IN_SC2, IN_SSC_D),
    (IN_SSC_B, ALSO_IN_SSC_B),
    (IN_SSC_D, ALSO_IN_SSC_D),
    (IN_SSC_B, IN_SSC_D),
    (ALSO_IN_SSC_B, ALSO_IN_SSC_D),
)
COSTS = {0: 1000, 1: 2000, 2: 3000, 3: 4000}


@pytest.fixture
def brokers() -> Brokers:
    return Brokers(NAMES, LINKS, COSTS)


def edges(brokers: Brokers, name: str) -> set[tuple[str, str]]:
    return {(near, far) for near, far, _, _ in brokers.gateways[name].graph.cache.edges()}


def gatekeepers(brokers: Brokers, name: str, level: int) -> list[str]:
    """ "The uplink from this node of the connectivity graph to any other node in the graph, indicates the presence of a
    level-ℓ gateway at the unit corresponding to the graph node."
    """
    graph = brokers.gateways[name].graph
    return [
        presence.unit
        for lower in range(level)
        for presence in graph.present(lower)
        if presence.unit not in graph.context.units[1:]
        and any(graph.context.level(gateway.unit) == level for gateway in presence.gateways)
    ]


def gateways(brokers: Brokers, name: str, unit: str) -> dict[str, int]:
    presence = brokers.gateways[name].graph.find(unit)
    assert presence is not None
    return dict(Counter(gateway.unit for gateway in presence.gateways))


@pytest.mark.req("GE-03")
def test_a_connection_is_abbreviated_where_it_leaves_a_unit(brokers: Brokers) -> None:
    """ "the connection between SC-2 and SC-1 in SSC-A, is disseminated as one between node 5 and SC-2. When this
    information is received at 4, it is sent over as a connection between the cluster c and SC-2. When the connection
    between cluster c and SC-2 is sent over the cluster gateway to cluster b, the information is not updated."
    """
    for inside in (NODE_4, NODE_6):
        assert (NODE_5, "SSC-A/SC-2") in edges(brokers, inside)
    for beyond in (IN_B, ALSO_IN_B, IN_A):
        assert (f"{A}/c", "SSC-A/SC-2") in edges(brokers, beyond)
        assert not any(NODE_5 in edge for edge in edges(brokers, beyond))
    assert (A, "SSC-A/SC-2") in edges(brokers, IN_SC3)


@pytest.mark.req("GE-03")
def test_a_connection_is_told_only_inside_the_smallest_unit_with_both_ends(brokers: Brokers) -> None:
    """ "the super cluster connection (SC-1,SC-2) information is disseminated only within the super-super-cluster SSC-A
    and is not sent over the super-super-cluster gateway available within the cluster a in SC-1 and cluster g in SC-3."
    "connections established between broker nodes in a cluster are not disseminated outside that cluster."
    """
    for outside in (IN_SSC_B, IN_SSC_C, IN_SSC_D):
        assert not any(unit.startswith("SSC-A/") for unit in brokers.heard[outside])
        assert gateways(brokers, outside, "SSC-A").keys() == {"SSC-B", "SSC-C", "SSC-D"}
    for outside in (IN_B, IN_A, IN_SC2):
        assert not any(unit.startswith(f"{A}/c/") for unit in brokers.heard[outside])


@pytest.mark.req("GE-03")
def test_the_connectivity_graph_at_node_6(brokers: Brokers) -> None:
    """ "The set L_UL at the node SC-3 comprises of node SC-2 at level-2 and node b at level-1. The set L_D at SC-3
    comprises of the node SSC-B at level-3. […] There are two connections between the super-super-cluster units SSC-B
    and SSC-D".
    """
    graph = brokers.gateways[NODE_6].graph
    to_sc3 = {near for near, far in edges(brokers, NODE_6) if far == "SSC-A/SC-3"}
    assert to_sc3 == {"SSC-A/SC-2", f"{A}/b"}
    assert {far for near, far in edges(brokers, NODE_6) if near == "SSC-A/SC-3" and far.count("/") == 0} == {"SSC-B"}
    assert gateways(brokers, NODE_6, "SSC-B")["SSC-D"] == 2
    assert gateways(brokers, NODE_6, "SSC-D")["SSC-B"] == 2
    units = {unit for level in graph.members for unit in level} - set(graph.context.units[1:])
    assert units == {NODE_4, NODE_5, NODE_6, f"{A}/a", f"{A}/b", "SSC-A/SC-2", "SSC-A/SC-3", "SSC-B", "SSC-C", "SSC-D"}


@pytest.mark.req("GE-02", "GE-04")
def test_the_cost_of_a_gateway_grows_with_its_level(brokers: Brokers) -> None:
    """ "The cost associated with traversal over a level-3 gateway between a level-2 unit b and a level-3 unit SC-3 as
    computed from the linkcost matrix is 3": the paper counts a link's levels from 1, so ours of level 2 costs 3.
    """
    costs = {(near, far): (level, cost) for near, far, level, cost in brokers.gateways[NODE_6].graph.cache.edges()}
    assert costs[f"{A}/b", "SSC-A/SC-3"] == (2, 3000)
    assert costs[NODE_6, NODE_4] == (0, 1000)
    assert costs[NODE_4, f"{A}/b"] == (1, 2000)


@pytest.mark.req("GE-04")
def test_the_best_hop_follows_valid_paths_only(brokers: Brokers) -> None:
    """ "the only links that come into the picture for computing the shortest path are those that are in the set L_UL":
    from node 6 to SC-3 over SC-2 are two links of level 2, over b is one.
    """
    cache = brokers.gateways[NODE_6].graph.cache
    assert cache.path("SSC-A/SC-3") == [NODE_4, f"{A}/b", "SSC-A/SC-3"]
    assert cache.hop("SSC-A/SC-2") == NODE_5
    assert cache.path("SSC-B") == [NODE_4, f"{A}/b", "SSC-A/SC-3", "SSC-B"]


@pytest.mark.req("GE-07")
def test_where_profile_changes_have_to_go(brokers: Brokers) -> None:
    """ "any δω⁰ changes at any of the nodes within cluster c, need to be routed to node 4. Any δω¹ changes at node 4
    need to be routed to node 5, and also to a node in cluster b. Similarly δω² changes at node 5 needs to be routed to
    the level-3 gatekeeper in cluster a and superclusters SC-3, SC-2."
    """
    for node in (NODE_4, NODE_5, NODE_6):
        assert gatekeepers(brokers, node, 1) == [NODE_4]
        assert gatekeepers(brokers, node, 2) == [NODE_5, f"{A}/b"]
        assert gatekeepers(brokers, node, 3) == [f"{A}/a", "SSC-A/SC-2", "SSC-A/SC-3"]


@pytest.mark.req("GE-07")
def test_where_profile_changes_go(brokers: Brokers) -> None:
    """A change of node 6's profile is heard in c only as node 6's; beyond it is c's, then SC-1's, then SSC-A's."""
    for heard in brokers.heard.values():
        heard.clear()
    brokers.subscribe(NODE_6, "t", "n > 1")
    assert all(brokers.heard[node][NODE_6] for node in (NODE_4, NODE_5))  # δω⁰
    assert all(brokers.heard[node][f"{A}/c"] for node in (IN_A, IN_B, ALSO_IN_B))  # δω¹
    assert all(brokers.heard[node][A] for node in (IN_SC2, IN_SC3))  # δω²
    assert all(brokers.heard[node]["SSC-A"] for node in (IN_SSC_B, IN_SSC_C, IN_SSC_D))
    for node in (IN_A, IN_B, IN_SC2, IN_SC3):
        assert not brokers.heard[node][NODE_6]
    for node in (IN_SC2, IN_SC3, IN_SSC_B):
        assert not brokers.heard[node][f"{A}/c"]


@pytest.mark.req("GE-07")
def test_what_is_covered_is_not_told_further_up(brokers: Brokers) -> None:
    brokers.subscribe(NODE_6, "t", "n > 1")
    for heard in brokers.heard.values():
        heard.clear()
    brokers.subscribe(NODE_5, "t", "n > 7")
    assert brokers.heard[NODE_4][NODE_5]
    assert not any(brokers.heard[node] for node in (IN_A, IN_B, IN_SC2, IN_SSC_B))


@pytest.mark.req("GE-05")
def test_a_loss_that_leaves_no_way_is_known_for_a_partition(brokers: Brokers) -> None:
    """The link count "plays an important role in determining if a connection loss would lead to partitions"."""
    assert not brokers.gateways[IN_SSC_B].is_bridge(IN_SSC_D)
    brokers.cut(IN_SSC_B, IN_SSC_D)
    assert gateways(brokers, NODE_6, "SSC-B")["SSC-D"] == 1
    assert brokers.gateways[NODE_6].parted == []
    assert brokers.gateways[IN_A].is_bridge(IN_SSC_C)
    brokers.cut(IN_A, IN_SSC_C)
    assert brokers.gateways[NODE_6].parted == ["SSC-C"]
    assert brokers.gateways[IN_SSC_C].parted == ["SSC-A", "SSC-B", "SSC-D"]
