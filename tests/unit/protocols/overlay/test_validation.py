"""A graph or a routing cache that is damaged on purpose: `validate` sees it."""

from collections.abc import Callable

import pytest

from stentor.model.context import Context
from stentor.model.messages import Gateway, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.protocols.overlay.shortest_paths import Edge


def graph() -> ConnectivityGraph:
    """What a/1 knows of a triangle."""
    made = ConnectivityGraph(Context(ScopePath.parse("a/1")))
    for number in (1, 2, 3):
        others = [f"a/{other}" for other in (1, 2, 3) if other != number]
        unit = f"a/{number}"
        made.take(
            Presence(
                unit=unit,
                version=1,
                speaker=unit,
                number=number,
                address="",
                gateways=tuple(Gateway(other, 1, 1000) for other in others),
            )
        )
    assert made.cache.hop("a/3") == "a/3"
    made.validate()
    return made


DAMAGES: dict[str, Callable[[ConnectivityGraph], object]] = {
    "is not of level": lambda here: here.members[1].update(here.members[0]),
    "says something else": lambda here: here._advertised.update({"a/2": {}}),
    "mentions differ": lambda here: here._advertised_by.clear(),
    "an edge that does not stand": lambda here: here.cache.remove_edge("a/2", "a/3"),
    "leads differ": lambda here: here._edges_from.clear(),
    "edges one way only": lambda here: here.cache._predecessors.clear(),
    "by an edge that is not there": lambda here: here.cache._labels.update({"a/2": here.cache._labels["a/1"]}),
    "a hop to a unit that is not reached": lambda here: here.cache._hops.update({"a/9": "a/2"}),
    "is nearer by": lambda here: (here.cache._labels.pop("a/3"), here.cache._hops.pop("a/3")),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_seen(what: str) -> None:
    here = graph()
    DAMAGES[what](here)
    with pytest.raises(AssertionError, match=what):
        here.validate()


def test_a_cache_that_is_not_repaired_yet_need_not_fit_its_edges() -> None:
    here = graph()
    here.cache.set_edge("a/1", "a/3", 0, 5000)
    here.cache.validate()
    assert here.cache._edges["a/1"]["a/3"] == Edge(0, 5000)
