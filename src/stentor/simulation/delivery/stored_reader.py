"""A simulated reader of stored events: it reads batch by batch, as the data pipeline does.

It writes down what it plans and what it is done with. A crash takes everything else, and the reader then reads a batch
that it did not finish again.
"""

from stentor.machine import MILLISECOND, SECOND
from stentor.model.stored.position import Position
from stentor.model.stored.reading import StockRequest
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.stored.read_client import (
    Availability,
    AvailabilityRequested,
    DeliverPage,
    Fail,
    PageConsumed,
    PagesRequested,
    ReadAcknowledged,
    ReportAvailable,
    StoredReadClient,
    StoredReadSettings,
)
from stentor.simulation.checkers.delivery_history import Key, SubscriberHistory
from stentor.simulation.delivery.process import TOPIC, DeliveryWorld, SimProcess

_SETTINGS = StoredReadSettings(silence=150 * MILLISECOND, again=40 * MILLISECOND, patience=2 * SECOND, page=600)
_MOST = 25  # events of a batch


class SimStoredReader(SimProcess):
    """Reads everything from the beginning, under a name for which repositories keep what it has not read."""

    asks_for_members = True

    def __init__(self, world: DeliveryWorld, name: str) -> None:
        super().__init__(world, f"scholar:{name}", name)
        self.short = name
        self.page = world.history.pages[name] = SubscriberHistory(name, self.name, "beginning")
        self.page.conditions.append(None)
        self.done = Position()  # what it has read, durably
        self.plan: Availability | None = None  # the batch that it reads, durably
        self.enrolled = False
        self.idle = False  # there was nothing to read when it last looked
        self._found: dict[Key, bytes] = {}  # of this batch
        self._lost = Position()  # what is lost of this batch
        self._token = 0
        self._left = 0  # parts that are not read yet
        self._acts |= {ReportAvailable: self._tell, DeliverPage: self._give, Fail: self._fail}

    @property
    def wants_events(self) -> bool:
        return False

    def start(self) -> None:
        if not self.alive:
            self.idle = False
            self.begin(StoredReadClient(self.name, self.short, _SETTINGS))
            self.wander()
            self.connect()
            self._go_on()

    def _go_on(self) -> None:
        if self.plan is not None:
            self._read(self.plan)
        else:
            self._look()

    def _look(self) -> None:
        random = self.world.random
        self._token += 1
        since = "" if self.enrolled else "beginning"
        request = StockRequest(
            TOPIC,
            "",
            0,
            "",
            "",
            since,
            self.done.held,
            most=random.randrange(1, _MOST),
            parts=random.randrange(1, 4),
            enrol=not self.enrolled,
        )
        self.handle(AvailabilityRequested(self._token, request))

    def _tell(self, tell: ReportAvailable) -> None:
        if tell.token != self._token:
            return
        available = tell.available
        if not self.enrolled:
            self.enrolled, self.done = True, available.done.plus(available.gone)
            self.page.confirmed = self.world.now
        if not available.parts:
            self.idle = True
            self.later(50 * MILLISECOND, self._look)
            return
        self.idle = False
        self.plan = available
        self._read(available)

    def _read(self, plan: Availability) -> None:
        self._found = {}
        self._left = len(plan.parts)
        self._lost = Position()
        for part in plan.parts:
            self._token += 1
            members = list(plan.members)
            self.world.random.shuffle(members)
            self.handle(PagesRequested(token=self._token, topic=TOPIC, wanted=part, where="", repositories=members))

    def _give(self, give: DeliverPage) -> None:
        history = self.world.history
        for block in give.leaf.blocks:
            self.world.seen["read"] += block.count
            for offset, body in zip(block.offsets(), block.bodies(), strict=True):
                key = (int(block.publisher), int(block.incarnation), int(block.catenation) + offset)
                if key in self._found:
                    self.accuse("duplicate-read", f"{self.short} got {key} twice in one batch")
                told = history.published.get(key[:2], {}).get(key[2])
                if told is None or told.body != body:
                    self.accuse("garbage-read", f"{self.short} got {key}: {body!r}")
                self._found[key] = body
        self._lost = self._lost.plus(give.leaf.lost)
        if give.rest.streams:
            self.later(self.world.random.randrange(1, 5) * MILLISECOND, lambda: self.handle(PageConsumed(give.token)))
            return
        self._left -= 1
        if not self._left:
            self._commit()

    def _commit(self) -> None:
        """What was planned is what was read, no more and no less."""
        assert self.plan is not None
        found: dict[tuple[int, int], Spans] = {}
        for publisher, incarnation, number in self._found:
            found.setdefault((publisher, incarnation), Spans()).add(number, number)
        read, planned = Position(found), self.plan.end.minus(self.done).minus(self._lost)
        if read != planned:
            self.accuse("wrong-batch", f"{self.short} planned {planned}, and read {read}")
        self.page.acknowledged.update(dict.fromkeys(self._found))
        self.done, self.plan = self.plan.end, None
        self.world.seen["batch"] += 1
        self.handle(ReadAcknowledged(TOPIC, self.done))
        self.later(self.world.random.randrange(1, 30) * MILLISECOND, self._look)

    def _has_expired(self) -> bool:
        """Return whether some of its batch has expired since it was planned."""
        streams = [each for part in self.plan.parts for each in part.streams.items()] if self.plan is not None else []
        numbers = ((key, number) for key, spans in streams for low, high in spans for number in range(low, high + 1))
        return any(self.world.history.has_expired((*key, number)) for key, number in numbers)

    def _fail(self, fail: Fail) -> None:
        self.world.seen["read-failed"] += 1
        self.note(f"fails: {fail.reason}")
        if self._has_expired():
            self.world.seen["batch-expired"] += 1
            self.plan = None  # an operator gives up a batch that nobody can read any more
        self.crash("begins anew")
        self.world.after(100 * MILLISECOND, self.start)
