"""The letter network carries letters and events between the machines of reliable delivery, as brokers would, but worse.

Each letter is a datagram: it may be lost, come twice, or be overtaken. Letters that are under way when a process gets
another link are lost.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Protocol

import msgspec
import numpy as np

from stentor.machine import MILLISECOND, Input
from stentor.model.communication import bundle_of, inbox_of, repository_name
from stentor.model.control import GossipState
from stentor.model.filter import Filter
from stentor.model.trust.request_topic import requester_of
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived, SendLetter
from stentor.simulation.schedule import Schedule
from stentor.wire import letter
from stentor.wire.block import Block


class LetterFaults(msgspec.Struct, frozen=True, kw_only=True):
    """How badly the letter network works; times in nanoseconds."""

    loss: float = 0.0
    duplication: float = 0.0
    quick: int = MILLISECOND // 2
    slow: int = 2 * MILLISECOND
    late: float = 0.0  # of what is sent takes ten times as long
    rewritten: float = 0.2  # of letters go through bytes


CALM = LetterFaults()


class Addressee(Protocol):
    """A process that letters can be sent to."""

    name: str  # under which it is connected
    seat: str  # which tells those apart who are connected under one name
    id: int
    node: str  # the broker at which it is
    link: int  # grows with every new one; 0 is none
    where: Filter | None
    hears: set[str]  # topics, beside its inbox and that of the events

    @property
    def is_repository(self) -> bool: ...

    @property
    def is_stranger(self) -> bool: ...  # who says what it likes

    @property
    def wants_events(self) -> bool: ...

    def handle(self, happened: Input) -> None: ...


class LetterNetwork:
    """Carries letters between all processes of a run; all that is random comes from `random`."""

    def __init__(self, schedule: Schedule, random: Random, topic: str) -> None:
        self.schedule, self.random = schedule, random
        self.faults = CALM
        self.seen: Counter[str] = Counter()
        self._topic, self._bundle = topic, bundle_of(topic)
        self.watch: Callable[[str, str, Sequence[Block]], None] = lambda *_: None  # who and where hears what
        self.overhear: Callable[[Addressee, SendLetter], None] = lambda *_: None  # told of all letters
        self.muffled: dict[str, int] = {}  # until when somebody does not hear what repositories have
        self._people: list[Addressee] = []
        self._inboxes: dict[str, list[Addressee]] = {}
        self._blocked: Counter[tuple[str, str]] = Counter()

    def join(self, addressee: Addressee) -> None:
        self._people.append(addressee)
        self._inboxes.setdefault(inbox_of(addressee.name), []).append(addressee)

    # ---- who cannot hear whom

    def block(self, pairs: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Nothing gets from the one to the other seat of each pair, until what is returned is called."""
        pairs = list(pairs)
        self._blocked.update(pairs)
        return lambda: self._blocked.subtract(pairs)

    def blocked(self, sender: str, receiver: str) -> bool:
        return self._blocked[sender, receiver] > 0

    # ---- what is sent

    def post(self, sender: Addressee, post: SendLetter) -> None:
        requester = requester_of(post.to)
        if requester:
            asked = inbox_of(repository_name(post.to.rpartition("/")[2]))
            targets = self._inboxes[asked] if requester == sender.name else []  # brokers let nobody else write there
        elif post.to == self._bundle:
            targets = [each for each in self._people if each.is_repository and each.wants_events]
        elif post.to in self._inboxes:
            targets = self._inboxes[post.to]
        else:
            targets = [each for each in self._people if post.to in each.hears]
            self.seen["chorus"] += len(targets) > 1
        happened: Input = LetterReceived(sender.id, post.events, post.blocks, requester)
        if self.random.random() < self.faults.rewritten:
            read = letter.read(letter.write(post.events, post.blocks))
            happened = LetterReceived(sender.id, read.events, read.blocks, requester)
        for target in targets:
            self._send(sender, target, happened)
        self.overhear(sender, post)

    def publish(self, sender: Addressee, block: Block, to: str = "") -> None:
        for target in list(self._people):
            if (to in target.hears if to not in ("", self._topic) else target.wants_events) and (
                excerpt := _excerpt(block, target.where)
            ) is not None:
                self._send(sender, target, EventsReceived((excerpt,)))

    def _send(self, sender: Addressee, target: Addressee, happened: Input) -> None:
        if not sender.link or not target.link or self.blocked(sender.seat, target.seat):
            return
        assert isinstance(happened, LetterReceived | EventsReceived)
        if not sender.is_stranger:
            self.watch(target.name, target.node, happened.blocks)
        if self.muffled.get(target.name, 0) > self.schedule.now and _is_state(happened):
            self.seen["muffled"] += 1
            return
        random, faults, link = self.random, self.faults, target.link
        copies = 1
        if faults.loss and random.random() < faults.loss:
            self.seen["lost"] += 1
            copies = 0
        elif faults.duplication and random.random() < faults.duplication:
            self.seen["repeated"] += 1
            copies = 2
        for _ in range(copies):
            delay = random.randint(faults.quick, faults.slow)
            if faults.late and random.random() < faults.late:
                self.seen["late"] += 1
                delay *= 10
            self.schedule.after(delay, lambda: self._arrive(target, link, happened))

    def _arrive(self, target: Addressee, link: int, happened: Input) -> None:
        if target.link == link:
            target.handle(happened)


def _is_state(happened: LetterReceived | EventsReceived) -> bool:
    return isinstance(happened, LetterReceived) and any(isinstance(event, GossipState) for event in happened.events)


def _excerpt(block: Block, where: Filter | None) -> Block | None:
    """What a broker passes on to somebody with this filter."""
    if where is None:
        return block
    rows = np.flatnonzero(where.select(block.column, block.count))
    if len(rows) == block.count:
        return block
    return Block(block.excerpt(rows), block.schema) if len(rows) else None
