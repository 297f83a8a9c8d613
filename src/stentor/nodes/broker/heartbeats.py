"""Heartbeats: a broker tells its peers now and then that it is there, and gives up those who are silent."""

from stentor.machine import SECOND, StartTimer, Step, StopTimer, Timer
from stentor.model.errors import Refusal
from stentor.model.limits import Limits
from stentor.nodes.broker.link_audit import LinkAudit
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.nodes.broker.subscription_lease import SubscriptionLease
from stentor.nodes.network.network import BrokerNetwork

_TICKS_ASLEEP = 3  # after so many ticks without one it was us who slept, not the peers who were silent


class BrokerTick(Timer, frozen=True, gc=False, tag="broker tick"):
    """It is time for heartbeats."""


class Heartbeats:
    """The ticks of one broker, two in a heartbeat."""

    def __init__(
        self,
        limits: Limits,
        sessions: LinkSessions,
        network: BrokerNetwork,
        lease: SubscriptionLease,
        links: LinkAudit,
        step: Step,
    ) -> None:
        self._sessions = sessions
        self._network = network
        self._lease = lease
        self._links = links
        self._step = step
        self._tick_ns = int(limits.heartbeat * SECOND) // 2
        self._ticked_at = 0

    def wake(self) -> None:
        """The node has started, and has not slept so far."""
        self._ticked_at = self._step.now

    def start(self) -> None:
        self._step.emit(StartTimer(BrokerTick(), self._step.now + self._tick_ns))

    def stop(self) -> None:
        self._step.emit(StopTimer(BrokerTick()))

    def tick(self) -> None:
        now = self._step.now
        has_slept = now - self._ticked_at > _TICKS_ASLEEP * self._tick_ns
        self._ticked_at = now
        self._links.run(has_slept=has_slept)
        self._beat(has_slept=has_slept)
        self._network.beat(self._sessions.clients)
        self._lease.audit()
        self.start()

    def _beat(self, *, has_slept: bool) -> None:
        """Give up those who are silent. If we have slept nobody is to blame, nor is anybody who waits for us."""
        now, is_withholding = self._step.now, self._network.relay.held.is_half_full
        for session in list(self._sessions):
            connection = session.connection
            if has_slept or session.rest is not None:
                connection.heard = now
            if not connection.greeted:
                continue
            if connection.silent(now):
                self._sessions.refuse(session, Refusal.SILENT, "nothing was heard from you for three heartbeats")
            else:
                connection.beat(now)
                if not is_withholding:
                    connection.grant_more()
