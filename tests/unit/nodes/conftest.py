"""A broker and its clients, stepped by hand: what one sends is carried to the other in order, whole or in pieces."""

import itertools
from collections import deque
from random import Random
from typing import Any, TypeVar

import pytest

from stentor.machine import (
    SECOND,
    Append,
    Appended,
    Close,
    Dial,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Pause,
    Received,
    Report,
    Resume,
    Send,
    Serve,
    Started,
    StartTimer,
    StopTimer,
    Timer,
    TimerFired,
)
from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema, Value
from stentor.model.ids import (
    CatenationNumber,
    Incarnation,
    LinkId,
    PublisherId,
    SubscriptionId,
    publisher_id,
    topic_id,
)
from stentor.model.limits import Limits
from stentor.model.messages import AnyMessage, Hello, Message, SchemaDefinition, Subscription, Topic
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.client import Client, Settings
from stentor.nodes.client_api import Deliver, MoreRequested, SubscribeRequested, TurnEnded
from stentor.nodes.network.network import NetworkSettings
from stentor.policies.access import AccessSettings
from stentor.simulation.clients import typed_calls
from stentor.simulation.clients.typed_calls import PublishCalled
from stentor.wire import block, frame
from stentor.wire.block import Origin
from stentor.wire.frame import CONTROL, PREAMBLE

E = TypeVar("E", bound=Effect)
NUMBERED = Schema(("n",), (Kind.INTEGER,))
BROKER = "broker"


class Peer:
    """A bare link to the broker: says whatever a test likes, and notes what it hears."""

    def __init__(self, stage: "Stage", link: LinkId, principal: str) -> None:
        self.stage, self.link, self.principal = stage, link, principal
        self.name = ""
        self.stream = b""
        self.closed: str | None = None
        self._read = 0

    def say(self, *words: Message | bytes) -> list[Any]:
        """Send this as one chunk; returns what the broker has said to this link since it was last asked."""
        data = b"".join(word if isinstance(word, bytes) else frame.encode(word) for word in words)
        self.stage.tell_broker(Received(self.link, data))
        self.stage.run()
        return self.hear()

    def greet(self, name: str, incarnation: int = 1, window: int = 1 << 20) -> list[Any]:
        self.name = name
        return self.say(PREAMBLE, Hello(name=name, incarnation=Incarnation(incarnation), window=window))

    def hear(self) -> list[Any]:
        """Messages, and event frames as bytes, that have come since the last time."""
        found: list[AnyMessage | bytes] = []
        if self._read == 0 and self.stream:
            assert self.stream[:8] == PREAMBLE
            self._read = 8
        while self._read < len(self.stream):
            length = int.from_bytes(self.stream[self._read : self._read + 4], "little")
            piece = self.stream[self._read : self._read + length]
            assert len(piece) == length, "a broker sends whole frames"
            found.append(frame.decode(piece) if piece[4] == CONTROL else piece)
            self._read += length
        return found

    @property
    def publisher(self) -> PublisherId:
        return publisher_id(self.principal or "anonymous", self.name)

    def events(self, topic: str, first: int = 1, numbers: list[int] | None = None, *, body: bytes = b"") -> bytes:
        """A frame of this peer's own events, one without attributes or one per number."""
        origin = Origin(topic_id(topic), self.publisher, Incarnation(1), CatenationNumber(first), 0)
        if numbers is None:
            return block.encode(origin, EMPTY_SCHEMA, [], [body])
        column: list[Value | None] = list(numbers)
        return block.encode(origin, NUMBERED, [column], [body or str(number).encode() for number in numbers])

    def define(self, *topics: str) -> None:
        self.say(SchemaDefinition(NUMBERED), *(Topic(topic_id(topic), topic) for topic in topics))

    def subscribe(self, number: int, pattern: str, where: str = "") -> list[Any]:
        return self.say(Subscription(SubscriptionId(number), pattern, where))


