"""The control events of those who read what is stored, at rest. They travel as those of reliable delivery do.

C is a reader, R a repository, B all repositories of the topic's bundle.
"""

from stentor.model.control import ControlEvent, Held
from stentor.model.errors import Refusal


class StockRequest(ControlEvent, frozen=True, array_like=True, tag="stock?", gc=False):
    """C → B or R: what is there to be read that I am not `done` with, for the subscriber `name`? From a beginning, if
    `since` names one (as in a Recovery). Of that, the `most` events that were stored first, or of about `size` bytes,
    in some `parts` that can be read apart; or just what is in `upto`. With `enrol`, keep what I am not done with.
    Without a name, the owner of the topic asks.
    """

    token: int
    name: str
    principal: str
    since: str = ""
    done: tuple[Held, ...] = ()
    upto: tuple[Held, ...] = ()
    most: int = 0
    size: int = 0
    parts: int = 1
    enrol: bool = False
    where: str = ""
    node: str = ""  # the broker at which the client is


class Stock(ControlEvent, frozen=True, array_like=True, tag="stock", gc=False):
    """R → C: this is there, on every repository that lives, in `parts`. `done` is where it begins. What is `gone` is
    forgotten and was not read. `number` is my sequence number at the end of all that readers are shown.
    """

    token: int
    code: Refusal | None = None
    reason: str = ""
    members: tuple[str, ...] = ()  # that store all
    done: tuple[Held, ...] = ()
    parts: tuple[tuple[Held, ...], ...] = ()
    gone: tuple[Held, ...] = ()
    number: int = 0


class PageRequest(ControlEvent, frozen=True, array_like=True, tag="page?", gc=False):
    """C → R: send me a page of these events, about so many bytes, of those that the filter takes."""

    token: int
    name: str
    principal: str
    wanted: tuple[Held, ...]
    where: str = ""
    budget: int = 1 << 20


class Page(ControlEvent, frozen=True, array_like=True, tag="page", gc=False):
    """R → C: letter `index` of `count`; the events follow. An event's sequence number is its catenation number and the
    one of `bases` that belongs to its frame; it has none if that is negative. What the page is about is `covered`: all
    that the filter takes of it is here. If that is nothing, what is wanted is not here.
    """

    token: int
    code: Refusal | None = None
    reason: str = ""
    index: int = 0
    count: int = 1
    bases: tuple[int, ...] = ()
    covered: tuple[Held, ...] = ()
    publishers: tuple[tuple[int, str], ...] = ()  # their names
    lost: tuple[Held, ...] = ()  # of what is covered: forgotten, and in no lake


class ReaderAck(ControlEvent, frozen=True, array_like=True, tag="read", gc=False):
    """C → B: the subscriber `name` is done with these."""

    name: str
    principal: str
    done: tuple[Held, ...]


AnyReadingEvent = StockRequest | Stock | PageRequest | Page | ReaderAck
