"""The participants of a run of reliable delivery, and how they come together."""

from random import Random
from typing import NamedTuple

from stentor.machine import MILLISECOND, SECOND
from stentor.model.control import TopicTask
from stentor.model.mail import MAIL
from stentor.protocols.delivery.repository.registry import is_within
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.simulation.clients.workload import CONDITIONS, Condition, mail_condition
from stentor.simulation.delivery.owner import SimOwner
from stentor.simulation.delivery.plan import AGE_UNIT, DeliveryPlan
from stentor.simulation.delivery.process import TOPIC, DeliveryWorld, SimProcess
from stentor.simulation.delivery.publisher import SimPublisher
from stentor.simulation.delivery.repository import SimRepository, keeper_of
from stentor.simulation.delivery.resuming_publisher import SimResumingPublisher
from stentor.simulation.delivery.stored_reader import SimStoredReader
from stentor.simulation.delivery.stranger import Stranger
from stentor.simulation.delivery.subscriber import SimSubscriber

_OBEYED_WITHIN = 30 * SECOND
_MOST_TOKENS = 1_000_000  # of one process that asks for something


class Kinds(NamedTuple):
    """The classes of the participants: bare processes, or whole nodes."""

    owner: type[SimOwner] = SimOwner
    repository: type[SimRepository] = SimRepository
    publisher: type[SimPublisher] = SimPublisher
    resuming_publisher: type[SimResumingPublisher] = SimResumingPublisher
    subscriber: type[SimSubscriber] = SimSubscriber
    stored_reader: type[SimStoredReader] = SimStoredReader
    stranger: type[Stranger] = Stranger


BARE = Kinds()  # machines of reliable delivery alone