class Actor:
    """A client machine with its application."""

    def __init__(self, stage: "Stage", settings: Settings) -> None:
        self.stage = stage
        self.name = settings.name
        self.machine = Client(settings)
        self.told: list[Effect] = []
        self.link: LinkId | None = None  # the broker's number for our link
        self._own = LinkId(0)  # and ours for it

    def tell(self, *happened: Input) -> list[Effect]:
        """Step; what it sends is under way afterwards."""
        effects = []
        for each in happened:
            for effect in typed_calls.step(self.machine, self.stage.now, each):
                effects.append(effect)
                self._perform(effect)
        return effects

    def do(self, *happened: Input) -> list[Effect]:
        """Step, and carry everything until all is quiet; returns all that the application was told."""
        before = len(self.told)
        self.tell(*happened)
        self.stage.run()
        return self.told[before:]

    def _perform(self, effect: Effect) -> None:
        stage = self.stage
        if isinstance(effect, Send):
            assert self.link is not None
            stage.carry(BROKER, self.link, b"".join(effect.data))
        elif isinstance(effect, Dial):
            self._own = effect.link
            if stage.open:
                self.link = stage.connect(self)
                self.tell(LinkOpened(effect.link, dialled=True))
            else:
                self.tell(LinkLost(effect.link, "connection refused"))
        elif isinstance(effect, Close):
            if effect.link == self._own and self.link is not None:
                stage.carry(BROKER, self.link, None)
                stage.links.pop(self.link)
                self.link = None
        elif isinstance(effect, StartTimer):
            stage.timers[self.name, effect.timer] = effect.at
        elif isinstance(effect, StopTimer):
            stage.timers.pop((self.name, effect.timer), None)
        else:
            self.told.append(effect)

    def receive(self, data: bytes | None) -> None:
        if data is None:
            self.link = None
            self.tell(LinkLost(self._own, "the peer closed the link"))
        else:
            self.tell(Received(self._own, data))

    # ---- what applications do

    def publish(self, topic: str, body: bytes = b"", **attributes: Value) -> list[Effect]:
        return self.do(PublishCalled(topic, attributes, body, self.stage.now), TurnEnded())

    def subscribe(self, number: int, pattern: str, where: str = "") -> list[Effect]:
        return self.do(SubscribeRequested(SubscriptionId(number), pattern, where))

    def read(self, number: int = 1) -> list[tuple[str, dict[str, Value], bytes]]:
        """Every event that waits for a subscription: topic, attributes, body."""
        return [event for delivery in self.deliveries(number) for event in self.opened(delivery)]

    def deliveries(self, number: int = 1) -> list[Deliver]:
        self.do(MoreRequested(SubscriptionId(number)))
        found = [each for each in self.told if isinstance(each, Deliver) and each.subscription == number]
        self.told = [each for each in self.told if each not in found]
        return found

    def opened(self, delivery: Deliver) -> list[tuple[str, dict[str, Value], bytes]]:
        events = []
        for read in delivery.blocks:
            read.verify()
            topic = self.machine.topics[read.topic]
            events += [(topic, row, body) for row, body in zip(read.rows(), read.bodies(), strict=True)]
        return events

    def heard(self, kind: type[E]) -> list[E]:
        """What the application was told, of one kind."""
        return [each for each in self.told if isinstance(each, kind)]


