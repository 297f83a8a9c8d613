"""The hot path of a broker: a chunk that one read brought is taken apart into runs of events, parcels and messages.

Runs of events whose flows are known go on at once, many frames as one slice. Everything else has a budget in each step
(see `deferred_work`): what is left of a chunk when the budget is used up waits for a later step.
"""

from collections.abc import Callable
from functools import partial

from stentor.machine import Close, Resume, Step
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId
from stentor.model.messages import AnyMessage
from stentor.nodes.broker.access.access_control import AccessControl
from stentor.nodes.broker.counters import BrokerCounters
from stentor.nodes.broker.deferred_work import DeferredWork, WorkKind
from stentor.nodes.broker.link_session import LinkSession, LinkState
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.nodes.broker.matching_budget import Run, ration
from stentor.nodes.broker.tracer import BrokerTracer
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.relay import Relay
from stentor.wire import head
from stentor.wire.frame import EVENTS, PARCEL, decode, measure
from stentor.wire.run import split


class FrameReader:
    """Reads the links of one broker. `hear` handles a message that ended so many bytes before the end of its chunk."""

    def __init__(
        self,
        forwarder: Forwarder[Outbox],
        relay: Relay[Outbox],
        tracer: BrokerTracer,
        sessions: LinkSessions,
        access: AccessControl,
        deferred: DeferredWork,
        counters: BrokerCounters,
        hear: Callable[[LinkSession, AnyMessage, int], None],
        step: Step,
    ) -> None:
        self._forwarder = forwarder
        self._relay = relay
        self._held = relay.held
        self._tracer = tracer
        self._sessions = sessions
        self._access = access
        self._deferred = deferred
        self._counters = counters
        self._hear = hear
        self._step = step
        self._is_withholding = False  # publishers got no credit, since much is held back
        self.is_routine = False  # this step brought events only, which change neither routes nor profiles nor access

    def receive(self, link: LinkId, data: bytes) -> None:
        """Bytes have come over a link."""
        self.is_routine = True
        session = self._sessions.links.get(link)
        if session is None:  # closed by us while these bytes were under way, or forgotten, which is damage
            self._step.emit(Close(link, "nobody here knows this link"))
            return
        self._counters.bytes_in += len(data)
        self._counters.chunks += 1
        if session.rest is not None:
            session.backlog.append(data)
            return
        self._deferred.is_untouched = True
        self._read(session, data)

    def resume(self, session: LinkSession) -> None:
        """Go on with what is left of a chunk, and with those that came after it."""
        link = session.connection.link
        assert session.rest is not None, "only sessions with a rest wait"
        (data, position), session.rest = session.rest, None
        try:
            self._take(session, data, position)
        except Exception as error:
            self._sessions.contain(session, error)
        while session.backlog and session.rest is None and link in self._sessions:
            self._read(session, session.backlog.popleft())
        if session.rest is None and link in self._sessions:
            self._step.emit(Resume(link))

    def end_step(self) -> None:
        """Grant the credit that was withheld, when there is room for held events again."""
        if self._is_withholding and not self._held.is_half_full:
            self._is_withholding = False
            for session in self._sessions.links.values():
                if session.connection.greeted:
                    session.connection.grant_more()

    def _read(self, session: LinkSession, data: bytes) -> None:
        try:
            chunk = session.connection.feed(self._step.now, data)
            if chunk is not None:
                self._take(session, chunk, 0)
        except Exception as error:
            self.is_routine = False
            self._sessions.contain(session, error)

    def _take(self, session: LinkSession, data: bytes, position: int) -> None:
        connection, routes = session.connection, session.flows.routes
        size = len(data)
        while position < size:
            runs, after = split(data, position, routes)
            is_all = True
            if runs and self._forwarder.table.filed.is_loaded:
                data, runs, after, is_all = self._ration(session, data, runs, after)
                size = len(data)
            if runs:
                events = self._forwarder.forward(data, runs)
                self._relay.publish(data, runs)
                self._tracer.watch(connection.name, data, runs)
                session.events_in += events
                self._counters.events_in += events
                if self._held.size and self._held.is_half_full:
                    connection.taken += after - position
                    self._is_withholding = True
                else:
                    connection.take_events(after - position)
                position = after
                if position == size:
                    return
            if not is_all:
                self._deferred.postpone(session, data, position)
                return
            kind, length = measure(data, position, connection.largest_frame)
            if not length or position + length > size:
                connection.buffer.hold(data, position)
                return
            if kind == PARCEL:
                self._take_parcel(session, data, position, length)
            elif not self._take_other(session, kind, data, position, length):
                return
            if kind != EVENTS:  # the first frame of a flow is read again, since there is a route for it now
                position += length

    def _take_other(self, session: LinkSession, kind: int, data: bytes, position: int, length: int) -> bool:
        """Handle a message, or the first frame of a flow; return whether this step can go on with the chunk."""
        self.is_routine = False
        frame = data[position : position + length]
        if kind == EVENTS:
            if not self._deferred.can_do(WorkKind.DEFINITION):
                self._deferred.postpone(session, data, position)
                return False
            self._open_flow(session, frame)
            return True
        message = decode(frame)
        if not self._deferred.can_hear(session, message):
            self._deferred.postpone(session, data, position)
            return False
        self._hear(session, message, len(data) - position)
        return session.state is not LinkState.CLOSED

    def _take_parcel(self, session: LinkSession, data: bytes, position: int, length: int) -> None:
        """Handle a parcel of another broker."""
        connection = session.connection
        if session.hop is None:
            raise FrameError(Refusal.PROTOCOL, "a parcel from somebody who is no broker")
        session.events_in += self._relay.receive(session.hop, session.flows, data, position, connection.largest_frame)
        self._tracer.watch_parcel(connection.name, data, position, length)
        connection.take_events(length)

    def _ration(
        self, session: LinkSession, data: bytes, runs: list[Run], after: int
    ) -> tuple[bytes, list[Run], int, bool]:
        """Return as much of some runs as can be matched in this step, where that ends, and whether it is all."""
        left = self._deferred.budget(WorkKind.MATCHING)
        if left <= 0:
            return data, [], after, False
        made = ration(self._forwarder, data, runs, left)
        self._deferred.can_do(WorkKind.MATCHING, made.cost)
        if made.data is not data:  # halves of a frame have more bytes than it had
            session.connection.take_events(len(data) - len(made.data))
        return made.data, made.runs, made.end, made.is_all

    def _open_flow(self, session: LinkSession, frame: bytes) -> None:
        """Work out where the first frame of a flow on this link goes, and all that follow it."""
        if session.state is not LinkState.CLIENT:
            raise FrameError(Refusal.PROTOCOL, "events before hello, or without a parcel from a broker")
        if not head.count_of(frame):
            raise FrameError(Refusal.CORRUPT, "an events frame without events")
        admits = partial(self._access.admits_flow, session)
        self._forwarder.open_flow(session.flows, head.flow_of(frame), session.connection.publisher, admits)
