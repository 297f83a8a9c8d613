"""Ranges of numbers in the streams of a topic: parts of many control events of reliable delivery."""

from typing import Annotated

import msgspec
from msgspec import Meta

from stentor.model.ranges import (
    MOST_ITEMS,
    Count,
    EventNumber,
    Id,
    Life,
    NumberSpans,
    SequenceNumber,
    StreamNumbers,
)


class SequenceRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`count` consecutive catenation numbers of a stream, under as many consecutive sequence numbers."""

    sequence: SequenceNumber
    count: Count
    publisher: Id
    incarnation: Life
    first: EventNumber


Stretches = Annotated[tuple[SequenceRun, ...], Meta(max_length=MOST_ITEMS)]


class StreamRanges(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What somebody has of a stream; all up to `floor` is done with and forgotten, some of what lies up to `cared`
    because storages for units have it for those who have not. Of `spans` they have no more than that nobody in their
    unit wants what is `skipped`. Of what lies up to `floor`, nobody ever had what is in `voids`.
    """

    publisher: Id
    incarnation: Life
    floor: EventNumber
    spans: NumberSpans
    cared: EventNumber = 0
    skipped: NumberSpans = ()
    voids: NumberSpans = ()


StreamsHeld = Annotated[tuple[StreamRanges, ...], Meta(max_length=MOST_ITEMS)]


class HandedOut(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which events the applications of a named subscriber may have been handed, as far as repositories know.

    `life` is the incarnation of the newest life that asked for events. Lives before it may have been handed what is
    `given`: the last number of each stream, or None if that may be anything. When a life has `ended` in good order,
    what it was handed and has not acknowledged is part of that.
    """

    life: Life = 0
    ended: bool = False
    given: StreamNumbers | None = ()

    def newest(self, other: "HandedOut") -> "HandedOut":
        """Return which of the two tells more. Of two that tell as much, all repositories must choose the same one."""
        return max(self, other, key=lambda each: (each.life, each.ended, each.given is not None, each.given or ()))