class Stage:
    """Everything on it, the clock included, moves only when a test says so."""

    def __init__(
        self, limits: Limits | None = None, *, traces: bool = False, access: AccessSettings | None = None
    ) -> None:
        self.now = 0
        self.open = True  # whether the broker can be dialled
        self.cuts: Random | None = None  # whether chunks are cut at random bytes
        network = NetworkSettings(traces=traces, access=access or AccessSettings())
        self.broker = Broker(ScopePath.parse("campus/b1"), limits or Limits(), "test", network)
        self.reports: list[Report] = []
        self.timers: dict[tuple[str, Timer], int] = {}
        self.paused: set[LinkId] = set()
        self.links: dict[LinkId, Peer | Actor] = {}
        self.actors: dict[str, Actor] = {}
        self._under_way: deque[tuple[str, LinkId, bytes | None]] = deque()
        self._numbers = 0
        self.tell_broker(Started())
        assert self.broker.ready

    def tell_broker(self, happened: Input) -> list[Effect]:
        effects = self.broker.step(self.now, happened)
        for effect in effects:
            if isinstance(effect, Send):
                assert all(len(data) for data in effect.data)
                self.carry("", effect.link, b"".join(effect.data))
            elif isinstance(effect, Close):
                self.carry("", effect.link, None)
                if isinstance(peer := self.links.get(effect.link), Peer):
                    peer.closed = effect.reason
            elif isinstance(effect, StartTimer):
                self.timers[BROKER, effect.timer] = effect.at
            elif isinstance(effect, StopTimer):
                self.timers.pop((BROKER, effect.timer), None)
            elif isinstance(effect, Pause):
                self.paused.add(effect.link)
            elif isinstance(effect, Resume):
                self.paused.remove(effect.link)
            elif isinstance(effect, Report):
                self.reports.append(effect)
            elif isinstance(effect, Append):
                self.tell_broker(Appended(effect.log, effect.token))
            else:
                assert isinstance(effect, Serve)
        return effects

    def connect(
        self, who: "Peer | Actor", principal: str = "", *, node: bool = True, attributes: tuple[str, ...] = ()
    ) -> LinkId:
        self._numbers += 1
        link = LinkId(self._numbers)
        self.links[link] = who
        if isinstance(who, Peer):
            who.link = link
        opened = LinkOpened(link, principal=principal, address="127.0.0.1:1", node=node, attributes=attributes)
        self.tell_broker(opened)
        return link

    def peer(self, name: str = "", principal: str = "", *, node: bool = True, attributes: tuple[str, ...] = ()) -> Peer:
        """A bare link, that has said hello if it has a name."""
        made = Peer(self, LinkId(0), principal)
        self.connect(made, principal, node=node, attributes=attributes)
        self.run()
        if name:
            made.greet(name)
        return made

    def client(self, name: str, **settings: Any) -> Actor:
        """A client that has been started, and is connected if it can."""
        settings = {"incarnation": Incarnation(1), "addresses": ("anywhere",), **settings}
        made = self.actors[name] = Actor(self, Settings(name=name, **settings))
        made.do(Started())
        return made

    def carry(self, to: str, link: LinkId, data: bytes | None) -> None:
        if data is not None and self.cuts is not None and len(data) > 1:
            edges = sorted({0, len(data), *(self.cuts.randrange(len(data)) for _ in range(3))})
            pieces = [data[start:end] for start, end in itertools.pairwise(edges)]
            self._under_way.extend((to, link, piece) for piece in pieces)
        else:
            self._under_way.append((to, link, data))

    def step(self) -> bool:
        """Carry the next piece; False if nothing is under way."""
        if not self._under_way:
            return False
        to, link, data = self._under_way.popleft()
        if to == BROKER:
            self.tell_broker(LinkLost(link, "the peer closed the link") if data is None else Received(link, data))
            return True
        who = self.links.get(link)
        if isinstance(who, Peer) and data is not None:
            who.stream += data
        elif isinstance(who, Actor) and who.link == link:
            who.receive(data)
        if data is None:
            self.links.pop(link, None)
        return True

    def run(self) -> None:
        steps = 0
        while self.step():
            steps += 1
            assert steps < 100_000, "they never come to rest"

    def cut(self, actor: Actor, reason: str = "cable cut") -> None:
        """Break a link: what is under way on it is lost, both ends hear of it."""
        link = actor.link
        assert link is not None
        self._under_way = deque(each for each in self._under_way if each[1] != link)
        del self.links[link]
        actor.link = None
        self.tell_broker(LinkLost(link, reason))
        actor.tell(LinkLost(actor._own, reason))

    def wait(self, seconds: float) -> None:
        """Let time pass; timers fire when they are due, and everything comes to rest in between."""
        end = self.now + int(seconds * SECOND)
        self.run()
        while due := [(at, who) for who, at in self.timers.items() if at <= end]:
            at, who = min(due, key=lambda each: (each[0], repr(each[1])))
            self.now = max(self.now, at)
            del self.timers[who]
            fired = TimerFired(who[1])
            if who[0] == BROKER:
                self.tell_broker(fired)
            else:
                self.actors[who[0]].tell(fired)
            self.run()
        self.now = end


@pytest.fixture(scope="session")
def new_stage() -> type[Stage]:
    """For a stage with limits of its own, or several of them in one test."""
    return Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()
