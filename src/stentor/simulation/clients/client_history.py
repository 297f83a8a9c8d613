"""The history of a simulated application, for checkers that judge it afterwards."""

from stentor.model.errors import Refusal
from stentor.model.ids import SubscriptionId
from stentor.simulation.checkers.delivery_oracle import SubscriptionChecker


class ActivePeriod:
    """A period in which something was in force: from `since` on, `until` it ended."""

    __slots__ = ("since", "until")

    def __init__(self, since: int) -> None:
        self.since = since
        self.until: int | None = None


class ActivePeriods(list[ActivePeriod]):
    """Periods one after another; at most the last one is still open."""

    @property
    def open(self) -> bool:
        return bool(self) and self[-1].until is None

    def begin(self, now: int) -> None:
        self.end(now)
        self.append(ActivePeriod(now))

    def end(self, now: int) -> None:
        if self.open:
            self[-1].until = now

    def cover(self, start: int, end: int) -> bool:
        """Whether one of them went on all that time."""
        return any(each.since <= start and (each.until is None or each.until >= end) for each in self)


class SubscriptionHistory:
    """A subscription as its application sees it; `confirmed` are the times when it was in force."""

    __slots__ = ("confirmed", "missed", "patient", "reader")

    def __init__(self, reader: SubscriptionChecker, patient: bool) -> None:
        self.reader = reader
        self.patient = patient  # its application does not always want more at once
        self.confirmed = ActivePeriods()
        self.missed = 0


class ClientHistory:
    """One life of a client, from a start of its host to its end. `linked` is when it said that it was connected."""

    __slots__ = ("ended", "halted", "incarnation", "leaving", "linked", "name", "node", "subscriptions")

    def __init__(self, name: str, incarnation: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.linked = ActivePeriods()
        self.node = ""  # the broker that it was connected with last
        self.subscriptions: dict[SubscriptionId, SubscriptionHistory] = {}
        self.halted: Refusal | None = None
        self.leaving = False
        self.ended = False

    @property
    def active(self) -> bool:
        return not (self.ended or self.leaving or self.halted)

    def unlink(self, now: int) -> None:
        self.linked.end(now)
        for history in self.subscriptions.values():
            history.confirmed.end(now)
