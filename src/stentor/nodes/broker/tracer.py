"""The tracer of a broker traces some of the frames that pass, and publishes that as events of the broker itself.

Which frames is decided by their numbers, so that all brokers on the way choose the same ones, and a busier one a part
of them. Nothing but the head of a frame is looked at.
"""

from stentor.machine import SECOND, StartTimer, Step, Timer
from stentor.model.ids import TopicId, incarnation_at
from stentor.model.reports.trace import SCHEMA, TRACE, Trace, TraceKind, to_columns
from stentor.nodes.broker.local_client import LocalClient
from stentor.nodes.network.settings import NetworkSettings
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.dissemination.routes import Route, RouteTable
from stentor.wire.frame import SHORTEST_EVENTS
from stentor.wire.head import HEADER, LAST_FIRST, PUBLISHER_AND_FIRST, last_offset_of
from stentor.wire.parcel import first_frame

# How long a batch of traces is gathered, and how many are too many in it, or leave room for more. A hop costs as much
# as some events do, so where traces are summed up there are few.
_DENSE = SECOND, 256, 64
_SPARSE = 10 * SECOND, 16, 4
_SPREAD = 0x9E3779B97F4A7C15


class HopsDue(Timer, frozen=True, gc=False, tag="hops"):
    """The hops that were traced have waited long enough to be published."""


class BrokerTracer:
    """Looks at frames, and publishes through a client of its own in the broker's process."""

    def __init__(
        self, name: str, client: LocalClient, table: RouteTable[Outbox], settings: NetworkSettings, step: Step
    ) -> None:
        self._is_on = settings.traces
        pause, many, few = _SPARSE if settings.sums else _DENSE
        self._pause = pause
        self._many = many
        self._few = few
        self._name = name
        self._client = client
        self._table = table
        self._step = step
        self._traces = TraceBuffer()
        self._rare = 0  # one of so many frames is traced: 1 less than a power of two
        self._is_armed = False  # a timer runs
        self._since = 0  # how far clocks on walls are ahead of ours

    def begin(self, wall: int) -> None:
        self._since = wall - self._step.now if wall else 0
        if self._is_on:
            self._client.begin(incarnation_at(wall))
            self._client.announce(TRACE)

    # ---- frames

    def watch(self, peer: str, data: bytes, runs: list[tuple[Route[Outbox], int, int, int]]) -> None:
        """Runs of a client: the first frame of each stands for it."""
        if self._is_on:
            for route, start, _, _ in runs:
                if self._is_chosen(data, start) and route is not self._table.denied:
                    self._notice(peer, data, start)

    def watch_parcel(self, peer: str, data: bytes, at: int, length: int) -> None:
        """A parcel of a broker: its first frame stands for it."""
        if not self._is_on:
            return
        start = first_frame(data, at)
        if start + SHORTEST_EVENTS <= at + length and self._is_chosen(data, start):
            self._notice(peer, data, start)

    def _is_chosen(self, data: bytes, at: int) -> bool:
        """Return whether a frame is one of the few that are traced, the same ones at every broker on their way."""
        publisher, first = PUBLISHER_AND_FIRST.unpack_from(data, at)
        # whoever reads a frame with a number beyond the last refuses it; a broker does not look into frames for that
        return not ((first ^ publisher) * _SPREAD >> 32) & self._rare and first <= LAST_FIRST

    def _notice(self, peer: str, data: bytes, at: int) -> None:
        length, _, _, _, _, topic, publisher, _, numbers, first, born, _, _ = HEADER.unpack_from(data, at)
        state = self._table.topics.get(TopicId(topic))
        if state is None or state.name.startswith("$"):
            return
        count = numbers & 0xFFFF
        rows = len(self._traces.rows)
        self._traces.add(
            Trace(
                kind=TraceKind.HOP,
                at=self._step.now,
                about=state.name,
                source_id=publisher,
                life=numbers >> 16,
                first=first,
                last=first + last_offset_of(data, at),
                count=count,
                peer=peer,
                size=length,
                born=born,
            )
        )
        if rows and not rows % self._many:
            self._rare = 2 * self._rare + 1
        self._arm()

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            self._step.emit(StartTimer(HopsDue(), self._step.now + self._pause))

    # ---- telling

    def tell(self, wall: int) -> None:
        """A while is over: tell what was traced, and choose more or fewer in the next one."""
        self._is_armed = False
        self._since = wall - self._step.now if wall else self._since
        if len(self._traces.rows) < self._few:
            self._rare >>= 1
        self._publish()
        if self._rare:
            self._arm()

    def conclude(self) -> None:
        """The broker stops: tell what was traced since the last second was over, and that this was all."""
        if self._traces.rows or self._traces.told:
            self._traces.conclude(self._step.now)
            self._publish()

    def _publish(self) -> None:
        now = self._step.now
        rows = self._traces.take(now)
        if rows and self._client.is_wanted(TRACE):
            columns, bodies = to_columns(rows, self._name, self._since)
            self._client.publish(TRACE, SCHEMA, columns, bodies, now + self._since)
