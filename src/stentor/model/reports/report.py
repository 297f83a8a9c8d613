"""What repositories tell owners and operators: reports on themselves and on the topics that they manage."""

import msgspec

from stentor.model.errors import Refusal


class SubscriberReport(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber as one repository sees it."""

    known: bool  # it has come at least once
    holder: str = ""  # the principal that may use the name; "" is anyone
    where: str = ""
    sync: int = 0  # all up to this sequence number is acknowledged
    lag: int = 0  # events that are stored and not acknowledged
    steered: bool = False  # by this repository
    pending: int = 0


class PeerReport(msgspec.Struct, frozen=True, kw_only=True):
    """Another repository of the bundle as one of them sees it."""

    ready: bool
    heard: float | None  # seconds ago
    agrees: bool  # its registrations are ours
    missing: int  # events that it has and we do not


class DamageReport(msgspec.Struct, frozen=True, array_like=True):
    """Events of one life of a publisher that a repository had and cannot read any more. Without a publisher it does not
    know whose they were, and these are sequence numbers of its own.
    """

    publisher: str
    incarnation: int
    numbers: tuple[tuple[int, int], ...]  # from, to


class TopicReport(msgspec.Struct, frozen=True, kw_only=True):
    """A reliable topic at one repository."""

    topic: str
    repository: str
    unit: str
    ready: bool
    leaving: bool
    trouble: str
    members: tuple[str, ...]
    owner: str
    copies: int
    keep: int
    expire: int
    hold: bool = False  # events leave their top-level unit when a repository for it has them
    events: int  # that are stored here
    # Sequence numbers of this repository: of its oldest record, of the next one that it writes, and up to which readers
    # are shown what it has. Registrations and gaps take numbers, too, so a difference of these counts no events.
    first: int
    next: int
    horizon: int
    bytes: int
    conflicts: int
    unauthorised: int
    publishers: dict[str, str]  # the principal that may use the name
    steers: tuple[str, ...]
    subscribers: dict[str, SubscriberReport]
    peers: dict[str, PeerReport]
    damaged: int = 0  # events that were stored here and cannot be read
    damage: tuple[DamageReport, ...] = ()  # which events these are
    steered_publishers: tuple[str, ...] = ()  # publishers among those that it `steers`
    # What was acknowledged and is not here: of each publisher incarnations, first and last numbers. It is ready when it
    # has these, when every member is there and none has them, or when their loss is accepted.
    awaits: dict[str, tuple[tuple[int, int, int], ...]] = {}

    def does_steer(self, role: str, name: str) -> bool:
        if role == "publisher":
            return name in self.steered_publishers
        return name in self.subscribers and self.subscribers[name].steered


class Unwillingness(msgspec.Struct, frozen=True, kw_only=True):
    """Why a repository does not want to manage a topic."""

    code: Refusal
    reason: str


class RepositoryReport(msgspec.Struct, frozen=True, kw_only=True):
    """A repository and all topics that it manages."""

    repository: str
    unit: str
    topics: dict[str, TopicReport]
    principal: str = ""  # under which it is connected
    accepts: tuple[str, ...] = ()  # patterns of the topics that it is willing to manage; none is all
    most_topics: int = 0
    most_bytes: int = 0  # with which it is willing to manage more topics; 0 is any number
    unwilling: Unwillingness | None = None  # why it would not manage the topic that it was asked about
    traces: TopicReport | None = None  # the topic under which it keeps traces
