"""Whether a colour means the same to everybody.

wrong-colour   a broker that a wave has reached and one that it has not reached yet route parcels of a colour by
               different topologies, or a relay routes a parcel by another colour than the parcel has
"""

from collections.abc import Iterator, Mapping
from itertools import product

from stentor.model.colours.colour import current_colour
from stentor.protocols.colours.scope_colours import ScopeColours
from stentor.simulation.outcome import Anomaly


def check_meanings(scope: str, brokers: Mapping[str, ScopeColours]) -> Iterator[Anomaly]:
    """Compare what brokers of a scope, by name, make of the colours that events have before and after a switch."""
    under_way = [(name, each.tree.round, each.announced) for name, each in brokers.items() if each.announced.is_open]
    for (name, before, plan), (other, after, same) in product(under_way, repeat=2):
        if after != before + 1 or same.number != plan.number:
            continue
        for colour in (current_colour(before), current_colour(after)):
            sides = plan.side(colour, before), same.side(colour, after)
            if sides[0] is not sides[1]:
                yield Anomaly(
                    "wrong-colour", f"{scope!r}: colour {colour} is {sides[0]} to {name}, {sides[1]} to {other}"
                )
