"""Whether brokers know how long the paths of their units are, and have made those short that they were told to.

path-length   a broker keeps another average than the links that there are make, or one that is too long although two
              members with few links are not linked
links         a member got more links than shortcuts may make, or somebody still dials one that has left for good
"""

from collections.abc import Iterator, Mapping

from stentor.nodes.network.shortcuts import MOST_LINKS
from stentor.simulation.checkers.network_oracle import NetworkOracle
from stentor.simulation.outcome import Anomaly

_AT_ONCE = 3  # links that several may make to one member before any of them knows of the others
_CLOSE = 1e-9


def check_paths(oracle: NetworkOracle, longest: float, wired: Mapping[str, int]) -> Iterator[Anomaly]:
    """Everything that is wrong with paths; `wired` says how many links of its own each unit would have."""
    for name, broker in oracle.brokers.items():
        graph, made = broker.network.gateways.graph, broker.network.shortcuts.made
        asked = [member.unit for member in made.values()]
        gone = [unit for unit in asked if (known := graph.find(unit)) is None or known.left]
        if gone:
            yield Anomaly("links", f"{name} dials {gone}, which left for good")
        for level, scope in enumerate(broker.network.context.scopes):
            if not oracle.is_whole(name, scope):
                continue
            links = _links(oracle, name, scope)
            average = _average(links)
            kept = graph.paths(level).average
            if abs(kept - average) > _CLOSE:
                yield Anomaly("path-length", f"{name} keeps {kept:.3f} for {scope!r}, and true is {average:.3f}")
            open_pairs = [
                (one, other)
                for one in links
                for other in links
                if one < other and other not in links[one] and max(len(links[one]), len(links[other])) < MOST_LINKS
            ]
            if longest and average > longest and open_pairs:
                yield Anomaly("path-length", f"{scope!r} has {average:.3f}, more than {longest}: {open_pairs[:3]}")
            for unit, near in links.items():
                if len(near) > max(MOST_LINKS + _AT_ONCE, wired.get(unit, 0)):
                    yield Anomaly("links", f"{unit} has {len(near)} links")


def _links(oracle: NetworkOracle, name: str, scope: str) -> dict[str, set[str]]:
    """The members of a scope, and to which others each is linked."""
    parts = oracle.parts(name, scope)
    unit_of = {broker: unit for unit, part in parts.items() for broker in part}
    return {
        unit: {unit_of[peer] for broker in part for peer in oracle.brokers[broker].links if peer in unit_of} - {unit}
        for unit, part in parts.items()
    }


def _average(links: Mapping[str, set[str]]) -> float:
    """Floyd and Warshall's way, which has nothing in common with how brokers count."""
    lengths = {(one, other): 1 if other in links[one] else len(links) for one in links for other in links}
    lengths.update({(one, one): 0 for one in links})
    for middle in links:
        for one in links:
            for other in links:
                lengths[one, other] = min(lengths[one, other], lengths[one, middle] + lengths[middle, other])
    pairs = len(links) * (len(links) - 1)
    return sum(lengths.values()) / pairs if pairs else 0.0
