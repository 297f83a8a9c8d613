"""Damaged links: what a broker remembers of its links, and the registers of them, are scrambled on purpose."""

from collections.abc import MutableMapping
from typing import Any

from stentor.model.ids import LinkId
from stentor.nodes.broker.deferred_work import DeferredWork
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.nodes.damage.draw import Draw
from stentor.nodes.network.network import BrokerNetwork
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.name_registry import NameRegistry

_FAR_NS = 1 << 62  # nanoseconds: nobody lives to see it


class DamagedLinks:
    """The links of one broker."""

    def __init__(
        self, sessions: LinkSessions, names: NameRegistry, network: BrokerNetwork, deferred: DeferredWork, draw: Draw
    ) -> None:
        self._sessions = sessions
        self._names = names
        self._network = network
        self._deferred = deferred
        self._draw = draw

    def scramble(self) -> None:
        for session in self._sessions:
            if self._draw.random() < 0.2:
                self._damage_identity(session.connection)
        for register in (self._sessions.links, self._names._holders, self._network.peers, self._network._neighbours):
            self._mix(register)
        self._damage_outgoing()
        self._damage_neighbours()
        self._deferred._is_scheduled = self._draw.random() < 0.5
        self._mix(self._deferred.waiting)

    def _damage_identity(self, connection: Connection) -> None:
        draw = self._draw
        match draw.randrange(5):
            case 0:
                connection.name = draw.choice(("", "nobody", *(each.connection.name for each in self._sessions)))
            case 1:
                connection.principal = "somebody else"
            case 2:
                connection.attempt = draw.randrange(1 << 40)
            case 3:
                connection.publisher = type(connection.publisher)(draw.randrange(1 << 64))
            case _:
                connection.window = draw.choice((0, -1, 1 << 40))

    def _mix(self, register: MutableMapping[Any, Any]) -> None:
        """Lose what is kept under some keys, and keep under others what is not theirs."""
        draw = self._draw
        for key in list(register):
            match draw.randrange(10):
                case 0:
                    del register[key]
                case 1:
                    register[key] = draw.choice(list(register.values()))

    def _damage_outgoing(self) -> None:
        draw, outgoing = self._draw, self._network.outgoing
        for each in outgoing.links.values():
            each.link = draw.choice((each.link, each.link, None, LinkId(-(1 + draw.randrange(1 << 30)))))
            each.pause_ns = draw.choice((each.pause_ns, 0, -_FAR_NS, _FAR_NS))
            each.due_at = draw.choice((each.due_at, 0, -_FAR_NS, _FAR_NS))
        self._mix(outgoing.links)
        outgoing.last_number = draw.choice((outgoing.last_number, 0, -5, 1 << 80))

    def _damage_neighbours(self) -> None:
        draw, network = self._draw, self._network
        for neighbour in network._neighbours.values():
            neighbour.cost = draw.choice((neighbour.cost, neighbour.cost, 1, 0, 1 << 60))
        for peer in network.peers.values():
            peer.cost.base = draw.choice((peer.cost.base, peer.cost.base, peer.cost.base, 1, 1 << 60))
        network.gateways._leaving = draw.random() < 0.3
        network.gateways._deferred.update({unit: _FAR_NS for unit in network.context.units if draw.random() < 0.3})
