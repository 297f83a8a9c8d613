"""A tiny bundle of repositories as a script, a network that loses, repeats and reorders, and an application."""

import heapq
from collections.abc import Callable
from random import Random

import numpy as np

from stentor.machine import MILLISECOND, SECOND, Effect, Input, StartTimer, TimerFired
from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.communication import bundle_of, inbox_of, repository_name
from stentor.model.control import (
    ControlEvent,
    Persistent,
    Probe,
    ProbeAnswer,
    Recovery,
    RecoveryResponse,
    Rectify,
    Retransmission,
    SequenceRun,
    SubscriberAck,
    SubscriberNak,
    Sync,
)
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, publisher_id, topic_id
from stentor.protocols.delivery.endpoint_api import (
    Acknowledged,
    ConfirmDurable,
    DurabilityAwaited,
    EventsRequested,
    Refuse,
    Release,
    ReleasedBatch,
)
from stentor.protocols.delivery.settings import SubscriberSettings
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber, SubscriberTick
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived, LinkDown, LinkUp, SendLetter, Vouched
from stentor.wire import block
from stentor.wire.block import Block, Origin

Event = tuple[int, int, int]  # publisher, incarnation, number


def frame(publisher: int, first: int, count: int, *, incarnation: int = 1, size: int = 0, topic: str = "t") -> Block:
    """Each body says which event it is."""
    origin = Origin(topic_id(topic), PublisherId(publisher), Incarnation(incarnation), CatenationNumber(first), 0)
    bodies = [f"{publisher}.{incarnation}.{first + row}".encode() + bytes(size) for row in range(count)]
    return Block(block.encode(origin, EMPTY_SCHEMA, [], bodies), EMPTY_SCHEMA)


def some(whole: Block, numbers: list[int]) -> Block:
    """The events of a block with these numbers."""
    rows = np.array([number - whole.catenation for number in numbers])
    return Block(whole.excerpt(rows), whole.schema)


def events_of(given: Block) -> list[Event]:
    events = [(given.publisher, given.incarnation, given.catenation + offset) for offset in given.offsets()]
    assert [body.rstrip(b"\0") for body in given.bodies()] == [".".join(map(str, event)).encode() for event in events]
    return [(int(publisher), int(incarnation), int(number)) for publisher, incarnation, number in events]


class Repository:
    """What one repository has stored, in its own order, and how it serves the one subscriber that there is."""

    def __init__(self, name: str, number: int, mine: Callable[[Event], bool], peers: tuple[str, ...]) -> None:
        self.name, self.number, self.peers = name, number, peers
        self.mine = mine
        self.sequence: dict[int, tuple[Event, Block]] = {}
        self.places: dict[Event, int] = {}
        self.end = 0
        self.acked: set[Event] = set()
        self.sync = 0
        self.issued = 0
        self.up = True
        self.attempt: int | None = None  # of the subscriber that it steers
        self.told = 0
        self.redelivered = 0
        self.rectify = False
        self.life = 0

    def store(self, whole: Block, skip: int) -> None:
        self.end += skip  # a registration, or another's void
        for event in events_of(whole):
            self.end += 1
            self.sequence[self.end] = (event, whole)
            self.places[event] = self.end

    def restart(self) -> None:
        self.attempt, self.up = None, True

    def acknowledge(self, events: set[Event]) -> bool:
        """Whether the sync advances."""
        self.acked |= events
        before = self.sync
        while self.sync < self.end:
            there = self.sequence.get(self.sync + 1)
            if there is not None and self.mine(there[0]) and there[0] not in self.acked:
                break
            self.sync += 1
        return self.sync > before

    def hear(self, event: ControlEvent, whole: bool) -> list[tuple[ControlEvent, list[Block]]]:
        """What it answers; with `whole`, it sends more than what is missing."""
        if isinstance(event, Probe):
            return [(ProbeAnswer("t", self.name, event.attempt, True, self.peers), [])]
        if isinstance(event, Recovery):
            self.attempt = event.attempt
            self.told = self.sync
            self.rectify = True
            if event.incarnation != self.life:
                self.life, self.redelivered = event.incarnation, self.issued
            return [(RecoveryResponse("t", self.name, event.attempt, 1, self.peers, sync=self.sync), [])]
        if isinstance(event, SubscriberNak) and event.attempt == self.attempt:
            if event.after is not None:
                self.told, self.rectify = self.sync, True
                return self.tell(5, asked=True)
            return self._send(event, whole)
        return []

    def tell(self, most: int, *, asked: bool = False) -> list[tuple[ControlEvent, list[Block]]]:
        """About so many of the next events."""
        if self.attempt is None or (self.told == self.end and not asked):
            return []
        previous, runs = self.told, list[SequenceRun]()
        while self.told < self.end and len(runs) < most:
            self.told += 1
            there = self.sequence.get(self.told)
            if there is not None and self.mine(there[0]) and there[0] not in self.acked:
                runs.append(SequenceRun(self.told, 1, *there[0]))
        self.issued = max(self.issued, self.told)
        joined = self._join(runs)
        if self.rectify:
            self.rectify = False
            return [(Rectify("t", self.name, self.attempt, self.sync, self.told, joined, self.redelivered), [])]
        return [(Persistent("t", self.name, self.attempt, previous, self.told, joined, self.redelivered), [])]

    def _join(self, stretches: list[SequenceRun]) -> tuple[SequenceRun, ...]:
        joined: list[SequenceRun] = []
        for each in stretches:
            if joined and each.sequence % 3:  # leave some apart
                last = joined[-1]
                step = each.sequence - last.sequence
                if step == last.count == each.first - last.first and each.publisher == last.publisher:
                    joined[-1] = SequenceRun(last.sequence, step + 1, last.publisher, last.incarnation, last.first)
                    continue
            joined.append(each)
        return tuple(joined)

    def _send(self, nak: SubscriberNak, whole: bool) -> list[tuple[ControlEvent, list[Block]]]:
        wanted: dict[int, tuple[Block, list[int]]] = {}
        for first, last in nak.missing:
            for place in range(first, last + 1):
                event, there = self.sequence[place]
                assert self.mine(event), "it asks for its own only"
                wanted.setdefault(id(there), (there, []))[1].append(event[2])
        blocks = [there if whole else some(there, numbers) for there, numbers in wanted.values()]
        return [(Retransmission("t", self.name), blocks)] if blocks else []


