"""The control events of those who read what is stored, at rest. They travel as those of reliable delivery do.

C is a reader, R a repository, B all repositories of the topic's bundle.
"""

from typing import Annotated

from msgspec import Meta

from stentor.model.communication import check_answerable
from stentor.model.control import ControlEvent
from stentor.model.errors import Refusal
from stentor.model.ranges import (
    MOST_ITEMS,
    AnyClientName,
    Beginning,
    ByteCount,
    Count,
    Id,
    Path,
    Principal,
    Reason,
    RepositoryNames,
    SequenceBase,
    SequenceNumber,
    Text,
    Token,
)
from stentor.model.stored.stream_ranges import StreamsHeld


class StockRequest(ControlEvent, frozen=True, array_like=True, tag="stock?", gc=False):
    """C → B or R: what is there to be read that I am not `done` with, for the subscriber `name`?

    It begins where `since` says, if that is given (as in a Recovery). Of that I want the `most` events that were stored
    first, or about `size` bytes, in some `parts` that can be read apart; or just what is in `upto`. With `enrol`, keep
    what I am not done with. Without a name, the owner of the topic asks.
    """

    token: Token
    name: AnyClientName
    principal: Principal
    since: Beginning = ""
    done: StreamsHeld = ()
    upto: StreamsHeld = ()
    most: Count = 0
    size: ByteCount = 0
    parts: Count = 1
    enrol: bool = False
    where: Text = ""
    node: Path = ""  # the broker at which the client is

    def check(self) -> None:
        super().check()
        check_answerable(self.sender)


class Stock(ControlEvent, frozen=True, array_like=True, tag="stock", gc=False):
    """R → C: the answer to a StockRequest: what every repository that lives has, in `parts`.

    `done` is where it begins. Events that are `gone` are forgotten and were not read. `number` is my sequence number at
    the end of all that readers are shown.
    """

    token: Token
    code: Refusal | None = None
    reason: Reason = ""
    members: RepositoryNames = ()  # that store all
    done: StreamsHeld = ()
    parts: Annotated[tuple[StreamsHeld, ...], Meta(max_length=MOST_ITEMS)] = ()
    gone: StreamsHeld = ()
    number: SequenceNumber = 0


class PageRequest(ControlEvent, frozen=True, array_like=True, tag="page?", gc=False):
    """C → R: send me a page of these events, about so many bytes, of those that the filter takes."""

    token: Token
    name: AnyClientName
    principal: Principal
    wanted: StreamsHeld
    where: Text = ""
    budget: ByteCount = 1 << 20

    def check(self) -> None:
        super().check()
        check_answerable(self.sender)


class Page(ControlEvent, frozen=True, array_like=True, tag="page", gc=False):
    """R → C: letter `index` of `count` of a page; the events follow.

    An event's sequence number is its catenation number plus the one of `bases` that belongs to its frame; it has none
    if that is negative. The page is about what is `covered`: all that the filter takes of it is here. If nothing is
    covered, the wanted events are not here.
    """

    token: Token
    code: Refusal | None = None
    reason: Reason = ""
    index: Count = 0
    count: Count = 1
    bases: Annotated[tuple[SequenceBase, ...], Meta(max_length=MOST_ITEMS)] = ()
    covered: StreamsHeld = ()
    publishers: Annotated[tuple[tuple[Id, AnyClientName], ...], Meta(max_length=MOST_ITEMS)] = ()  # their names
    lost: StreamsHeld = ()  # of what is covered: forgotten, and in no lake; or damaged, and given up


class ReaderAck(ControlEvent, frozen=True, array_like=True, tag="read", gc=False):
    """C → B: the subscriber `name` is done with these events."""

    name: AnyClientName
    principal: Principal
    done: StreamsHeld


AnyReadingEvent = StockRequest | Stock | PageRequest | Page | ReaderAck
