"""The herald of a broker: traces some of the frames that pass, and tells them as events of the broker itself.

Which frames is decided by their numbers, so that all brokers on the way choose the same ones, and a busier one a part
of them. Nothing but the head of a frame is looked at.
"""

from collections.abc import Callable

from stentor.machine import SECOND, Effect, StartTimer, Timer
from stentor.model.ids import Incarnation, SchemaId, TopicId, incarnation_at, publisher_id, topic_id
from stentor.model.messages import Message, SchemaDefinition, Topic
from stentor.model.trace import SCHEMA, TRACE, Trace, TraceKind, to_columns
from stentor.nodes.network.settings import NetworkSettings
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.delivery.besteffort.publisher import BestEffortPublisher
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.dissemination.routes import FlowTable, Route
from stentor.wire.frame import SHORTEST_EVENTS
from stentor.wire.head import FLOW, HEADER, LAST_FIRST, PUBLISHER_AND_FIRST, last_offset_of
from stentor.wire.parcel import first_frame
from stentor.wire.run import split

# How long a batch of traces is gathered, and how many are too many in it, or leave room for more. A hop costs as much
# as some events do, so where traces are summed up there are few.
_DENSE = SECOND, 256, 64
_SPARSE = 10 * SECOND, 16, 4
_SPREAD = 0x9E3779B97F4A7C15


class HopsDue(Timer, frozen=True, gc=False, tag="hops"):
    """The hops that were traced have waited long enough to be published."""


class BrokerTracer:
    """Hears of frames, and speaks to the broker's own clients and neighbours as if it were a client."""

    credit = 1 << 40  # nobody is slower than the broker itself

    def __init__(
        self,
        name: str,
        forwarder: Forwarder[Outbox],
        relay: Relay[Outbox],
        act: Callable[[Effect], None],
        settings: NetworkSettings,
    ) -> None:
        self._on = settings.traces
        self._pause, self._many, self._few = _SPARSE if settings.sums else _DENSE
        self._name, self._act = name, act
        self._forwarder, self._relay = forwarder, relay
        self._flows: FlowTable[Outbox] = FlowTable(0)
        self._id = publisher_id("", name)  # nobody else has no principal
        self._publisher = BestEffortPublisher(Incarnation(0), 0)
        self._traces = TraceBuffer()
        self._rare = 0  # one of so many frames is traced: 1 less than a power of two
        self._armed = False
        self._since = 0  # how far clocks on walls are ahead of ours

    def begin(self, now: int, wall: int) -> None:
        self._since = wall - now if wall else 0
        if self._on:
            self._publisher = BestEffortPublisher(incarnation_at(wall), 0)
            self._forwarder.define_topic(self._flows, Topic(topic_id(TRACE), TRACE))

    # ---- frames

    def watch(self, now: int, peer: str, data: bytes, runs: list[tuple[Route[Outbox], int, int, int]]) -> None:
        """Runs of a client: the first frame of each stands for it."""
        if self._on:
            for route, start, _, _ in runs:
                if self._is_chosen(data, start) and route is not self._forwarder.table.denied:
                    self._notice(now, peer, data, start)

    def watch_parcel(self, now: int, peer: str, data: bytes, at: int, length: int) -> None:
        """A parcel of a broker: its first frame stands for it."""
        if not self._on:
            return
        start = first_frame(data, at)
        if start + SHORTEST_EVENTS <= at + length and self._is_chosen(data, start):
            self._notice(now, peer, data, start)

    def _is_chosen(self, data: bytes, at: int) -> bool:
        """Return whether a frame is one of the few that are traced, the same ones at every broker on their way."""
        publisher, first = PUBLISHER_AND_FIRST.unpack_from(data, at)
        # whoever reads a frame with a number beyond the last refuses it; a broker does not look into frames for that
        return not ((first ^ publisher) * _SPREAD >> 32) & self._rare and first <= LAST_FIRST

    def _notice(self, now: int, peer: str, data: bytes, at: int) -> None:
        length, _, _, _, _, topic, publisher, _, numbers, first, born, _, _ = HEADER.unpack_from(data, at)
        state = self._forwarder.table.topics.get(TopicId(topic))
        if state is None or state.name.startswith("$"):
            return
        count = numbers & 0xFFFF
        rows = len(self._traces.rows)
        self._traces.add(
            Trace(
                kind=TraceKind.HOP, at=now, about=state.name, source_id=publisher, life=numbers >> 16, first=first,
                last=first + last_offset_of(data, at), count=count, peer=peer, size=length, born=born,
            )
        )  # fmt: skip
        if rows and not rows % self._many:
            self._rare = 2 * self._rare + 1
        self._arm(now)

    def _arm(self, now: int) -> None:
        if not self._armed:
            self._armed = True
            self._act(StartTimer(HopsDue(), now + self._pause))

    # ---- telling

    def tell(self, now: int, wall: int) -> None:
        """A while is over: tell what was traced, and choose more or fewer in the next one."""
        self._armed = False
        self._since = wall - now if wall else self._since
        if len(self._traces.rows) < self._few:
            self._rare >>= 1
        self._publish(now)
        if self._rare:
            self._arm(now)

    def conclude(self, now: int) -> None:
        """The broker stops: tell what was traced since the last second was over, and that this was all."""
        if self._traces.rows or self._traces.told:
            self._traces.conclude(now)
            self._publish(now)

    def _publish(self, now: int) -> None:
        rows = self._traces.take(now)
        if rows and self._is_wanted():
            columns, bodies = to_columns(rows, self._name, self._since)
            self._publisher.offer_sound(TRACE, SCHEMA, columns, bodies, now + self._since)
            self._publisher.release(self, self._id)

    def _is_wanted(self) -> bool:
        return self._forwarder.table.route(self._forwarder.table.topics[topic_id(TRACE)]).is_wanted

    def define(self, number: TopicId | SchemaId, definition: Message) -> bool:  # noqa: ARG002
        if isinstance(definition, SchemaDefinition):
            self._forwarder.define_schema(self._flows, definition)
        return True

    def carry(self, frame: bytes, events: int) -> None:  # noqa: ARG002
        """Our own frame goes where a client's would go."""
        if frame[FLOW] not in self._flows.routes:
            self._forwarder.open_flow(self._flows, frame[FLOW], self._id)
        runs, _ = split(frame, 0, self._flows.routes)
        self._forwarder.forward(frame, runs)
        self._relay.publish(frame, runs)