class Weather:
    """How bad the network is."""

    def __init__(self, random: Random, loss: float, again: float, delay: int) -> None:
        self._random = random
        self.loss, self.again, self.delay = loss, again, delay

    def arrivals(self) -> list[int]:
        """After which times a message arrives."""
        if self._random.random() < self.loss:
            return []
        copies = 2 if self._random.random() < self.again else 1
        return [self._random.randrange(1, self.delay) for _ in range(copies)]


class Stage:
    """One subscriber after the other, the repositories, and time."""

    def __init__(
        self, random: Random, names: str, mine: Callable[[Event], bool], settings: SubscriberSettings | None = None
    ) -> None:
        self.random, self.mine = random, mine
        peers = tuple(names)
        self.repositories = {
            name: Repository(name, publisher_id("keeper", repository_name(name)), mine, peers) for name in names
        }
        self.weather = Weather(random, 0.0, 0.0, 5 * MILLISECOND)
        self.settings = settings
        self.now = 0
        self.linked = False
        self.released: list[Event] = []  # in this life
        self.flags: dict[Event, bool] = {}
        self.sequences: list[tuple[str, int]] = []
        self.done: set[Event] = set()  # acknowledged by the application, in any life
        self.told: set[Event] = set()  # what this life was told to be stored
        self.assured: list[int] = []
        self.open: list[int] = []  # positions that are not acknowledged
        self.life = 0
        self.greedy = True
        self.late = 0.0  # how often an event is stored after later ones of its publisher
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._stored: dict[tuple[str, int], int] = {}
        self.begin()

    def begin(self) -> None:
        """A new life of the subscriber, which knows nothing."""
        self.life += 1
        self.subscriber = ReliableSubscriber("t", "s", Incarnation(self.life), settings=self.settings)
        self.released, self.open, self.told = [], [], set()
        self._timer = -1
        self.step(Vouched("t", dict.fromkeys(self.repositories, "keeper")))
        self.link()
        self.step(EventsRequested())

    # ---- time

    def at(self, when: int, do: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (when, self._order, do))

    def run(self, duration: int) -> None:
        end = self.now + duration
        while self._queue and self._queue[0][0] <= end:
            self.now, _, do = heapq.heappop(self._queue)
            do()
        self.now = end

    def link(self) -> None:
        self.linked = True
        self.step(LinkUp("alice"))

    def unlink(self) -> None:
        self.linked = False
        self.step(LinkDown())

    # ---- the subscriber

    def step(self, happened: Input) -> None:
        for effect in self.subscriber.step(self.now, happened):
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, StartTimer):
            self._timer = effect.at
            life = self.life
            self.at(max(effect.at, self.now), lambda: self._fire(life, effect.at))
        elif isinstance(effect, Release):
            for portion in effect.portions:
                self._take(portion)
            if self.greedy:
                self.at(self.now, lambda: self.step(EventsRequested()))
        elif isinstance(effect, ConfirmDurable):
            assert effect.code is None
            self.assured.append(effect.token)
        elif isinstance(effect, SendLetter):
            for event in effect.events:
                if isinstance(event, SubscriberAck):
                    self._check(event)
            if self.linked:
                self._send(effect)
        assert not isinstance(effect, Refuse)

    def _fire(self, life: int, timer: int) -> None:
        if life == self.life and timer == self._timer:
            self._timer = -1
            self.step(TimerFired(SubscriberTick()))

    def _take(self, portion: ReleasedBatch) -> None:
        events = events_of(portion.block)
        assert portion.position == len(self.released) + 1
        for event in events:
            assert event in self.told, "all or none: it is stored, and told to be"
            assert event not in self.released, "once"
        self.open += range(portion.position, portion.position + len(events))
        self.released += events
        self.flags.update(dict.fromkeys(events, portion.redelivered))
        places = [self.repositories[portion.repository].places[event] for event in events]
        assert (places[0], places[-1]) == (portion.first, portion.last)
        self.sequences += [(portion.repository, place) for place in places]

    def acknowledge(self, first: int, last: int) -> None:
        """The application is done with these positions."""
        self.done |= set(self.released[first - 1 : last])
        self.open = [position for position in self.open if not first <= position <= last]
        self.step(Acknowledged([(first, last)]))

    def acknowledge_all(self) -> None:
        if self.open:
            self.acknowledge(self.open[0], self.open[-1])

    def wait_for(self, token: int) -> None:
        self.step(DurabilityAwaited(token))

    def _check(self, ack: SubscriberAck) -> None:
        """Nothing is acknowledged that the application is not done with."""
        repository = self.repositories[ack.repository]
        for first, last in ack.spans:
            for place in range(first, last + 1):
                there = repository.sequence.get(place)
                assert there is None or not self.mine(there[0]) or there[0] in self.done

    # ---- the network

    def _send(self, post: SendLetter) -> None:
        """From the subscriber."""
        for repository in self.repositories.values():
            if post.to in (bundle_of("t"), inbox_of(repository_name(repository.name))):
                for delay in self.weather.arrivals():
                    self.at(self.now + delay, lambda to=repository: self._hear(to, post))  # type: ignore[misc]

    def _hear(self, repository: Repository, post: SendLetter) -> None:
        if not repository.up:
            return
        for event in post.events:
            if isinstance(event, SubscriberAck):
                self._acknowledged(repository, event)
            else:
                self._answer(repository, repository.hear(event, self.random.random() < 0.3))

    def _acknowledged(self, repository: Repository, ack: SubscriberAck) -> None:
        named = self.repositories[ack.repository]
        places = [place for first, last in ack.spans for place in range(first, last + 1)]
        repository.acknowledge({named.sequence[place][0] for place in places if place in named.sequence})
        if named is repository and repository.attempt is not None:
            self._answer(repository, [(Sync("t", repository.name, repository.attempt, repository.sync), [])])

    def _answer(self, repository: Repository, answers: list[tuple[ControlEvent, list[Block]]]) -> None:
        life = self.life
        for event, blocks in answers:
            heard = LetterReceived(repository.number, [event], blocks)
            for delay in self.weather.arrivals():
                self.at(self.now + delay, lambda heard=heard: self._deliver(life, heard))  # type: ignore[misc]

    def _deliver(self, life: int, happened: LetterReceived | EventsReceived) -> None:
        if not self.linked or life != self.life:
            return
        if isinstance(happened, LetterReceived):
            for event in happened.events:
                if isinstance(event, Persistent | Rectify):
                    for run in event.stretches:
                        for row in range(run.count):
                            self.told.add((run.publisher, run.incarnation, run.first + row))
        self.step(happened)

    def publish(self, whole: Block, store_after: int = 3 * MILLISECOND) -> None:
        """A frame goes to whoever wants something of it, and to the repositories."""
        numbers = [event[2] for event in events_of(whole) if self.mine(event)]
        if numbers:
            seen = whole if len(numbers) == whole.count else some(whole, numbers)
            life = self.life
            for delay in self.weather.arrivals():
                self.at(self.now + delay, lambda: self._deliver(life, EventsReceived([seen])))
        for repository in self.repositories.values():
            skip = self.random.choice((0, 0, 0, 1, 4))
            # repositories store all, sooner or later; each stream in order, unless it was given up and found again
            delay = self.random.randrange(1, store_after)
            at = max(self.now + delay, self._stored.get((repository.name, whole.publisher), 0))
            if self.random.random() < self.late:
                at += self.random.randrange(1, 1000) * store_after
            else:
                self._stored[repository.name, whole.publisher] = at
            self.at(at, lambda to=repository, skip=skip: self._store(to, whole, skip))  # type: ignore[misc]

    def _store(self, repository: Repository, whole: Block, skip: int) -> None:
        repository.store(whole, skip)
        repository.acknowledge(set())
        if repository.up:
            self._answer(repository, repository.tell(3))

    def tell(self) -> None:
        """Repositories go on telling what there is."""
        for repository in self.repositories.values():
            if repository.up:
                self._answer(repository, repository.tell(8))

    def calm(self, duration: int = 60 * SECOND) -> None:
        """Nothing fails any more, and there is time."""
        self.weather.loss = self.weather.again = 0.0
        for repository in self.repositories.values():
            repository.up = True
        if not self.linked:
            self.link()
        for _ in range(duration // (100 * MILLISECOND)):
            self.tell()
            self.run(100 * MILLISECOND)

    @property
    def expected(self) -> set[Event]:
        everything = {event for repository in self.repositories.values() for event in repository.places}
        return {event for event in everything if self.mine(event)}
