"""A bundle of repository machines that hear each other at once, and the letters that they send to clients."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeVar

from stentor.machine import (
    Commit,
    CommitFailed,
    Committed,
    Effect,
    Input,
    Opened,
    Report,
    Scan,
    Scanned,
    Stop,
    TimerFired,
)
from stentor.model.attribute import schema_of
from stentor.model.communication import Role, bundle_of, end_name, inbox_of, repository_name, within_of
from stentor.model.control import (
    ControlEvent,
    GossipAck,
    GossipState,
    GossipVoid,
    Probe,
    PublisherOrder,
    Recovery,
    Registration,
    Retransmission,
    SubscriberAck,
    SubscriberEnd,
    SubscriberNak,
    TopicTask,
)
from stentor.model.ids import CatenationNumber, Incarnation, publisher_id, topic_id
from stentor.model.stored.record import Entry, Fact, LedgerContents, Record, RecordHeader, RecordKind
from stentor.protocols.delivery.repository.repository import TopicRepository, TopicTick
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import (
    AccessShared,
    EventsReceived,
    LetterReceived,
    LinkUp,
    SendLetter,
    ShareAccess,
)
from stentor.wire.block import Block, Origin, encode

C = TypeVar("C", bound=ControlEvent)
TOPIC = "orders"
KEEPER = "keeper"  # the principal of all repositories
MILLISECOND = 1_000_000
DAY = 86_400_000 * MILLISECOND
YEAR = 365 * DAY  # after 1970 it is
_SCHEMA = schema_of({"price": 1})
_SAYING_WHAT_IT_HAS = (GossipState, GossipAck, GossipVoid)


class MemoryLedger:
    """What a ledger holds, without a disk."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.facts: dict[str, bytes] = {}
        self.next = 1
        self.damaged: set[int] = set()

    def load(self) -> LedgerContents:
        return LedgerContents(dict(self.facts), [self.records[key].line for key in sorted(self.records)], (), self.next)

    def commit(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if isinstance(entry, Record):
                self._put(entry)
            elif isinstance(entry, Fact):
                if entry.value is None:
                    self.facts.pop(entry.key, None)
                else:
                    self.facts[entry.key] = entry.value

    def _put(self, record: Record) -> None:
        for key, former in list(self.records.items()):
            if former.line.end >= record.line.sequence and former.line.sequence <= record.line.end:
                assert former.line.kind is RecordKind.RESERVED or former.line.sequence in self.damaged
                del self.records[key]
        self.records[record.line.sequence] = record
        self.damaged.discard(record.line.sequence)
        self.next = max(self.next, record.line.end + 1)

    def scan(self, first: int) -> tuple[list[Record], list[RecordHeader]]:
        found = [self.records[key] for key in sorted(self.records) if self.records[key].line.end >= first]
        whole = [record for record in found if record.line.sequence not in self.damaged]
        return whole, [record.line for record in found if record.line.sequence in self.damaged]

    def numbers(self) -> list[tuple[int, int, int]]:
        """What is stored: sequence number, first catenation number, count."""
        lines = [self.records[key].line for key in sorted(self.records)]
        return [(line.sequence, line.first, line.length) for line in lines if line.kind is RecordKind.EVENTS]


class PaperBundle:
    """Repositories of one topic. What they say to each other arrives at once, unless they are `deaf`."""

    def __init__(
        self,
        *names: str,
        copies: int = 0,
        create: bool = True,
        units: dict[str, str] | None = None,
        hold: bool = False,
        keep: int = 0,
        expire: int = 0,
    ) -> None:
        self.now = 1
        self.clocks: dict[str, int] = {}  # how far the clock on the wall of a repository is ahead of others
        self._happening: deque[tuple[str, Input]] = deque()  # the first of them happens now
        self.units = units or {}
        self.repositories: dict[str, TopicRepository] = {}
        self.ledgers = {name: MemoryLedger() for name in names}
        self.mail: list[tuple[str, ControlEvent, Sequence[Block]]] = []  # to clients
        self.said: list[tuple[str, ControlEvent]] = []  # among repositories
        self.reports: list[Report] = []
        self.deaf: set[str] = set()
        self.slow: set[str] = set()  # who is slow to say what it has
        self.lazy: set[str] = set()  # whose disks take their time
        self.full: set[str] = set()  # whose disks take nothing
        self.unreadable: set[str] = set()  # whose disks give nothing
        self.unwritten: dict[str, list[Commit]] = {name: [] for name in names}
        for name in names:
            self.start(name)
        if create:
            for name in names:
                self.owner(
                    name, TopicTask.CREATE, repositories=names, copies=copies, hold=hold, keep=keep, expire=expire
                )
            self.pass_time(2000)
            self.owner(names[0], TopicTask.GRANT, role="publisher", name="shop")
            for subscriber in ("billing", "audit"):
                self.owner(names[0], TopicTask.GRANT, role="subscriber", name=subscriber)

    # ---- the world

    def start(self, name: str) -> None:
        self.repositories[name] = TopicRepository(TOPIC, RepositorySettings(name=name, unit=self.units.get(name, "")))
        self.step(name, Opened(TOPIC, self.ledgers[name].load(), wall=self.wall(name)))
        self.step(name, LinkUp(KEEPER))

    def add(self, name: str) -> None:
        """A repository that manages nothing yet."""
        self.ledgers[name] = MemoryLedger()
        self.unwritten[name] = []
        self.start(name)

    def kill(self, name: str) -> None:
        del self.repositories[name]
        self.unwritten[name].clear()

    def step(self, name: str, happened: Input) -> None:
        """Something happens, and all that follows from it: what a step does is done before others act upon it."""
        self._happening.append((name, happened))
        if len(self._happening) > 1:
            return
        while self._happening:
            name, happened = self._happening[0]
            if name in self.repositories:
                for effect in self.repositories[name].step(self.now, happened):
                    self._perform(name, effect)
            self._happening.popleft()

    def _perform(self, name: str, effect: Effect) -> None:
        match effect:
            case Commit():
                if name in self.full:
                    self.step(name, CommitFailed(TOPIC, effect.token, "no space", fatal=False))
                elif name in self.lazy:
                    self.unwritten[name].append(effect)
                else:
                    self._write(name, effect)
            case Scan() if name in self.unreadable:
                self.step(name, Scanned(TOPIC, effect.token, [], [], "the disk does not answer"))
            case Scan():
                records, damaged = self.ledgers[name].scan(effect.first)
                self.step(name, Scanned(TOPIC, effect.token, records, damaged))
            case SendLetter():
                self._deliver(publisher_id(KEEPER, repository_name(name)), effect)
            case ShareAccess():
                # there is a broker that writes it down at once
                self.step(name, AccessShared(effect.topic, effect.token))
            case Report():
                self.reports.append(effect)
            case Stop():
                raise AssertionError(effect.reason)

    def _write(self, name: str, commit: Commit) -> None:
        self.ledgers[name].commit(commit.entries)
        self.step(name, Committed(TOPIC, commit.token))

    def write(self, name: str) -> None:
        """A disk that took its time has done it."""
        commits, self.unwritten[name] = self.unwritten[name], []
        for commit in commits:
            self._write(name, commit)

    def _deliver(self, sender: int, post: SendLetter) -> None:
        inboxes = {inbox_of(repository_name(name)): name for name in self.repositories}
        if post.to == bundle_of(TOPIC) or post.to in inboxes:
            self.said += [(post.to, event) for event in post.events]
            names = list(self.repositories) if post.to == bundle_of(TOPIC) else [inboxes[post.to]]
            speaker = next((n for n in self.repositories if publisher_id(KEEPER, repository_name(n)) == sender), "")
            if speaker in self.deaf or (speaker in self.slow and isinstance(post.events[0], _SAYING_WHAT_IT_HAS)):
                return
            for name in names:
                if name in self.repositories and name not in self.deaf:
                    self.step(name, LetterReceived(sender, post.events, post.blocks))
        else:
            self.mail += [(post.to, event, post.blocks) for event in post.events]

    def pass_time(self, milliseconds: int, pace: int = 50) -> None:
        for _ in range(milliseconds // pace):
            self.now += pace * MILLISECOND
            for name in list(self.repositories):
                self.step(name, TimerFired(TopicTick(TOPIC), self.wall(name)))

    def wall(self, name: str) -> int:
        """What the clock on the wall of a repository shows."""
        return YEAR + self.now + self.clocks.get(name, 0)

    # ---- clients

    def owner(
        self,
        repository: str,
        task: TopicTask,
        *,
        repositories: tuple[str, ...] = (),
        copies: int = 0,
        role: Role = "publisher",
        name: str = "",
        principal: str = "",
        hold: bool = False,
        keep: int = 0,
        expire: int = 0,
        units: tuple[str, ...] = (),
        joins: bool = False,
    ) -> None:
        event = Registration(
            TOPIC,
            "owner",
            token=1,
            task=task,
            principal=principal,
            repositories=repositories,
            copies=copies,
            role=role,
            name=name,
            hold=hold,
            keep=keep,
            expire=expire,
            principals=(KEEPER,) * len(repositories),
            units=units,
            joins=joins,
        )
        self.step(repository, LetterReceived(publisher_id(principal, "owner"), [event], requester="owner"))

    def say(
        self, role: Role, name: str, event: ControlEvent, to: str | None = None, blocks: Sequence[Block] = ()
    ) -> None:
        """A client speaks to one repository, or to the bundle."""
        sender = publisher_id("", end_name(role, name, TOPIC))
        for each in list(self.repositories) if to is None else [to]:
            if each not in self.deaf:
                self.step(each, LetterReceived(sender, [event], blocks))

    def probe(self, role: Role, name: str) -> None:
        self.say(role, name, Probe(TOPIC, name, role=role, attempt=1))

    def recover(
        self,
        role: Role,
        name: str,
        to: str,
        *,
        attempt: int = 1,
        incarnation: int = 5,
        where: str = "",
        since: str = "now",
        last: int = 0,
        node: str = "",
        asks: bool = True,
    ) -> None:
        recovery = Recovery(
            TOPIC,
            name,
            role=role,
            attempt=attempt,
            principal="",
            incarnation=incarnation,
            last=last,
            where=where,
            since=since,
            node=node,
            asks=asks and role == "subscriber",
        )
        self.say(role, name, recovery, to)

    def arrive(self, block: Block, *only: str) -> None:
        """Events reach the repositories, as they were published."""
        for name in only or list(self.repositories):
            self.step(name, EventsReceived([block]))

    def order(self, first: int, last: int, *only: str, incarnation: int = 5) -> None:
        for name in only or list(self.repositories):
            self.say(
                "publisher",
                "shop",
                PublisherOrder(TOPIC, "shop", incarnation=incarnation, first=first, last=last),
                name,
            )

    def publish_within(self, unit: str, first: int, count: int, *storages: str) -> None:
        """Events that only the storages of a unit hear; everyone hears that they exist."""
        self.arrive(block(first, count, topic=within_of(unit, TOPIC)), *storages)
        self.order(first, first + count - 1)

    def publish(self, first: int, count: int, *only: str, incarnation: int = 5) -> None:
        self.arrive(block(first, count, incarnation), *only)
        self.order(first, first + count - 1, *only, incarnation=incarnation)

    def retransmit(self, first: int, count: int) -> None:
        self.say("publisher", "shop", Retransmission(TOPIC, "shop"), blocks=[block(first, count)])

    def acknowledge(self, name: str, repository: str, *spans: tuple[int, int], incarnation: int = 5) -> None:
        self.say(
            "subscriber", name, SubscriberAck(TOPIC, name, incarnation=incarnation, repository=repository, spans=spans)
        )

    def miss(
        self,
        name: str,
        to: str,
        *spans: tuple[int, int],
        attempt: int = 1,
        after: int | None = None,
        tuned: bool = False,
        asks: bool = False,
    ) -> None:
        self.say(
            "subscriber",
            name,
            SubscriberNak(TOPIC, name, attempt=attempt, missing=spans, after=after, tuned=tuned, asks=asks),
            to,
        )

    def end(self, name: str, to: str, *given: tuple[int, int, int], incarnation: int = 5, attempt: int = 1) -> None:
        """A life of a subscriber ends in good order."""
        self.say(
            "subscriber", name, SubscriberEnd(TOPIC, name, attempt=attempt, incarnation=incarnation, given=given), to
        )

    # ---- what clients were told

    def told(self, kind: type[C], name: str = "") -> list[C]:
        return [event for to, event, _ in self.mail if isinstance(event, kind) and name in to]

    def sent_again(self, name: str) -> list[bytes]:
        """The bodies that were sent again to a subscriber."""
        return [
            body
            for to, event, blocks in self.mail
            if isinstance(event, Retransmission) and name in to
            for each in blocks
            for body in each.bodies()
        ]

    def clear(self) -> None:
        self.mail.clear()
        self.said.clear()
        self.reports.clear()


def block(
    first: int, count: int = 1, incarnation: int = 5, body: bytes = b"", topic: str = TOPIC, time: int = 0
) -> Block:
    """Events of the shop; number n costs n % 5."""
    numbers = range(first, first + count)
    shop = publisher_id("", end_name("publisher", "shop", TOPIC))
    origin = Origin(
        topic_id(topic), shop, Incarnation(incarnation), CatenationNumber(first), time or 1_000_000_000 * first
    )
    bodies = [body or b"%d" % number for number in numbers]
    return Block(encode(origin, _SCHEMA, [[number % 5 for number in numbers]], bodies), _SCHEMA)
