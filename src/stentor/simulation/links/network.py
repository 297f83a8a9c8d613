"""The simulated network: who can reach whom, dialling, and what ends links on purpose or by accident.

Addresses are names of hosts; `datagram:NAME` asks for a link on which each Send is one datagram (see `datagram`).
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol

from stentor.machine import SECOND, Input
from stentor.model.ids import LinkId
from stentor.simulation.faults import Faults
from stentor.simulation.links.datagram import DatagramEnd
from stentor.simulation.links.pipe import Pipe, PipeFaults
from stentor.simulation.links.stream import StreamEnd, StreamLink
from stentor.simulation.schedule import Schedule

DIAL_TIMEOUT = 3 * SECOND
DATAGRAM = "datagram:"


class Endpoint(Protocol):
    """One end of a link, as its host holds it."""

    def send(self, data: bytes) -> None: ...

    def close(self) -> None:
        """The machine ended it."""
        ...

    def abandon(self, silent: bool) -> None:
        """The host died; `silent` if not even its kernel could tell the peer."""
        ...


class NetworkHost(Protocol):
    """A host, as the network sees it."""

    name: str
    links: dict[LinkId, Endpoint]
    serving: bool  # it accepts links

    @property
    def up(self) -> bool: ...

    def handle(self, happened: Input) -> None: ...

    def soon(self, action: Callable[[], None]) -> None: ...

    def new_link(self) -> LinkId:
        """An id for a link that somebody else dialled."""
        ...


class SimNetwork:
    """All hosts and the links between them; every random choice comes from one stream of numbers."""

    def __init__(self, schedule: Schedule, random: Random, faults: Faults) -> None:
        self.schedule = schedule
        self.random = random
        self.faults = faults
        self.sky = PipeFaults(random, faults.weather)
        self.hosts: dict[str, NetworkHost] = {}
        self.links: list[StreamLink] = []  # those that at least one side believes in
        self._blocked: Counter[tuple[str, str]] = Counter()
        self.most_in_flight = 0

    def dial(self, host: NetworkHost, link: LinkId, address: str) -> Endpoint:
        """Begin to open a link; LinkOpened or LinkLost follows."""
        if address.startswith(DATAGRAM):
            return DatagramEnd.dialled(self, host, link, address.removeprefix(DATAGRAM))
        end = StreamEnd(self, host, link)
        self.schedule.after(self.sky.delay(), lambda: self._knock(end, address))
        return end

    def blocked(self, sender: str, receiver: str) -> bool:
        return self._blocked[sender, receiver] > 0

    def block(self, sender: str, receiver: str) -> None:
        """From now on nothing gets from one host to the other; blocks add up."""
        self._blocked[sender, receiver] += 1
        for pipe in self._pipes(sender, receiver):
            pipe.stall()

    def unblock(self, sender: str, receiver: str) -> None:
        self._blocked[sender, receiver] -= 1
        if not self.blocked(sender, receiver):
            for pipe in self._pipes(sender, receiver):
                pipe.resume()

    def between(self, one: str, other: str) -> list[StreamLink]:
        return [link for link in self.links if {end.host.name for end in link.ends} == {one, other}]

    def sever(self, link: StreamLink, reason: str) -> None:
        """What is under way is lost; one side may learn late, or never, that the link is gone."""
        deaf = self.random.randrange(2) if self.sky.chance(self.faults.half_open) else None
        link.sever()
        for side, end in enumerate(link.ends):
            if side == deaf:
                self.notify_late(end, reason)
            else:
                self.notify_soon(end, reason)

    def notify_soon(self, end: StreamEnd, reason: str) -> None:
        self.schedule.after(self.sky.delay(), lambda: end.lose(reason))

    def notify_late(self, end: StreamEnd, reason: str) -> None:
        """At some time, or never: then only the machine's own heartbeat can tell."""
        self.sky.seen["half-open"] += 1
        if self.random.random() < 0.5:
            self.schedule.after(self.random.randrange(self.faults.latest_notice), lambda: end.lose(reason))

    def forget(self, link: StreamLink) -> None:
        if link in self.links:
            self.links.remove(link)

    def _knock(self, end: StreamEnd, address: str) -> None:
        """A request for a link arrives at the other side, if it can."""
        if end.closed:
            return
        target = self.hosts.get(address)
        near = end.host.name
        if target is None or self.blocked(near, address) or self.blocked(address, near):
            self.schedule.after(DIAL_TIMEOUT, lambda: end.lose("timed out"))
        elif not target.serving:
            self.schedule.after(self.sky.delay(), lambda: end.lose("connection refused"))
        else:
            link = StreamLink(self, end, StreamEnd(self, target, target.new_link()))
            self.links.append(link)
            link.open()

    def _pipes(self, sender: str, receiver: str) -> list[Pipe]:
        return [
            end.out
            for link in self.links
            for end, other in (link.ends, link.ends[::-1])
            if end.host.name == sender and other.host.name == receiver and end.out is not None
        ]
