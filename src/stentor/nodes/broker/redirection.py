"""Redirection: a broker points newcomers to a neighbour that has less to do, and asks clients to move when told so.

A client that is asked goes by itself, and only if the other broker takes it (see `arrival`); until then it is served
here as before. Nobody is asked twice to go to the same place, and nobody who was told to come here is sent on.
"""

from stentor.machine import Step
from stentor.model.messages import Hello, Redirect
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.nodes.network.network import BrokerNetwork
from stentor.policies.host_choice import Load, find_host


class Redirection:
    """Who of a broker's clients is asked to go elsewhere."""

    def __init__(self, sessions: LinkSessions, network: BrokerNetwork, step: Step) -> None:
        self._sessions = sessions
        self._network = network
        self._step = step

    def point(self, newcomer: LinkSession, hello: Hello) -> None:
        """Name a near, little loaded broker to somebody who has just come, if this one has enough to do."""
        newcomer.can_move = hello.can_move
        limit = self._network.settings.clients_per_broker
        if not limit or not hello.can_move or hello.is_placed:
            return
        near = [
            Load(name, peer.clients)
            for name, peer in self._network.peers.items()
            if peer.hop.level == 0 and peer.address and not self._network.gateways.neighbours[name].suspected
        ]
        host = find_host(limit, self._sessions.clients, near)
        if host is not None:
            peer = self._network.peers[host]
            peer.clients += 1  # until it says itself how many there are
            self._ask(newcomer, peer.address)

    def send_away(self, count: int, address: str) -> int:
        """Ask the newest clients, at most so many, to go to another broker; return how many were asked."""
        movable = [session for session in self._sessions if session.can_move and session.redirected_to != address]
        chosen = movable[-count:]
        for session in reversed(chosen):
            self._ask(session, address)
        return len(chosen)

    def _ask(self, session: LinkSession, address: str) -> None:
        session.redirected_to = address
        session.connection.outbox.post(Redirect(address))
        self._step.report("debug", "client redirected", client=session.connection.name, to=address)
