"""Deferred work: what one link wants of a broker is done a step's worth at a time, in turns with all others.

Most of what a broker reads costs next to nothing. Some things do not: a filter that is indexed, a topic or a schema
that is new, the first frame of a flow, a status that is asked for. A step has a budget for these. When it is used up,
the rest of the chunk waits, its link is not read, and the others have their turns: of all links that wait, one has a
step's worth done in each round of the event loop, between what everybody else sends.
"""

import enum
from collections.abc import Iterable
from typing import Final

from stentor.machine import Pause, StartTimer, Step, Timer
from stentor.model.ids import LinkId
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


class DeferredWorkDue(Timer, frozen=True, gc=False, tag="deferred work"):
    """Others have had their turn: what was put off goes on."""


class WorkKind(enum.IntEnum):
    """What costs a step something, each with a budget of its own: so one of each can follow the other."""

    SUBSCRIPTION = 0  # a filter may be read, filed among a million and told to other brokers
    QUESTION = 1  # for what a broker knows, or an operator's request
    DEFINITION = 2  # topics, schemas, first frames of flows, subscriptions that go: units of about 10 µs
    WORD = 3  # credits, markers, heartbeats: almost nothing
    MATCHING = 4  # of events with filters that have to be evaluated, or with many ranges: nanoseconds


_BUDGET: Final = (1, 1, 128, 512, 4_000_000)  # in a step, which takes a few milliseconds then: nobody's events mind
# For a link that asks while others wait: enough for what is new now and then.
_BUDGET_OF_NEWCOMERS: Final = (1, 1, 16, 512, 500_000)
_COSTS: Final[dict[type[Message], tuple[WorkKind, int]]] = {
    Subscription: (WorkKind.SUBSCRIPTION, 1),
    StatusRequest: (WorkKind.QUESTION, 1),
    ViewRequest: (WorkKind.QUESTION, 1),
    ExplanationRequest: (WorkKind.QUESTION, 1),
    AdminRequest: (WorkKind.QUESTION, 1),
    SettlementRequest: (WorkKind.QUESTION, 1),
    Topic: (WorkKind.DEFINITION, 1),
    SchemaDefinition: (WorkKind.DEFINITION, 2),
    Unsubscription: (WorkKind.DEFINITION, 16),
}
_WORD: Final = (WorkKind.WORD, 1)


class DeferredWork:
    """The budget of the step that a broker is in, and the links that wait for another step."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._left = list(_BUDGET)
        # Whether this step is that of a link from which something came just now, and has taken nothing yet: `_left` is
        # what an earlier step left then. Most steps bring events only, take nothing, and need no budget.
        self.is_untouched = False
        self._is_scheduled = False
        # Invariant: just those with a `rest`, in the order of their turns.
        self.waiting: dict[LinkId, LinkSession] = {}

    def can_hear(self, session: LinkSession, message: Message) -> bool:
        """Return whether this step can still handle a message, and take what that costs from its budget."""
        work, units = _COSTS.get(type(message), _WORD)
        return (work is WorkKind.WORD and session.hop is not None) or self.can_do(
            work, units
        )  # brokers pace themselves

    def can_do(self, work: WorkKind, units: int = 1) -> bool:
        """Return whether this step can do some more work, which it does if anything is left of its budget."""
        if self.budget(work) <= 0:
            return False
        self._left[work] -= units
        return True

    def budget(self, work: WorkKind) -> int:
        """Return how much work of a kind this step can still do."""
        if self.is_untouched:
            self._begin(_BUDGET_OF_NEWCOMERS if self.waiting else _BUDGET)
        return self._left[work]

    def _begin(self, budget: tuple[int, ...]) -> None:
        self._left[:] = budget
        self.is_untouched = False

    def postpone(self, session: LinkSession, data: bytes, position: int) -> None:
        """Leave the rest of a chunk for another step; what follows it stays with the peer until then."""
        link = session.connection.link
        session.rest = data, position
        self.waiting[link] = session
        self._step.emit(Pause(link))
        self.schedule()

    def schedule(self) -> None:
        """See to it that there is a step for what was put off."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._step.emit(StartTimer(DeferredWorkDue(), self._step.now))

    def renew(self, sessions: Iterable[LinkSession]) -> bool:
        """Let just these wait, those who did in the order of their turns; return whether any did not. What waits has a
        step soon, whether or not one is thought to be coming.
        """
        waiting = {session.connection.link: session for session in sessions}
        kept = {link: waiting[link] for link in self.waiting if link in waiting}
        is_wrong = self.waiting != waiting
        self.waiting = kept | waiting
        self._is_scheduled = False
        if waiting:
            self.schedule()
        return is_wrong

    def begin_turn(self) -> LinkSession | None:
        """Begin a step for what was put off. Return the session whose turn it is, if any waits for one."""
        self._is_scheduled = False
        self._begin(_BUDGET)
        while self.waiting:
            session = self.waiting.pop(next(iter(self.waiting)))
            if session.rest is not None:  # none waits without one, unless that is damaged
                return session
        return None

    def forget(self, link: LinkId) -> None:
        """A link is gone, and waits for nothing."""
        self.waiting.pop(link, None)
