"""The public Python API: connect, publish, subscribe.

    async with stentor.connect("stentor://127.0.0.1:7420") as fabric:
        async with fabric.subscribe("flights/#", where="carrier = 'UA' AND dep_delay > 60") as events:
            await fabric.publish("flights/jfk", b"...", carrier="UA", dep_delay=75.0)
            async for event in events:
                print(event.topic, event["dep_delay"], event.body)

What awaiting a publish means: the event was checked and taken into this client's buffer, and leaves with whatever else
this turn of the event loop brings. It waits only while the buffer is full, because the broker pushes back or is away.
`await fabric.flush()` returns when the broker has taken in everything published before. Best-effort events can be lost
with a link that breaks, never repeated and never out of order per publisher and topic. A subscription that is entered
is in force at the client's broker; `await events.settled()` returns when all brokers know it. It ends with its
`async with`, however it is left: leave the loop with `break`, and what had not been read is dropped.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal, Self, Unpack, overload

import msgspec

from stentor.client.connection.best_effort import BestEffort
from stentor.client.connection.bundles import Bundles
from stentor.client.connection.first_connection import Access
from stentor.client.connection.link_log import LinkLog
from stentor.client.connection.own_name import fresh_name, made_up_name
from stentor.client.connection.questions import Questions
from stentor.client.connection.settling import settle
from stentor.client.connection.url import addresses_of
from stentor.client.event import check_body
from stentor.client.event_stream import Events as Events
from stentor.client.event_stream import EventStreams
from stentor.client.machine_runner import LINGER, MachineRunner
from stentor.client.mail import Mail
from stentor.client.pace import Pace
from stentor.client.reliable_endpoints import ReliableEndpoints
from stentor.client.reliable_publisher import Publisher, Resume
from stentor.client.reliable_subscription import From, Subscription
from stentor.client.stored_reader import Reader
from stentor.machine import Effect, Input
from stentor.model.attribute import Value
from stentor.model.communication import bundle_of, inbox_of
from stentor.model.errors import (
    Closed,
    InvalidInput,
    LinkBroken,
    StentorError,
)
from stentor.model.ids import SubscriptionId
from stentor.model.mail import check_no_mail
from stentor.model.messages import ExplanationRequest, StatusRequest
from stentor.model.reports.status import NodeStatus
from stentor.model.reports.view import Explanation
from stentor.model.topic import check_topic
from stentor.model.trust.place import OPERATOR_NAME
from stentor.nodes.client import Client
from stentor.nodes.client_api import (
    Answer,
    AnswerQuery,
    Asked,
    CompleteFlush,
    ConfirmSubscription,
    Connect,
    Deliver,
    DenySubscription,
    Disconnect,
    FlowCheckRequested,
    FlushRequested,
    Moved,
    Question,
    RefuseFlow,
    ResumePublishing,
    TellBundle,
    TurnEnded,
)

DEFAULT_URL = "stentor://127.0.0.1:7420"
_TURN = 64 << 10  # bytes published before the event loop gets a turn


def connect(
    url: str | None = None,
    *,
    name: str | None = None,
    tls: str | Path | None = None,
    token: str | Path | None = None,
    timeout: float = 5.0,
    wait: float = 0.0,
    buffer: int = 16 << 20,
    window: int = 4 << 20,
    stay: bool = False,
) -> "Fabric":
    """A client of a broker, to be used with `async with`.

    `url` is `stentor://host:port`, or several of them, `stentor://one:7420,two:7420`, to go to the next when a broker
    is away; by default $STENTOR_URL or this machine. `name` identifies the client: a second holder of a name fences the
    first one off; without one, a fresh name is made. With TLS a name belongs to a principal: `alice` may take `alice`,
    names that begin with `alice:`, and those that the configuration gives. `tls` is a directory of `stentor certs`, by
    default $STENTOR_TLS. `token` is the file of the fabric's token, which operators need without TLS: by default
    $STENTOR_TOKEN, or that of your own fabric on this machine. `timeout` is how many seconds a broker has to answer at
    first, and `wait` how many it may not be there at all, for those who start together with it; later it reconnects for
    ever. `buffer`, `window` bound bytes to send and to read. A broker of a network that grows with its load may ask the
    client to move to another one; with `stay` it does not.
    """
    return Fabric(
        url, name=name, tls=tls, token=token, timeout=timeout, wait=wait, buffer=buffer, window=window, stay=stay
    )


class Fabric(MachineRunner):
    """A connected client. Made by `connect`."""

    _unopened = "not connected: use `async with stentor.connect(…) as fabric`"

    def __init__(
        self,
        url: str | None,
        *,
        name: str | None,
        tls: str | Path | None,
        token: str | Path | None,
        timeout: float,
        wait: float,
        buffer: int,
        window: int,
        stay: bool,
    ) -> None:
        self.url = url or os.environ.get("STENTOR_URL") or DEFAULT_URL
        certificates = tls or os.environ.get("STENTOR_TLS") or None
        secret = None if certificates else token or os.environ.get("STENTOR_TOKEN") or None
        self.name = name or made_up_name(certificates)
        access = Access(
            self.url, str(certificates) if certificates else None, timeout, wait, str(secret) if secret else None, stay
        )
        access.check()
        super().__init__(access, LinkLog("stentor.client", f"client {self.name!r}"))
        self._client = Client(access.settings(self.name, window=window, buffer=buffer, agent="stentor-python"))
        self.principal = ""  # who we are to the broker
        self._questions = Questions()
        self._room: asyncio.Future[None] | None = None
        self._turn = False  # what was published leaves when this turn of the loop ends
        self._since_turn = 0  # bytes published in this turn
        self._unflushed = False
        self._numbers = 0
        self._moving = 0  # the token of the last move
        self._subscriptions = EventStreams(self._client, self._tell, partial(settle, self), self._log)
        self._bundles = Bundles(self._tell)
        self._endpoints = ReliableEndpoints(self._access, window, partial(Reader, self))
        self._mail = Mail(self._endpoints, self.name)
        self._best_effort = BestEffort(self._confirm_flow)
        self._checking: set[int] = set()  # tokens of checks that have not come back

    @property
    def is_operator(self) -> bool:
        """Whether the broker obeys us: we proved the fabric's token, or have a node's certificate for all of it."""
        return self._client.is_operator

    def as_operator(self) -> "Fabric":
        """Another client of the same broker, under a name that only operators may take: repositories obey it."""
        _, tls, timeout, wait, token, _ = self._access
        name = OPERATOR_NAME + fresh_name()
        return connect(self.url, name=name, tls=tls, token=token, timeout=timeout, wait=wait, stay=True)

    async def __aenter__(self) -> Self:
        await self._start(self._client)
        return self

    async def close(self) -> None:
        """Send what waits, say goodbye and end; every subscription ends with it."""
        if self._driver is None or isinstance(self._error, Closed):
            return
        if self._error is None:
            self._end_turn()
            if self.connected and self._unflushed:
                with suppress(StentorError):  # whoever must know whether it arrived calls flush
                    await self.flush(LINGER)
        await self._endpoints.close()
        await self._stop("this client was closed")

    async def publish(
        self, topic: str, body: bytes = b"", *, attributes: Mapping[str, Value] | None = None, **more: Value
    ) -> None:
        """Publish one event. Attributes are keywords, or `attributes={…}` for names that clash with parameters.

        The first one on a topic waits until the broker has taken it in, or has refused it: because the principal may
        not publish there, or because the topic is reliable and nothing would be stored; see `publisher`.
        """
        self._check()
        is_taken = self._best_effort.is_taken(topic)
        if more:
            attributes = {**attributes, **more} if attributes else more
        self._client.publish(topic, attributes or {}, check_body(body), time.time_ns())
        await self._offered(len(body))
        if not is_taken and self.connected:
            await self._best_effort.confirm(topic)

    async def publish_many(
        self, topic: str, bodies: Iterable[bytes], attributes: Mapping[str, Sequence[Value | None]] | None = None
    ) -> None:
        """Publish many events on one topic; each attribute is a sequence as long as `bodies`, None where missing."""
        self._check()
        is_taken = self._best_effort.is_taken(topic)
        events = list(map(check_body, bodies))
        self._client.publish_many(topic, attributes or {}, events, time.time_ns())
        await self._offered(sum(map(len, events)))
        if not is_taken and events and self.connected:
            await self._best_effort.confirm(topic)

    async def send(
        self, to: Iterable[str], body: bytes = b"", *, guaranteed: bool = False, **attributes: Value
    ) -> None:
        """Publish an event that names its destinations: clients that read their `inbox`, wherever they are. What is
        `guaranteed` is stored until each of them has it from its `mailbox`, whenever it comes.
        """
        names = list(dict.fromkeys(to))
        if guaranteed:
            await self._mail.send(names, body, attributes)
            return
        for name in names:
            await self.publish(inbox_of(name), body, attributes=attributes)

    def inbox(self, where: str | None = None) -> Events:
        """The events that were sent to this client by its name."""
        return self.subscribe(inbox_of(self.name), where)

    def mailbox(self, *, ack: Literal["auto", "manual"] = "auto") -> Subscription:
        """What was sent to this client by its name with `guaranteed`, each event once and in order per sender."""
        return self._mail.box(ack)

    async def _offered(self, size: int) -> None:
        self._unflushed = True
        if not self._turn:
            self._turn = True
            self._driver.loop.call_soon(self._end_turn)  # type: ignore[union-attr]
        self._since_turn += size + 64
        if not self._client.room:
            await self._wait_for_room()
        elif self._since_turn > _TURN:
            self._end_turn()
            await asyncio.sleep(0)

    async def _wait_for_room(self) -> None:
        self._end_turn()
        while not self._client.room:
            self._check()
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)

    def _end_turn(self) -> None:
        self._turn, self._since_turn = False, 0
        if self._error is None and self._driver is not None:
            self._driver.tell(TurnEnded())

    async def _confirm_flow(self) -> None:
        """Return when the broker has taken in what was published so far, or the link is gone."""
        token = self.token()
        self._checking.add(token)
        try:
            await self._answered(token, FlowCheckRequested, None)
        except LinkBroken:
            pass
        finally:
            self._checking.discard(token)

    async def flush(self, timeout: float | None = 30.0) -> None:
        """Return when the broker has taken in everything published before; LinkBroken if that cannot be known."""
        self._unflushed = False
        await self._answered(self.token(), FlushRequested, timeout)

    async def status(self, timeout: float = 10.0) -> NodeStatus:
        """What the broker tells about itself and its clients."""
        answer = await self.ask(StatusRequest(self.token()), timeout)
        return msgspec.msgpack.decode(answer.status, type=NodeStatus)  # type: ignore[union-attr]

    async def move(self, url: str, timeout: float | None = 30.0) -> None:
        """Go to another broker, with all subscriptions; return when the client is there.

        It subscribes there before it leaves this broker, so that nothing falls between them. A broker that is dead, or
        does not confirm within two seconds what was published, is left all the same: what it had not confirmed may be
        lost, as with any link that breaks, and the next flush says so. After the timeout, Unresponsive: the client
        keeps trying.
        """
        addresses = addresses_of(url)
        self._check()
        self.url = url
        self._access = self._access._replace(url=url)
        self._log.moving(url)
        self._endpoints.move(url)
        if self.connected and self._client.address == addresses[0]:
            self._tell(Moved(addresses))
        else:
            self._moving = self.token()
            await self._answered(self._moving, lambda _: Moved(addresses), timeout)

    async def ask(self, question: Question, timeout: float | None) -> Answer:
        """Ask the broker something; the question's token must be fresh."""
        return await self._answered(question.token, lambda _: Asked(question), timeout)  # type: ignore[return-value]

    async def is_reliable(self, topic: str, timeout: float = 10.0) -> bool:
        """Whether repositories store this topic, as far as the broker knows; see `publisher` and `subscribe`."""
        return await self._is_heard(bundle_of(check_topic(topic)), timeout)

    async def _is_heard(self, topic: str, timeout: float) -> bool:
        """Return whether anybody subscribes to a topic, as far as the broker knows."""
        answer = await self.ask(ExplanationRequest(self.token(), topic), timeout)
        return msgspec.msgpack.decode(answer.explanation, type=Explanation).wanted  # type: ignore[union-attr]

    def token(self) -> int:
        """A fresh number, for a question."""
        self._numbers += 1
        return self._numbers

    async def _answered(self, token: int, question: Callable[[int], Input], timeout: float | None) -> Answer | None:
        self._check()
        self._questions.expect(token)
        self._tell(question(token))
        return await self._questions.answered(token, self.url, timeout)

    @overload
    def subscribe(self, pattern: str, where: str | None = None) -> Events: ...
    @overload
    def subscribe(
        self,
        pattern: str,
        where: str | None = None,
        *,
        name: str,
        from_: From = "now",
        ack: Literal["auto", "manual"] = "auto",
        **pace: Unpack[Pace],
    ) -> Subscription: ...
    def subscribe(
        self,
        pattern: str,
        where: str | None = None,
        *,
        name: str | None = None,
        from_: From = "now",
        ack: Literal["auto", "manual"] = "auto",
        **pace: Unpack[Pace],
    ) -> Events | Subscription:
        """Events whose topic matches `pattern` (`+` is one level, `#` the rest) and whose attributes match `where`.
        Entered, it is in force at this broker; `await events.settled()` returns when it is at all others.

        With a `name` the topic is a reliable one: each event comes once, in order, and the name's place is remembered
        by the topic's repositories, with its filter: without a `where` the one that is registered holds, and "" or "*"
        is everything. `from_` is where a new name begins: "now", "beginning", an epoch or a datetime. See `Pace`, too.
        """
        if name is not None:
            return self._endpoints.subscription(pattern, name, where, from_, ack, pace)
        if pace:
            raise InvalidInput(f"{next(iter(pace))} is for subscriptions with a name: others acknowledge nothing")
        self._numbers += 1
        return Events(self._subscriptions, SubscriptionId(self._numbers), pattern, where or "")

    def publisher(
        self, topic: str, *, name: str, stored_on: int = 0, buffer: int = 16 << 20, resume: Resume | None = None
    ) -> Publisher:
        """A named publisher of a reliable topic, perhaps on more repositories than it asks for; see `Publisher`."""
        check_no_mail(topic)
        return self._endpoints.publisher(topic, name, stored_on, buffer, resume)

    # ---- what the machine tells

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Deliver():
                self._subscriptions.deliver(effect)
            case ResumePublishing():
                self._wake()
            case CompleteFlush() | AnswerQuery():
                self._questions.answer(effect)
            case ConfirmSubscription() | DenySubscription():
                self._subscriptions.confirm(effect)
            case TellBundle():
                self._bundles.told(effect)
            case Connect():
                self.principal = effect.principal
                super()._perform(effect)
                self._questions.answer(CompleteFlush(self._moving))
                if self._first is not None:
                    self._first.succeed()
            case Disconnect():
                self._forget_flows()
                super()._perform(effect)
            case RefuseFlow():
                self._best_effort.refuse(effect)
            case _:
                super()._perform(effect)

    def _forget_flows(self) -> None:
        """The link is gone: nobody waits for what its broker would have said."""
        self._best_effort.forget()
        self._questions.give_up(self._checking)

    def _wake(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None

    def _fail(self, error: Exception) -> None:
        """Nothing more can be done with this client: everyone who waits is told."""
        super()._fail(error)
        self._questions.fail(error)
        self._subscriptions.end(error)
        self._wake()
