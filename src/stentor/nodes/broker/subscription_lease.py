"""The lease of subscriptions: what a broker has in force for a client is what the client's heartbeats stand for.

A heartbeat tells the digest of all subscriptions of its client. It follows them on the same link, so a broker that has
read it has read all of them, and the digests are equal. If they differ, the broker tells what it has in force, and the
client says what has to end and what has to begin. A subscription that was refused a moment ago makes them differ, too:
the client has read the refusal by the time it compares, and says nothing.
"""

from itertools import islice

from stentor.machine import Step
from stentor.model.ids import LinkId
from stentor.model.messages import SubscriptionInventory
from stentor.nodes.broker.link_session import LinkSession, LinkState
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.nodes.broker.local_client import LocalClient
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.routes import RouteTable
from stentor.protocols.dissemination.subscriptions import Subscriptions

_IN_A_MESSAGE = 10_000  # subscriptions: they fit into the smallest frame that a client may be told to take
_AT_ONCE = 4_000  # subscriptions that an audit looks at, twice a heartbeat: some ten milliseconds


class SubscriptionLease:
    """Holds the subscriptions of a broker's clients against what these say."""

    def __init__(
        self,
        subscriptions: Subscriptions[Outbox],
        table: RouteTable[Outbox],
        sessions: LinkSessions,
        own: LocalClient,
        step: Step,
    ) -> None:
        """`own` is the client inside the broker, which tells no digests: its list is in the same memory."""
        self._subscriptions = subscriptions
        self._table = table
        self._sessions = sessions
        self._own = own
        self._step = step
        self._due: list[LinkId] = []  # whose lists are still to be looked at in this audit

    def compare(self, session: LinkSession, told: int | None) -> None:
        """A heartbeat tells the digest of a client's subscriptions; those who tell none have no lease."""
        subscriptions, outbox = session.subscriptions, session.connection.outbox
        if told is None or told == subscriptions.digest or session.state is not LinkState.CLIENT:
            return
        self._subscriptions.audit(subscriptions, outbox)
        if told == subscriptions.digest:
            return
        self._step.report("info", "subscriptions differ", client=session.connection.name)
        rest = iter(subscriptions.digests.items())
        for left in range(max(len(subscriptions), 1), 0, -_IN_A_MESSAGE):
            outbox.post(SubscriptionInventory(dict(islice(rest, _IN_A_MESSAGE)), more=left > _IN_A_MESSAGE))

    def audit(self) -> None:
        """Look at the lists of some clients: what is wrong there shows at their next heartbeat. What is in force and on
        nobody's list ends, and some routes and indexes are worked out anew from what is left.
        """
        self._due = self._due or list(self._sessions.links)
        left = _AT_ONCE
        while self._due and left > 0:
            session = self._sessions.links.get(self._due.pop())
            if session is not None:
                self._subscriptions.audit(session.subscriptions, session.connection.outbox)
                left -= 1 + len(session.subscriptions)
        if not self._due:
            for subscription in self._own.subscriptions.values():
                self._table.repair(subscription)
            self._table.drop_strays()
        self._subscriptions.sweep([self._own.subscriptions, *(session.subscriptions for session in self._sessions)])
        self._table.renew([self._own.flows, *(session.flows for session in self._sessions)])
