"""Plans while links, processes and clocks fail: in the end every plan is done or undone as a whole, and all is well.

The network of the scenario `plans`, with faults: links break, nodes cannot reach each other, processes stand still, die
and come back, roots among them, while operators ask for plans. What is lost meanwhile follows the rules of best effort.
When the faults have ended, plans end within the time that they have, nothing is held any more, every scope is in its
correct state, every broker knows the network as it is, and what is published then reaches everyone who wants it.
"""

from collections import Counter

import msgspec

from stentor.machine import MILLISECOND, SECOND, Input
from stentor.model.colours.legality import illegalities
from stentor.model.colours.plan import TopologyChange, TopologyPlan
from stentor.nodes.broker.broker import Broker
from stentor.simulation.checkers.network_oracle import NetworkOracle
from stentor.simulation.checkers.network_views import views_of
from stentor.simulation.fault_injector import FaultInjector
from stentor.simulation.faults import Faults
from stentor.simulation.outcome import Outcome
from stentor.simulation.scenario import Scenario
from stentor.simulation.scenarios.plans import LoadedNetwork, PlanDrawn

_LONGEST = 120 * SECOND  # after the last fault: longer than a plan may be prepared and drain, and a scope may heal
_CALM = 11 * SECOND  # after it, whatever it left behind is found out
_TROUBLE = (2 * SECOND, 4 * SECOND, 10 * SECOND)
_PAUSES = (50 * MILLISECOND, SECOND)  # between two plans
_LOOK = SECOND  # from one look at how things are to the next
_ARRIVED = 3 * SECOND  # by then what was published in the end is everywhere


class PlanWithdrawn(Input, frozen=True, tag="plan withdrawn"):
    """An operator wants a plan taken back."""

    scope: str
    number: int


class RootsLeave(Input, frozen=True, tag="roots leave"):
    """An operator wants a broker to be no root."""


