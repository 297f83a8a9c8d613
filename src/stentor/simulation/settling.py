"""Whether a client that was told that every broker knows what it wants gets all of that from then on.

Whenever somebody is told so, everybody publishes at once, wherever they are. Some seconds later it has what it wants of
that, unless something befell the network meanwhile, or itself: then nothing was promised.
"""

from collections.abc import Callable, Mapping, Sequence

from stentor.machine import SECOND
from stentor.model.messages import SettlementReport
from stentor.nodes.broker import Broker
from stentor.simulation.application import Application
from stentor.simulation.checkers import Ledger
from stentor.simulation.life import Session, Wish
from stentor.simulation.outcome import Anomaly
from stentor.simulation.world import World

_GRACE = 3 * SECOND  # an event has arrived by then, and what befell the network is known to its brokers
Picture = dict[str, tuple[int, int]]  # of each broker: in which life it is, and how often its graph has changed


class SettlementChecker:
    """Listens to the applications of a world, of which `brokers` are those that run, by name."""

    def __init__(self, world: World, ledger: Ledger, brokers: Callable[[], Mapping[str, Broker]]) -> None:
        self._world, self._ledger, self._brokers = world, ledger, brokers
        self.applications: Sequence[Application] = ()
        self.is_peace = False  # long after the last fault nobody may be silent
        self.told = self.held = 0  # how often somebody was told, and how often that could be held against what came
        # A process that stands still, and a stream that is damaged, lose events in peace with the graph.
        self._is_blind = bool(world.faults.stalls or world.faults.weather.damage)

    def settled(self, application: Application, wishes: Sequence[Wish], report: SettlementReport) -> None:
        """Somebody was told so of these wishes."""
        world = self._world
        self.told += 1
        if report.silent and self.is_peace:
            detail = f"{application.life.name} was told in peace that {report.silent} are silent"
            world.anomalies.append(Anomaly("unsettled", detail))
        if not report.silent and not (self._is_blind and world.now < world.faults.until):
            session = application.life.linked[-1]
            world.schedule.after(0, lambda: self._try(application, wishes, session))

    def _try(self, application: Application, wishes: Sequence[Wish], mine: Session) -> None:
        """Let everybody publish, and look later at what came of it."""
        before, start = self._picture(), self._world.now
        sessions: dict[str, Session] = {}
        for each in self.applications:
            if each.lives and each.life.active and each.life.linked.open and each.client.room:
                sessions[each.life.name] = each.life.linked[-1]
                each.publish_everywhere()
        bodies = [body for body, event in self._ledger.events.items() if event.time == start]

        def judge() -> None:
            if mine.until is None and self._picture() == before:
                lasting = {name for name, session in sessions.items() if session.until is None}
                self._judge(application, wishes, bodies, lasting)

        self._world.schedule.after(_GRACE, judge)

    def _judge(
        self, application: Application, wishes: Sequence[Wish], bodies: Sequence[bytes], publishers: set[str]
    ) -> None:
        events = [self._ledger.events[body] for body in bodies]
        among = [event for event in events if event.source in publishers]
        for wish in wishes:
            if wish not in application.life.wishes.values() or wish.patient or application.has_missed(wish):
                continue
            self.held += 1
            for event in wish.reader.missing(among):
                what = f"{event.topic} {event.body[:24]!r} of {event.time / SECOND:.3f} s"
                self._world.anomalies.append(Anomaly("unsettled", f"{wish.reader.name} never got {what}"))

    def _picture(self) -> Picture:
        return {
            name: (self._world.hosts[broker.network.address].starts, broker.network.gateways.generation)
            for name, broker in self._brokers().items()
        }
