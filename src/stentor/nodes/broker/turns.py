"""Turns: what one link wants of a broker is done a step's worth at a time, in turns with everybody else's traffic.

Most of what a broker reads costs next to nothing. Some things do not: a filter that is indexed, a topic or a schema
that is new, the first frame of a flow, a status that is asked for. A step has an allowance for these. When it is used
up, the rest of the chunk waits, its link is not read, and the others have their turns: of all links that wait, one has
a step's worth done in each round of the event loop, between what everybody else sends.
"""

import enum
from collections.abc import Callable
from typing import Final

from stentor.machine import Effect, Pause, StartTimer, Timer
from stentor.model.messages import (
    AdminRequest,
    ExplanationRequest,
    Message,
    SchemaDefinition,
    SettlementRequest,
    StatusRequest,
    Subscription,
    Topic,
    Unsubscription,
    ViewRequest,
)
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.broker.link_sessions import LinkSessions


class DeferredWorkDue(Timer, frozen=True, gc=False, tag="deferred work"):
    """Others have had their turn: what was put off goes on."""


class Work(enum.IntEnum):
    """What costs a step something, each with an allowance of its own: so one of each can follow the other."""

    SUBSCRIPTION = 0  # a filter may be read, filed among a million and told to other brokers
    QUESTION = 1  # for what a broker knows, or an operator's wish
    DEFINITION = 2  # topics, schemas, first frames of flows, subscriptions that go: units of about 10 µs
    WORD = 3  # credits, markers, heartbeats: almost nothing
    MATCHING = 4  # of events with filters that have to be evaluated, or with many ranges: nanoseconds


_ALLOWANCE: Final = (1, 1, 128, 512, 4_000_000)  # in a step, which takes a few milliseconds then: nobody's events mind
_FRESH: Final = (1, 1, 16, 512, 500_000)  # for a link that asks while others wait: enough for what is new now and then
_COSTS: Final[dict[type[Message], tuple[Work, int]]] = {
    Subscription: (Work.SUBSCRIPTION, 1),
    StatusRequest: (Work.QUESTION, 1),
    ViewRequest: (Work.QUESTION, 1),
    ExplanationRequest: (Work.QUESTION, 1),
    AdminRequest: (Work.QUESTION, 1),
    SettlementRequest: (Work.QUESTION, 1),
    Topic: (Work.DEFINITION, 1),
    SchemaDefinition: (Work.DEFINITION, 2),
    Unsubscription: (Work.DEFINITION, 16),
}
_WORD: Final = (Work.WORD, 1)


class Turns:
    """The allowance of the step that a broker is in, and who waits for another one."""

    def __init__(self, guests: LinkSessions, act: Callable[[Effect], None]) -> None:
        self._sessions, self._act = guests, act
        self._left = list(_ALLOWANCE)
        # Whether this step is that of a link from which something came just now, and has taken nothing yet: `_left` is
        # what an earlier step left then. Most steps bring events only, take nothing, and need no allowance.
        self.is_untouched = False
        self._is_scheduled = False

    def can_hear(self, session: LinkSession, message: Message) -> bool:
        """Return whether this step can still handle a message, and take what that costs from its allowance."""
        work, units = _COSTS.get(type(message), _WORD)
        return (work is Work.WORD and session.hop is not None) or self.can_do(work, units)  # brokers pace themselves

    def can_do(self, work: Work, units: int = 1) -> bool:
        """Return whether this step can do some more work, which it does if anything is left of its allowance."""
        if self.left(work) <= 0:
            return False
        self._left[work] -= units
        return True

    def left(self, work: Work) -> int:
        if self.is_untouched:
            self._begin(_FRESH if self._sessions.busy else _ALLOWANCE)
        return self._left[work]

    def _begin(self, allowance: tuple[int, ...]) -> None:
        self._left[:] = allowance
        self.is_untouched = False

    def postpone(self, now: int, session: LinkSession, data: bytes, position: int) -> None:
        """Leave the rest of a chunk for another step; what follows it stays with the peer until then."""
        link = session.connection.link
        session.rest = data, position
        self._sessions.busy[link] = None
        self._act(Pause(link))
        self.schedule(now)

    def schedule(self, now: int) -> None:
        """See to it that there is a step for what was put off."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._act(StartTimer(DeferredWorkDue(), now))

    def next_guest(self) -> LinkSession | None:
        """Begin a turn, and return the guest whose turn it is, if anybody waits for one."""
        self._is_scheduled = False
        self._begin(_ALLOWANCE)
        if not self._sessions.busy:
            return None
        link = next(iter(self._sessions.busy))
        del self._sessions.busy[link]
        return self._sessions[link]
