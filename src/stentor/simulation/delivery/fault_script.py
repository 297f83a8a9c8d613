"""The fault script: what goes wrong in a run, one fault at a time."""

from collections.abc import Callable, Sequence

from stentor.machine import MILLISECOND
from stentor.model.control import PublisherOrder, RegistrationReceipt, TopicTask
from stentor.model.stored.span import Span
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived
from stentor.simulation.delivery.outliving import Outliving
from stentor.simulation.delivery.participants import Participants
from stentor.simulation.delivery.plan import draw_unit
from stentor.simulation.delivery.process import TOPIC, SimProcess
from stentor.simulation.delivery.publisher import SimPublisher
from stentor.simulation.delivery.repository import SimRepository
from stentor.simulation.delivery.subscriber import SimSubscriber
from stentor.simulation.disk import SOUND_DISK, DiskFaults

_SYNC_ERROR = DiskFaults(sync_error=1.0)
_FULL = DiskFaults(full=1.0)


def numbers(spans: Sequence[Span]) -> list[int]:
    return [number for first, last in spans for number in range(first, last + 1)]


class FaultScript:
    """Carries out the faults of a plan; each ends after a while, but for those that are for ever."""

    def __init__(self, participants: Participants) -> None:
        self._participants, self._world = participants, participants.world
        self._mends: dict[int, Callable[[], None]] = {}
        self._count = 0
        outliving = Outliving(participants, self._soon)
        self._strikes: dict[str, Callable[[], bool]] = {
            "kill": self._kill,
            "massacre": self._massacre,
            "power-cut": self._cut_power,
            "cut-in-commit": self._cut_in_commit,
            "cut-in-step": self._cut_in_step,
            "death": self._death,
            "author-crash": lambda: self._crash(self._participants.publishers),
            "reader-crash": lambda: self._crash([*self._participants.subscribers, *self._participants.stored_readers]),
            "reader-end": self._end_well,
            "reader-leave": self._unsubscribe,
            "leave-elsewhere": self._leave_from_elsewhere,
            "rival-reader": self._rival_reader,
            "rival-author": self._rival_publisher,
            "roam": self._roam,
            "partition": self._partition,
            "sync-error": self._sync_error,
            "disk-full": self._disk_full,
            "rot": self._rot,
            "body-rot": self._rot_body,
            "join": self._join,
            "leave": self._leave,
            "return": self._return,
            "outlive": lambda: self._outlive(outliving.begin_again),
            "forget": lambda: self._outlive(outliving.forget),
            "revoke": self._revoke,
            "echo": self._echo,
        }

    def strike(self, what: str) -> None:
        if self._strikes[what]():
            self._world.seen[what] += 1

    def mend(self) -> None:
        """All that may come back comes back."""
        for mend in list(self._mends.values()):
            mend()
        for repository in self._participants.repositories.values():
            repository.disk.faults = SOUND_DISK
            repository.ledgers.is_torn = False
        for process in self._participants.actors:
            process.cut_at = -1
        self._insist()

    def _insist(self) -> None:
        """The owner looks after those that joined or left: who had that written down may have died with it."""
        members = self._participants.members()
        for repository in self._participants.repositories.values():
            if repository.returning and not repository.dead:
                self._add_back(repository)
            elif repository.joining and not repository.leaving and repository.short in members:
                self._participants.owner.request(
                    TopicTask.ADD_REPOSITORY,
                    members,
                    repositories=(repository.short,),
                    principals=(repository.principal,),
                )
            elif repository.leaving and not repository.left and not repository.dead:
                others = [name for name in members if name != repository.short]
                self._participants.owner.request(TopicTask.REMOVE_REPOSITORY, others, repositories=(repository.short,))

    def accept_losses(self) -> None:
        """Somebody accepts that what was acknowledged, and nobody has who may come back, is lost."""
        history = self._world.history
        for process in self._participants.serving():
            repository = process.repository
            if repository is None or not repository.is_open:
                continue
            if all(each.alive or each.dead for each in self._participants.repositories.values()):
                self._world.seen["unknown-life-accepted"] += len(repository.lives.unknown.accept_loss())
            if repository.gossip.ready:
                continue
            streams = repository.log.streams.items()
            keys = [(*key, number) for key, stream in streams for number in numbers(repository.lives.awaited(stream))]
            if keys and not any(history.is_kept(key, history.disks) for key in keys):
                self._world.seen["loss-accepted"] += len(keys)
                history.accepted.update(keys)
                repository.gap_closing.accept_loss()

    def _soon(self, mend: Callable[[], None], longest: int = 900, shortest: int = 10) -> None:
        """A strike is over after a while, or when all strikes are."""
        self._count += 1
        number = self._count

        def over() -> None:
            if self._mends.pop(number, None) is not None:
                mend()

        self._mends[number] = over
        self._world.after(self._world.random.randrange(shortest, longest) * MILLISECOND, over)

    def _choose_repository(self) -> SimRepository | None:
        repositories = self._participants.serving()
        return self._world.random.choice(repositories) if repositories else None

    # ---- repositories

    def _kill(self) -> bool:
        repository = self._choose_repository()
        if repository is not None:
            repository.crash("killed")
            self._soon(repository.start)
        return repository is not None

    def _massacre(self) -> bool:
        """All repositories but one die at once, and clients with them; each comes back in its own time."""
        random = self._world.random
        repositories = self._participants.serving()
        victims: list[SimProcess] = random.sample(repositories, max(len(repositories) - 1, 0))
        victims += [
            each
            for each in (*self._participants.publishers, *self._participants.subscribers)
            if each.alive and random.random() < 0.4
        ]
        for victim in victims:
            victim.crash("killed with others")
            self._soon(victim.start, 400)
        return len(victims) > 1

    def _cut_power(self) -> bool:
        repository = self._choose_repository()
        if repository is not None:
            repository.cut_power()
            self._soon(repository.start)
        return repository is not None

    def _cut_in_commit(self) -> bool:
        repository = self._choose_repository()
        if repository is not None:
            repository.ledgers.is_torn = True
            self._soon(repository.start)
        return repository is not None

    def _cut_in_step(self) -> bool:
        processes = [each for each in self._participants.actors if each.alive]
        if not processes:
            return False
        process = self._world.random.choice(processes)
        process.cut_at = self._world.random.randrange(4)
        self._soon(process.start)
        return True

    def _death(self) -> bool:
        """One dies for ever, as long as another one for the same unit is left that has caught up."""
        repository = self._choose_repository()
        if repository is None or not self._has_heir(repository):
            return False
        repository.die()
        return True

    def _survivors(self, but: SimRepository, *, mates: bool = False) -> list[SimRepository]:
        """Those that will be there in the end, come what may, and store all, or as `mates` what this one stores."""
        unit = but.settings.unit if mates else ""
        return [
            each
            for each in self._participants.repositories.values()
            if each.member
            and each is not but
            and not (each.dead or each.rotten or each.left or each.leaving)
            and each.settings.unit == unit
        ]

    def _has_heir(self, process: SimRepository) -> bool:
        """Whether another one for the same unit has had all that this one has: one that slept through the end of a
        former topic knows nothing of this one.
        """
        return any(each.has_caught_up for each in self._survivors(process, mates=True))

    def _sync_error(self) -> bool:
        repository = self._choose_repository()
        if repository is not None:
            repository.disk.faults = _SYNC_ERROR
            self._soon(lambda: self._repair(repository), 300)
        return repository is not None

    def _disk_full(self) -> bool:
        repository = self._choose_repository()
        if repository is not None:
            repository.disk.faults = _FULL
            self._soon(lambda: self._repair(repository))
        return repository is not None

    def _repair(self, process: SimRepository) -> None:
        process.disk.faults = SOUND_DISK
        process.start()

    def _rot(self) -> bool:
        """Only where another one has the same: what is nowhere else cannot be repaired, and what was synced last no
        ledger can tell from what a power cut has torn (decision 19).
        """
        repository = self._choose_repository()
        if repository is None:
            return False
        heirs = [each for each in self._survivors(repository, mates=True) if each.has_caught_up]
        has_copy = any(each.contents.has_all_of(repository.contents) for each in heirs)
        return has_copy and repository.rot(self._world.random)

    def _rot_body(self) -> bool:
        """Also where nobody else has the same: then it must be told that it is lost."""
        repository = self._choose_repository()
        return repository is not None and repository.rot(self._world.random, bodies=True)

    def accept_damage(self) -> None:
        """An operator looks after damage that nobody mends."""
        for process in self._participants.serving():
            repository = process.repository
            if repository is not None and repository.damage.is_found and not self._participants.owner.requests:
                self._participants.owner.request(TopicTask.ACCEPT_LOSS, [process.short])

    # ---- clients and links

    def _crash(self, processes: Sequence[SimProcess]) -> bool:
        there = [each for each in processes if each.alive]
        if not there:
            return False
        process = self._world.random.choice(there)
        process.crash()
        if (
            isinstance(process, SimSubscriber)
            and not self._participants.plan.mail
            and self._world.random.random() < 0.2
        ):
            self._world.seen["filter-change"] += 1
            process.condition = self._participants.draw_condition()
        self._soon(process.start, 400)
        return True

    def _end_well(self) -> bool:
        there = [each for each in self._participants.subscribers if each.alive and not each.is_leaving]
        if not there:
            return False
        subscriber = self._world.random.choice(there)
        subscriber.leave()
        self._soon(lambda: self._begin_anew(subscriber), 400)
        return True

    def _begin_anew(self, reader: SimSubscriber) -> None:
        """Its application does not wait for ever until its farewell is written down."""
        if reader.is_leaving:
            reader.crash("goes without an answer")
        reader.start()

    def _rival_reader(self) -> bool:
        """Somebody else takes a name that is held by a process that lives."""
        there = [
            each for each in self._participants.subscribers if each.alive and not each.ended and not each.is_leaving
        ]
        if not there:
            return False
        holder, number = self._world.random.choice(there), len(self._participants.subscribers)
        page, slowness = holder.page, holder.slowness
        rival = self._participants.kinds.subscriber(
            self._world, holder.short, page.since, holder.condition, slowness, f"{holder.name}#{number}"
        )
        rival.revoked = holder.revoked
        self._participants.subscribers.append(rival)
        self._world.contested.add(rival.name)
        rival.start()
        return True

    def _rival_publisher(self) -> bool:
        there = [each for each in self._participants.publishers if each.alive and not each.ended]
        if not there:
            return False
        holder, plan = self._world.random.choice(there), self._participants.plan
        seat = f"{holder.short}#{len(self._participants.publishers)}"
        rival = self._participants.kinds.publisher(
            self._world, holder.short, max(plan.events // 2, 2), plan.pause, seat
        )
        rival.revoked = holder.revoked
        self._participants.publishers.append(rival)
        self._world.contested.add(rival.name)
        rival.start()
        return True

    def _lone_readers(self) -> list[SimSubscriber]:
        """Those that have their names for themselves."""
        subscribers = self._participants.subscribers
        there = [each for each in subscribers if each.alive and not each.ended and not each.is_leaving]
        return [each for each in there if sum(other.short == each.short for other in subscribers) == 1]

    def _unsubscribe(self) -> bool:
        there = self._lone_readers()
        if not there:
            return False
        subscriber = self._world.random.choice(there)
        subscriber.unsubscribe()
        self._soon(subscriber.subscribe_again)
        return True

    def _leave_from_elsewhere(self) -> bool:
        """Somebody else ends a subscription, whose holder is told that it has left."""
        there = [each for each in self._lone_readers() if each.page.confirmed and not each.revoked]
        if not there:
            return False
        subscriber = self._world.random.choice(there)
        page, history = subscriber.page, self._world.history
        page.ended = True

        def leave(receipt: RegistrationReceipt) -> None:
            if receipt.code is None:  # else the first answer was lost, or whoever was asked never heard of it
                self._world.seen["left-elsewhere"] += 1
                history.unsubscribe(page)

        leaver = self._participants.add_leaver(subscriber)
        leaver.request(TopicTask.LEAVE, self._participants.members(), leave, name=subscriber.short)
        self._soon(subscriber.subscribe_again)
        return True

    def _roam(self) -> bool:
        there = [each for each in self._participants.actors if each.alive and each.link]
        if not there:
            return False
        self._world.random.choice(there).roam(self._world.random.randrange(1, 300) * MILLISECOND)
        return True

    def _partition(self) -> bool:
        random = self._world.random
        names = [each.seat for each in [*self._participants.actors, self._participants.owner]]
        some = [name for name in names if random.random() < 0.5]
        others = [name for name in names if name not in some]
        pairs = [(one, other) for one in some for other in others]
        if random.random() < 0.3:
            self._world.seen["partition-asymmetric"] += 1
        else:
            pairs += [(other, one) for one, other in pairs]
        self._soon(self._world.office.block(pairs), 1200)
        return bool(pairs)

    def _echo(self) -> bool:
        """What a publisher sent in any of its lives comes once more, long after it was sent."""
        random = self._world.random
        publishers = [each for each in self._participants.publishers if each.sent]
        if not publishers or self._participants.plan.hold:
            return False  # it would be from another unit
        publisher = random.choice(publishers)
        block, version = random.choice(publisher.sent)
        order = PublisherOrder(
            TOPIC,
            publisher.short,
            incarnation=block.incarnation,
            first=block.catenation,
            last=block.last(),
            version=version,
        )

        def come() -> None:
            for repository in self._participants.serving():
                repository.handle(EventsReceived([block]))
                repository.handle(LetterReceived(publisher.id, [order]))

        self._world.after(random.randrange(3000) * MILLISECOND, come)
        return True

    # ---- the owner

    def _join(self) -> bool:
        if len(self._participants.repositories) >= 6:
            return False
        repository = self._participants.add_repository(
            draw_unit(self._world.random) if self._participants.plan.nodes else ""
        )
        repository.start()
        repository.joining = True
        if self._participants.plan.newcomers:
            late = self._world.random.randrange(600) * MILLISECOND
            self._world.office.muffled[repository.name] = self._world.now + late

        def joined(receipt: RegistrationReceipt) -> None:
            repository.member = receipt.code is None

        members = self._participants.members()
        self._participants.owner.request(
            TopicTask.ADD_REPOSITORY,
            members,
            joined,
            repositories=(repository.short,),
            principals=(repository.principal,),
        )
        return True

    def _leave(self) -> bool:
        repository = self._choose_repository()
        if (
            repository is None
            or repository.leaving
            or not (others := [each.short for each in self._survivors(repository)])
        ):
            return False
        if self._participants.plan.hold and repository.settings.unit and not self._survivors(repository, mates=True):
            return False  # publishers in its unit would be turned away
        repository.leaving = True
        self._participants.owner.request(TopicTask.REMOVE_REPOSITORY, others, repositories=(repository.short,))
        return True

    def _return(self) -> bool:
        """One that was to leave is not to, if it is still there."""
        repositories = [
            each
            for each in self._participants.repositories.values()
            if each.leaving and not each.left and not each.dead
        ]
        if not repositories:
            return False
        repository = self._world.random.choice(repositories)
        repository.returning = True
        self._add_back(repository)
        return True

    def _add_back(self, process: SimRepository) -> None:
        def added(receipt: RegistrationReceipt) -> None:
            process.leaving = process.leaving and receipt.code is not None

        others = [name for name in self._participants.members() if name != process.short]
        self._participants.owner.request(
            TopicTask.ADD_REPOSITORY,
            others or [process.short],
            added,
            repositories=(process.short,),
            principals=(process.principal,),
        )

    def _outlive(self, kind: Callable[[SimRepository], bool]) -> bool:
        repository = self._choose_repository()
        return repository is not None and kind(repository)

    def _revoke(self) -> bool:
        random = self._world.random
        people: list[SimPublisher | SimSubscriber] = [*self._participants.publishers, *self._participants.subscribers]
        people = [each for each in people if not each.ended]
        if not people:
            return False
        someone = random.choice(people)
        role = "publisher" if someone in self._participants.publishers else "subscriber"
        self._participants.owner.request(TopicTask.REVOKE, self._participants.members(), role=role, name=someone.short)
        for each in people:
            each.revoked |= each.short == someone.short
        return True
