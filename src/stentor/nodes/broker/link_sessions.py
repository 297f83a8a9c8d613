"""All links of a broker. Whoever goes, or is sent away, leaves nothing behind."""

from collections.abc import Iterator

from stentor.machine import SECOND, CertificateEnded, Close, LinkOpened, Send, StartTimer, Step, StopTimer
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId
from stentor.model.limits import Limits
from stentor.model.messages import Farewell, Message, Rejection
from stentor.model.trust.access import ANONYMOUS
from stentor.model.wording.count import counted
from stentor.nodes.broker.access.charter_keeper import CharterKeeper
from stentor.nodes.broker.access.credentials import Credentials
from stentor.nodes.broker.counters import BrokerCounters
from stentor.nodes.broker.deferred_work import DeferredWork
from stentor.nodes.broker.link_session import HelloTimeout, LinkChange, LinkSession, LinkState
from stentor.nodes.containment import FATAL, FaultReports
from stentor.nodes.greeting import Greeting
from stentor.nodes.network.network import BrokerNetwork
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.name_registry import NameRegistry
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.subscriptions import Subscriptions

QUIET = frozenset({Refusal.FENCED, Refusal.SILENT, Refusal.CLOSING, Refusal.BUSY})  # part of life, no warning


class LinkSessions:
    """The sessions of one broker by link, in the order in which they came."""

    def __init__(
        self,
        limits: Limits,
        forwarder: Forwarder[Outbox],
        network: BrokerNetwork,
        subscriptions: Subscriptions[Outbox],
        counters: BrokerCounters,
        names: NameRegistry,
        deferred: DeferredWork,
        keeper: CharterKeeper,
        step: Step,
    ) -> None:
        self._limits = limits
        self._forwarder = forwarder
        self._network = network
        self._subscriptions = subscriptions
        self._counters = counters
        self._names = names
        self._deferred = deferred
        self._keeper = keeper
        self._step = step
        self.links: dict[LinkId, LinkSession] = {}
        self._faults = FaultReports()

    def __len__(self) -> int:
        return len(self.links)

    def __iter__(self) -> Iterator[LinkSession]:
        return iter(self.links.values())

    def __contains__(self, link: LinkId) -> bool:
        return link in self.links

    def __getitem__(self, link: LinkId) -> LinkSession:
        return self.links[link]

    @property
    def clients(self) -> int:
        """How many clients there are, with those who have not said hello yet: nobody is looked at one by one."""
        return len(self.links) - len(self._network.peers)

    def drop_misfiled(self) -> int:
        """Close links under whose number the session of another one is kept; return how many there were."""
        wrong = [link for link, session in self.links.items() if session.connection.link != link]
        for link in wrong:
            del self.links[link]
            self._step.emit(Close(link, "what this broker remembered of the link was damaged"))
        return len(wrong)

    def admit(self, happened: LinkOpened, *, is_ready: bool) -> None:
        """Open the session of a new link; whoever is there has to say who it is before long."""
        limits, link, now = self._limits, happened.link, self._step.now
        outbox = Outbox(link, limits.queue, self._forwarder.unflushed)
        connection = Connection(link, now, limits.window, limits.queue, limits.heartbeat, outbox)
        connection.principal = happened.principal or ANONYMOUS
        connection.address = happened.address
        session = self.links[link] = LinkSession(connection, Credentials(happened), dialled=happened.dialled)
        hello = self._network.hello(link) if happened.dialled else None
        if hello is not None:
            session.greeting = Greeting(happened, hello)
            outbox.post(session.greeting.first_word())
        if not is_ready:
            self.refuse(session, Refusal.BUSY, "this node is still starting: try again")
        elif len(self.links) > limits.links:
            reason = f"this node takes {counted(limits.links, 'link')}: use another one"
            self.refuse(session, Refusal.TOO_MANY, reason)
        else:
            self._step.emit(StartTimer(HelloTimeout(link), now + int(limits.hello_within * SECOND)))

    def on_hello_timeout(self, timeout: HelloTimeout) -> None:
        session = self.links.get(timeout.link)
        if session is not None and not session.connection.greeted:
            self.refuse(session, Refusal.SILENT, f"no hello within {self._limits.hello_within:g} s")

    def answer(self, link: LinkId, message: Message) -> None:
        """Tell somebody who may be gone by now."""
        session = self.links.get(link)
        if session is not None:
            session.connection.outbox.post(message)

    def refuse(self, session: LinkSession, code: Refusal, reason: str) -> None:
        """Send a peer away with a last word; everyone else goes on undisturbed."""
        if session.state is LinkState.CLOSED:  # damage: it was kept under two numbers
            return
        connection = session.connection
        self._counters.refused[code] += 1
        connection.outbox.post(Rejection(code, reason))
        self._step.emit(Close(connection.link, reason))
        self._step.report(
            "info" if code in QUIET else "warning",
            "peer refused",
            client=connection.name,
            address=connection.address,
            code=str(code),
            reason=reason,
        )
        self.forget(session, reason)

    def on_certificate_end(self, happened: CertificateEnded) -> None:
        session = self.links.get(happened.link)
        if session is not None:
            self.refuse(session, Refusal.UNAUTHENTICATED, happened.reason)

    def contain(self, session: LinkSession, error: Exception) -> None:
        """Send somebody away who sent what may not be, or at whose message we failed; the node ends if that fails too,
        or our own state is wrong.
        """
        if isinstance(error, FrameError):
            self.refuse(session, error.code, str(error))
            return
        if isinstance(error, FATAL):
            raise error
        peer = session.connection.name or session.connection.address
        for report in self._faults.report(self._step.now, error, peer=peer):
            self._step.emit(report)
        self.refuse(session, Refusal.PROTOCOL, "this node could not handle what you sent")

    def forget(self, session: LinkSession, reason: str = "") -> None:
        """Forget a link that is gone: nothing of it is left anywhere."""
        if session.state is LinkState.CLOSED:  # damage: it was kept under two numbers
            return
        connection = session.connection
        outbox = connection.outbox
        self.links.pop(connection.link, None)  # damage may have lost it
        self._names.release(connection)
        if session.hop is not None:
            self._network.link_down(session, reason)
        if session.dialled:
            self._network.outgoing.on_loss(connection.link, reason)
        session.change(LinkChange.ENDED)
        self._keeper.forget(outbox)
        self._network.settlement.forget(outbox)
        self._subscriptions.withdraw(session.subscriptions, outbox)
        self._deferred.forget(connection.link)
        self._forwarder.drop(session.flows)
        self._counters.close(outbox)
        if not connection.greeted:
            self._step.emit(StopTimer(HelloTimeout(connection.link)))

    def part(self, reason: str) -> None:
        """Say farewell to everybody."""
        for session in list(self.links.values()):
            outbox = session.connection.outbox
            outbox.post(Farewell(reason))
            self._step.emit(Send(outbox.link, outbox.release()))
            self._step.emit(Close(outbox.link, reason))
            self.forget(session)
