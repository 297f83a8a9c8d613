"""Repositories of a bundle without sockets: real machines over real ledgers, in a time that is only counted.

What they write waits until `settle`, so that a million lives of publishers do not take a million times the disk.
"""

import heapq
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from stentor.machine import (
    MILLISECOND,
    SECOND,
    Collect,
    Commit,
    Committed,
    Effect,
    Input,
    Opened,
    Scan,
    Scanned,
    StartTimer,
    TimerFired,
)
from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.communication import Role, bundle_of, end_name, inbox_of, repository_name
from stentor.model.control import (
    ControlEvent,
    Persistent,
    PublisherOrder,
    Recovery,
    Rectify,
    Registration,
    SubscriberAck,
    TopicTask,
)
from stentor.model.ids import CatenationNumber, Incarnation, publisher_id, topic_id
from stentor.model.trust.access import ANONYMOUS
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
from stentor.storage.ledger import Ledger
from stentor.storage.ledger_store import open_ledger
from stentor.wire.block import Block, Origin, encode

KEEPER = ANONYMOUS  # the principal of all repositories, as it is without TLS
_BODY = b"x" * 100


class _Host:
    """One repository of one topic: its machine, its ledger, and what is to be written there."""

    def __init__(self, machine: TopicRepository, ledger: Ledger) -> None:
        self.machine, self.ledger = machine, ledger
        self.unwritten: list[Commit] = []


class Bundle:
    """The repositories of one topic, which hear each other at once."""

    def __init__(self, folder: Path, names: Sequence[str], topic: str = "growth", storage: str = "segments") -> None:
        self.topic, self._folder, self._storage = topic, folder, storage
        self.now = SECOND
        self._hosts: dict[str, _Host] = {}
        self._timers: dict[str, int] = {}
        self._due: list[tuple[int, str]] = []
        self._told: dict[str, tuple[str, int]] = {}  # up to where a subscriber was told of events, and by whom
        self._inboxes: dict[str, str] = {}  # whose they are
        for name in names:
            self.open(name)

    # ---- the world

    def open(self, name: str) -> None:
        """Begin a life of a repository."""
        ledger = open_ledger(f"{self._storage}:{self._folder / name}", name, self.topic)
        host = self._hosts[name] = _Host(TopicRepository(self.topic, RepositorySettings(name=name)), ledger)
        self.step(name, Opened(self.topic, ledger.load()))
        while not host.machine.is_open:
            self.settle()
        self.step(name, LinkUp(KEEPER))
        self.settle()

    def close(self, name: str) -> None:
        self.settle()
        self._hosts.pop(name).ledger.close()
        self._timers.pop(name, None)

    def machine(self, name: str) -> TopicRepository:
        return self._hosts[name].machine

    def step(self, name: str, happened: Input) -> None:
        for effect in self._hosts[name].machine.step(self.now, happened):
            self._perform(name, effect)

    def _perform(self, name: str, effect: Effect) -> None:
        host = self._hosts[name]
        match effect:
            case Commit():
                host.unwritten.append(effect)
            case Scan():
                found = host.ledger.scan(effect.first, effect.budget)
                self.step(name, Scanned(self.topic, effect.token, found.records, found.damaged))
            case Collect():
                host.ledger.collect(effect.end)
            case ShareAccess():
                self.step(name, AccessShared(effect.topic, effect.token))
            case StartTimer():
                self._timers[name] = effect.at
                heapq.heappush(self._due, (effect.at, name))
            case SendLetter():
                self._deliver(name, effect)
            case _:
                pass

    def _deliver(self, name: str, post: SendLetter) -> None:
        sender = publisher_id(KEEPER, repository_name(name))
        for event in post.events:
            if isinstance(event, Persistent | Rectify):
                for subscriber in list(self._told) if "$chorus" in post.to else [self._inboxes[post.to]]:
                    self._told[subscriber] = name, event.upto
        for other in list(self._hosts):
            if other != name and post.to in (bundle_of(self.topic), inbox_of(repository_name(other))):
                self.step(other, LetterReceived(sender, post.events, post.blocks))

    def settle(self) -> None:
        """Write what waits, until nothing does."""
        while any(host.unwritten for host in self._hosts.values()):
            for name, host in list(self._hosts.items()):
                commits, host.unwritten = host.unwritten, []
                if commits:
                    host.ledger.commit([entry for commit in commits for entry in commit.entries])
                    self.step(name, Committed(self.topic, commits[-1].token))

    def pass_time(self, seconds: float) -> float:
        """Let timers fire; return the seconds of a processor that this took."""
        end = self.now + int(seconds * SECOND)
        begin = time.process_time()
        while self._due and self._due[0][0] <= end:
            at, name = heapq.heappop(self._due)
            if self._timers.get(name) != at:
                continue  # another one took its place
            self.now = max(at, self.now + 1)
            self.step(name, TimerFired(TopicTick(self.topic)))
            self.settle()
        self.now = end
        return time.process_time() - begin

    # ---- clients

    def owner(self, task: TopicTask, *, role: Role = "publisher", name: str = "") -> None:
        names = tuple(self._hosts) if task is TopicTask.CREATE else ()
        event = Registration(
            self.topic,
            "owner",
            token=1,
            task=task,
            principal="",
            repositories=names,
            copies=len(self._hosts),
            role=role,
            name=name,
            principals=(KEEPER,) * len(names),
            keep=1,
            born=self.now // MILLISECOND,
        )
        for each in names or tuple(self._hosts)[:1]:
            self.step(each, LetterReceived(publisher_id("", "owner"), [event], requester="owner"))
        self.settle()

    def say(self, role: Role, name: str, event: ControlEvent, to: Iterable[str] = ()) -> None:
        sender = publisher_id("", end_name(role, name, self.topic))
        for each in to or list(self._hosts):
            self.step(each, LetterReceived(sender, [event]))

    def recover(self, role: Role, name: str, life: int, to: str) -> None:
        recovery = Recovery(
            self.topic,
            name,
            role=role,
            attempt=life,
            principal="",
            incarnation=life,
            since="now",
            asks=role == "subscriber",
        )
        if role == "subscriber":
            self._told.setdefault(name, (to, 0))
            self._inboxes[inbox_of(end_name("subscriber", name, self.topic))] = name
        self.say(role, name, recovery, (to,))

    def publish(self, name: str, life: int, first: int, count: int) -> None:
        sender = publisher_id("", end_name("publisher", name, self.topic))
        origin = Origin(topic_id(self.topic), sender, Incarnation(life), CatenationNumber(first), self.now)
        block = Block(encode(origin, EMPTY_SCHEMA, [], [_BODY] * count), EMPTY_SCHEMA)
        for each in list(self._hosts):
            self.step(each, EventsReceived([block]))
        self.say(
            "publisher", name, PublisherOrder(self.topic, name, incarnation=life, first=first, last=first + count - 1)
        )

    def acknowledge(self) -> None:
        """Subscribers acknowledge all that they were told of."""
        for name, (repository, upto) in self._told.items():
            if upto:
                self.say(
                    "subscriber",
                    name,
                    SubscriberAck(self.topic, name, incarnation=1, repository=repository, spans=((1, upto),)),
                )
