"""The cast: everyone who takes part in a run, and how they come together."""

from random import Random
from typing import NamedTuple

from stentor.machine import MILLISECOND, SECOND
from stentor.model.control import TopicTask
from stentor.model.mail import MAIL
from stentor.protocols.delivery.repository.registry import is_within
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.simulation.delivery.actor import TOPIC, Actor, Stage
from stentor.simulation.delivery.author import Author
from stentor.simulation.delivery.depot import Depot, keeper_of
from stentor.simulation.delivery.owner import Owner
from stentor.simulation.delivery.plan import AGE_UNIT, Plan
from stentor.simulation.delivery.reader import Reader
from stentor.simulation.delivery.scholar import Scholar
from stentor.simulation.delivery.scribe import Scribe
from stentor.simulation.delivery.stranger import Stranger
from stentor.simulation.workload import CONDITIONS, Condition, mail_condition

_OBEYED_WITHIN = 30 * SECOND


class Kinds(NamedTuple):
    """Who plays the parts."""

    owner: type[Owner] = Owner
    depot: type[Depot] = Depot
    author: type[Author] = Author
    scribe: type[Scribe] = Scribe
    reader: type[Reader] = Reader
    scholar: type[Scholar] = Scholar
    stranger: type[Stranger] = Stranger


BARE = Kinds()  # machines of reliable delivery alone


class Cast:
    """Repositories, publishers, subscribers and the owner of the topic."""

    def __init__(self, stage: Stage, plan: Plan, seed: int, kinds: Kinds = BARE) -> None:
        self.stage, self.plan, self._seed, self.kinds = stage, plan, seed, kinds
        self.owner = kinds.owner(stage)
        self.depots: dict[str, Depot] = {}
        stage.nodes, stage.book.hold = plan.nodes, plan.hold
        stage.recipients = tuple(f"reader{place}" for place in range(plan.readers)) if plan.mail else ()
        stage.book.stored_times.keep, stage.book.stored_times.expire = plan.keep * AGE_UNIT, plan.expire * AGE_UNIT
        stage.are_clocks_set_back = plan.clocks
        for unit in ("",) * plan.repositories + plan.finer:
            self.add_depot(unit)
        kind = kinds.scribe if plan.scribes else kinds.author
        self.authors = [kind(stage, f"author{place}", plan.events, plan.pause) for place in range(plan.authors)]
        if plan.wrong_clocks:
            for author in self.authors:
                author.wrong_clocks = Random(f"{seed}/clock/{author.short}")
        self.readers = [self._reader(place) for place in range(plan.readers)]
        self.scholars = [kinds.scholar(stage, "scholar")] if plan.scholars else []
        twins = [self.owner, *self.scholars]
        self.strangers = [kinds.stranger(stage, self.members, twins, seed)] if plan.strangers else []

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
            sleep_after=300 * MILLISECOND,
            collect_every=(100 if plan.close_after < SECOND else 300) * MILLISECOND,
            close_after=plan.close_after,
            age_unit=AGE_UNIT,
            mail=TOPIC if plan.mail else MAIL,
        )
        depot = self.depots[name] = self.kinds.depot(self.stage, name, settings, self._seed)
        self.owner.believed.principals[name] = depot.principal
        if plan.wrong_clocks:
            depot.wrong_clocks = Random(f"{self._seed}/clock/{name}")
        if plan.nodes:
            depot.node = self.stage.random.choice([node for node in plan.nodes if is_within(node, unit)])
        return depot

    def _reader(self, place: int) -> Reader:
        random = self.stage.random
        epoch = f"epoch {random.choice(list(self.depots))}:{random.randrange(6, 24)}"
        since = random.choice(("now", "now", "beginning", "beginning", epoch, epoch, "time 30000000000"))
        if self.plan.mail:
            return self.kinds.reader(
                self.stage, f"reader{place}", "now", mail_condition(f"reader{place}"), self.plan.slowness
            )
        return self.kinds.reader(self.stage, f"reader{place}", since, self.draw_condition(), self.plan.slowness)

    def draw_condition(self) -> Condition | None:
        random = self.stage.random
        return None if random.random() < 0.4 else random.choice(CONDITIONS)

    # ---- how it begins

    def found(self) -> None:
        """The topic is created and everyone is registered, in peace."""
        for depot in self.depots.values():
            depot.member = True
            depot.start()
        self.owner.start()
        self._create(list(self.depots))
        if self.plan.former:
            self._begin_again()

    def _begin_again(self) -> None:
        """A repository dies; the topic is deleted, and another one of its name is created in which it is a member."""
        stage, author = self.stage, self.authors[0]
        author.start()
        stage.schedule.run(stage.now + 400 * MILLISECOND)
        author.crash()
        sleeper = stage.random.choice(list(self.depots.values()))
        sleeper.crash("sleeps")
        others = [name for name, depot in self.depots.items() if depot is not sleeper]
        self.owner.wish(TopicTask.DELETE, others)
        self._obey()
        while stage.seen["deleted"] < len(others):
            stage.schedule.run(stage.now + 20 * MILLISECOND)
        stage.schedule.run(stage.now + 40 * MILLISECOND)
        stage.book.delete()
        sleeper.shelf.is_former, sleeper.has_caught_up = True, False
        self._create(others)
        stage.after(stage.random.randrange(1, self.plan.duration), sleeper.start)

    def _create(self, asked: list[str]) -> None:
        """All repositories are to manage the topic; these are asked to."""
        members = tuple(self.depots)
        owner, ended = self.owner, self.stage.brokers.ended
        for name in asked:
            owner.wish(
                TopicTask.CREATE,
                (name,),
                repositories=members,
                principals=tuple(map(keeper_of, members)) if not self.plan.nameless else (),
                born=max(self.stage.now // MILLISECOND, ended + 1),
                copies=self.plan.copies,
                keep=self.plan.keep,
                expire=self.plan.expire,
                hold=self.plan.hold,
            )
        for author in self.authors if not self.plan.mail else ():
            owner.wish(TopicTask.GRANT, asked, role="publisher", name=author.short, holder=author.principal)
        for reader in self.readers if not self.plan.mail else ():
            owner.wish(TopicTask.GRANT, asked, role="subscriber", name=reader.short)
        for scholar in self.scholars:
            owner.wish(TopicTask.GRANT, asked, role="subscriber", name=scholar.short)
        self._obey()

    def _obey(self) -> None:
        schedule, limit = self.stage.schedule, self.stage.now + _OBEYED_WITHIN
        while self.owner.wishes:
            assert schedule.now < limit, f"nobody does in peace what the owner wants: {self.owner.wishes[0]}"
            schedule.run(schedule.now + 20 * MILLISECOND)
        schedule.run(schedule.now + 40 * MILLISECOND)
        assert not self.owner.refused, self.owner.refused

    # ---- who is there

    @property
    def actors(self) -> list[Actor]:
        return [*self.depots.values(), *self.authors, *self.readers, *self.scholars]

    def serving(self) -> list[Depot]:
        return [depot for depot in self.depots.values() if depot.serves]

    def members(self) -> list[str]:
        """Those that may be asked for something, alive or not."""
        return [name for name, depot in self.depots.items() if depot.member and not depot.left and not depot.dead]
