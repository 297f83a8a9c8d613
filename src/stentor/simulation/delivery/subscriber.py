"""A simulated subscriber: its application takes its time, and crashes with what it knew."""

import msgspec

from stentor.machine import MILLISECOND, SECOND, Effect, Input
from stentor.model.communication import end_name
from stentor.model.errors import Refusal
from stentor.model.filter import Filter
from stentor.model.ids import Incarnation
from stentor.model.reports.trace import TraceKind
from stentor.protocols.delivery.endpoint_api import (
    Acknowledged,
    ConfirmDurable,
    DurabilityAwaited,
    EventsRequested,
    Leaving,
    Refuse,
    Release,
    ReportLoss,
    ReportSteering,
    ReportTrouble,
)
from stentor.protocols.delivery.settings import SubscriberSettings
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber
from stentor.simulation.checkers import trace_checker
from stentor.simulation.checkers.delivery_history import ApplicationRun, Key, SubscriberHistory
from stentor.simulation.clients.workload import Condition
from stentor.simulation.delivery.process import TOPIC, DeliveryWorld, SimProcess
from stentor.simulation.delivery.publisher import STEERING

_SETTINGS = SubscriberSettings(
    missing=20 * MILLISECOND,
    ack_events=8,
    ack_after=20 * MILLISECOND,
    first_pause=80 * MILLISECOND,
    longest_pause=500 * MILLISECOND,
    doubt=100 * MILLISECOND,
    strange=2 * SECOND,
    quiet=SECOND,
    longest_quiet=2 * SECOND,
    steering=STEERING,
)
_CRAMPED = 0.3  # of lives have little room for events
_NO_ROOM = 1024  # bytes of that room: a few events
_FAREWELL = -1  # the token under which it waits for its end
_KEEPS = 0.2  # of later lives name no filter, and get back the one that is registered
_LATE = 0.2  # of lives ask for events some time after they began, or are over before they do
_LOOK_AGAIN = 50 * MILLISECOND  # whether its subscription has ended


