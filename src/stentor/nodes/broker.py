"""The broker: connections, subscriptions and forwarding, composed into one machine."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from stentor.machine import (
    SECOND,
    Append,
    Appended,
    AppendFailed,
    Close,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Received,
    Report,
    Send,
    Serve,
    Started,
    StartTimer,
    Stop,
    StopRequested,
    StopTimer,
    TimerFired,
)
from stentor.model.attribute import check_schema
from stentor.model.errors import FilterError, FrameError, InvalidInput, Refusal, TopicError
from stentor.model.filter import Filter
from stentor.model.ids import LinkId, SchemaId, SubscriptionId, publisher_id, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import (
    AnyMessage,
    Credit,
    Echo,
    Farewell,
    Heartbeat,
    Hello,
    Marker,
    Message,
    Receipt,
    Rejection,
    SchemaDefinition,
    StatusReport,
    StatusRequest,
    Subscription,
    Topic,
    Unsubscription,
    Welcome,
)
from stentor.model.scope import ScopePath
from stentor.model.status import LinkStatus, NodeStatus, SubscriptionStatus
from stentor.model.topic import check_pattern, check_topic
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.interest import Interest
from stentor.protocols.dissemination.routing import FlowTable, topic_of
from stentor.wire.block import HEADER_SIZE, SPARSE, UNIFORM
from stentor.wire.frame import EVENTS, decode, measure
from stentor.wire.run import FLOW, split

ANONYMOUS = "anonymous"  # who has no certificate; only loopback lets them in
BOOT_LOG = "boot"
_TICK = "tick"
_MOST_SCHEMAS = 65_536
_LISTED = 500  # links and subscriptions in a status report
_SMALLEST_WINDOW = 64 << 10
_LONGEST_HEARTBEAT = 3600.0


class Client:
    """A link at the broker: its connection, the flows that come over it and the interests behind it."""

    __slots__ = ("connection", "events_in", "flows", "interests")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.flows: FlowTable[Outbox] = FlowTable(connection.link)
        self.interests: dict[SubscriptionId, Interest[Outbox]] = {}
        self.events_in = 0


class Broker:
    """One broker without a network around it."""

    def __init__(self, path: ScopePath, limits: Limits, version: str = "") -> None:
        self.path = path
        self.ready = False
        self._limits = limits
        self._version = version
        self._boot = 0
        self._born = self._ticked = 0
        self._clients: dict[LinkId, Client] = {}
        self._names: dict[tuple[str, str], Client] = {}
        self._forwarder: Forwarder[Outbox] = Forwarder()
        self._effects: list[Effect] = []
        self._numbers = 0
        self._events_in = self._events_out = self._bytes_in = self._bytes_out = self._chunks = 0
        self._dropped: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._inputs: dict[type[Input], Callable[[int, Any], None]] = {
            Started: self._started,
            Appended: self._appended,
            AppendFailed: self._append_failed,
            LinkOpened: self._opened,
            LinkLost: self._lost,
            TimerFired: self._timer_fired,
            StopRequested: self._stop_requested,
        }
        self._messages: dict[type[Message], Callable[[int, Client, Any], None]] = {
            Topic: self._define_topic,
            SchemaDefinition: self._define_schema,
            Subscription: self._subscribe,
            Unsubscription: self._unsubscribe,
            Credit: self._grant,
            Marker: self._echo,
            StatusRequest: self._report_status,
            Farewell: self._farewell,
        }

    def step(self, now: int, happened: Input) -> list[Effect]:
        if type(happened) is Received:
            self._received(now, happened.link, happened.data)
        else:
            self._inputs[type(happened)](now, happened)
        return self._flush(now)

    def _flush(self, now: int) -> list[Effect]:
        """What this step sends, a link at a time, and then the rest of what it wants done."""
        effects: list[Effect] = []
        for outbox in self._forwarder.touched:
            ready = outbox.release(now)
            if ready:
                effects.append(Send(outbox.link, ready))
        self._forwarder.touched.clear()
        if self._effects:
            effects += self._effects
            self._effects = []
        return effects

    # ---- the hot path

    def _received(self, now: int, link: LinkId, data: bytes) -> None:
        client = self._clients.get(link)
        if client is None:  # closed by us while these bytes were under way
            return
        self._bytes_in += len(data)
        self._chunks += 1
        try:
            chunk = client.connection.feed(now, data)
            if chunk is not None:
                self._take(now, client, chunk)
        except FrameError as error:
            self._refuse(client, error.code, str(error))

    def _take(self, now: int, client: Client, data: bytes) -> None:
        connection = client.connection
        routes = client.flows.routes
        position, size = 0, len(data)
        while position < size:
            runs, after = split(data, position, routes)
            if runs:
                events = self._forwarder.forward(data, runs)
                client.events_in += events
                self._events_in += events
                if connection.take_events(after - position):
                    self._forwarder.touched[connection.outbox] = None
                position = after
                if position == size:
                    return
            kind, length = measure(data, position, connection.largest_frame)
            if not length or position + length > size:
                connection.intake.hold(data, position)
                return
            if kind == EVENTS:
                self._meet(client, data[position:][FLOW], length)
            else:
                self._hear(now, client, decode(data[position : position + length]), size - position)
                if connection.link not in self._clients:
                    return
                position += length

    def _meet(self, client: Client, flow: bytes, length: int) -> None:
        """A flow is seen for the first time on this link: everything that can be wrong with it is found here."""
        connection, table = client.connection, self._forwarder.table
        if not connection.greeted:
            raise FrameError(Refusal.PROTOCOL, "events before hello")
        if length < HEADER_SIZE or flow[2] & ~(SPARSE | UNIFORM) or flow[3]:
            raise FrameError(Refusal.PROTOCOL, "an events frame with flags or hop bits that are not a client's to set")
        topic = topic_of(flow)
        schema = SchemaId(int.from_bytes(flow[20:28], "little"))
        if int.from_bytes(flow[12:20], "little") != connection.publisher:
            raise FrameError(Refusal.FORGED, "events in the name of another publisher")
        state = table.topics.get(topic)
        if state is None or topic not in client.flows.topics:
            raise FrameError(Refusal.TOPIC, f"events on topic number {topic:016x}, which was not defined before")
        if schema not in self._forwarder.schemas:
            raise FrameError(Refusal.SCHEMA, f"events of schema number {schema:016x}, which was not defined before")
        if len(client.flows.routes) >= self._limits.flows:
            table.forget_flows(client.flows)
        route = table.remember(client.flows, flow)
        topic_message = Topic(topic, state.name)
        schema_message = SchemaDefinition(self._forwarder.schemas[schema])
        for outbox in route.recipients:
            peer = self._clients[outbox.link].connection
            told = peer.define(topic, topic_message)
            if schema:
                told |= peer.define(schema, schema_message)
            if told:
                self._forwarder.touched[outbox] = None

    # ---- links

    def _opened(self, now: int, happened: LinkOpened) -> None:
        limits = self._limits
        connection = Connection(happened.link, now, limits.window, limits.queue, limits.heartbeat)
        connection.principal = happened.principal or ANONYMOUS
        connection.address = happened.address
        client = self._clients[happened.link] = Client(connection)
        self._forwarder.touched[connection.outbox] = None
        if not self.ready:
            self._refuse(client, Refusal.BUSY, "this node is still starting: try again")
        elif len(self._clients) > limits.links:
            self._refuse(client, Refusal.TOO_MANY, f"this node takes {limits.links} links: use another one")
        else:
            self._effects.append(StartTimer(f"hello/{happened.link}", now + int(limits.hello_within * SECOND)))

    def _lost(self, now: int, happened: LinkLost) -> None:  # noqa: ARG002
        client = self._clients.get(happened.link)
        if client is not None:
            self._forget(client)

    def _hear(self, now: int, client: Client, message: AnyMessage, rest: int) -> None:
        if type(message) is Heartbeat:
            client.connection.check_position(message.position, rest)
        elif type(message) is Hello:
            self._greet(client, message)
        else:
            handler = self._messages.get(type(message))
            if handler is None or not client.connection.greeted:
                raise FrameError(Refusal.PROTOCOL, f"a {type(message).__name__} has no place here")
            handler(now, client, message)

    def _greet(self, client: Client, hello: Hello) -> None:
        connection, limits = client.connection, self._limits
        if connection.greeted:
            raise FrameError(Refusal.PROTOCOL, "hello was said before")
        if not 0 < len(hello.name) <= 255 or not hello.name.isprintable():
            raise FrameError(Refusal.PROTOCOL, "a client's name has 1 to 255 printable characters")
        if hello.window < _SMALLEST_WINDOW or not 0 <= hello.incarnation < 1 << 48:
            raise FrameError(Refusal.PROTOCOL, f"a hello with a window below {_SMALLEST_WINDOW} or a bad incarnation")
        key = (connection.principal, hello.name)
        holder = self._names.get(key)
        if holder is not None:
            if holder.connection.incarnation > hello.incarnation:
                raise FrameError(Refusal.FENCED, f"a newer client holds the name {hello.name!r}: stop, or take another")
            self._refuse(holder, Refusal.FENCED, f"another client with the name {hello.name!r} took over")
        connection.name, connection.incarnation = hello.name, hello.incarnation
        connection.publisher = publisher_id(*key)
        self._names[key] = client
        heartbeat = max(limits.heartbeat, min(hello.heartbeat, _LONGEST_HEARTBEAT))
        connection.greet(limits.largest_body, heartbeat)
        connection.outbox.grant(min(hello.window, limits.window))
        self._post(
            connection.outbox,
            Welcome(
                str(self.path), self._boot, connection.principal, limits.window, limits.largest_body, heartbeat,
                self._version,
            ),
        )  # fmt: skip
        self._effects += [
            StopTimer(f"hello/{connection.link}"),
            Report("debug", "client connected", {"client": hello.name, "principal": connection.principal}),
        ]

    def _refuse(self, client: Client, code: Refusal, reason: str) -> None:
        """The last word to a peer; everyone else goes on undisturbed."""
        connection = client.connection
        self._refused[code] += 1
        self._post(connection.outbox, Rejection(code, reason))
        self._effects.append(Close(connection.link, reason))
        self._effects.append(
            Report(
                "info" if code in (Refusal.FENCED, Refusal.SILENT, Refusal.CLOSING) else "warning",
                "peer refused",
                {"client": connection.name, "address": connection.address, "code": str(code), "reason": reason},
            )
        )
        self._forget(client)

    def _forget(self, client: Client) -> None:
        connection, table = client.connection, self._forwarder.table
        del self._clients[connection.link]
        if self._names.get((connection.principal, connection.name)) is client:
            del self._names[connection.principal, connection.name]
        for interest in client.interests.values():
            table.remove(interest)
        table.drop(client.flows)
        self._events_out += connection.outbox.events
        self._bytes_out += connection.outbox.position
        if connection.outbox.dropped:
            self._dropped["slow subscriber"] += connection.outbox.dropped
        if connection.outbox.fresh or connection.outbox.slow:
            self._dropped["subscriber gone"] += connection.outbox.discard()
        if not connection.greeted:
            self._effects.append(StopTimer(f"hello/{connection.link}"))

    def _post(self, outbox: Outbox, message: Message) -> None:
        outbox.post(message)
        self._forwarder.touched[outbox] = None

    # ---- what clients ask for

    def _define_topic(self, now: int, client: Client, message: Topic) -> None:  # noqa: ARG002
        try:
            check_topic(message.name)
        except TopicError as error:
            raise FrameError(Refusal.TOPIC, str(error)) from None
        if topic_id(message.name) != message.id:
            raise FrameError(Refusal.TOPIC, f"{message.id:016x} is not the number of topic {message.name!r}")
        table = self._forwarder.table
        known = table.topics.get(message.id)
        if known is not None and known.name != message.name:
            raise FrameError(Refusal.TOPIC, f"topics {known.name!r} and {message.name!r} have one number: rename one")
        if known is None and len(table.topics) >= self._limits.topics:
            raise FrameError(Refusal.TOO_MANY, f"this node knows {self._limits.topics} topics already")
        table.define(client.flows, message.id, message.name)

    def _define_schema(self, now: int, client: Client, message: SchemaDefinition) -> None:  # noqa: ARG002
        schemas = self._forwarder.schemas
        try:
            schema = check_schema(message.schema)
        except InvalidInput as error:
            raise FrameError(Refusal.SCHEMA, str(error)) from None
        if schemas.setdefault(schema.id, schema) != schema:
            raise FrameError(Refusal.SCHEMA, "two schemas have one number: rename an attribute")
        if len(schemas) > _MOST_SCHEMAS:
            del schemas[schema.id]
            raise FrameError(Refusal.TOO_MANY, f"this node knows {_MOST_SCHEMAS} schemas already")

    def _subscribe(self, now: int, client: Client, message: Subscription) -> None:  # noqa: ARG002
        outbox, limits = client.connection.outbox, self._limits
        table = self._forwarder.table
        refusal: tuple[Refusal, str] | None = None
        where: Filter | None = None
        try:
            check_pattern(message.pattern)
            where = Filter(message.where) if message.where else None
        except FilterError as error:
            refusal = (Refusal.FILTER, str(error))
        except TopicError as error:
            refusal = (Refusal.TOPIC, str(error))
        if message.id in client.interests:
            refusal = (Refusal.PROTOCOL, f"subscription {message.id} is in force already")
        elif len(client.interests) >= limits.subscriptions_per_client or len(table.interests) >= limits.subscriptions:
            refusal = (Refusal.TOO_MANY, "too many subscriptions: unsubscribe some, or use a wider pattern")
        if refusal is not None:
            self._refused[refusal[0]] += 1
            self._post(outbox, Receipt(message.id, *refusal))
            return
        self._numbers += 1
        interest = Interest(self._numbers, message.id, outbox, message.pattern, where)
        client.interests[message.id] = interest
        table.add(interest)
        self._post(outbox, Receipt(message.id))

    def _unsubscribe(self, now: int, client: Client, message: Unsubscription) -> None:  # noqa: ARG002
        interest = client.interests.pop(message.id, None)
        if interest is not None:
            self._forwarder.table.remove(interest)
        self._post(client.connection.outbox, Receipt(message.id))

    def _grant(self, now: int, client: Client, message: Credit) -> None:  # noqa: ARG002
        client.connection.outbox.grant(message.limit)
        self._forwarder.touched[client.connection.outbox] = None

    def _echo(self, now: int, client: Client, message: Marker) -> None:  # noqa: ARG002
        self._post(client.connection.outbox, Echo(message.token))

    def _report_status(self, now: int, client: Client, message: StatusRequest) -> None:
        status = msgspec.Raw(msgspec.msgpack.encode(self.status(now)))
        self._post(client.connection.outbox, StatusReport(message.token, status))

    def _farewell(self, now: int, client: Client, message: Farewell) -> None:  # noqa: ARG002
        self._effects.append(Close(client.connection.link, "the client left"))
        self._forget(client)

    # ---- the node's own life

    def _started(self, now: int, happened: Started) -> None:
        self._born = self._ticked = now
        boots = happened.records.get(BOOT_LOG, [])
        self._boot = 1 + (int(boots[-1]) if boots else 0)
        self._effects.append(Append(BOOT_LOG, self._boot, (str(self._boot).encode(),)))

    def _appended(self, now: int, happened: Appended) -> None:
        assert happened.token == self._boot, "a broker appends nothing but its boot number"
        self.ready = True
        self._effects += [StartTimer(_TICK, now + self._tick), Serve()]

    def _append_failed(self, now: int, happened: AppendFailed) -> None:  # noqa: ARG002
        self._effects.append(Stop(f"cannot write the boot log: {happened.reason}"))

    @property
    def _tick(self) -> int:
        return int(self._limits.heartbeat * SECOND) // 2

    def _timer_fired(self, now: int, happened: TimerFired) -> None:
        if happened.timer == _TICK:
            self._beat(now)
            return
        client = self._clients.get(LinkId(int(happened.timer.removeprefix("hello/"))))
        if client is not None and not client.connection.greeted:
            self._refuse(client, Refusal.SILENT, f"no hello within {self._limits.hello_within:g} s")

    def _beat(self, now: int) -> None:
        stalled = now - self._ticked > 3 * self._tick  # it was us who slept, not the peers who were silent
        self._ticked = now
        for client in list(self._clients.values()):
            connection = client.connection
            if stalled:
                connection.heard = now
            if not connection.greeted:
                continue
            if connection.silent(now):
                self._refuse(client, Refusal.SILENT, "nothing was heard from you for three heartbeats")
            elif connection.beat(now):
                self._forwarder.touched[connection.outbox] = None
        self._effects.append(StartTimer(_TICK, now + self._tick))

    def _stop_requested(self, now: int, happened: StopRequested) -> None:  # noqa: ARG002
        self.ready = False
        self._effects.append(StopTimer(_TICK))
        for client in list(self._clients.values()):
            self._post(client.connection.outbox, Farewell("the broker is stopping"))
            self._effects.append(Close(client.connection.link, "the broker is stopping"))
            self._forget(client)

    # ---- what it tells about itself

    def status(self, now: int) -> NodeStatus:
        self._forwarder.table.settle()
        links = [_link_status(client, now) for client in self._clients.values()]
        dropped = self._dropped + Counter({"no subscriber": self._forwarder.unrouted})
        dropped += Counter({"slow subscriber": sum(link.dropped for link in links)})
        interests = [
            (client.connection.name, interest)
            for client in self._clients.values()
            for interest in list(client.interests.values())[:_LISTED]
        ]
        interests.sort(key=lambda pair: -pair[1].accepted)
        return NodeStatus(
            node=str(self.path), role="broker", boot=self._boot, version=self._version,
            uptime=(now - self._born) / SECOND,
            clients=len(self._names), subscriptions=len(self._forwarder.table.interests),
            topics=len(self._forwarder.table.topics),
            events_in=self._events_in, events_out=self._events_out + sum(link.events_out for link in links),
            bytes_in=self._bytes_in, bytes_out=self._bytes_out + sum(link.bytes_out for link in links),
            chunks=self._chunks, dropped=dict(sorted(dropped.items())), refused=dict(sorted(self._refused.items())),
            queued=sum(link.queued for link in links), slow=sum(link.slow for link in links),
            links=tuple(sorted(links, key=lambda link: (-link.queued, -link.dropped, -link.events_out))[:_LISTED]),
            interests=tuple(
                SubscriptionStatus(
                    name, interest.id, interest.pattern, str(interest.filter or ""), interest.accepted, interest.rejected
                )
                for name, interest in interests[:_LISTED]
            ),
        )  # fmt: skip


def _link_status(client: Client, now: int) -> LinkStatus:
    connection, outbox = client.connection, client.connection.outbox
    return LinkStatus(
        name=connection.name, principal=connection.principal, address=connection.address,
        subscriptions=len(client.interests), events_in=client.events_in, events_out=outbox.events,
        bytes_in=connection.received, bytes_out=outbox.position, queued=outbox.queued, dropped=outbox.dropped,
        slow=outbox.slow, idle=(now - connection.heard) / SECOND,
    )  # fmt: skip
