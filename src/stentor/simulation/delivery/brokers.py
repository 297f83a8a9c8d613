"""What brokers know of the topic: repositories tell them who may do what, and they tell ends whom to believe.

They are one here. What takes time between brokers is a delay: an end may be told late that a repository is a member, or
is none any more.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from stentor.machine import MILLISECOND, Input
from stentor.model.trust.charter import Charter
from stentor.protocols.delivery.transport import AccessShared, ShareAccess, Vouched
from stentor.simulation.schedule import Schedule

_LATE = 0.1  # of what brokers say comes late


class Linked(Protocol):
    """A process with a link to a broker."""

    link: int  # grows with every new one; 0 is none

    @property
    def asks_for_members(self) -> bool: ...

    def handle(self, happened: Input) -> None: ...


class Brokers:
    """All brokers as one; what is random comes from `random`."""

    def __init__(self, schedule: Schedule, random: Random, topic: str) -> None:
        self._schedule = schedule
        self._random = random
        self._topic = topic
        self._charter = Charter()
        self._clients: list[Linked] = []

    @property
    def members(self) -> dict[str, str]:
        """The repositories of the topic, and their principals."""
        return dict(self._charter.members) if self._charter.is_live else {}

    @property
    def ended(self) -> int:
        """At which version a topic of this name was deleted; 0 if none was."""
        return self._charter.tombstone

    def greet(self, client: Linked) -> None:
        """Somebody has a new link, and asks whom to believe."""
        if client.asks_for_members:
            if client not in self._clients:
                self._clients.append(client)
            self._vouch(client)

    def share(self, repository: Linked, told: ShareAccess) -> None:
        """A repository tells what is registered; it is told when that is known everywhere."""
        if repository.link:
            self._later(repository, lambda: self._write(repository, told))

    def _write(self, repository: Linked, told: ShareAccess) -> None:
        before = self.members, self.ended
        self._charter.learn(told.facts)
        if (self.members, self.ended) != before:
            for client in self._clients:
                self._vouch(client)
        self._later(repository, lambda: repository.handle(AccessShared(told.topic, told.token)))

    def _vouch(self, client: Linked) -> None:
        """What is told late is still what is so by then."""
        self._later(client, lambda: client.handle(Vouched(self._topic, self.members, self.ended)))

    def _later(self, client: Linked, action: Callable[[], None]) -> None:
        """After a while, unless the link is gone by then."""
        link = client.link
        most = 400 if self._random.random() < _LATE else 4
        delay = self._random.randrange(most * MILLISECOND)
        self._schedule.after(delay, lambda: action() if client.link == link else None)