class SimSubscriber(SimProcess):
    """Subscribes under one name in all its lives; each life may have a filter of its own."""

    asks_for_members = True

    def __init__(
        self, world: DeliveryWorld, name: str, since: str, condition: Condition | None, slowness: int, seat: str = ""
    ) -> None:
        super().__init__(world, end_name("subscriber", name, TOPIC), name, seat)
        self.short = name
        self.revoked = False  # its owner wants it to be
        self.condition = condition
        self.subscriber: ReliableSubscriber | None = None
        self.page = world.history.pages.setdefault(name, SubscriberHistory(name, self.name, since))
        self.run = ApplicationRun()  # this life of its application
        self.is_fenced = False  # it has heard that another one holds its name
        self.slowness = slowness  # nanoseconds that its application needs for a released batch, at most
        self.told = 0  # a released batch that is not acknowledged yet
        self.is_leaving = False  # its application has ended, and waits until that is written down
        self._incarnation = Incarnation(0)
        self._position = 0  # of the last event that its application was handed
        self._tokens = 0
        self._unread: dict[int, trace_checker.Event] = {}  # by position: given, and not acknowledged in a step
        self._acts |= {
            Release: self._release,
            ConfirmDurable: self._assure,
            ReportSteering: self._attach,
            ReportTrouble: lambda _: None,
            ReportLoss: self._lose,
            Refuse: self._refuse,
        }

    @property
    def ended(self) -> bool:
        return self.page.ended or self.is_fenced

    def start(self) -> None:
        if self.alive or self.ended:
            return
        page = self.page
        if self.condition not in page.conditions:
            page.conditions.append(self.condition)
        self.run = ApplicationRun()
        page.runs.append(self.run)
        self.run.is_over = True
        where = self.condition.text if self.condition is not None else ""
        self.where = Filter(where) if where else None
        keeps = page.confirmed and self.world.random.random() < _KEEPS
        self._incarnation = incarnation = self.world.begin_life(self.name)
        page.first_life = page.first_life or incarnation
        settings = _SETTINGS
        if self.world.random.random() < _CRAMPED:
            settings = msgspec.structs.replace(_SETTINGS, buffer=_NO_ROOM)
        self.subscriber = ReliableSubscriber(
            TOPIC, self.short, incarnation, None if keeps else where, page.since, settings
        )
        self.subscriber.traces = self.traces
        self._unread.clear()
        self.told = 0
        self.is_leaving = False
        self._position = 0
        self.begin(self.subscriber)
        self.deaf = bool(keeps)
        self.wander()
        self.connect()
        if self.world.random.random() < _LATE:
            self.later(self.world.random.randrange(SECOND), self._ask)
        else:
            self._ask()

    def crash(self, why: str = "crash") -> None:
        super().crash(why)
        self.subscriber = None

    def did(self, happened: Input, effects: list[Effect]) -> trace_checker.Told:
        did = super().did(happened, effects)
        if isinstance(happened, Acknowledged):
            positions = [each for first, last in happened.spans for each in range(first, last + 1)]
            did.update((TraceKind.ACKNOWLEDGED, *self._unread.pop(position)) for position in positions)
        for effect in effects:
            if isinstance(effect, Release):
                for portion in effect.portions:
                    self._unread.update(enumerate(trace_checker.events(portion.block), portion.position))
        return did

    # ---- the application

    def _ask(self) -> None:
        if not self.is_leaving:
            self.run.is_over = False
            self.handle(EventsRequested())

    def leave(self) -> None:
        """Its application ends in good order."""
        self.is_leaving = True
        self.handle(Leaving(_FAREWELL, self._position))

    def unsubscribe(self) -> None:
        """Its application wants nothing any more; from now on it has no right to anything."""
        self.page.ended = self.is_leaving = True
        self.handle(Leaving(_FAREWELL, self._position, unsubscribes=True))

    def subscribe_again(self) -> None:
        """Begin with another registration of its name once the former one has ended: what that got does not count."""
        if self.page.unsubscribed_at is None:
            if self.alive:
                self.world.after(_LOOK_AGAIN, self.subscribe_again)
            return
        self.world.seen["subscribed-again"] += 1
        self.page = self.world.history.pages[self.short] = SubscriberHistory(self.short, self.name, self.page.since)
        self.crash("has nothing to do")  # a host may run a process that had ended for good
        self.start()

    def _release(self, release: Release) -> None:
        random, history = self.world.random, self.world.history
        if self.is_fenced:
            self.accuse("handed-out-by-fenced", f"{self.seat} was handed {release} after it had lost its name")
        for portion in release.portions:
            self.world.seen["delivered"] += portion.block.count
            self.world.seen["redelivered"] += portion.redelivered * portion.block.count
            keys = history.release(self.short, self.run, portion.repository, portion.block, portion.redelivered)
            at = portion.position
            self._position = at + len(keys) - 1
            self.told += len(keys)
            if len(keys) > 1 and random.random() < 0.3:  # it is done with the second half first
                half = len(keys) // 2
                self._finish(at + half, keys[half:])
                self._finish(at, keys[:half])
            else:
                self._finish(at, keys)
        self.later(random.randrange(1, self.slowness), self._ask)

    def _finish(self, position: int, keys: list[Key]) -> None:
        self.later(self.world.random.randrange(self.slowness), lambda: self._acknowledge(position, keys))

    def _acknowledge(self, position: int, keys: list[Key]) -> None:
        self.told -= len(keys)
        if not self.is_fenced:
            self.page.acknowledged.update(dict.fromkeys(keys))
        self.handle(Acknowledged(((position, position + len(keys) - 1),)))
        if self.alive and self.world.random.random() < 0.1:
            self._tokens += 1
            self.handle(DurabilityAwaited(self._tokens))

    # ---- effects

    def _attach(self, attach: ReportSteering) -> None:
        self.world.seen["attached"] += 1
        wanted = {str(Filter(each.text)) if each is not None else "" for each in self.page.conditions}
        if attach.where not in wanted and not self.page.ended:  # one that unsubscribes may have no filter any more
            self.accuse("filter-lost", f"{self.seat} is registered with {attach.where!r}, and wanted {wanted}")
        self.page.confirmed = self.page.confirmed or self.world.now

    def _lose(self, report: ReportLoss) -> None:
        self.world.seen["told-lost"] += 1
        for held in report.lost:
            self.page.lost[held.publisher, held.incarnation].update(held.spans)

    def _assure(self, assure: ConfirmDurable) -> None:
        if assure.token == _FAREWELL:
            self.world.seen["ended-well"] += 1
            self.run.is_over |= assure.code is None
            if self.page.ended and assure.code is None:
                self.world.history.unsubscribe(self.page)
            self.crash("ends in good order")

    def _refuse(self, refuse: Refuse) -> None:
        self.world.seen["forbidden"] += 1
        if refuse.code is Refusal.FENCED and not self.world.is_newest(self.name, self._incarnation):
            self.world.seen["fenced"] += 1
            self.is_fenced = True
            return
        if any(why in refuse.reason for why in ("cannot translate", "is no repository of", "is none yet")):
            self.world.seen["untranslated"] += 1
        elif not self.revoked and not self.page.ended:
            self.accuse("refused", f"{self.short}: {refuse.reason}")
        self.note(f"forbidden: {refuse.reason}")
        self.page.ended = True
