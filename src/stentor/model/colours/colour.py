"""A colour names one of the three topologies that a broker holds of every scope: old, current and new.

A scope's round is the only number that is kept: all three colours follow from it, so that no state of memory, however
damaged, can hold two of them that are the same.
"""

from typing import Annotated, Final, NewType

from msgspec import Meta

Colour = NewType("Colour", int)  # 0, 1 or 2

COLOURS: Final = 3  # what was sent in the last round may still be under way in this one, while the next is prepared
LAST_ROUND: Final = 2**32 - 1
Round = Annotated[int, Meta(ge=0, le=LAST_ROUND)]


def current_colour(round_number: int) -> Colour:
    """Return the colour of the topology by which events are sent."""
    return Colour(round_number % COLOURS)


def new_colour(round_number: int) -> Colour:
    """Return the colour of the topology that is prepared; it is current in the next round."""
    return Colour((round_number + 1) % COLOURS)


def old_colour(round_number: int) -> Colour:
    """Return the colour of the topology of the last round, by which events may still be under way."""
    return Colour((round_number + 2) % COLOURS)


def next_round(round_number: int) -> int:
    """Return the round after this one. Rounds are only ever compared for equality, so they may begin again; the first
    one after the last has the colour that follows.
    """
    following = round_number + 1
    return following if following <= LAST_ROUND else following % COLOURS
