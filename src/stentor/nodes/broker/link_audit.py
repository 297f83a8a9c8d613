"""The audit of links: what a broker remembers of them is held against what was true when each was greeted, and every
register of links against the links themselves. A link of which something wrong is remembered ends, and the next one
begins with what is right; a register is made anew.
"""

from stentor.machine import Step
from stentor.model.errors import Refusal
from stentor.model.ids import LinkId
from stentor.nodes.broker.deferred_work import DeferredWork
from stentor.nodes.broker.link_session import LinkSession, LinkState
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.nodes.network.network import BrokerNetwork
from stentor.protocols.connection.name_registry import NameRegistry

_AT_ONCE = 1_000  # links of which everything is looked at in one step: some milliseconds


class LinkAudit:
    """Looks at the registers of links of one broker twice a heartbeat, and at the links in turns."""

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
        self._due: list[LinkId] = []  # links that are still to be looked at in this turn

    def run(self, *, has_slept: bool) -> None:
        repaired = self._sessions.drop_misfiled() + self._look_at_some()
        repaired += self._network.drop_ghosts(self._sessions.links)
        repaired += self._network.outgoing.audit(self._sessions, has_slept=has_slept)
        clients = sum(session.state is LinkState.CLIENT for session in self._sessions)
        if len(self._names) != clients:
            repaired += self._renew_names()
        repaired += self._deferred.renew(session for session in self._sessions if session.rest is not None)
        if repaired:
            self._network.links_repaired += repaired
            self._step.report("warning", "links repaired", repairs=repaired)

    def _look_at_some(self) -> int:
        """Look at the links whose turn it is; return how often something was wrong."""
        links, repaired = self._sessions.links, 0
        if not self._due:
            self._due = list(links)
        are_named = True
        for link in self._due[-_AT_ONCE:]:
            session = links.get(link)
            if session is None:
                continue
            if not self._is_sound(session):
                repaired += 1
                self._sessions.refuse(session, Refusal.CORRUPT, "what this broker remembered of the link was damaged")
            elif session.state is LinkState.CLIENT:
                are_named = are_named and self._names.holds(session.connection)
        del self._due[-_AT_ONCE:]
        return repaired if are_named else repaired + self._renew_names()

    def _renew_names(self) -> bool:
        return self._names.renew(session.connection for session in self._sessions if session.state is LinkState.CLIENT)

    def _is_sound(self, session: LinkSession) -> bool:
        """Return whether everything that is remembered of a link agrees."""
        if session.state not in (LinkState.CLIENT, LinkState.NEIGHBOUR):
            return True
        has_flows = session.flows.number == session.connection.link
        return has_flows and session.connection.is_intact and (session.hop is None or self._network.knows(session))
