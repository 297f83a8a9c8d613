"""Redirection: a broker points newcomers to a neighbour that has less to do, and asks clients to move when told so.

A client that is asked goes by itself, and only if the other broker takes it (see `arrival`); until then it is served
here as before. Nobody is asked twice to go to the same place, and nobody who was told to come here is sent on.
"""

from collections.abc import Callable, Collection

from stentor.machine import Effect, Report
from stentor.model.messages import Hello, Message, Redirect
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.network import BrokerNetwork
from stentor.policies.host_choice import Load, find_host
from stentor.protocols.connection.outbox import Outbox


class Redirection:
    """Who of a broker's guests is asked to go elsewhere."""

    def __init__(
        self,
        guests: Collection[LinkSession],
        network: BrokerNetwork,
        post: Callable[[Outbox, Message], None],
        act: Callable[[Effect], None],
    ) -> None:
        """`guests` are in the order in which they came."""
        self._sessions, self._network, self._post, self._act = guests, network, post, act
        network.count_clients = self.count_clients

    def count_clients(self) -> int:
        """Return how many clients there are, with those who have not said hello yet: nobody is looked at one by one."""
        return len(self._sessions) - len(self._network.peers)

    def point(self, newcomer: LinkSession, hello: Hello) -> None:
        """Name a near, little loaded broker to somebody who has just come, if this one has enough to do."""
        newcomer.can_move = hello.can_move
        limit = self._network.clients_per_broker
        if not limit or not hello.can_move or hello.is_placed:
            return
        near = [
            Load(name, peer.clients)
            for name, peer in self._network.peers.items()
            if peer.hop.level == 0 and peer.address and not self._network.gateways.neighbours[name].suspected
        ]
        host = find_host(limit, self.count_clients(), near)
        if host is not None:
            peer = self._network.peers[host]
            peer.clients += 1  # until it says itself how many there are
            self._ask(newcomer, peer.address)

    def send_away(self, count: int, address: str) -> int:
        """Ask the newest clients, at most so many, to go to another broker; return how many were asked."""
        chosen = [session for session in self._sessions if session.can_move and session.redirected_to != address][
            -count:
        ]
        for session in reversed(chosen):
            self._ask(session, address)
        return len(chosen)

    def _ask(self, session: LinkSession, address: str) -> None:
        session.redirected_to = address
        self._post(session.connection.outbox, Redirect(address))
        self._act(Report("debug", "client redirected", {"client": session.connection.name, "to": address}))
