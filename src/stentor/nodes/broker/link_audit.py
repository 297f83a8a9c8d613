"""The audit of links: what a broker remembers of them is held against what was true when each was greeted, and every
register of links against the links themselves. A link of which something wrong is remembered ends, and the next one
begins with what is right; a register is made anew.
"""

from stentor.machine import Step
from stentor.model.errors import Refusal
from stentor.nodes.broker.deferred_work import DeferredWork
from stentor.nodes.broker.link_session import LinkSession, LinkState
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.nodes.network.network import BrokerNetwork
from stentor.protocols.connection.name_registry import NameRegistry


class LinkAudit:
    """Looks at all links of one broker, twice a heartbeat."""

    def __init__(
        self,
        sessions: LinkSessions,
        names: NameRegistry,
        network: BrokerNetwork,
        deferred: DeferredWork,
        step: Step,
    ) -> None:
        self._sessions = sessions
        self._names = names
        self._network = network
        self._deferred = deferred
        self._step = step
        self.repaired = 0  # how often something was wrong

    def run(self) -> None:
        repaired = self.repaired
        self.repaired += self._sessions.drop_misfiled()
        for session in list(self._sessions):
            if self._sessions.links.get(session.connection.link) is session and not self._is_sound(session):
                self.repaired += 1
                self._sessions.refuse(session, Refusal.CORRUPT, "what this broker remembered of the link was damaged")
        self.repaired += self._network.drop_ghosts(self._sessions.links)
        self.repaired += self._network.outgoing.audit(self._sessions.links)
        self.repaired += self._names.renew(
            session.connection for session in self._sessions if session.state is LinkState.CLIENT
        )
        self.repaired += self._deferred.renew(session for session in self._sessions if session.rest is not None)
        if self.repaired > repaired:
            self._step.report("warning", "links repaired", repairs=self.repaired - repaired)

    def _is_sound(self, session: LinkSession) -> bool:
        """Return whether everything that is remembered of a link agrees."""
        if session.state not in (LinkState.CLIENT, LinkState.NEIGHBOUR):
            return True
        has_flows = session.flows.number == session.connection.link
        return has_flows and session.connection.is_intact and (session.hop is None or self._network.knows(session))
