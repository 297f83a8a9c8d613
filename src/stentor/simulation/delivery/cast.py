"""The cast: everyone who takes part in a run, and how they come together."""

from stentor.machine import MILLISECOND, SECOND
from stentor.model.control import TopicTask
from stentor.protocols.delivery.registry import is_within
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.simulation.delivery.actor import Actor, Stage
from stentor.simulation.delivery.author import Author
from stentor.simulation.delivery.depot import Depot, keeper_of
from stentor.simulation.delivery.owner import Owner
from stentor.simulation.delivery.plan import Plan
from stentor.simulation.delivery.reader import Reader
from stentor.simulation.delivery.scholar import Scholar
from stentor.simulation.delivery.scribe import Scribe
from stentor.simulation.delivery.stranger import Stranger
from stentor.simulation.workload import CONDITIONS, Condition


class Cast:
    """Repositories, publishers, subscribers and the owner of the topic."""

    def __init__(self, stage: Stage, plan: Plan, seed: int) -> None:
        self.stage, self.plan, self._seed = stage, plan, seed
        self.owner = Owner(stage)
        self.depots: dict[str, Depot] = {}
        stage.nodes, stage.book.hold = plan.nodes, plan.hold
        for unit in ("",) * plan.repositories + plan.finer:
            self.add_depot(unit)
        kind = Scribe if plan.scribes else Author
        self.authors = [kind(stage, f"author{place}", plan.events, plan.pause) for place in range(plan.authors)]
        self.readers = [self._reader(place) for place in range(plan.readers)]
        self.scholars = [Scholar(stage, "scholar")] if plan.scholars else []
        self.strangers = [Stranger(stage, self.members, seed)] if plan.strangers else []

    def add_depot(self, unit: str = "") -> Depot:
        plan = self.plan
        name = "abcdefgh"[len(self.depots)]
        settings = RepositorySettings(
            name=name,
            unit=unit,
            window=plan.window,
            tail=plan.tail,
            interval=120 * MILLISECOND,
            suspicion=500 * MILLISECOND,
            patience=15 * MILLISECOND,
            again=80 * MILLISECOND,
            degrade=800 * MILLISECOND,
            grace=250 * MILLISECOND,
            absence=2500 * MILLISECOND,
            void_after=2500 * MILLISECOND,
            void_anew=700 * MILLISECOND,
            rectify_after=250 * MILLISECOND,
            collect_every=(100 if plan.close_after < SECOND else 300) * MILLISECOND,
            close_after=plan.close_after,
        )
        depot = self.depots[name] = Depot(self.stage, name, settings, self._seed)
        self.owner.believed.principals[name] = depot.principal
        if plan.nodes:
            depot.node = self.stage.random.choice([node for node in plan.nodes if is_within(node, unit)])
        return depot

    def _reader(self, place: int) -> Reader:
        random = self.stage.random
        since = random.choice(("now", "now", "beginning", "beginning", "epoch 3", "time 30000000000"))
        return Reader(self.stage, f"reader{place}", since, self.draw_condition(), self.plan.slowness)

    def draw_condition(self) -> Condition | None:
        random = self.stage.random
        return None if random.random() < 0.4 else random.choice(CONDITIONS)

    # ---- how it begins

    def found(self) -> None:
        """The topic is created and everyone is registered, in peace."""
        members = tuple(self.depots)
        owner = self.owner
        for depot in self.depots.values():
            depot.member = True
            depot.start()
        for name in members:
            owner.wish(
                TopicTask.CREATE,
                (name,),
                repositories=members,
                principals=tuple(map(keeper_of, members)) if not self.plan.nameless else (),
                born=self.stage.now // MILLISECOND,
                copies=self.plan.copies,
                keep=self.plan.keep,
                hold=self.plan.hold,
            )
        for author in self.authors:
            owner.wish(TopicTask.GRANT, members, role="publisher", name=author.short, holder=author.principal)
        for reader in self.readers:
            owner.wish(TopicTask.GRANT, members, role="subscriber", name=reader.short)
        for scholar in self.scholars:
            owner.wish(TopicTask.GRANT, members, role="subscriber", name=scholar.short)
        owner.start()
        schedule = self.stage.schedule
        while owner.wishes:
            schedule.run(schedule.now + 20 * MILLISECOND)
        schedule.run(schedule.now + 40 * MILLISECOND)
        assert not owner.refused, owner.refused

    # ---- who is there

    @property
    def actors(self) -> list[Actor]:
        return [*self.depots.values(), *self.authors, *self.readers, *self.scholars]

    def serving(self) -> list[Depot]:
        return [depot for depot in self.depots.values() if depot.serves]

    def members(self) -> list[str]:
        """Those that may be asked for something, alive or not."""
        return [name for name, depot in self.depots.items() if depot.member and not depot.left and not depot.dead]
