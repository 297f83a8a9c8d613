"""The settlement checker: a client that was told that every broker knows its subscription gets all of it from then on.

Whenever a client is told so, every application publishes at once, wherever it is. Half a second later the client must
have what it wants of that, unless a fault was in force meanwhile: then nothing was promised. Events that a plan holds
are waited for.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from stentor.machine import SECOND
from stentor.model.messages import SettlementReport
from stentor.nodes.broker.broker import Broker
from stentor.simulation.checkers.delivery_oracle import DeliveryOracle
from stentor.simulation.clients.application import SimApplication
from stentor.simulation.clients.client_history import ActivePeriod, SubscriptionHistory
from stentor.simulation.outcome import Anomaly
from stentor.simulation.world import World

_GRACE = SECOND // 2  # an event has arrived by then


class SettlementChecker:
    """Listens to the applications of a world, of which `brokers` are those that run, by name; `struck` counts what
    befalls it.
    """

    def __init__(
        self,
        world: World,
        oracle: DeliveryOracle,
        brokers: Callable[[], Mapping[str, Broker]],
        applications: Sequence[SimApplication],
        struck: Counter[str],
    ) -> None:
        self._world = world
        self._oracle = oracle
        self._brokers = brokers
        self._applications, self._struck = applications, struck
        self.is_peace = False  # long after the last fault nobody may be silent
        self.told = self.held = 0  # how often somebody was told, and how often that could be held against what came

    def settled(
        self, application: SimApplication, subscriptions: Sequence[SubscriptionHistory], report: SettlementReport
    ) -> None:
        """A client was told so of these subscriptions."""
        world = self._world
        self.told += 1
        if report.silent and self.is_peace:
            detail = f"{application.life.name} was told in peace that {report.silent} are silent"
            world.anomalies.append(Anomaly("unsettled", detail))
        if not report.silent:
            session = application.life.linked[-1]
            world.schedule.after(0, lambda: self._try(application, subscriptions, session))

    def _try(
        self, application: SimApplication, subscriptions: Sequence[SubscriptionHistory], mine: ActivePeriod
    ) -> None:
        """Let everybody publish, and look later at what came of it."""
        if not self._is_sound():
            return
        before, start, reached = self._picture(), self._world.now, self._reach(application.life.node)
        sessions: dict[str, ActivePeriod] = {}
        for each in self._applications:
            if each.lives and each.life.active and each.life.linked.open and each.client.room:
                if each.life.node in reached:
                    sessions[each.life.name] = each.life.linked[-1]
                each.publish_everywhere()
        bodies = [body for body, event in self._oracle.events.items() if event.time == start]

        def judge() -> None:
            if any(broker.network.relay.held.waiting for broker in self._brokers().values()):  # for a plan to end
                self._world.schedule.after(_GRACE, judge)
            elif mine.until is None and self._picture() == before:
                lasting = {name for name, session in sessions.items() if session.until is None}
                self._judge(application, subscriptions, bodies, lasting)

        self._world.schedule.after(_GRACE, judge)

    def _judge(
        self,
        application: SimApplication,
        subscriptions: Sequence[SubscriptionHistory],
        bodies: Sequence[bytes],
        publishers: set[str],
    ) -> None:
        events = [self._oracle.events[body] for body in bodies]
        among = [event for event in events if event.source in publishers]
        for history in subscriptions:
            if (
                history not in application.life.subscriptions.values()
                or history.patient
                or application.has_missed(history)
            ):
                continue
            self.held += 1
            for event in history.reader.missing(among):
                what = f"{event.topic} {event.body[:24]!r} of {event.time / SECOND:.3f} s"
                self._world.anomalies.append(Anomaly("unsettled", f"{history.reader.name} never got {what}"))

    def _reach(self, node: str) -> set[str]:
        """The brokers that are joined with one by links, itself included."""
        brokers = self._brokers()
        reached: set[str] = set()
        fresh = [node]
        while fresh:
            name = fresh.pop()
            if name in brokers and name not in reached:
                reached.add(name)
                fresh += brokers[name].network.peers
        return reached

    def _is_sound(self) -> bool:
        """Whether no process stands still and all links carry what is sent; a damaged stream may lose it in silence."""
        network, hosts = self._world.network, self._world.hosts.values()
        is_running = not any(host.stalled for host in hosts) and not network.sky.faults.damage
        return is_running and all(link.is_sound for link in network.links)

    def _picture(self) -> tuple[int, dict[str, tuple[int, int]]]:
        """How often something befell the world; of each broker its life, and how often its graph has changed."""
        brokers = {
            name: (self._world.hosts[broker.network.address].starts, broker.network.gateways.generation)
            for name, broker in self._brokers().items()
        }
        return sum(self._struck.values()), brokers
