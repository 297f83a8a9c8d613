"""Mischief: what goes wrong in a run, one strike at a time."""

from collections.abc import Callable, Sequence

from stentor.machine import MILLISECOND
from stentor.model.control import PublisherOrder, RegistrationReceipt, TopicTask
from stentor.model.span import Span
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived
from stentor.simulation.delivery.actor import TOPIC, Actor
from stentor.simulation.delivery.author import Author
from stentor.simulation.delivery.cast import Cast
from stentor.simulation.delivery.depot import Depot
from stentor.simulation.delivery.plan import draw_unit
from stentor.simulation.delivery.reader import Reader
from stentor.simulation.disk import SOUND_DISK, DiskFaults

_SYNC_ERROR = DiskFaults(sync_error=1.0)
_FULL = DiskFaults(full=1.0)


def numbers(spans: Sequence[Span]) -> list[int]:
    return [number for first, last in spans for number in range(first, last + 1)]


class Mischief:
    """Strikes the cast; everything mends itself after a while, but for what is for ever."""

    def __init__(self, cast: Cast) -> None:
        self._cast, self._stage = cast, cast.stage
        self._mends: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._strikes: dict[str, Callable[[], bool]] = {
            "kill": self._kill,
            "massacre": self._massacre,
            "power-cut": self._cut_power,
            "cut-in-commit": self._cut_in_commit,
            "cut-in-step": self._cut_in_step,
            "death": self._death,
            "author-crash": lambda: self._crash(self._cast.authors),
            "reader-crash": lambda: self._crash([*self._cast.readers, *self._cast.scholars]),
            "reader-end": self._end_well,
            "reader-leave": self._unsubscribe,
            "rival-reader": self._rival_reader,
            "rival-author": self._rival_author,
            "roam": self._roam,
            "partition": self._partition,
            "sync-error": self._sync_error,
            "disk-full": self._disk_full,
            "rot": self._rot,
            "body-rot": self._rot_body,
            "join": self._join,
            "leave": self._leave,
            "return": self._return,
            "outlive": self._outlive,
            "revoke": self._revoke,
            "echo": self._echo,
        }

    def strike(self, what: str) -> None:
        if self._strikes[what]():
            self._stage.seen[what] += 1

    def mend(self) -> None:
        """All that may come back comes back."""
        for mend in list(self._mends.values()):
            mend()
        for depot in self._cast.depots.values():
            depot.disk.faults = SOUND_DISK
            depot.ledgers.is_torn = False
        for actor in self._cast.actors:
            actor.cut_at = -1
        self._insist()

    def _insist(self) -> None:
        """The owner looks after those that joined or left: who had that written down may have died with it."""
        members = self._cast.members()
        for depot in self._cast.depots.values():
            if depot.returning and not depot.left and not depot.dead:
                self._add_back(depot)
            elif depot.joining and not depot.leaving and depot.short in members:
                self._cast.owner.wish(
                    TopicTask.ADD_REPOSITORY, members, repositories=(depot.short,), principals=(depot.principal,)
                )
            elif (depot.leaving and not depot.left and not depot.dead) or (depot.left and depot.returning):
                others = [name for name in members if name != depot.short]
                self._cast.owner.wish(TopicTask.REMOVE_REPOSITORY, others, repositories=(depot.short,))

    def accept_losses(self) -> None:
        """Somebody accepts that what was acknowledged, and nobody has who may come back, is lost."""
        book = self._stage.book
        for depot in self._cast.serving():
            repository = depot.repository
            if repository is None or not repository.is_open:
                continue
            if all(each.alive or each.dead for each in self._cast.depots.values()):
                self._stage.seen["unknown-life-accepted"] += len(repository.lives.unknown.accept_loss())
            if repository.gossip.ready:
                continue
            streams = repository.log.streams.items()
            keys = [(*key, number) for key, stream in streams for number in numbers(repository.lives.awaited(stream))]
            if keys and not any(book.is_kept(key, book.shelves) for key in keys):
                self._stage.seen["loss-accepted"] += len(keys)
                book.accepted.update(keys)
                repository.gap_closing.accept_loss(self._stage.now)

    def _soon(self, mend: Callable[[], None], longest: int = 900, shortest: int = 10) -> None:
        """A strike is over after a while, or when all strikes are."""
        self._count += 1
        number = self._count

        def over() -> None:
            if self._mends.pop(number, None) is not None:
                mend()

        self._mends[number] = over
        self._stage.after(self._stage.random.randrange(shortest, longest) * MILLISECOND, over)

    def _depot(self) -> Depot | None:
        depots = self._cast.serving()
        return self._stage.random.choice(depots) if depots else None

    # ---- repositories

    def _kill(self) -> bool:
        depot = self._depot()
        if depot is not None:
            depot.crash("killed")
            self._soon(depot.start)
        return depot is not None

    def _massacre(self) -> bool:
        """All repositories but one die at once, and clients with them; each comes back in its own time."""
        random = self._stage.random
        depots = self._cast.serving()
        victims: list[Actor] = random.sample(depots, max(len(depots) - 1, 0))
        victims += [each for each in (*self._cast.authors, *self._cast.readers) if each.alive and random.random() < 0.4]
        for victim in victims:
            victim.crash("killed with others")
            self._soon(victim.start, 400)
        return len(victims) > 1

    def _cut_power(self) -> bool:
        depot = self._depot()
        if depot is not None:
            depot.cut_power()
            self._soon(depot.start)
        return depot is not None

    def _cut_in_commit(self) -> bool:
        depot = self._depot()
        if depot is not None:
            depot.ledgers.is_torn = True
            self._soon(depot.start)
        return depot is not None

    def _cut_in_step(self) -> bool:
        actors = [each for each in self._cast.actors if each.alive]
        if not actors:
            return False
        actor = self._stage.random.choice(actors)
        actor.cut_at = self._stage.random.randrange(4)
        self._soon(actor.start)
        return True

    def _death(self) -> bool:
        """One dies for ever, as long as another one for the same unit is left that has caught up."""
        depot = self._depot()
        if depot is None or not self._has_heir(depot):
            return False
        depot.die()
        return True

    def _survivors(self, but: Depot, *, mates: bool = False) -> list[Depot]:
        """Those that will be there in the end, come what may, and store all, or as `mates` what this one stores."""
        unit = but.settings.unit if mates else ""
        return [
            each for each in self._cast.depots.values()
            if each.member and each is not but and not (each.dead or each.rotten or each.left or each.leaving)
            and each.settings.unit == unit
        ]  # fmt: skip

    def _has_heir(self, depot: Depot) -> bool:
        """Whether another one for the same unit has had all that this one has: one that slept through the end of a
        former topic knows nothing of this one.
        """
        return any(each.has_caught_up for each in self._survivors(depot, mates=True))

    def _sync_error(self) -> bool:
        depot = self._depot()
        if depot is not None:
            depot.disk.faults = _SYNC_ERROR
            self._soon(lambda: self._repair(depot), 300)
        return depot is not None

    def _disk_full(self) -> bool:
        depot = self._depot()
        if depot is not None:
            depot.disk.faults = _FULL
            self._soon(lambda: self._repair(depot))
        return depot is not None

    def _repair(self, depot: Depot) -> None:
        depot.disk.faults = SOUND_DISK
        depot.start()

    def _rot(self) -> bool:
        """Only where others have the same: what is nowhere else cannot be repaired."""
        depot = self._depot()
        return depot is not None and self._has_heir(depot) and depot.rot(self._stage.random)

    def _rot_body(self) -> bool:
        """Also where nobody else has the same: then it must be told that it is lost."""
        depot = self._depot()
        return depot is not None and depot.rot(self._stage.random, bodies=True)

    def accept_damage(self) -> None:
        """An operator looks after damage that nobody mends."""
        for depot in self._cast.serving():
            repository = depot.repository
            if repository is not None and repository.damage.is_found and not self._cast.owner.wishes:
                self._cast.owner.wish(TopicTask.ACCEPT_LOSS, [depot.short])

    # ---- clients and links

    def _crash(self, actors: Sequence[Actor]) -> bool:
        there = [each for each in actors if each.alive]
        if not there:
            return False
        actor = self._stage.random.choice(there)
        actor.crash()
        if isinstance(actor, Reader) and not self._cast.plan.mail and self._stage.random.random() < 0.2:
            self._stage.seen["filter-change"] += 1
            actor.condition = self._cast.draw_condition()
        self._soon(actor.start, 400)
        return True

    def _end_well(self) -> bool:
        there = [each for each in self._cast.readers if each.alive and not each.is_leaving]
        if not there:
            return False
        reader = self._stage.random.choice(there)
        reader.leave()
        self._soon(lambda: self._begin_anew(reader), 400)
        return True

    def _begin_anew(self, reader: Reader) -> None:
        """Its application does not wait for ever until its farewell is written down."""
        if reader.is_leaving:
            reader.crash("goes without an answer")
        reader.start()

    def _rival_reader(self) -> bool:
        """Somebody else takes a name that is held by a process that lives."""
        there = [each for each in self._cast.readers if each.alive and not each.ended and not each.is_leaving]
        if not there:
            return False
        holder, number = self._stage.random.choice(there), len(self._cast.readers)
        page, slowness = holder.page, holder.slowness
        rival = self._cast.kinds.reader(
            self._stage, holder.short, page.since, holder.condition, slowness, f"{holder.name}#{number}"
        )
        rival.revoked = holder.revoked
        self._cast.readers.append(rival)
        self._stage.contested.add(rival.name)
        rival.start()
        return True

    def _rival_author(self) -> bool:
        there = [each for each in self._cast.authors if each.alive and not each.ended]
        if not there:
            return False
        holder, plan = self._stage.random.choice(there), self._cast.plan
        seat = f"{holder.short}#{len(self._cast.authors)}"
        rival = self._cast.kinds.author(self._stage, holder.short, max(plan.events // 2, 2), plan.pause, seat)
        rival.revoked = holder.revoked
        self._cast.authors.append(rival)
        self._stage.contested.add(rival.name)
        rival.start()
        return True

    def _unsubscribe(self) -> bool:
        there = [each for each in self._cast.readers if each.alive and not each.ended and not each.is_leaving]
        there = [each for each in there if sum(other.short == each.short for other in self._cast.readers) == 1]
        if not there:
            return False
        self._stage.random.choice(there).unsubscribe()
        return True

    def _roam(self) -> bool:
        there = [each for each in self._cast.actors if each.alive and each.link]
        if not there:
            return False
        self._stage.random.choice(there).roam(self._stage.random.randrange(1, 300) * MILLISECOND)
        return True

    def _partition(self) -> bool:
        random = self._stage.random
        names = [each.seat for each in [*self._cast.actors, self._cast.owner]]
        some = [name for name in names if random.random() < 0.5]
        others = [name for name in names if name not in some]
        pairs = [(one, other) for one in some for other in others]
        if random.random() < 0.3:
            self._stage.seen["partition-asymmetric"] += 1
        else:
            pairs += [(other, one) for one, other in pairs]
        self._soon(self._stage.office.block(pairs), 1200)
        return bool(pairs)

    def _echo(self) -> bool:
        """What an author sent in any of its lives comes once more, long after it was sent."""
        random = self._stage.random
        authors = [each for each in self._cast.authors if each.sent]
        if not authors or self._cast.plan.hold:
            return False  # it would be from another unit
        author = random.choice(authors)
        block, version = random.choice(author.sent)
        order = PublisherOrder(TOPIC, author.short, block.incarnation, block.catenation, block.last(), version=version)

        def come() -> None:
            for depot in self._cast.serving():
                depot.handle(EventsReceived([block]))
                depot.handle(LetterReceived(author.id, [order]))

        self._stage.after(random.randrange(3000) * MILLISECOND, come)
        return True

    # ---- the owner

    def _join(self) -> bool:
        if len(self._cast.depots) >= 6:
            return False
        depot = self._cast.add_depot(draw_unit(self._stage.random) if self._cast.plan.nodes else "")
        depot.start()
        depot.joining = True
        if self._cast.plan.newcomers:
            late = self._stage.random.randrange(600) * MILLISECOND
            self._stage.office.muffled[depot.name] = self._stage.now + late

        def joined(receipt: RegistrationReceipt) -> None:
            depot.member = receipt.code is None

        members = self._cast.members()
        self._cast.owner.wish(
            TopicTask.ADD_REPOSITORY, members, joined, repositories=(depot.short,), principals=(depot.principal,)
        )
        return True

    def _leave(self) -> bool:
        depot = self._depot()
        if depot is None or depot.leaving or not (others := [each.short for each in self._survivors(depot)]):
            return False
        if self._cast.plan.hold and depot.settings.unit and not self._survivors(depot, mates=True):
            return False  # publishers in its unit would be turned away
        depot.leaving = True
        self._cast.owner.wish(TopicTask.REMOVE_REPOSITORY, others, repositories=(depot.short,))
        return True

    def _return(self) -> bool:
        """One that was to leave is not to, if it is still there."""
        depots = [each for each in self._cast.depots.values() if each.leaving and not each.left and not each.dead]
        if not depots:
            return False
        depot = self._stage.random.choice(depots)
        depot.returning = True
        self._add_back(depot)
        return True

    def _add_back(self, depot: Depot) -> None:
        def added(receipt: RegistrationReceipt) -> None:
            depot.leaving = depot.leaving and receipt.code is not None

        others = [name for name in self._cast.members() if name != depot.short]
        self._cast.owner.wish(
            TopicTask.ADD_REPOSITORY,
            others or [depot.short],
            added,
            repositories=(depot.short,),
            principals=(depot.principal,),
        )

    def _outlive(self) -> bool:
        """A repository is away while authors, and perhaps subscribers, end. It comes back when authors have begun anew,
        hears late what others have, and they die while it fetches that.
        """
        random, stage, cast = self._stage.random, self._stage, self._cast
        depot, others = self._depot(), [each for each in cast.serving() if not each.settings.unit]
        if depot is None or depot.settings.unit or len(others) < 2:
            return False
        depot.crash("killed")
        for reader in [each for each in cast.readers if each.alive and random.random() < 0.5]:
            reader.crash()
            self._soon(reader.start, 6000)
        ended = random.randrange(100, 600) * MILLISECOND
        back = ended + random.randrange(100, 450) * MILLISECOND
        dying = back + random.randrange(20, 500) * MILLISECOND
        stage.after(ended, self._end_lives)
        stage.after(back, lambda: stage.office.muffled.update({depot.name: stage.now + random.randrange(dying)}))
        stage.after(back, depot.start)
        stage.after(dying, lambda: self._kill_all([each for each in others if each is not depot]))
        return True

    def _end_lives(self) -> None:
        for author in [each for each in self._cast.authors if each.alive]:
            author.crash()
            self._soon(author.start, 200)

    def _kill_all(self, depots: Sequence[Depot]) -> None:
        for depot in depots:
            depot.crash("killed with others")
            self._soon(depot.start, 6500, 3500)  # by then whoever is left has gone on without them

    def _revoke(self) -> bool:
        random = self._stage.random
        people: list[Author | Reader] = [*self._cast.authors, *self._cast.readers]
        people = [each for each in people if not each.ended]
        if not people:
            return False
        someone = random.choice(people)
        role = "publisher" if someone in self._cast.authors else "subscriber"
        self._cast.owner.wish(TopicTask.REVOKE, self._cast.members(), role=role, name=someone.short)
        for each in people:
            each.revoked |= each.short == someone.short
        return True
