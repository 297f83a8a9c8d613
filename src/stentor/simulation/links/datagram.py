"""Links on which each Send is one datagram: lost, repeated, overtaken, and silent when the other side is gone."""

from typing import TYPE_CHECKING

from stentor.machine import LinkOpened, Received
from stentor.model.ids import LinkId

if TYPE_CHECKING:
    from stentor.simulation.links.network import NetworkHost, SimNetwork


class DatagramEnd:
    """One end of a datagram link. The far end begins with the first datagram to arrive, and again after a restart."""

    __slots__ = ("_accepted", "_address", "_network", "_peer", "closed", "host", "id")

    def __init__(self, network: "SimNetwork", host: "NetworkHost", link: LinkId, address: str) -> None:
        self._network = network
        self.host = host
        self.id = link
        self._address = address
        self._peer: DatagramEnd | None = None
        self._accepted = False
        self.closed = False

    @classmethod
    def dialled(cls, network: "SimNetwork", host: "NetworkHost", link: LinkId, address: str) -> "DatagramEnd":
        """There is no handshake: the near side is open at once, whether anybody is there or not."""
        end = cls(network, host, link, address)
        network.schedule.after(0, end._open)
        return end

    def send(self, data: bytes) -> None:
        network, faults = self._network, self._network.sky
        if self.closed or network.blocked(self.host.name, self._address):
            return
        copies = 1
        if faults.chance(faults.faults.loss):
            faults.seen["datagram-lost"] += 1
            copies = 0
        elif faults.chance(faults.faults.duplication):
            faults.seen["datagram-repeated"] += 1
            copies = 2
        for _ in range(copies):
            network.schedule.after(faults.delay(), lambda: self._arrive(data))

    def close(self) -> None:
        self.closed = True
        self.host.links.pop(self.id, None)

    def abandon(self, silent: bool) -> None:  # noqa: ARG002
        self.close()

    def _open(self) -> None:
        if not self.closed:
            self.host.handle(LinkOpened(self.id, dialled=True, address=self._address))

    def _arrive(self, data: bytes) -> None:
        target = self._network.hosts.get(self._address)
        if target is None:
            return
        peer = self._peer
        if target.serving and (peer is None or (peer.closed and peer._accepted)):
            peer = self._introduce(target)
        if peer is not None and not peer.closed:
            target.handle(Received(peer.id, data))

    def _introduce(self, target: "NetworkHost") -> "DatagramEnd":
        peer = DatagramEnd(self._network, target, target.new_link(), self.host.name)
        peer._peer, peer._accepted = self, True
        self._peer = peer
        target.links[peer.id] = peer
        target.handle(LinkOpened(peer.id, address=self.host.name))
        return peer
