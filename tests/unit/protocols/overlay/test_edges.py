"""The connectivity graph draws an edge when both ends speak of it, and only the edges that a word is about."""

import random

from stentor.model.context import Context
from stentor.model.messages import Gateway, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph

UNITS = [*(f"a/x/{number}" for number in range(5)), "a/x", "a/y", "a/z", "a", "b", "c"]


def said(dice: random.Random, unit: str, version: int) -> Presence:
    others = [other for other in dice.sample([*UNITS, "q/none"], dice.randrange(6)) if other != unit]
    gateways = tuple(Gateway(other, 1, dice.choice((1000, 2000))) for other in others)
    return Presence(
        unit=unit, version=version, speaker=unit, number=0, address="", gateways=gateways, left=dice.random() < 0.1
    )


def test_only_the_last_word_of_each_unit_counts_whatever_was_said_before() -> None:
    for seed in range(50):
        dice = random.Random(seed)
        graph = ConnectivityGraph(Context(ScopePath.parse("a/x/0")))
        last: dict[str, Presence] = {}
        for version in range(1, 61):
            presence = said(dice, dice.choice(UNITS), version)
            graph.take(presence)
            last[presence.unit] = presence
        fresh = ConnectivityGraph(graph.context)
        for unit in sorted(last, reverse=True):
            fresh.take(last[unit])
        assert list(graph.cache.edges()) == list(fresh.cache.edges())
        assert [graph.cache.path(unit) for unit in UNITS] == [fresh.cache.path(unit) for unit in UNITS]


def test_an_edge_needs_the_word_of_both_ends() -> None:
    graph = ConnectivityGraph(Context(ScopePath.parse("a/1")))
    graph.take(
        Presence(unit="a/1", version=1, speaker="a/1", number=0, address="", gateways=(Gateway("a/2", 1, 1000),))
    )
    assert not graph.reaches("a/2")
    graph.take(
        Presence(unit="a/2", version=1, speaker="a/2", number=1, address="", gateways=(Gateway("a/1", 1, 1000),))
    )
    assert graph.reaches("a/2")
    graph.take(Presence(unit="a/2", version=2, speaker="a/2", number=1, left=True))
    assert not graph.reaches("a/2")
