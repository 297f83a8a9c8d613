"""What an application and the ends of a reliable topic say to each other."""

from collections.abc import Sequence
from typing import NamedTuple

from stentor.machine import Effect, Input
from stentor.model.control import StreamRanges
from stentor.model.errors import Refusal
from stentor.model.stored.span import Span
from stentor.wire.block import Block

# ---- what the application says


class TurnEnded(Input, frozen=True, gc=False, tag="turn ended"):
    """The application's turn is over: what it published leaves now."""


class DurabilityAwaited(Input, frozen=True, gc=False, tag="awaited"):
    """The application waits until all is safe that it said before; one ConfirmDurable with this token follows. A
    publisher's events are safe when they are stored, on `copies` repositories if it asks for more than the topic does;
    a subscriber's acknowledgements when they are synced.
    """

    token: int
    copies: int = 0


class EventsRequested(Input, frozen=True, gc=False, tag="wanted"):
    """The application can take more events; one Release follows, now or when there are some."""


class Acknowledged(Input, frozen=True, tag="acknowledged"):
    """The application is done with the events at these positions; they may come in any order."""

    spans: Sequence[Span]


class Leaving(Input, frozen=True, gc=False, tag="leaving"):
    """The application is about to end in good order; it was handed the events up to this position. One ConfirmDurable
    with this token follows when that is written down, or when there is nothing to write. If it `unsubscribes`, nothing
    is kept for its name any more.
    """

    token: int
    position: int
    unsubscribes: bool = False


class LifeDrawn(Input, frozen=True, gc=False, tag="life drawn"):
    """A life that began now would have this incarnation: an answer to DrawLife."""

    life: int


# ---- what the application is told


class ReleasedBatch(NamedTuple):
    """Events that are released together. Event i is at `position` + i; positions count from 1 in this life."""

    block: Block
    position: int
    redelivered: bool  # an earlier life of this subscriber may have had them
    repository: str  # whose sequence numbers these are
    first: int
    last: int
    sequences: Sequence[Span] = ()  # all of them; none if the events came from a lake


class Release(Effect, frozen=True, tag="release"):
    """Events that are stable, in order; each of them comes once."""

    portions: Sequence[ReleasedBatch]


class ReportLoss(Effect, frozen=True, gc=False, tag="report loss"):
    """These were stored and are lost: they were damaged, and an operator has given them up. Some of them may be no
    events that we wanted; the same may be reported again.
    """

    lost: tuple[StreamRanges, ...]
    lost_by: tuple[str, ...] = ()  # the names of their publishers, in the same order; "" if nobody knows it


class ConfirmDurable(Effect, frozen=True, gc=False, tag="assure"):
    """What was waited for is safe, a publisher's events on so many repositories; with a code, it will never be."""

    token: int
    copies: int = 0
    code: Refusal | None = None
    reason: str = ""


class ResumePublishing(Effect, frozen=True, gc=False, tag="make room"):
    """The buffer has room again: a publisher that waits may go on."""


class ReportSteering(Effect, frozen=True, gc=False, tag="attach"):
    """This repository steers us from now on; a subscriber also learns the epoch from which on events are its own, what
    it must read of the past, and its filter as it is registered.
    """

    repository: str
    epoch: int = 0
    past: tuple[StreamRanges, ...] = ()
    where: str = ""


class ReportTrouble(Effect, frozen=True, gc=False, tag="complain"):
    """No repository steers us, for some time now, and why; it is still tried."""

    reason: str


class DrawLife(Effect, frozen=True, gc=False, tag="draw life"):
    """A repository knows of a life that seems newer than this one: what does the clock say? One LifeDrawn follows."""


class Refuse(Effect, frozen=True, gc=False, tag="forbid"):
    """A broker, or the repositories of the topic, refuse this name for good: nothing more comes of it."""

    code: Refusal
    reason: str
