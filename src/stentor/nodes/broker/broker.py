"""The broker: connections, names, subscriptions and forwarding, composed into one machine."""

from collections.abc import Callable
from functools import partial
from typing import Any

from stentor.machine import (
    SECOND,
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
    Report,
    Resume,
    Send,
    Serve,
    Started,
    StartTimer,
    Stop,
    StopRequested,
    StopTimer,
    TimerFired,
)
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId
from stentor.model.limits import Limits
from stentor.model.messages import (
    AccessFacts,
    AccessInventory,
    AccessReceipt,
    AccessRequest,
    AdminRequest,
    AnyMessage,
    BundleRequest,
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
from stentor.nodes.broker import admin
from stentor.nodes.broker.access import AccessControl
from stentor.nodes.broker.charter_keeper import CharterKeeper
from stentor.nodes.broker.counters import BrokerCounters
from stentor.nodes.broker.handshake import Handshake, Replaced
from stentor.nodes.broker.introspection import explain, fitting, view_of
from stentor.nodes.broker.link_session import HelloTimeout, LinkSession
from stentor.nodes.broker.link_sessions import QUIET, BrokerTick, LinkSessions
from stentor.nodes.broker.matching_budget import Run, ration
from stentor.nodes.broker.tracer import BrokerTracer, HopsDue
from stentor.nodes.broker.turns import DeferredWorkDue, Turns, Work
from stentor.nodes.network.network import BrokerNetwork, NetworkSettings
from stentor.protocols.connection.name_registry import NameRegistry
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.access_log import LOG as ACCESS_LOG
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.subscriptions import Subscriptions
from stentor.wire import head
from stentor.wire.frame import EVENTS, PARCEL, decode, measure
from stentor.wire.run import split

Handlers = dict[type[Message], Callable[[int, LinkSession, Any], Message | None]]

BOOT_LOG = "boot"
_FORGOTTEN = 256  # topics and flows of those who are gone, in a step: they take microseconds
_ALONE = NetworkSettings()


class Broker:
    """One broker, alone or with a network around it."""

    def __init__(self, path: ScopePath, limits: Limits, version: str = "", network: NetworkSettings = _ALONE) -> None:
        self.path = path
        self.ready = False
        self._limits = limits
        self._version = version
        self._boot = self._born = self._ticked = 0
        self._effects: list[Effect] = []
        self._forwarder: Forwarder[Outbox] = Forwarder(limits, self._on_subscription_change)
        self.network = BrokerNetwork(path, network, limits, self._forwarder, self._act, version)
        self._tracer = BrokerTracer(str(path), self._forwarder, self.network.relay, self._act, network)
        self._subscriptions = Subscriptions(self._forwarder.table, limits)
        self._counters = BrokerCounters()
        names = NameRegistry()
        self._sessions = LinkSessions(
            limits, self._forwarder, self.network, self._subscriptions, self._counters, names, self._act
        )
        self._admin = admin.AdminRequests(self.network, self._act, self._sessions.redirection)
        self._access = AccessControl(
            network.access, self.network.access.charters.of, self._forwarder, self._subscriptions, self._sessions,
            str(path),
        )  # fmt: skip
        self._keeper = CharterKeeper(self.network, self._sessions.answer, self._act, self._access.on_charter_change)
        self._sessions.on_leave = self._keeper.forget
        settlement = self.network.settlement
        settlement.report = self._sessions.answer
        self._handshake = Handshake(
            path, limits, version, self.network, names, self._act, self._sessions.post, network.traces,
            network.sums, self._access.check_name, self._sessions.redirection.point,
        )  # fmt: skip
        self._turns = Turns(self._sessions, self._act)
        self._now = 0
        self._is_routine = False  # this step brought events only, which change neither routes nor profiles nor access
        self._inputs: dict[type[Input], Callable[[int, Any], None]] = {
            Started: self._started,
            Appended: self._appended,
            AppendFailed: self._append_failed,
            LinkOpened: lambda now, opened: self._sessions.admit(now, opened, self.ready),
            LinkLost: self._lost,
            CertificateEnded: self._sessions.end_certificate,
            TimerFired: self._timer_fired,
            StopRequested: self._stop_requested,
        }
        everybody: Handlers = {
            Topic: self._define_topic,
            SchemaDefinition: self._define_schema,
            Credit: self._grant,
            Ping: lambda _, __, marker: Pong(marker.token),
            Farewell: self._farewell,
        }
        self._from_peers: Handlers = {
            **everybody,
            **dict.fromkeys((Presence, ProfileChange, Inventory, Digest, LinkCost, Pong), self.network.hear),
            **dict.fromkeys((MarkReceipt, AccessFacts, AccessReceipt, AccessInventory), self.network.hear),
            Rejection: self._rejected,
        }
        self._messages: Handlers = {
            **everybody,
            Subscription: self._subscribe,
            Unsubscription: lambda _, client, wish: self._subscriptions.unsubscribe(client.wishes, wish),
            StatusRequest: lambda now, _, asked: StatusReport(asked.token, fitting(lambda n: self.status(now, n))),
            ViewRequest: lambda _, __, asked: ViewReport(asked.token, fitting(lambda _: self.view())),
            ExplanationRequest: lambda _, __, asked: explain(self.network, self._forwarder, asked, self._name_of),
            AccessRequest: lambda _, client, asked: self._access.report(str(path), client, asked),
            AdminRequest: lambda _, client, order: self._admin.take(client, order),
            SettlementRequest: lambda now, client, asked: settlement.ask(now, client.connection.link, asked),
            AccessFacts: self._keeper.hear,
            BundleRequest: self._keeper.watch,
        }

    def step(self, now: int, happened: Input) -> list[Effect]:
        self._now = now
        if type(happened) is Received:
            self._is_routine = True
            self._received(now, happened.link, happened.data)
        else:
            self._is_routine = False
            self._inputs[type(happened)](now, happened)
        return self._flush()

    def _flush(self) -> list[Effect]:
        """What this step sends, a link at a time, and then the rest of what it wants done."""
        if not self._is_routine:
            self._settle()
        effects: list[Effect] = []
        for outbox in self._forwarder.unflushed:
            ready = outbox.release()
            if ready:
                effects.append(Send(outbox.link, ready))
        self._forwarder.unflushed.clear()
        effects += self._effects
        self._effects = []
        return effects

    def _settle(self) -> None:
        """Bring up to date what depends on more than events."""
        if self._access.changed:
            self._access.review(self._now)
        self.network.recompute_routes()
        if self.network.busy or self._subscriptions.leaving or self._forwarder.leaving:
            self._turns.schedule(self._now)

    def _act(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _name_of(self, outbox: Outbox) -> str:
        return self._sessions[outbox.link].connection.name

    def _on_subscription_change(self, subscription: BrokerSubscription[Outbox], comes: bool) -> None:
        self.network.on_subscription_change(subscription, comes)

    # ---- the hot path

    def _received(self, now: int, link: LinkId, data: bytes) -> None:
        client = self._sessions.links.get(link)
        if client is None:  # closed by us while these bytes were under way
            return
        self._counters.bytes_in += len(data)
        self._counters.chunks += 1
        if client.rest is not None:
            client.backlog.append(data)
            return
        self._turns.is_untouched = True
        self._read(now, client, data)

    def _read(self, now: int, client: LinkSession, data: bytes) -> None:
        try:
            chunk = client.connection.feed(now, data)
            if chunk is not None:
                self._take(now, client, chunk, 0)
        except Exception as error:
            self._is_routine = False
            self._sessions.contain(now, client, error)

    def _take(self, now: int, client: LinkSession, data: bytes, position: int) -> None:
        connection, routes = client.connection, client.flows.routes
        size = len(data)
        while position < size:
            runs, after = split(data, position, routes)
            is_all = True
            if runs and self._forwarder.table.is_loaded:
                data, runs, after, is_all = self._ration(client, data, runs, after)
                size = len(data)
            if runs:
                events = self._forwarder.forward(data, runs)
                self.network.relay.publish(data, runs)
                self._tracer.watch(now, connection.name, data, runs)
                client.events_in += events
                self._counters.events_in += events
                if connection.take_events(after - position):
                    self._forwarder.unflushed[connection.outbox] = None
                position = after
                if position == size:
                    return
            if not is_all:
                self._turns.postpone(now, client, data, position)
                return
            kind, length = measure(data, position, connection.largest_frame)
            if not length or position + length > size:
                connection.buffer.hold(data, position)
                return
            if kind == PARCEL:
                self._relay(now, client, data, position, length)
                position += length
                continue
            self._is_routine = False
            if kind == EVENTS:
                if not self._turns.can_do(Work.DEFINITION):
                    self._turns.postpone(now, client, data, position)
                    return
                self._meet(client, data[position : position + length])
            else:
                message = decode(data[position : position + length])
                if not self._turns.can_hear(client, message):
                    self._turns.postpone(now, client, data, position)
                    return
                self._hear(now, client, message, size - position)
                if connection.link not in self._sessions:
                    return
                position += length

    def _ration(
        self, client: LinkSession, data: bytes, runs: list[Run], after: int
    ) -> tuple[bytes, list[Run], int, bool]:
        """Return as much of some runs as can be matched in this step, where that ends, and whether it is all."""
        left = self._turns.left(Work.MATCHING)
        if left <= 0:
            return data, [], after, False
        made = ration(self._forwarder, data, runs, left)
        self._turns.can_do(Work.MATCHING, made.cost)
        if made.data is not data:  # halves of a frame have more bytes than it had
            client.connection.take_events(len(data) - len(made.data))
        return made.data, made.runs, made.end, made.is_all

    def _relay(self, now: int, peer: LinkSession, data: bytes, position: int, length: int) -> None:
        """A parcel of another broker."""
        connection = peer.connection
        if peer.hop is None:
            raise FrameError(Refusal.PROTOCOL, "a parcel from somebody who is no broker")
        events = self.network.relay.receive(peer.hop, peer.flows, data, position, connection.largest_frame)
        peer.events_in += events
        self._tracer.watch_parcel(now, connection.name, data, position, length)
        if connection.take_events(length):
            self._forwarder.unflushed[connection.outbox] = None

    def _meet(self, client: LinkSession, frame: bytes) -> None:
        """The first frame of a flow on this link."""
        connection = client.connection
        if not connection.greeted or client.hop is not None:
            raise FrameError(Refusal.PROTOCOL, "events before hello, or without a parcel from a broker")
        if not head.count_of(frame):
            raise FrameError(Refusal.CORRUPT, "an events frame without events")
        admits = partial(self._access.admits_flow, client)
        self._forwarder.open_flow(client.flows, head.flow_of(frame), connection.publisher, admits)

    def _define_topic(self, now: int, session: LinkSession, topic: Topic) -> None:  # noqa: ARG002
        most = self._limits.topics_per_client if session.hop is None else None  # a broker speaks for many clients
        self._forwarder.define_topic(session.flows, topic, most)

    def _define_schema(self, now: int, session: LinkSession, schema: SchemaDefinition) -> None:  # noqa: ARG002
        most = self._limits.schemas_per_client if session.hop is None else None
        self._forwarder.define_schema(session.flows, schema, most)

    # ---- work that is too much for one step

    def _subscribe(self, now: int, client: LinkSession, wish: Subscription) -> Receipt:  # noqa: ARG002
        admit = partial(self._access.admit_subscription, client)
        return self._subscriptions.subscribe(client.wishes, client.connection.outbox, wish, admit)

    def _go_on(self, now: int) -> None:
        """A step's worth of what was put off."""
        client = self._turns.next_guest()
        waiting = self._subscriptions.tidy(1)
        waiting = self._forwarder.tidy(_FORGOTTEN) or waiting
        self.network.toil()
        if client is not None:
            self._resume(now, client)
        if waiting or self._sessions.busy:
            self._turns.schedule(now)

    def _resume(self, now: int, client: LinkSession) -> None:
        link = client.connection.link
        assert client.rest is not None, "only clients with a rest are busy"
        (data, position), client.rest = client.rest, None
        try:
            self._take(now, client, data, position)
        except Exception as error:
            self._sessions.contain(now, client, error)
        while client.backlog and client.rest is None and link in self._sessions:
            self._read(now, client, client.backlog.popleft())
        if client.rest is None and link in self._sessions:
            self._effects.append(Resume(link))

    # ---- links

    def _lost(self, now: int, happened: LinkLost) -> None:
        client = self._sessions.links.get(happened.link)
        if client is not None:
            self._sessions.forget(now, client, happened.reason)
        else:
            self.network.unreachable(now, happened.link, happened.reason)

    def _hear(self, now: int, client: LinkSession, message: AnyMessage, rest: int) -> None:
        if type(message) is Heartbeat:
            client.connection.check_position(message.position, rest)
            return
        if type(message) is ChallengeRequest or type(message) is Challenge:
            self._handshake.challenge(client, message)
            return
        if type(message) is Hello:
            self._replace(now, self._handshake.greet(client, message))
            return
        if type(message) is Welcome:
            self._replace(now, self._handshake.welcomed(client, message))
            return
        if type(message) is Rejection and client.dialled:
            self._rejected(now, client, message)
            return
        handler = (self._messages if client.hop is None else self._from_peers).get(type(message))
        if handler is None or not client.connection.greeted:
            raise FrameError(Refusal.PROTOCOL, f"the message {message.tag!r} has no place here")
        answer = handler(now, client, message)
        if answer is not None:
            self._sessions.post(client.connection.outbox, answer)

    def _replace(self, now: int, replaced: Replaced | None) -> None:
        if replaced is not None:
            self._sessions.refuse(now, self._sessions[replaced.link], replaced.code, replaced.reason)

    def _rejected(self, now: int, peer: LinkSession, rejection: Rejection) -> None:
        """Another broker does not want us."""
        details = {"peer": peer.connection.name or peer.connection.address, "reason": rejection.reason}
        self._effects += [
            Close(peer.connection.link, rejection.reason),
            Report("debug" if rejection.code in QUIET else "warning", "link refused", {**details}),
        ]
        self._sessions.forget(now, peer, rejection.reason)
        if rejection.code is Refusal.FENCED and peer.dialled and not self.network.peers:
            self._effects.append(Stop(rejection.reason))

    def _grant(self, now: int, client: LinkSession, message: Credit) -> None:  # noqa: ARG002
        client.connection.outbox.grant(message.limit)
        self._forwarder.unflushed[client.connection.outbox] = None

    def _farewell(self, now: int, client: LinkSession, message: Farewell) -> None:
        self._effects.append(Close(client.connection.link, "the client left" if client.hop is None else "it left"))
        self._sessions.forget(now, client, message.reason or "it left")

    # ---- the node's own life

    def _started(self, now: int, happened: Started) -> None:
        self._born = self._ticked = now
        self._tracer.begin(now, happened.wall)
        boots = happened.records.get(BOOT_LOG, [])
        self._boot = self._handshake.boot = 1 + (int(boots[-1]) if boots else 0)
        self._effects.append(Append(BOOT_LOG, self._boot, (str(self._boot).encode(),)))
        self._admin.recall(now, happened.records.get(admin.LOG, ()))
        self.network.access.recall(happened.records.get(ACCESS_LOG, ()))

    def _appended(self, now: int, happened: Appended) -> None:
        if happened.log == admin.LOG:
            link, receipt, parted = self._admin.carry_out(now, happened.token)
            self._sessions.answer(link, receipt)
            if parted is not None:
                self._sessions.refuse(now, parted, Refusal.CLOSING, "an operator removed the link")
            return
        if happened.log == ACCESS_LOG:
            self.network.access.appended()
            return
        assert happened.token == self._boot, "a broker has one boot number"
        self.ready = True
        self._effects += [StartTimer(BrokerTick(), now + self._tick), Serve()]
        self.network.begin(now, self._boot)

    def _append_failed(self, now: int, happened: AppendFailed) -> None:  # noqa: ARG002
        if happened.log == admin.LOG:
            self._sessions.answer(*self._admin.fail(happened.token, happened.reason))
            return
        if happened.log == ACCESS_LOG:
            self.network.access.append_failed(happened.reason)
            return
        self._effects.append(Stop(f"cannot write the boot log: {happened.reason}"))

    @property
    def _tick(self) -> int:
        return int(self._limits.heartbeat * SECOND) // 2

    def _timer_fired(self, now: int, happened: TimerFired) -> None:
        match happened.timer:
            case BrokerTick():
                self._beat(now)
            case DeferredWorkDue():
                self._go_on(now)
            case HopsDue():
                self._tracer.tell(now, happened.wall)
            case HelloTimeout():
                self._sessions.hello_timeout(now, happened.timer)
            case _:
                self.network.timers[type(happened.timer)](now, happened.timer)

    def _beat(self, now: int) -> None:
        stalled = now - self._ticked > 3 * self._tick  # it was us who slept, not the peers who were silent
        self._ticked = now
        self._sessions.beat(now, stalled)
        self.network.beat(now)
        self._effects.append(StartTimer(BrokerTick(), now + self._tick))

    def _stop_requested(self, now: int, happened: StopRequested) -> None:  # noqa: ARG002
        self.ready = False
        self.network.gateways.leave()
        self._effects.append(StopTimer(BrokerTick()))
        self._tracer.conclude(now)
        self._effects = self._flush()  # events, such as our last traces, leave before a farewell ends the link
        self._sessions.part(now, "the broker is stopping")

    def view(self) -> NetworkView:
        """What this broker knows of the network around it."""
        clients = sum(client.connection.greeted and client.hop is None for client in self._sessions)
        return view_of(self.network, clients, len(self._forwarder.table.subscriptions))

    def status(self, now: int, listed: int = 500) -> NodeStatus:
        """What this broker counts, and who is slow; so many links and subscriptions one by one."""
        self._counters.refused += self._subscriptions.refused
        self._subscriptions.refused.clear()
        return self._counters.report(
            now,
            listed,
            node=str(self.path),
            boot=self._boot,
            version=self._version,
            born=self._born,
            forwarder=self._forwarder,
            traffic=self.network.traffic,
            reliable=len(self.network.access.charters),
            guests=self._sessions,
        )