class _Stage(LoadedNetwork):
    """The world with its players, and what goes wrong in it."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        super().__init__(seed, keep_trace, SCENARIO.name)
        self.plans: list[tuple[str, TopologyPlan]] = []
        self._changed: set[frozenset[str]] = set()  # pairs of brokers whose link a plan was to change
        self._refused: set[int] = set()
        self.faults = self._draw_faults()

    def _draw_faults(self) -> Faults:
        """Each seed has troubles of its own: all at once would hide what some of them do alone."""
        random = self.random

        def some(rate: float) -> float:
            return rate * random.uniform(0.3, 1.0) if random.random() < 0.4 else 0.0

        return Faults(
            weather=self.world.faults.weather,
            breaks=some(2.0),
            partitions=some(1.0),
            mean_partition=2 * SECOND,
            crashes=some(0.8),
            stalls=some(0.8),
            mean_stall=SECOND,
            jumps=some(0.2),
        )

    # ---- from the beginning to the end

    def run(self) -> None:
        world = self.world
        self.start_load()
        trouble = world.now + self.random.choice(_TROUBLE)
        world.faults = msgspec.structs.replace(self.faults, until=trouble)
        injector = FaultInjector(world)
        injector.begin()
        while world.now < trouble:
            world.run(min(trouble, world.now + self.random.randint(*_PAUSES)))
            self.random.choices((self._ask_for_plan, self._withdraw, self._hand_over), (8, 1, 1))[0]()
        self.is_over = True
        world.run(trouble + _CALM)
        self._calm_down(trouble + _LONGEST)
        self.counts.update(injector.struck)
        self.counts["healed-ms"] = (world.now - trouble) // MILLISECOND
        self._check_plans()
        self._check_end()

    def _ask_for_plan(self) -> None:
        scope = self.random.choice(self.topology.scopes())
        roots, links = self.roots(scope), self.links
        plan = self.draw_plan(scope) if roots else None
        self.links = links  # nobody knows yet what becomes of it
        if plan is None or any(_pair(change) in self._changed for change in plan.changes):
            return
        self._changed.update(map(_pair, plan.changes))
        self.plans.append((scope, plan))
        self.world.tell(self.addresses[self.random.choice(roots)], PlanDrawn(scope, plan))

    def _withdraw(self) -> None:
        """An operator changes its mind."""
        if self.plans:
            scope, plan = self.plans[-1]
            for root in self.roots(scope):
                self.world.tell(self.addresses[root], PlanWithdrawn(scope, plan.number))

    def _hand_over(self) -> None:
        """A root is about to leave, and thinks better of it."""
        for root in self.roots(self.random.choice(self.topology.scopes())):
            self.counts["handed-over"] += 1
            self.world.tell(self.addresses[root], RootsLeave())

    def prepare(self, broker: Broker) -> None:
        super().prepare(broker)
        colouring = broker.network.colouring

        def withdraw(order: PlanWithdrawn) -> None:
            colours = colouring.of_scope(order.scope)
            assert colours is not None, "the root of a scope is in it"
            colours.planning.abort(order.number)

        def hand_over(_: RootsLeave) -> None:
            colouring.hand_over()

        broker._inputs.update({PlanWithdrawn: withdraw, RootsLeave: hand_over})

    def on_refusal(self, drawn: PlanDrawn, reason: str) -> None:  # noqa: ARG002
        self._refused.add(drawn.plan.number)

    def _calm_down(self, end: int) -> None:
        """Wait until everything has come to rest; what never does is wrong."""
        while self.world.now < end:
            self.world.run(self.world.now + _LOOK)
            wrong = self._restless()
            if not wrong:
                return
        self.anomaly("restless", f"{_LONGEST // SECOND} s after the last fault: {wrong[:4]}")

    def _restless(self) -> list[str]:
        """Return what has not come to rest."""
        brokers, found = self.brokers(), []
        for scope in self.topology.scopes():
            inside = {name: broker.network.colouring.of_scope(scope) for name, broker in brokers.items()}
            colours = {name: each for name, each in inside.items() if each is not None}
            found += illegalities({name: each.tree.view() for name, each in colours.items()})
            found += [
                f"{name} has a plan that is {each.announced.stage.value}"
                for name, each in colours.items()
                if each.announced.is_open
            ]
            found += [f"{name} carries out a plan" for name, each in colours.items() if each.planning.is_busy]
        found += [f"{name} holds events" for name, broker in brokers.items() if broker.network.relay.held.waiting]
        found += [
            str(each)
            for each in NetworkOracle(views_of(brokers, self.topology, self.addresses, self.applications)).check([])
        ]
        return found

    # ---- at the end

    def _check_plans(self) -> None:
        """Every plan is done or undone as a whole; but a broker that died in mid-plan may not have written it down."""
        for scope, plan in self.plans:
            outcomes = Counter(self._is_done(change) for change in plan.changes)
            kind = "refused" if plan.number in self._refused else "done" if outcomes[True] else "undone"
            self.counts[f"plans-{kind}"] += 1
            if len(outcomes) > 1 and not self.faults.crashes:
                self.anomaly("half-done", f"{dict(outcomes)} of the changes of {plan} in {scope!r} are done")

    def _is_done(self, change: TopologyChange) -> bool:
        broker = self.brokers()[change.near]
        address = change.address or self.addresses[change.far]
        link = broker.network.outgoing.links.get(address)
        if change.comes or change.goes:
            return (link is not None) == change.comes
        return link is not None and link.settings.cost == change.after / 1000

    def _check_end(self) -> None:
        """What is published in the end reaches everybody."""
        start = self.world.now
        for application in self.applications:
            if application.life.active:
                application.publish_everywhere()
        self.world.run(start + _ARRIVED)
        self.check_deliveries(start)
        for application in self.applications:
            application.close_books()


def _pair(change: TopologyChange) -> frozenset[str]:
    return frozenset((change.near, change.far))


def run(seed: int, keep_trace: bool = False) -> Outcome:
    stage = _Stage(seed, keep_trace)
    stage.run()
    world = stage.world
    return Outcome.of(SCENARIO.name, seed, world.trace, world.anomalies, stage.statistics())


SCENARIO = Scenario("rebuilding", "plans while links, processes and clocks of their brokers fail", run)
