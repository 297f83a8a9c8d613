"""The broker: connections, names, subscriptions and forwarding, composed into one machine."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from stentor.machine import (
    Append,
    Appended,
    AppendFailed,
    CertificateEnded,
    Close,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Received,
    Send,
    Serve,
    Started,
    Step,
    Stop,
    StopRequested,
    TimerFired,
)
from stentor.model.colours.memory_part import MemoryPart
from stentor.model.colours.wave_messages import WAVE_MESSAGES
from stentor.model.context import Context
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId
from stentor.model.limits import Limits
from stentor.model.messages import (
    AdminRequest,
    AnyMessage,
    Challenge,
    ChallengeRequest,
    Credit,
    Digest,
    ExplanationRequest,
    Farewell,
    Heartbeat,
    Hello,
    Inventory,
    LinkCost,
    LinkReturned,
    MarkReceipt,
    Message,
    Ping,
    Pong,
    Presence,
    ProfileChange,
    Receipt,
    Rejection,
    SchemaDefinition,
    SettlementRequest,
    StatusReport,
    StatusRequest,
    Subscription,
    Topic,
    Unsubscription,
    ViewReport,
    ViewRequest,
    Welcome,
)
from stentor.model.reports.status import NodeStatus
from stentor.model.reports.view import NetworkView
from stentor.model.scope import ScopePath
from stentor.model.trust.access_messages import (
    AccessFacts,
    AccessInventory,
    AccessReceipt,
    AccessRequest,
    BundleRequest,
)
from stentor.nodes.broker.access.access_control import AccessControl
from stentor.nodes.broker.access.charter_keeper import CharterKeeper
from stentor.nodes.broker.admin.admin_requests import AdminRequests
from stentor.nodes.broker.admin.order_log import LOG as ORDER_LOG
from stentor.nodes.broker.counters import BrokerCounters
from stentor.nodes.broker.deferred_work import DeferredWork, DeferredWorkDue
from stentor.nodes.broker.frame_reader import FrameReader
from stentor.nodes.broker.handshake import Handshake, Replaced
from stentor.nodes.broker.heartbeats import BrokerTick, Heartbeats
from stentor.nodes.broker.introspection import explain, fitting, view_of
from stentor.nodes.broker.link_audit import LinkAudit
from stentor.nodes.broker.link_session import HelloTimeout, LinkSession, LinkState
from stentor.nodes.broker.link_sessions import QUIET, LinkSessions
from stentor.nodes.broker.local_client import LocalClient
from stentor.nodes.broker.redirection import Redirection
from stentor.nodes.broker.status import BrokerLife, status_of
from stentor.nodes.broker.subscription_lease import SubscriptionLease
from stentor.nodes.broker.tracer import BrokerTracer, HopsDue
from stentor.nodes.confirmations import DEPARTURE
from stentor.nodes.damage.corruption import Corruption
from stentor.nodes.damage.damaged_links import DamagedLinks
from stentor.nodes.damage.draw import Draw
from stentor.nodes.network.network import BrokerNetwork, NetworkSettings
from stentor.policies.scope_policies import ScopePolicies
from stentor.protocols.connection.name_registry import NameRegistry
from stentor.protocols.connection.outbox import Outbox, Unflushed
from stentor.protocols.dissemination.access.access_log import LOG as ACCESS_LOG
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.subscriptions import SubscriptionList, Subscriptions

Handlers = dict[type[Message], Callable[[LinkSession, Any], Message | None]]

BOOT_LOG = "boot"
_FORGOTTEN = 256  # topics and flows of those who are gone, in a step: they take microseconds
_ALONE = NetworkSettings()
_OWN_LINK = LinkId(0)  # of the broker's own client: links that others dial have positive numbers, ours negative ones


class Broker:
    """One broker, alone or with a network around it."""

    def __init__(self, path: ScopePath, limits: Limits, version: str = "", network: NetworkSettings = _ALONE) -> None:
        self.path = path
        self.ready = False
        self._limits = limits
        self._life = BrokerLife(node=str(path), version=version)
        self._step = step = Step()
        self._unflushed: Unflushed = {}  # outboxes that have something to send at the end of this step
        policies = ScopePolicies(Context(path).scopes, network.forwarding, network.topics, network.channels)
        self._forwarder = forwarder = Forwarder(limits, self._unflushed, policies, self._on_subscription_change)
        self.network = BrokerNetwork(path, network, limits, policies, forwarder, step, self, version)
        self._subscriptions = Subscriptions(forwarder.table, limits)
        own = LocalClient(str(path), _OWN_LINK, limits, forwarder, self.network.relay, self._subscriptions)
        self._tracer = BrokerTracer(str(path), own, forwarder.table, network, step)
        self._counters = BrokerCounters()
        self._deferred = DeferredWork(step)
        self._keeper = CharterKeeper(self.network.access, step)
        self._names = names = NameRegistry()
        self._sessions = LinkSessions(
            limits,
            forwarder,
            self.network,
            self._subscriptions,
            self._counters,
            names,
            self._deferred,
            self._keeper,
            step,
        )
        redirection = Redirection(self._sessions, self.network, step)
        self._admin = AdminRequests(self.network, redirection, step)
        self._access = AccessControl(
            network.access,
            self.network.access.charters.of,
            forwarder,
            self._subscriptions,
            self._sessions,
            str(path),
        )
        self._handshake = Handshake(limits, version, self.network, names, self._access, redirection, step)
        self._lease = SubscriptionLease(self._subscriptions, forwarder.table, self._sessions, own, step)
        audit = LinkAudit(self._sessions, names, self.network, self._deferred, step)
        self._heartbeats = Heartbeats(limits, self._sessions, self.network, self._lease, audit, step)
        self._reader = FrameReader(
            forwarder,
            self.network.relay,
            self._tracer,
            self._sessions,
            self._access,
            self._deferred,
            self._counters,
            self._hear,
            step,
        )
        self._inputs: dict[type[Input], Callable[[Any], None]] = {
            Started: self._on_start,
            Appended: self._on_appended,
            AppendFailed: self._on_append_failure,
            LinkOpened: lambda opened: self._sessions.admit(opened, is_ready=self.ready),
            LinkLost: self._on_link_loss,
            CertificateEnded: self._sessions.on_certificate_end,
            TimerFired: self._on_timer,
            StopRequested: self._on_stop_request,
        }
        self._handlers = self._handlers_by_state()

    def _handlers_by_state(self) -> dict[LinkState, Handlers]:
        everybody: Handlers = {
            Topic: self._define_topic,
            SchemaDefinition: self._define_schema,
            Credit: self._on_credit,
            Ping: self._on_ping,
            Farewell: self._on_farewell,
        }
        of_the_network: tuple[type[Message], ...] = (
            Presence,
            ProfileChange,
            Inventory,
            Digest,
            LinkCost,
            LinkReturned,
            Pong,
            MarkReceipt,
            AccessFacts,
            AccessReceipt,
            AccessInventory,
            *WAVE_MESSAGES,
        )
        neighbours: Handlers = {
            **everybody,
            **dict.fromkeys(of_the_network, self.network.hear),
            Rejection: self._on_rejection,
        }
        clients: Handlers = {
            **everybody,
            Subscription: self._subscribe,
            Unsubscription: lambda client, ended: self._subscriptions.unsubscribe(client.subscriptions, ended),
            StatusRequest: lambda _, asked: StatusReport(asked.token, fitting(self._status)),
            ViewRequest: lambda _, asked: ViewReport(asked.token, fitting(lambda _: self.view())),
            ExplanationRequest: lambda _, asked: explain(self.network, self._forwarder, asked, self._name_of),
            AccessRequest: lambda client, asked: self._access.report(str(self.path), client, asked),
            AdminRequest: self._admin.take,
            SettlementRequest: lambda client, asked: self.network.settlement.ask(client.connection.outbox, asked),
            AccessFacts: self._keeper.hear,
            BundleRequest: self._keeper.watch,
        }
        return {LinkState.CLIENT: clients, LinkState.NEIGHBOUR: neighbours}

    def step(self, now: int, happened: Input) -> list[Effect]:
        self._step.now = now
        if type(happened) is Received:
            self._reader.receive(happened.link, happened.data)
        else:
            self._reader.is_routine = False
            self._inputs[type(happened)](happened)
        return self._flush()

    def _flush(self) -> list[Effect]:
        """Return what this step sends, a link at a time, and then the rest of what it wants done."""
        if not self._reader.is_routine:
            self._end_step()
        effects: list[Effect] = []
        for outbox in self._unflushed:
            ready = outbox.release()
            if ready:
                effects.append(Send(outbox.link, ready))
        self._unflushed.clear()
        if self._step.effects:  # most steps only send, and a call would cost one of a hundred parts of them
            effects += self._step.end()
        return effects

    def _end_step(self) -> None:
        """Bring up to date what depends on more than events."""
        if self._access.changed:
            self._access.review()
        self.network.end_step()
        self._reader.end_step()
        if self.network.feed.is_waiting or self._subscriptions.leaving or self._forwarder.leaving:
            self._deferred.schedule()

    def _name_of(self, outbox: Outbox) -> str:
        session = self._sessions.links.get(outbox.link)
        return str(self.path) if session is None else session.connection.name

    # ---- what parts tell each other

    def _on_subscription_change(self, subscription: BrokerSubscription[Outbox], comes: bool) -> None:
        self.network.feed.on_subscription_change(subscription, comes)

    def on_charter_change(self, topic: str) -> None:
        self._keeper.on_charter_change(topic)
        self._access.on_charter_change(topic)

    def end_link(self, session: LinkSession, reason: str) -> None:
        self._sessions.refuse(session, Refusal.CLOSING, reason)

    def remember(self, request: AdminRequest) -> None:
        self._admin.remember(request)

    # ---- messages

    def _hear(self, session: LinkSession, message: AnyMessage, rest: int) -> None:
        """Handle a message that ended so many bytes before the end of what was received."""
        match message:
            case Heartbeat():
                session.connection.check_heartbeat(message, rest, session.connection.taken)
                self._lease.compare(session, message.subscriptions)
            case ChallengeRequest() | Challenge():
                self._handshake.challenge(session, message)
            case Hello():
                self._replace(self._handshake.greet(session, message))
            case Welcome():
                self._replace(self._handshake.welcomed(session, message))
            case Rejection() if session.dialled:
                self._on_rejection(session, message)
            case _:
                handler = self._handlers.get(session.state, {}).get(type(message))
                if handler is None:
                    raise FrameError(Refusal.PROTOCOL, f"the message {message.tag!r} has no place here")
                answer = handler(session, message)
                if answer is not None:
                    session.connection.outbox.post(answer)

    def _replace(self, replaced: Replaced | None) -> None:
        if replaced is not None:
            self._sessions.refuse(self._sessions[replaced.link], replaced.code, replaced.reason)

    def _on_rejection(self, peer: LinkSession, rejection: Rejection) -> None:
        """Another broker does not want us."""
        level = "debug" if rejection.code in QUIET else "warning"
        self._step.emit(Close(peer.connection.link, rejection.reason))
        name = peer.connection.name or peer.connection.address
        self._step.report(level, "link refused", peer=name, reason=rejection.reason)
        self._sessions.forget(peer, rejection.reason)
        if rejection.code is Refusal.FENCED and peer.dialled and not self.network.peers:
            self._step.emit(Stop(rejection.reason))

    def _on_ping(self, session: LinkSession, ping: Ping) -> Pong | None:
        """Answer at once; whoever is about to leave hears it after all events that wait for it."""
        if ping.token != DEPARTURE:
            return Pong(ping.token)
        session.connection.outbox.post_behind(Pong(ping.token))
        return None

    def _on_credit(self, session: LinkSession, message: Credit) -> None:
        outbox = session.connection.outbox
        outbox.grant(message.limit)
        outbox.enter()  # what waited may leave now

    def _on_farewell(self, session: LinkSession, message: Farewell) -> None:
        reason = "the client left" if session.hop is None else "it left"
        self._step.emit(Close(session.connection.link, reason))
        self._sessions.forget(session, message.reason or "it left")

    def _define_topic(self, session: LinkSession, topic: Topic) -> None:
        most = self._limits.topics_per_client if session.hop is None else None  # a broker speaks for many clients
        self._forwarder.define_topic(session.flows, topic, most)

    def _define_schema(self, session: LinkSession, schema: SchemaDefinition) -> None:
        most = self._limits.schemas_per_client if session.hop is None else None
        self._forwarder.define_schema(session.flows, schema, most)

    def _subscribe(self, session: LinkSession, subscription: Subscription) -> Receipt:
        admit = partial(self._access.admit_subscription, session)
        return self._subscriptions.subscribe(session.subscriptions, session.connection.outbox, subscription, admit)

    # ---- inputs

    def _on_link_loss(self, happened: LinkLost) -> None:
        session = self._sessions.links.get(happened.link)
        if session is not None and session.connection.link == happened.link:
            self._sessions.forget(session, happened.reason)
        else:  # it was not opened, or what is kept under its number is damaged
            self.network.outgoing.on_loss(happened.link, happened.reason)

    def _on_start(self, happened: Started) -> None:
        self._life.born_at = self._step.now
        self._heartbeats.wake()
        self._tracer.begin(happened.wall)
        boots = happened.records.get(BOOT_LOG, [])
        boot = 1 + (int(boots[-1]) if boots else 0)
        self._life.boot = boot
        self._handshake.boot = boot
        self._step.emit(Append(BOOT_LOG, boot, (str(boot).encode(),)))
        self._admin.recall(happened.records.get(ORDER_LOG, ()))
        self.network.access.recall(happened.records.get(ACCESS_LOG, ()))

    def _on_appended(self, happened: Appended) -> None:
        if happened.log == ORDER_LOG:
            done = self._admin.carry_out(happened.token)
            if done is not None:
                self._sessions.answer(done.link, done.receipt)
                if done.parted is not None:
                    self.end_link(done.parted, "an operator removed the link")
            return
        if happened.log == ACCESS_LOG:
            self.network.access.appended()
            return
        assert happened.token == self._life.boot, "a broker has one boot number"
        self.ready = True
        self._heartbeats.start()
        self._step.emit(Serve())
        self.network.begin(self._life.boot)

    def _on_append_failure(self, happened: AppendFailed) -> None:
        if happened.log == ORDER_LOG:
            failed = self._admin.fail(happened.token, happened.reason)
            if failed is not None:
                self._sessions.answer(*failed)
            return
        if happened.log == ACCESS_LOG:
            self.network.access.append_failed(happened.reason)
            return
        self._step.emit(Stop(f"cannot write the boot log: {happened.reason}"))

    def _on_timer(self, happened: TimerFired) -> None:
        match happened.timer:
            case BrokerTick():
                self._heartbeats.tick()
            case DeferredWorkDue():
                self._run_deferred_work()
            case HopsDue():
                self._tracer.tell(happened.wall)
            case HelloTimeout():
                self._sessions.on_hello_timeout(happened.timer)
            case _:
                self.network.timers[type(happened.timer)](happened.timer)

    def _run_deferred_work(self) -> None:
        """Do a step's worth of what was put off."""
        session = self._deferred.begin_turn()
        is_leaving = self._subscriptions.tidy(1)
        is_leaving = self._forwarder.tidy(_FORGOTTEN) or is_leaving
        self.network.feed.run()
        if session is not None:
            self._reader.resume(session)
        if is_leaving or self._deferred.waiting:
            self._deferred.schedule()

    def _on_stop_request(self, _: StopRequested) -> None:
        self.ready = False
        self.network.relay.let_go()
        self.network.gateways.leave()
        self._heartbeats.stop()
        self._tracer.conclude()
        for effect in self._flush():  # events, such as our last traces, leave before a farewell ends the link
            self._step.emit(effect)
        self._sessions.part("the broker is stopping")

    # ---- for those who ask

    @property
    def subscription_lists(self) -> list[SubscriptionList[Outbox]]:
        """What each client asked for."""
        return [session.subscriptions for session in self._sessions]

    def scramble(self, parts: Iterable[MemoryPart], draw: Draw) -> None:
        """Damage parts of what this broker remembers."""
        links = DamagedLinks(self._sessions, self._names, self.network, self._deferred, draw)
        Corruption(self.network, self.subscription_lists, draw, links.scramble).scramble(parts)

    def view(self) -> NetworkView:
        """Return what this broker knows of the network around it."""
        clients = sum(session.state is LinkState.CLIENT for session in self._sessions)
        return view_of(self.network, clients, len(self._forwarder.table.subscriptions))

    def status(self, now: int, listed: int = 500) -> NodeStatus:
        """Return what this broker counts, and who is slow; so many links and subscriptions one by one."""
        self._counters.refused += self._subscriptions.refused
        self._subscriptions.refused.clear()
        return status_of(now, listed, self._life, self._counters, self._forwarder, self.network, self._sessions)

    def _status(self, listed: int) -> NodeStatus:
        return self.status(self._step.now, listed)
