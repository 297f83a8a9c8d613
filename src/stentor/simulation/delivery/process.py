"""A simulated process with one machine of reliable delivery in it, which crashes and begins again."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from stentor.machine import (
    MILLISECOND,
    SECOND,
    Effect,
    Input,
    Machine,
    Report,
    StartTimer,
    Stop,
    StopTimer,
    Timer,
    TimerFired,
)
from stentor.model.errors import StentorError
from stentor.model.filter import Filter
from stentor.model.ids import Incarnation, publisher_id
from stentor.model.reports.trace import Trace as Row
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.transport import (
    LinkDown,
    LinkUp,
    Listening,
    Publish,
    SendLetter,
    Subscribe,
    Unsubscribe,
)
from stentor.simulation.checkers import trace_checker
from stentor.simulation.checkers.delivery_history import DeliveryHistory
from stentor.simulation.clients import typed_calls
from stentor.simulation.delivery.brokers import Brokers
from stentor.simulation.delivery.letter_network import LetterNetwork
from stentor.simulation.outcome import Anomaly
from stentor.simulation.replay_trace import ReplayTrace
from stentor.simulation.schedule import Appointment, Schedule
from stentor.simulation.validation import validate_sometimes

TOPIC = "orders"
MOST_STEPS = 60_000
_BUGS = (AssertionError, LookupError, AttributeError, TypeError, ValueError, StentorError)


class Endless(Exception):
    """A process never stops sending letters."""


class DeliveryWorld:
    """What all processes of a run share."""

    def __init__(
        self, seed: int, schedule: Schedule, trace: ReplayTrace, office: LetterNetwork, anomalies: list[Anomaly]
    ) -> None:
        self.random = Random(f"{seed}/delivery")
        self.schedule = schedule
        self.trace = trace
        self.office = office
        self.anomalies = anomalies
        self.brokers = Brokers(self.schedule, Random(f"{seed}/brokers"), TOPIC)
        self.sums = Random(f"{seed}/sums").random() < 0.5  # traces are summed up
        self.are_clocks_set_back = False  # those of publishers, when they begin again
        self.nodes: tuple[str, ...] = ()  # brokers, if it matters at which one a client is
        self.recipients: tuple[str, ...] = ()  # to whom publishers send mail; none if all is for whoever wants it
        self.seen: Counter[str] = Counter()
        self.history = DeliveryHistory(self.anomalies, self.schedule)
        self.contested: set[str] = set()  # names that several processes believe to be theirs
        self._lives: dict[str, list[int]] = {}  # of each name, in the order in which they began
        self.office.watch = self.history.watch

    @property
    def now(self) -> int:
        return self.schedule.now

    def begin_life(self, name: str, behind: int = 0) -> Incarnation:
        """Return the incarnation of a life that begins now: newer than all that had this name, unless the clock is so
        many nanoseconds behind.
        """
        lives = self._lives.setdefault(name, [])
        life = 1 + (self.now - behind) // MILLISECOND
        while life in lives or (not behind and life < max(lives, default=0)):
            life += 1
        return self.renew_life(name, life)

    def renew_life(self, name: str, life: int) -> Incarnation:
        """Somebody goes on in this life."""
        self._lives[name].append(life)
        return Incarnation(life)

    def is_newest(self, name: str, life: Incarnation) -> bool:
        """Whether a life is the one that may hold a name: what began last, or of rivals what has the highest number."""
        return life == (max(self._lives[name]) if name in self.contested else self._lives[name][-1])

    def after(self, delay: int, action: Callable[[], None]) -> Appointment:
        return self.schedule.after(delay, action)


class SimProcess:
    """A process with a name under which it is connected, and a machine that crashes with it."""

    is_repository = False
    is_stranger = False
    asks_for_members = False  # whom it believes it learns from brokers

    def __init__(self, world: DeliveryWorld, name: str, principal: str, seat: str = "") -> None:
        self.world = world
        self.name = name
        self.principal = principal
        self.seat = seat or name
        self.id = int(publisher_id(principal, name))
        self.link = 0
        self.node = ""  # the broker at which it is
        self.life = 0
        self.where: Filter | None = None
        self.machine: Machine | None = None
        self.traces = TraceBuffer(sums=world.sums)  # what its machine traces
        self.hears: set[str] = set()  # beside its inbox and the topic
        self.deaf = False  # to the topic
        self.cut_at = -1  # of the effects of its next step so many happen, then it crashes
        self._links = 0
        self._skew = 0  # of its clock: nothing may depend on what it was in an earlier life
        self._timers: dict[Timer, Appointment] = {}
        self._acts: dict[type[Effect], Callable[[Any], None]] = {
            SendLetter: lambda post: world.office.post(self, post),
            Publish: lambda publish: world.office.publish(self, publish.block, publish.to),
            Subscribe: self._listen,
            Unsubscribe: self._ignore,
            StartTimer: self._start_timer,
            StopTimer: lambda stop: self._stop_timer(stop.timer),
            Stop: self._stop,
            Report: self._report,
        }
        world.office.join(self)

    @property
    def alive(self) -> bool:
        return self.machine is not None

    @property
    def wants_events(self) -> bool:
        return self.alive and not self.deaf

    @property
    def clock(self) -> int:
        return self.world.now + self._skew

    @property
    def wall(self) -> int:
        """What the clock on its wall shows; 0 is that it has none."""
        return 0

    # ---- lives

    def start(self) -> None:
        raise NotImplementedError

    def begin(self, machine: Machine) -> None:
        assert not self.alive
        self.life += 1
        self._skew = self.world.random.randrange(10 * SECOND)
        self.cut_at = -1
        self.machine = machine
        self.traces.take(0)
        self.hears, self.deaf = set(), False
        self.note(f"begins life {self.life}")

    def crash(self, why: str = "crash") -> None:
        """It is gone with all that it knew."""
        if not self.alive:
            return
        self.note(why)
        self.machine = None
        self.link = 0
        for appointment in self._timers.values():
            appointment.cancel()
        self._timers.clear()

    def connect(self) -> None:
        self._links += 1
        self.link = self._links
        for topic in sorted(self.hears):
            self.handle(Listening(topic))
        self.handle(LinkUp(self.principal, self.node))
        self.world.brokers.greet(self)

    def roam(self, pause: int) -> None:
        """Its link is gone with all that is under way; another one comes, perhaps at another broker."""
        if self.alive and self.link:
            self.link = 0
            self.unlinked()
            self.later(pause, self._reconnect)

    def _reconnect(self) -> None:
        if not self.link:
            self.wander()
            self.connect()

    def wander(self) -> None:
        """Choose a broker, if it matters."""
        if self.world.nodes and not self.is_repository:
            self.node = self.world.random.choice(self.world.nodes)

    def unlinked(self) -> None:
        self.handle(LinkDown())

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """Unless it crashes before."""
        life = self.life
        self.world.after(delay, lambda: action() if self.life == life and self.alive else None)

    def note(self, what: str) -> None:
        self.world.trace.note(self.world.now, self.seat, what)

    def accuse(self, kind: str, detail: str) -> None:
        self.world.anomalies.append(Anomaly(kind, detail))

    # ---- steps

    def handle(self, happened: Input) -> None:
        if self.machine is None:
            return
        world = self.world
        try:
            effects = typed_calls.step(self.machine, self.clock, happened)
        except _BUGS as error:
            self.accuse("raised", f"{self.name} on {str(happened)[:300]}: {error!r}")
            self.crash("raised")
            return
        validate_sometimes(self.name, self.machine, world.trace.steps, world.anomalies)
        world.trace.step(world.now, self.seat, happened, effects)
        self.testify(self.did(happened, effects), self.traces.take(self.clock))
        if world.trace.steps > MOST_STEPS:
            raise Endless(f"{world.trace.steps} steps")
        cut = len(effects) + 1
        if self.cut_at >= 0 and effects:
            cut = min(self.cut_at, len(effects))
        for place, effect in enumerate(effects):
            if place >= cut:
                break
            act = self._acts.get(type(effect))
            assert act is not None, effect
            act(effect)
            if not self.alive:
                return
        if cut <= len(effects):
            world.seen["crash-in-step"] += 1
            self.cut_short()
            return
        self.observe()

    def did(self, happened: Input, effects: list[Effect]) -> trace_checker.Told:  # noqa: ARG002
        """What its traces of this step must tell."""
        return trace_checker.done(effects)

    def testify(self, did: trace_checker.Told, rows: list[Row]) -> None:
        told = trace_checker.told(rows)
        self.world.seen["traced"] += len(told)
        if told != did:
            self.accuse("false-trace", f"{self.name} traced {told - did}, not {did - told}")

    def cut_short(self) -> None:
        """It crashed in the middle of its effects."""
        self.crash("crash in a step")

    def observe(self) -> None:
        """A step is over."""

    # ---- effects

    def _listen(self, listen: Subscribe) -> None:
        if not listen.letters:
            self.where = Filter(listen.where) if listen.where else None
        if listen.to == TOPIC:
            self.deaf = False
        else:
            self.hears.add(listen.to)
        link = self.link
        delay = self.world.random.randrange(5 * MILLISECOND)
        self.later(delay, lambda: self.handle(Listening(listen.to)) if self.link == link else None)

    def _ignore(self, ignore: Unsubscribe) -> None:
        if ignore.to == TOPIC:
            self.deaf = True
            self.world.seen["deaf"] += 1
        else:
            self.hears.remove(ignore.to)

    def _start_timer(self, start: StartTimer) -> None:
        self._stop_timer(start.timer)
        at = start.at - self._skew + (self.world.random.randrange(start.jitter + 1) if start.jitter else 0)
        self._timers[start.timer] = self.world.schedule.at(at, lambda: self.handle(TimerFired(start.timer, self.wall)))

    def _stop_timer(self, timer: Timer) -> None:
        former = self._timers.pop(timer, None)
        if former is not None:
            former.cancel()

    def _stop(self, stop: Stop) -> None:
        self.crash(f"stops: {stop.reason}")
        self.world.after(self.world.random.randrange(10, 400) * MILLISECOND, self.start)  # it is supervised

    def _report(self, report: Report) -> None:
        if report.level in ("warning", "error"):
            self.world.seen[report.what.split(":")[0].replace(" ", "-")] += 1
