"""Repositories of one topic in this process, over real ledgers and without a network: each step can be timed."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from stentor.machine import (
    Collect,
    Commit,
    Committed,
    Effect,
    Input,
    Opened,
    Scan,
    Scanned,
    Stop,
    TimerFired,
)
from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.communication import Role, bundle_of, end_name, inbox_of, repository_name
from stentor.model.control import ControlEvent, PublisherOrder, Registration, TopicTask
from stentor.model.errors import StentorError
from stentor.model.ids import CatenationNumber, Incarnation, publisher_id, topic_id
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
from stentor.storage.ledger_store import open_ledger
from stentor.wire import letter
from stentor.wire.block import Block, Origin, encode

TOPIC, OWNER, KEEPER = "narada/costs", "owner", "keeper"
MILLISECOND = 1_000_000
Sent = tuple[str, bytes]  # to whom, and the letter


class Member:
    """A repository's machine and its ledger: what it wants written is written at once."""

    def __init__(self, name: str, storage: str) -> None:
        self.name = name
        self.id = publisher_id(KEEPER, repository_name(name))
        self.machine = TopicRepository(TOPIC, RepositorySettings(name=name))
        self.ledger = open_ledger(storage, name, TOPIC)
        self.spent: Counter[type] = Counter()  # ns, by what was heard

    def step(self, now: int, happened: Input) -> list[Sent]:
        """What it says, ready to be sent; what it wants from its ledger is done on the way."""
        begin = time.perf_counter_ns()
        sent: list[Sent] = []
        inputs = [happened]
        for each in inputs:
            for effect in self.machine.step(now, each):
                if isinstance(effect, SendLetter):
                    sent.append((effect.to, letter.write(effect.events, effect.blocks)))
                else:
                    inputs += self._carry_out(effect)
        if isinstance(happened, LetterReceived):
            self.spent[type(happened.events[0])] += time.perf_counter_ns() - begin
        return sent

    def _carry_out(self, effect: Effect) -> list[Input]:
        match effect:
            case Commit():
                self.ledger.commit(effect.entries)
                return [Committed(TOPIC, effect.token)]
            case Scan():
                found = self.ledger.scan(self.ledger.find(effect.time) if effect.time else effect.first, effect.budget)
                return [Scanned(TOPIC, effect.token, found.records, found.damaged)]
            case Collect():
                self.ledger.collect(effect.end)
            case ShareAccess():
                return [AccessShared(effect.topic, effect.token)]
            case Stop():
                raise StentorError(effect.reason)
        return []


class LocalBundle:
    """What members say to each other arrives at once, unless they are `deaf`; what they say to clients does not."""

    def __init__(self, folder: Path, storage: str, names: Sequence[str]) -> None:
        self.now = MILLISECOND
        self.deaf: set[str] = set()
        self.members = {name: Member(name, f"{storage}:{folder / name}") for name in names}
        for name, member in self.members.items():
            self.tell(name, Opened(TOPIC, member.ledger.load()))
            self.tell(name, LinkUp(KEEPER))
        for name in names:
            self.order(name, TopicTask.CREATE, repositories=tuple(names))
        self.pass_time(2000)

    def close(self) -> None:
        for member in self.members.values():
            member.ledger.close()

    def tell(self, name: str, happened: Input) -> None:
        """A member is told something, and all that follows from it."""
        first = self.members[name]
        letters = [(first, sent) for sent in first.step(self.now, happened)]
        for member, (to, body) in letters:
            for other in self._listening(member, to):
                said = letter.read(body)
                answer = other.step(self.now, LetterReceived(member.id, said.events, said.blocks))
                letters += [(other, each) for each in answer]

    def _listening(self, speaker: Member, to: str) -> list[Member]:
        if speaker.name in self.deaf:
            return []
        if to == bundle_of(TOPIC):
            names = set(self.members) - {speaker.name}
        else:
            names = {name for name in self.members if inbox_of(repository_name(name)) == to}
        return [self.members[name] for name in sorted(names - self.deaf)]

    def pass_time(self, milliseconds: int, until: Callable[[], bool] = lambda: False) -> None:
        for _ in range(milliseconds // 50):
            if until():
                return
            self.now += 50 * MILLISECOND
            for name in self.members:
                self.tell(name, TimerFired(TopicTick(TOPIC)))

    # ---- those outside

    def order(
        self,
        name: str,
        task: TopicTask,
        *,
        repositories: tuple[str, ...] = (),
        role: Role = "publisher",
        client: str = "",
    ) -> None:
        principals = (KEEPER,) * len(repositories)
        registration = Registration(
            TOPIC,
            OWNER,
            token=1,
            task=task,
            principal="",
            repositories=repositories,
            copies=0,
            role=role,
            name=client,
            principals=principals,
        )
        self.tell(name, LetterReceived(publisher_id("", OWNER), [registration], requester=OWNER))

    def hear(self, name: str, role: Role, client: str, event: ControlEvent) -> None:
        """A client says something to one member."""
        self.tell(name, LetterReceived(publisher_id("", end_name(role, client, TOPIC)), [event]))

    def publish(self, client: str, incarnation: int, first: int, count: int, size: int) -> None:
        """One event after the other, each stored before the next is sent."""
        sender = publisher_id("", end_name("publisher", client, TOPIC))
        for number in range(first, first + count):
            origin = Origin(topic_id(TOPIC), sender, Incarnation(incarnation), CatenationNumber(number), time.time_ns())
            block = Block(encode(origin, EMPTY_SCHEMA, [], [bytes(size)]), EMPTY_SCHEMA)
            for name in self.members:
                if name not in self.deaf:
                    self.tell(name, EventsReceived([block]))
                    self.hear(
                        name,
                        "publisher",
                        client,
                        PublisherOrder(TOPIC, client, incarnation=incarnation, first=number, last=number),
                    )
