"""What may be delivered to whom: every event that an application is given is held against all that was published.

corrupt               nobody published that topic, those attributes and that body together
unasked               the subscription's pattern or filter does not want it
duplicate             the subscription was given it before
nonmonotonic-poll     … after a later one of the same publisher and topic
inconsistent-offsets  one catenation number stands for two events
poll-skip             lost without a word, although no link broke
lost-write            lost although everything was well
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from stentor.machine import SECOND
from stentor.model.attribute import Value
from stentor.simulation.outcome import Anomaly

Attributes = Mapping[str, Value]


class Published(msgspec.Struct, frozen=True):
    """An event as an application offered it. Bodies are unique, so that each names its event."""

    source: str  # one life of one publisher
    topic: str
    attributes: Attributes
    body: bytes
    index: int  # of the source's events on this topic
    time: int


def summary(events: Sequence[Published]) -> str:
    """Return how many events these are, and which is the first."""
    first = events[0]
    return f"{len(events)} events, first {first.topic} {first.body[:24]!r} of {first.time / SECOND:.3f} s"


class ReceivedEvent(msgspec.Struct, frozen=True):
    """An event as an application was given it."""

    topic: str
    attributes: Attributes
    body: bytes
    publisher: int
    incarnation: int
    catenation: int


class SubscriptionChecker:
    """One subscription in one life of its client."""

    __slots__ = ("_indices", "_numbers", "name", "seen", "wants")

    def __init__(self, name: str, wants: Callable[[str, Attributes], bool]) -> None:
        self.name = name
        self.wants = wants
        self.seen: set[bytes] = set()
        self._indices: dict[tuple[str, str], int] = {}
        self._numbers: dict[tuple[int, int, str], int] = {}

    def check(self, event: Published, arrival: ReceivedEvent) -> str | None:
        """What is wrong with its coming now, if anything is."""
        kind = None
        source, origin = (event.source, event.topic), (arrival.publisher, arrival.incarnation, arrival.topic)
        if not self.wants(event.topic, event.attributes):
            kind = "unasked"
        elif event.body in self.seen:
            kind = "duplicate"
        elif event.index <= self._indices.get(source, -1) or arrival.catenation <= self._numbers.get(origin, 0):
            kind = "nonmonotonic-poll"
        self.seen.add(event.body)
        self._indices[source] = max(event.index, self._indices.get(source, -1))
        self._numbers[origin] = max(arrival.catenation, self._numbers.get(origin, 0))
        return kind

    def missing(self, among: Iterable[Published]) -> list[Published]:
        """What it wants and has not been given."""
        return [event for event in among if event.body not in self.seen and self.wants(event.topic, event.attributes)]


class DeliveryOracle:
    """Everything that was published; `anomalies` collects what was wrong with deliveries."""

    def __init__(self, anomalies: list[Anomaly]) -> None:
        self.events: dict[bytes, Published] = {}
        self.deliveries = 0
        self._anomalies = anomalies
        self._indices: dict[tuple[str, str], int] = {}
        self._numbers: dict[tuple[int, int, str, int], bytes] = {}

    def publish(self, source: str, topic: str, attributes: Attributes, body: bytes, time: int) -> None:
        assert body not in self.events, "bodies name events"
        index = self._indices[source, topic] = self._indices.get((source, topic), -1) + 1
        self.events[body] = Published(source, topic, dict(attributes), body, index, time)

    def deliver(self, reader: SubscriptionChecker, arrival: ReceivedEvent) -> None:
        self.deliveries += 1
        event = self.events.get(arrival.body)
        if event is None or event.topic != arrival.topic or not _same(event.attributes, arrival.attributes):
            self._report("corrupt", reader, arrival, f"published as {event}")
            return
        number = (arrival.publisher, arrival.incarnation, arrival.topic, arrival.catenation)
        if self._numbers.setdefault(number, arrival.body) != arrival.body:
            self._report("inconsistent-offsets", reader, arrival, f"also {self._numbers[number][:24]!r}")
        kind = reader.check(event, arrival)
        if kind is not None:
            self._report(kind, reader, arrival, f"published as {event}")

    def _report(self, kind: str, reader: SubscriptionChecker, arrival: ReceivedEvent, detail: str) -> None:
        self._anomalies.append(
            Anomaly(
                kind,
                f"{reader.name} got {arrival.topic} {arrival.body[:24]!r} {dict(arrival.attributes)} "
                f"as number {arrival.catenation}, {detail[:300]}",
            )
        )


def _same(one: Attributes, other: Attributes) -> bool:
    """Equal with equal types: 1, 1.0 and True are three values."""
    return one == other and all(type(value) is type(other[name]) for name, value in one.items())
