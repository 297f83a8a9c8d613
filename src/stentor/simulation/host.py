"""A simulated computer: it runs one machine, does what the machine asks for, and can fail in every way a real one does.

A crash takes everything volatile; a factory then builds a new machine, which is told what its logs durably held.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from stentor.machine import (
    SECOND,
    Append,
    Close,
    Dial,
    Effect,
    Input,
    Machine,
    Pause,
    Report,
    Resume,
    Rewrite,
    Send,
    Serve,
    Started,
    StartTimer,
    Stop,
    StopTimer,
    Timer,
    TimerFired,
)
from stentor.model.ids import LinkId
from stentor.simulation.clients import typed_calls
from stentor.simulation.clock import Clock
from stentor.simulation.disk import SimulatedDisk
from stentor.simulation.journal import Journal
from stentor.simulation.links.network import Endpoint, SimNetwork
from stentor.simulation.outcome import Anomaly
from stentor.simulation.replay_trace import ReplayTrace
from stentor.simulation.schedule import Appointment, Schedule
from stentor.simulation.validation import validate_sometimes
from stentor.storage.segment import LogDamaged, LogError

Factory = Callable[[], Machine]


class Surroundings(Protocol):
    """The world, as a host sees it."""

    schedule: Schedule
    network: SimNetwork
    trace: ReplayTrace
    anomalies: list[Anomaly]

    def reported(self, host: "Host", report: Report) -> None: ...

    def asked(self, host: "Host", effect: Effect) -> None:
        """An effect for the application."""
        ...

    def died(self, host: "Host") -> None:
        """Its machine is gone, whatever the reason."""
        ...

    def stopped(self, host: "Host", reason: str) -> None:
        """It went down by itself, or could not start."""
        ...

    def damaged(self, host: "Host", reason: str) -> None:
        """Something durable is not there any more: it cannot start."""
        ...

    def raised(self, host: "Host", happened: Input, error: Exception) -> None: ...


class Host:
    """`drift` is the largest deviation of its clock, in parts per million; every start draws one."""

    def __init__(
        self, world: Surroundings, name: str, factory: Factory, random: Random, disk: SimulatedDisk, drift: int = 0
    ) -> None:
        self.name = name
        self.disk = disk
        self.disks = [disk]  # all that lose their cache with the power; the first one is the journal's
        self.starts = 0
        self.links: dict[LinkId, Endpoint] = {}
        self.machine: Machine | None = None
        self._world = world
        self._factory = factory
        self._random = random
        self._drift = drift
        self._clock = Clock()
        self._timers: dict[Timer, tuple[Appointment, int]] = {}
        self._journal = self._new_journal()
        self._next_link = 0
        self._stalled = False
        self.serving = False
        self._inbox: deque[Callable[[], None]] = deque()

    @property
    def up(self) -> bool:
        return self.machine is not None

    @property
    def stalled(self) -> bool:
        """Whether the process is not run at the moment."""
        return self._stalled

    @property
    def now(self) -> int:
        return self._clock.read(self._world.schedule.now)

    def start(self) -> None:
        """Boot. A log that cannot be opened is a start that failed."""
        assert not self.up, f"{self.name} runs already"
        self.starts += 1
        schedule = self._world.schedule
        drift = self._random.randint(-self._drift, self._drift)
        self._clock = Clock(drift, self._random.randrange(1000 * SECOND), schedule.now)
        self._journal = self._new_journal()
        try:
            records = self._journal.open()
        except LogDamaged as damage:
            self._world.damaged(self, str(damage))
            return
        except LogError as error:
            self._world.stopped(self, str(error))
            return
        self.machine = self._factory()
        self.handle(Started(records))

    def crash(self, power: bool, silent: bool = False) -> None:
        """Everything volatile is gone; with `power` the disk's cache too, and with `silent` no peer hears of it."""
        self._world.trace.note(self._world.schedule.now, self.name, "power cut" if power else "killed")
        self._die(silent)
        if power:
            for disk in self.disks:
                disk.cut_power()

    def handle(self, happened: Input) -> None:
        """Give the machine an input, now or when it runs again."""
        self.soon(lambda: self._step(happened))

    def soon(self, action: Callable[[], None]) -> None:
        """Do something that this host's process would do, now or when it runs again."""
        if not self.up:
            return
        if self._stalled:
            self._inbox.append(action)
        else:
            action()

    def stall(self, duration: int) -> None:
        """The process is not run for a while; what arrives waits."""
        if self._stalled or not self.up:
            return
        self._stalled = True
        start = self.starts
        self._world.trace.note(self._world.schedule.now, self.name, "stalled")
        self._world.schedule.after(duration, lambda: self.wake() if start == self.starts else None)

    def jump(self, by: int) -> None:
        """The clock shows more from now on, and timers that are due by it fire."""
        now = self._world.schedule.now
        self._world.trace.note(now, self.name, f"clock jumps {by}")
        self._clock.jump(now, by)
        for name, (appointment, at) in list(self._timers.items()):
            appointment.cancel()
            self._set_timer(name, at)

    def new_link(self) -> LinkId:
        self._next_link += 1
        while self._next_link in self.links:
            self._next_link += 1
        return LinkId(self._next_link)

    def _new_journal(self) -> Journal:
        return Journal(self._world.schedule, self._random, self.disk, self.handle)

    def wake(self) -> None:
        """The process runs again, and does first what has been waiting."""
        self._stalled = False
        while self._inbox and not self._stalled:
            self._inbox.popleft()()

    def _die(self, silent: bool) -> None:
        if not self.up:
            return
        self._world.died(self)
        self.machine = None
        self._stalled = self.serving = False
        self._inbox.clear()
        self._journal.abandon()
        for appointment, _ in self._timers.values():
            appointment.cancel()
        self._timers.clear()
        for link in list(self.links.values()):
            link.abandon(silent)
        self.links.clear()
        self._next_link = 0

    def _step(self, happened: Input) -> None:
        machine = self.machine
        if machine is None:
            return
        world = self._world
        try:
            effects = typed_calls.step(machine, self.now, happened)
        except Exception as error:
            world.trace.step(world.schedule.now, self.name, happened, [])
            self._die(silent=False)
            world.raised(self, happened, error)
            return
        validate_sometimes(self.name, machine, world.trace.steps, world.anomalies)
        world.trace.step(world.schedule.now, self.name, happened, effects)
        for effect in effects:
            self._execute(effect)
            if not self.up:
                return

    def _execute(self, effect: Effect) -> None:
        match effect:
            case Send():
                link = self.links.get(effect.link)
                if link is not None:
                    link.send(b"".join(effect.data))
            case StartTimer():
                self._stop_timer(effect.timer)
                jitter = self._random.randrange(effect.jitter + 1) if effect.jitter else 0
                self._set_timer(effect.timer, effect.at + jitter)
            case StopTimer():
                self._stop_timer(effect.timer)
            case Dial():
                assert effect.link not in self.links, f"{self.name} dials a link that is in use: {effect}"
                self.links[effect.link] = self._world.network.dial(self, effect.link, effect.address)
            case Close():
                link = self.links.pop(effect.link, None)
                if link is not None:
                    link.close()
            case Pause() | Resume():
                pass  # a simulated stream has no buffer that could fill up
            case Append() | Rewrite():
                self._journal.append(effect)
            case Serve():
                self.serving = True
            case Report():
                self._world.reported(self, effect)
            case Stop():
                self._die(silent=False)
                self._world.stopped(self, effect.reason)
            case _:
                self._world.asked(self, effect)

    def _set_timer(self, timer: Timer, at: int) -> None:
        appointment = self._world.schedule.at(self._clock.when(at), lambda: self._ring(timer, appointment))
        self._timers[timer] = appointment, at

    def _stop_timer(self, timer: Timer) -> None:
        started = self._timers.pop(timer, None)
        if started is not None:
            started[0].cancel()

    def _ring(self, timer: Timer, appointment: Appointment) -> None:
        self.soon(lambda: self._fire(timer, appointment))

    def _fire(self, timer: Timer, appointment: Appointment) -> None:
        """Unless it was stopped or replaced while the process stood still."""
        started = self._timers.get(timer)
        if started is not None and started[0] is appointment:
            del self._timers[timer]
            self._step(TimerFired(timer))
