"""What all parts of a scope's colours at one broker share: which scope it is, and whom and how the broker reaches."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from stentor.machine import Step
from stentor.model.message import Message
from stentor.protocols.neighbours import Neighbour, Neighbours


class ScopeSurroundings(NamedTuple):
    """One scope as one broker meets it."""

    scope: str  # "" is the network
    level: int  # of the scope's members
    address: str  # where this broker listens
    neighbours: Neighbours  # of the broker, also those that are in other scopes
    is_going: Callable[[str], bool]  # whether a plan is about to take the link to a neighbour away
    dial: Callable[[str], None]  # opens a link to an address
    step: Step

    def say(self, name: str, message: Message) -> None:
        self.neighbours.say(name, message)

    def inside(self) -> Iterator[Neighbour]:
        """Return the neighbours that are in the scope."""
        return self.neighbours.sharing(self.level)

    def knows(self, name: str) -> bool:
        """Return whether a neighbour of this name is in the scope."""
        return name in self.neighbours and self.neighbours[name].level <= self.level
