"""What repositories register of publishers and subscribers: the values of facts that brokers are not told."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from stentor.model.errors import InvalidInput
from stentor.model.filter import Filter
from stentor.model.ranges import (
    ClientName,
    EventNumber,
    FilterText,
    Life,
    Path,
    Principal,
    RangedDecoder,
    StreamNumbers,
    check_client_name,
)
from stentor.model.stored.stream_ranges import StreamsHeld
from stentor.model.trust.access import Membership

Frontier = StreamNumbers  # the last number of each stream before something begins
_MOST_CHANGES = 8  # of a filter that are remembered
MOST_RESUMED = 8  # incarnations of a publisher that are waited for, although it had newer ones
MOST_ENDS = 4096  # lives of a publisher with events that are stored: as many as it may have streams
# Of a life, the last number that was known to be acknowledged, or stored without a gap, when the next one was first
# steered: every repository sets all up to it aside before it stores anything of a later life.
PublisherEnds = Annotated[tuple[tuple[Life, EventNumber], ...], Meta(max_length=MOST_ENDS)]


class PublisherRecord(msgspec.Struct, frozen=True, array_like=True):
    """Who stands behind a publisher's id."""

    name: ClientName
    principal: Principal
    incarnation: Life  # the newest one
    resumed: Annotated[
        tuple[Life, ...], Meta(max_length=64)
    ] = ()  # those that it goes on with when it comes back, in the order in which they began
    ends: PublisherEnds = ()  # earlier lives that it does not go on with, until they are collected
    closed: Life = 0  # lives up to this one, but for the resumed ones, are over: nothing is left or stored of them
    told: tuple[Life, EventNumber] = (0, 0)  # the newest of these that had stored events, and how many without a gap

    def tells_of(self, life: int) -> bool:
        """Return whether whoever wrote this knew of a life, and so of all that was known of those before it."""
        is_named = life == self.incarnation or life in self.resumed or life <= self.closed
        return is_named or any(life == each for each, _ in self.ends)

    def after(self, known: "PublisherRecord") -> "PublisherRecord":
        """The same, if whoever wrote it knew what is known here; else with what it did not know. Whoever first tells of
        a life leaves out the ends of those that are collected; nobody takes an end back after that.
        """
        theirs, ours = dict(self.ends), dict(known.ends)
        lives = theirs.keys() | ours.keys() if self.incarnation <= known.incarnation else theirs.keys()
        older, newer = (self, known) if self.incarnation < known.incarnation else (known, self)
        unknown = (each for each in older.resumed if each not in newer.resumed)
        resumed = (*unknown, *newer.resumed)[-MOST_RESUMED:]  # what others took out for want of room stays out
        closed = max(self.closed, known.closed)
        lives = {life for life in lives if life > closed and life not in resumed}
        return PublisherRecord(
            self.name,
            self.principal,
            max(self.incarnation, known.incarnation),
            resumed,
            tuple((life, max(theirs.get(life, 0), ours.get(life, 0))) for life in sorted(lives)[-MOST_ENDS:]),
            closed,
            max(self.told, known.told),
        )


class SubscriptionRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a subscriber wants, and since when: everything after these numbers of the streams there were. It may have
    wanted something else before: `changes` are earlier filters, and up to which numbers they hold.
    """

    where: FilterText
    frontier: Frontier = ()
    principal: Principal = ""
    home: Path = ""  # the broker at which it was last
    incarnation: Life = 0  # of its first life
    changes: Annotated[tuple[tuple[FilterText, Frontier], ...], Meta(max_length=64)] = ()
    past: StreamsHeld = ()  # what it wants of what was forgotten before it came: that is in a lake
    again: bool = False  # the name was registered before, and that was taken back

    @property
    def registration(self) -> int:
        """What tells this registration of a name from earlier ones; 0 if there was none."""
        return self.incarnation if self.again else 0

    def change(self, where: str, now: Frontier) -> "SubscriptionRecord":
        """The same with another filter, for all that is not there yet."""
        if where == self.where:
            return self
        changes = (*self.changes, (self.where, now))[-_MOST_CHANGES:]
        return msgspec.structs.replace(self, where=where, changes=changes)


class Holding(msgspec.Struct, frozen=True, array_like=True):
    """Where the newest life of a name began; of the newest one that has left, whether it said so itself."""

    node: Path = ""  # the broker
    has_unsubscribed: bool = False  # it says so until it hears that this is written down, so it is not fenced


class Registrations(dict[str, SubscriptionRecord]):
    """The registrations of subscribers by name. Invariant: no life that has left began one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[str, int] = {}  # the newest life of each name that has left

    def put(self, name: str, value: bytes) -> None:
        """Replace a registration by a newer fact, unless that is about one that is over."""
        if not value:
            self.pop(name, None)
        elif not self.is_over(name, value):
            self[name] = subscription_values.decode(value)

    def leave(self, name: str, life: int) -> None:
        """End the registration of a name if a life up to this one began it."""
        self.left[name] = life
        if name in self and self._has_left(name, self[name]):
            del self[name]

    def is_over(self, name: str, value: bytes) -> bool:
        """Return whether whoever began a registration has left."""
        return self._has_left(name, subscription_values.decode(value))

    def _has_left(self, name: str, subscription: SubscriptionRecord) -> bool:
        return 0 < subscription.incarnation <= self.left.get(name, 0)  # of some it is not known who began them


_membership = msgspec.msgpack.Decoder(Membership)
publisher_values = RangedDecoder(PublisherRecord)
subscription_values = RangedDecoder(SubscriptionRecord)
holding_values = RangedDecoder(Holding)
_PUBLISHER_ID = re.compile(r"[0-9a-f]{16}")


def is_sound(key: str, value: bytes) -> bool:
    """Whether a fact about a publisher or a subscriber can be read; of others that is known since they were decoded."""
    kind, _, name = key.partition("/")
    try:
        if kind == "publisher":
            publisher_values.decode(value)
            return _PUBLISHER_ID.fullmatch(name) is not None
        if kind == "former":
            _membership.decode(value)
        if kind == "life":
            role, _, name = name.partition("/")
            check_client_name(name)
            holding_values.decode(value)
            return role in ("publisher", "subscriber", "left")
        if kind == "subscription":
            check_client_name(name)
            if value:
                known = subscription_values.decode(value)
                for where in filter(None, (known.where, *(before for before, _ in known.changes))):
                    Filter(where)
    except InvalidInput:
        return False
    return True
