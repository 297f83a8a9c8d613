"""The world: hosts, their network and what befalls them, all out of one seed and in virtual time."""

import traceback
from collections import Counter
from random import Random
from typing import Protocol

from stentor.machine import SECOND, Effect, Input, Report
from stentor.simulation.disk import SimulatedDisk
from stentor.simulation.faults import CALM, Faults
from stentor.simulation.host import Factory, Host
from stentor.simulation.links.network import SimNetwork
from stentor.simulation.outcome import Anomaly
from stentor.simulation.replay_trace import ReplayTrace
from stentor.simulation.schedule import Schedule

RESTART = SECOND // 2


class Application(Protocol):
    """The application that uses a machine on a host: it gets the effects that are not the driver's."""

    def told(self, effect: Effect) -> None: ...

    def died(self) -> None:
        """The host crashed, and the application with it."""
        ...


class World:
    """Hosts and their network. The seed gives each purpose random numbers of its own, so that none disturbs another."""

    def __init__(self, seed: int, faults: Faults = CALM, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.faults = faults
        self.schedule = Schedule()
        self.trace = ReplayTrace(keep_trace)
        self.network = SimNetwork(self.schedule, self.stream("network"), faults)
        self.hosts: dict[str, Host] = {}
        self.anomalies: list[Anomaly] = []
        self.reports: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._applications: dict[str, Application] = {}

    @property
    def now(self) -> int:
        return self.schedule.now

    def stream(self, purpose: str) -> Random:
        """Random numbers of their own for one purpose."""
        return Random(f"{self.seed}/{purpose}")

    def add(self, name: str, factory: Factory, application: Application | None = None) -> Host:
        """A host that is not started yet; effects that only an application understands go to `application`."""
        assert name not in self.hosts, f"two hosts called {name}"
        disk = SimulatedDisk(self.stream(f"{name}/disk"), self.faults.disk)
        host = Host(self, name, factory, self.stream(name), disk, self.faults.drift)
        self.hosts[name] = self.network.hosts[name] = host
        if application is not None:
            self._applications[name] = application
        return host

    def tell(self, name: str, happened: Input) -> None:
        """The application on a host says something to its machine, if it runs."""
        host = self.hosts[name]
        start = host.starts
        self.schedule.after(0, lambda: host.handle(happened) if host.starts == start else None)

    def restart(self, host: Host, delay: int) -> None:
        self.schedule.after(delay, lambda: None if host.up else host.start())

    def run(self, until: int) -> None:
        self.schedule.run(until)

    def reported(self, host: Host, report: Report) -> None:
        self.reports[f"{report.level}: {report.what}"] += 1
        if report.what == "links repaired":  # nobody had damaged them, unless that is what a scenario does
            self.anomalies.append(Anomaly("repaired", host.name))

    def asked(self, host: Host, effect: Effect) -> None:
        application = self._applications.get(host.name)
        assert application is not None, f"nobody on {host.name} understands {effect}"
        application.told(effect)

    def died(self, host: Host) -> None:
        application = self._applications.get(host.name)
        if application is not None:
            application.died()

    def stopped(self, host: Host, reason: str) -> None:
        self.trace.note(self.now, host.name, f"stopped: {reason}")
        self.failures["stop"] += 1
        self.restart(host, RESTART)

    def raised(self, host: Host, happened: Input, error: Exception) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        detail = (
            f"{host.name} on {type(happened).__name__} at {self.now / SECOND:.6f} s: {type(error).__name__}: {error} "
            f"({place.filename.rpartition('/')[2]}:{place.lineno} in {place.name})"
        )
        self.trace.note(self.now, host.name, "raised", detail)
        self.anomalies.append(Anomaly("raised", detail))
        self.restart(host, RESTART)

    def damaged(self, host: Host, reason: str) -> None:
        self.trace.note(self.now, host.name, f"damaged: {reason}")
        self.anomalies.append(Anomaly("lost-write", f"{host.name} cannot start: {reason}"))
