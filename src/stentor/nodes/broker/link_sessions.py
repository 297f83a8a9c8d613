"""The guests of a broker: everybody who has a link to it. Who goes, or is sent away, leaves nothing behind."""

from collections.abc import Callable, Iterator

from stentor.machine import (
    SECOND,
    CertificateEnded,
    Close,
    Effect,
    LinkOpened,
    Report,
    Send,
    StartTimer,
    StopTimer,
    Timer,
)
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId
from stentor.model.limits import Limits
from stentor.model.messages import Farewell, Message, Rejection
from stentor.model.trust.access import ANONYMOUS
from stentor.model.wording.count import counted
from stentor.nodes.broker.counters import BrokerCounters
from stentor.nodes.broker.credentials import Credentials
from stentor.nodes.broker.link_session import HelloTimeout, LinkSession
from stentor.nodes.broker.redirection import Redirection
from stentor.nodes.containment import FATAL, FaultReports
from stentor.nodes.greeting import Greeting
from stentor.nodes.network.network import BrokerNetwork
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.name_registry import NameRegistry
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.subscriptions import Subscriptions

QUIET = frozenset({Refusal.FENCED, Refusal.SILENT, Refusal.CLOSING, Refusal.BUSY})  # part of life, no warning


class BrokerTick(Timer, frozen=True, gc=False, tag="broker tick"):
    """It is time for heartbeats."""


class LinkSessions:
    """All links of one broker."""

    def __init__(
        self,
        limits: Limits,
        forwarder: Forwarder[Outbox],
        network: BrokerNetwork,
        subscriptions: Subscriptions[Outbox],
        counters: BrokerCounters,
        names: NameRegistry,
        act: Callable[[Effect], None],
    ) -> None:
        self._limits, self._forwarder, self._network = limits, forwarder, network
        self._subscriptions, self._counters, self._names, self._act = subscriptions, counters, names, act
        self.links: dict[LinkId, LinkSession] = {}
        self._faults = FaultReports()
        self.on_leave: Callable[[LinkId], None] = lambda _: None
        self.redirection = Redirection(self.links.values(), network, self.post, act)
        self.busy: dict[LinkId, None] = {}  # those who asked for more than a step can do

    def __len__(self) -> int:
        return len(self.links)

    def __iter__(self) -> Iterator[LinkSession]:
        return iter(self.links.values())

    def __contains__(self, link: LinkId) -> bool:
        return link in self.links

    def __getitem__(self, link: LinkId) -> LinkSession:
        return self.links[link]

    def admit(self, now: int, happened: LinkOpened, ready: bool) -> None:
        """Somebody is at a new link; they have to say who they are before long."""
        limits = self._limits
        connection = Connection(happened.link, now, limits.window, limits.queue, limits.heartbeat)
        connection.principal = happened.principal or ANONYMOUS
        connection.address = happened.address
        session = self.links[happened.link] = LinkSession(connection, Credentials(happened), dialled=happened.dialled)
        self._forwarder.unflushed[connection.outbox] = None
        hello = self._network.hello(happened.link) if happened.dialled else None
        if hello is not None:
            session.greeting = Greeting(happened, hello)
            self.post(connection.outbox, session.greeting.first_word())
        if not ready:
            self.refuse(now, session, Refusal.BUSY, "this node is still starting: try again")
        elif len(self.links) > limits.links:
            self.refuse(
                now, session, Refusal.TOO_MANY, f"this node takes {counted(limits.links, 'link')}: use another one"
            )
        else:
            self._act(StartTimer(HelloTimeout(happened.link), now + int(limits.hello_within * SECOND)))

    def hello_timeout(self, now: int, timeout: HelloTimeout) -> None:
        session = self.links.get(timeout.link)
        if session is not None and not session.connection.greeted:
            self.refuse(now, session, Refusal.SILENT, f"no hello within {self._limits.hello_within:g} s")

    def post(self, outbox: Outbox, message: Message) -> None:
        outbox.post(message)
        self._forwarder.unflushed[outbox] = None

    def answer(self, link: LinkId, message: Message) -> None:
        """Tell somebody who may be gone by now."""
        session = self.links.get(link)
        if session is not None:
            self.post(session.connection.outbox, message)

    def refuse(self, now: int, session: LinkSession, code: Refusal, reason: str) -> None:
        """The last word to a peer; everyone else goes on undisturbed."""
        connection = session.connection
        self._counters.refused[code] += 1
        self.post(connection.outbox, Rejection(code, reason))
        details = {"client": connection.name, "address": connection.address, "code": str(code), "reason": reason}
        self._act(Close(connection.link, reason))
        self._act(Report("info" if code in QUIET else "warning", "peer refused", {**details}))
        self.forget(now, session, reason)

    def end_certificate(self, now: int, happened: CertificateEnded) -> None:
        session = self.links.get(happened.link)
        if session is not None:
            self.refuse(now, session, Refusal.UNAUTHENTICATED, happened.reason)

    def contain(self, now: int, session: LinkSession, error: Exception) -> None:
        """Send somebody away who sent what may not be, or at whose message we failed; the node ends if that fails too,
        or our own state is wrong.
        """
        if isinstance(error, FrameError):
            self.refuse(now, session, error.code, str(error))
            return
        if isinstance(error, FATAL):
            raise error
        for report in self._faults.report(now, error, peer=session.connection.name or session.connection.address):
            self._act(report)
        self.refuse(now, session, Refusal.PROTOCOL, "this node could not handle what you sent")

    def forget(self, now: int, session: LinkSession, reason: str = "") -> None:
        connection = session.connection
        del self.links[connection.link]
        self._names.release(connection)
        if session.hop is not None:
            self._network.link_down(session, reason)
        if session.dialled:
            self._network.unreachable(now, connection.link, reason)
        self.on_leave(connection.link)
        self._network.settlement.forget(connection.link)
        self._subscriptions.withdraw(session.wishes, connection.outbox)
        self.busy.pop(connection.link, None)
        self._forwarder.drop(session.flows)
        self._counters.close(connection.outbox)
        if not connection.greeted:
            self._act(StopTimer(HelloTimeout(connection.link)))

    def beat(self, now: int, stalled: bool) -> None:
        """Give up those who are silent, unless it was us who slept: then nobody is to blame."""
        for session in list(self.links.values()):
            connection = session.connection
            if stalled or connection.link in self.busy:  # nor is who waits for us
                connection.heard = now
            if not connection.greeted:
                continue
            if connection.silent(now):
                self.refuse(now, session, Refusal.SILENT, "nothing was heard from you for three heartbeats")
            elif connection.beat(now):
                self._forwarder.unflushed[connection.outbox] = None

    def part(self, now: int, reason: str) -> None:
        """Say farewell to everybody."""
        for session in list(self.links.values()):
            (outbox := session.connection.outbox).post(Farewell(reason))
            self._act(Send(outbox.link, outbox.release()))
            self._act(Close(outbox.link, reason))
            self.forget(now, session)
