"""A laboratory: the real broker machines of a network in one process, their links as queues, time as a number."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

from stentor.machine import (
    SECOND,
    Append,
    Appended,
    Close,
    Dial,
    Input,
    LinkLost,
    LinkOpened,
    Received,
    Send,
    Started,
    StartTimer,
    StopTimer,
    Timer,
    TimerFired,
)
from stentor.model.attribute import Kind, Schema, Value
from stentor.model.ids import CatenationNumber, Incarnation, LinkId, SubscriptionId, publisher_id, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import Hello, Message, SchemaDefinition, Subscription, Topic
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.wire import block, frame

_WINDOW = 1 << 30
_KINDS = {str: Kind.STRING, int: Kind.INTEGER, float: Kind.DECIMAL, bool: Kind.BOOLEAN}


class Guest:
    """A client of a broker in the laboratory: it says things and hears nothing."""

    def __init__(self, lab: "Lab", broker: str, link: LinkId, name: str) -> None:
        self._lab, self._broker, self._link, self._name = lab, broker, link, name
        self._defined: set[str | Schema] = set()
        self._published = 0
        self._wishes = 0
        hello = Hello(name=name, incarnation=Incarnation(1), window=_WINDOW, heartbeat=3600.0)
        lab.give(broker, LinkOpened(link, principal="anonymous"))
        lab.give(broker, Received(link, frame.PREAMBLE + frame.encode(hello)))

    def say(self, *messages: Message) -> None:
        self._lab.give(self._broker, Received(self._link, b"".join(map(frame.encode, messages))))

    def subscribe(self, pattern: str, where: str = "") -> None:
        self._wishes += 1
        self.say(Subscription(SubscriptionId(self._wishes), pattern, where))

    def publish(self, topic: str, rows: Sequence[Mapping[str, Value]], body: bytes) -> None:
        """One frame of events."""
        names = tuple(sorted(rows[0]))
        schema = Schema(names, tuple(_KINDS[type(rows[0][name])] for name in names))
        if topic not in self._defined:
            self.say(Topic(topic_id(topic), topic))
        if schema not in self._defined:
            self.say(SchemaDefinition(schema))
        self._defined |= {topic, schema}
        publisher = publisher_id("anonymous", self._name)
        origin = block.Origin(topic_id(topic), publisher, Incarnation(1), CatenationNumber(self._published), 1)
        self._published += len(rows)
        columns = [[row[name] for row in rows] for name in names]
        data = block.encode(origin, schema, columns, [body] * len(rows))
        self._lab.give(self._broker, Received(self._link, data))


class Lab:
    """Brokers by name, which dial each other by name."""

    def __init__(self, numbers: Mapping[str, tuple[int, ...]], limits: Limits | None = None) -> None:
        self.now = SECOND
        self.brokers: dict[str, Broker] = {}
        self.heard: Counter[tuple[str, str]] = Counter()  # control messages by broker and kind
        self._numbers = numbers
        self._limits = limits or Limits(heartbeat=3600.0)
        self._queue: deque[tuple[str, Input]] = deque()
        self._other: dict[tuple[str, LinkId], tuple[str, LinkId]] = {}
        self._timers: dict[tuple[str, Timer], int] = {}
        self._links = 0

    def start(self, name: str, dials: Sequence[str], forwarding: str = "content") -> Broker:
        """A broker that opens links to others, which must be there."""
        settings = NetworkSettings(
            numbers=self._numbers[name],
            address=name,
            gateways=tuple(GatewaySettings(name=other, address=other) for other in dials),
            forwarding={"": forwarding},
        )
        broker = self.brokers[name] = Broker(ScopePath.parse(name), self._limits, network=settings)
        self.give(name, Started())
        return broker

    def client(self, broker: str, name: str) -> Guest:
        return Guest(self, broker, self._link(), name)

    def give(self, name: str, happened: Input) -> None:
        self._queue.append((name, happened))

    def settle(self) -> None:
        """Until nobody has anything to say, and no timer is due."""
        while self._queue or self._due():
            while self._queue:
                name, happened = self._queue.popleft()
                if type(happened) is Received:
                    self._note(name, happened.data)
                self._step(name, happened)
            for name, timer in list(self._due()):
                del self._timers[name, timer]
                self.give(name, TimerFired(timer))

    def pass_time(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.settle()

    def links(self) -> tuple[int, int]:
        """Events and bytes that all brokers have sent each other."""
        views = [link for broker in self.brokers.values() for link in broker.view().links]
        return sum(link.events_out for link in views), sum(link.bytes_out for link in views)

    def _due(self) -> list[tuple[str, Timer]]:
        return [key for key, due in self._timers.items() if due <= self.now]

    def _link(self) -> LinkId:
        self._links += 1
        return LinkId(self._links)

    def _step(self, name: str, happened: Input) -> None:
        for effect in self.brokers[name].step(self.now, happened):
            match effect:
                case Send():
                    other = self._other.get((name, effect.link))
                    if other is not None:
                        self.give(other[0], Received(other[1], b"".join(effect.data)))
                case Dial():
                    self._join(name, effect.link, effect.address)
                case Close():
                    self._cut((name, effect.link), effect.reason)
                case StartTimer():
                    self._timers[name, effect.timer] = effect.at
                case StopTimer():
                    self._timers.pop((name, effect.timer), None)
                case Append():
                    self.give(name, Appended(effect.log, effect.token))

    def _cut(self, end: tuple[str, LinkId], reason: str) -> None:
        other = self._other.pop(end, None)
        if other is not None:
            self._other.pop(other, None)
            self.give(other[0], LinkLost(other[1], reason))

    def _join(self, name: str, link: LinkId, other: str) -> None:
        assert other in self.brokers, f"{other} must be there before {name} dials it"
        there = self._link()
        self._other[name, link], self._other[other, there] = (other, there), (name, link)
        self.give(other, LinkOpened(there, address=name))
        self.give(name, LinkOpened(link, dialled=True, address=other))

    def _note(self, name: str, data: bytes) -> None:
        for kind in _kinds(data):
            self.heard[name, kind] += 1


def _kinds(data: bytes) -> Iterator[str]:
    """The control messages of a chunk; links of the laboratory never cut frames."""
    position = len(frame.PREAMBLE) if data.startswith(frame.PREAMBLE) else 0
    while position < len(data):
        (length,) = frame.LENGTH.unpack_from(data, position)
        if data[position + 4] == frame.CONTROL:
            yield type(frame.decode(data[position : position + length])).__name__
        position += length