class Participants:
    """Repositories, publishers, subscribers and the owner of the topic."""

    def __init__(self, world: DeliveryWorld, plan: DeliveryPlan, seed: int, kinds: Kinds = BARE) -> None:
        self.world = world
        self.plan = plan
        self._seed = seed
        self.kinds = kinds
        self.owner = kinds.owner(world)
        self.leavers: list[SimOwner] = []  # who end subscriptions from elsewhere
        self.repositories: dict[str, SimRepository] = {}
        world.nodes, world.history.hold = plan.nodes, plan.hold
        world.recipients = tuple(f"reader{place}" for place in range(plan.readers)) if plan.mail else ()
        world.history.stored_times.keep, world.history.stored_times.expire = (
            plan.keep * AGE_UNIT,
            plan.expire * AGE_UNIT,
        )
        world.are_clocks_set_back = plan.clocks
        for unit in ("",) * plan.repositories + plan.finer:
            self.add_repository(unit)
        kind = kinds.resuming_publisher if plan.resumes else kinds.publisher
        self.publishers = [kind(world, f"author{place}", plan.events, plan.pause) for place in range(plan.publishers)]
        if plan.wrong_clocks:
            for publisher in self.publishers:
                publisher.wrong_clocks = Random(f"{seed}/clock/{publisher.short}")
        self.subscribers = [self._reader(place) for place in range(plan.readers)]
        self.stored_readers = [kinds.stored_reader(world, "scholar")] if plan.reads_at_rest else []
        twins = [self.owner, *self.stored_readers]
        self.strangers = [kinds.stranger(world, self.members, twins, seed)] if plan.strangers else []

    def add_repository(self, unit: str = "") -> SimRepository:
        plan = self.plan
        name = "abcdefgh"[len(self.repositories)]
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
        repository = self.repositories[name] = self.kinds.repository(self.world, name, settings, self._seed)
        self.owner.believed.principals[name] = repository.principal
        if plan.wrong_clocks:
            repository.wrong_clocks = Random(f"{self._seed}/clock/{name}")
        if plan.nodes:
            repository.node = self.world.random.choice([node for node in plan.nodes if is_within(node, unit)])
        return repository

    def _reader(self, place: int) -> SimSubscriber:
        random = self.world.random
        epoch = f"epoch {random.choice(list(self.repositories))}:{random.randrange(6, 24)}"
        since = random.choice(("now", "now", "beginning", "beginning", epoch, epoch, "time 30000000000"))
        if self.plan.mail:
            return self.kinds.subscriber(
                self.world, f"reader{place}", "now", mail_condition(f"reader{place}"), self.plan.slowness
            )
        return self.kinds.subscriber(self.world, f"reader{place}", since, self.draw_condition(), self.plan.slowness)

    def draw_condition(self) -> Condition | None:
        random = self.world.random
        return None if random.random() < 0.4 else random.choice(CONDITIONS)

    def add_leaver(self, subscriber: SimSubscriber) -> SimOwner:
        """Return somebody who may use the name of a subscriber and does not subscribe under it."""
        number = len(self.leavers) + 1
        leaver = self.kinds.owner(self.world, f"leaver{number}", subscriber.principal, number * _MOST_TOKENS)
        leaver.believed = self.owner.believed
        self.leavers.append(leaver)
        leaver.start()
        return leaver

    # ---- how it begins

    def found(self) -> None:
        """The topic is created and everyone is registered, in peace."""
        for repository in self.repositories.values():
            repository.member = True
            repository.start()
        self.owner.start()
        self._create(list(self.repositories))
        if self.plan.former:
            self._begin_again()

    def _begin_again(self) -> None:
        """A repository dies; the topic is deleted, and another one of its name is created in which it is a member."""
        world, publisher = self.world, self.publishers[0]
        publisher.start()
        world.schedule.run(world.now + 400 * MILLISECOND)
        publisher.crash()
        sleeper = world.random.choice(list(self.repositories.values()))
        sleeper.crash("sleeps")
        others = [name for name, repository in self.repositories.items() if repository is not sleeper]
        self.owner.request(TopicTask.DELETE, others)
        self._obey()
        while world.seen["deleted"] < len(others):
            world.schedule.run(world.now + 20 * MILLISECOND)
        world.schedule.run(world.now + 40 * MILLISECOND)
        world.history.delete()
        sleeper.contents.is_former, sleeper.has_caught_up = True, False
        self._create(others)
        world.after(world.random.randrange(1, self.plan.duration), sleeper.start)

    def _create(self, asked: list[str]) -> None:
        """All repositories are to manage the topic; these are asked to."""
        members = tuple(self.repositories)
        owner, ended = self.owner, self.world.brokers.ended
        for name in asked:
            owner.request(
                TopicTask.CREATE,
                (name,),
                repositories=members,
                principals=tuple(map(keeper_of, members)) if not self.plan.nameless else (),
                born=max(self.world.now // MILLISECOND, ended + 1),
                copies=self.plan.copies,
                keep=self.plan.keep,
                expire=self.plan.expire,
                hold=self.plan.hold,
            )
        for publisher in self.publishers if not self.plan.mail else ():
            owner.request(TopicTask.GRANT, asked, role="publisher", name=publisher.short, holder=publisher.principal)
        for subscriber in self.subscribers if not self.plan.mail else ():
            owner.request(TopicTask.GRANT, asked, role="subscriber", name=subscriber.short)
        for stored_reader in self.stored_readers:
            owner.request(TopicTask.GRANT, asked, role="subscriber", name=stored_reader.short)
        self._obey()

    def _obey(self) -> None:
        schedule, limit = self.world.schedule, self.world.now + _OBEYED_WITHIN
        while self.owner.requests:
            assert schedule.now < limit, f"nobody does in peace what the owner wants: {self.owner.requests[0]}"
            schedule.run(schedule.now + 20 * MILLISECOND)
        schedule.run(schedule.now + 40 * MILLISECOND)
        assert not self.owner.refused, self.owner.refused

    # ---- who is there

    @property
    def actors(self) -> list[SimProcess]:
        return [*self.repositories.values(), *self.publishers, *self.subscribers, *self.stored_readers]

    def serving(self) -> list[SimRepository]:
        return [repository for repository in self.repositories.values() if repository.serves]

    def members(self) -> list[str]:
        """Those that may be asked for something, alive or not."""
        return [
            name
            for name, repository in self.repositories.items()
            if repository.member and not repository.left and not repository.dead
        ]
