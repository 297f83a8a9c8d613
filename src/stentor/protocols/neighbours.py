"""The brokers that have a link with this one, as all protocols between brokers see them."""

from collections.abc import Iterator
from typing import Protocol

from stentor.model.messages import Message


class MessagePort(Protocol):
    """Whatever takes messages for one peer; they leave in the order in which they are posted."""

    def post(self, message: Message) -> None: ...


class NeighbourPort(MessagePort, Protocol):
    """The port of a broker, to which events go as well."""

    def post_behind(self, message: Message) -> None:
        """Take a message that leaves after all events that wait."""
        ...


class Neighbour:
    """The broker at the other end of a link."""

    __slots__ = ("cost", "hidden", "level", "name", "port", "suspected", "unit")

    def __init__(self, name: str, level: int, unit: str, cost: int, port: NeighbourPort) -> None:
        self.name = name
        self.level = level  # the highest at which it differs from us: it shares our scopes from there on
        self.unit = unit  # what we see of it
        self.cost = cost  # in thousandths
        self.port = port
        self.suspected = False  # It has been silent for too long: nothing is routed over its link.
        self.hidden = False  # Its link was lost and is there again: nothing is routed over it before a plan brings it.

    @property
    def is_used(self) -> bool:
        """Whether events go over its link."""
        return not (self.suspected or self.hidden)


class Neighbours(dict[str, Neighbour]):
    """Neighbours by name, in the order in which they came."""

    def sharing(self, level: int) -> Iterator[Neighbour]:
        """Return the neighbours in the scope that holds the units of a level."""
        return (neighbour for neighbour in self.values() if neighbour.level <= level)

    def say(self, name: str, message: Message) -> None:
        """Send a message to a neighbour."""
        self[name].port.post(message)

    def say_behind(self, name: str, message: Message) -> None:
        """Send a message to a neighbour, after all events that wait for it."""
        self[name].port.post_behind(message)
