"""The audit: what subscribers' applications really had against what publishers really sent, by the evidence of both.

It knows nothing of how events travel. What was stored for the publisher, or came to any subscriber, must have come to
every subscriber that wants it: once, in the order of its publisher's life, and again only after a crash, if it was not
acknowledged durably before, and marked.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from stentor.cli.demo.evidence import Began, Done, Fact, Got, Kept, Sent

Id = tuple[int, int]  # a life of a publisher, and a number in it
Wants = Callable[[int], bool]  # whether a subscriber wants a row of the trace


class SubscriberVerdict(NamedTuple):
    """What the audit found of one subscriber."""

    expected: int
    delivered: int  # different events
    redelivered: int  # again after a crash, and marked
    lost: list[Id]
    duplicated: list[Id]  # again in the same life, or after it was acknowledged, or without a mark
    misplaced: list[Id]  # after a later one of the same life of the publisher
    foreign: list[Id]  # never sent, not wanted, or not what was sent

    @property
    def sound(self) -> bool:
        return not (self.lost or self.duplicated or self.misplaced or self.foreign)


class Publication:
    """What one publisher sent in all its lives."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.rows: dict[Id, int] = {}
        self.kept: dict[int, int] = {}  # by life: all up to this number
        self.copies: dict[int, int] = {}  # how many events were told to be on so many repositories
        self.lives = 0
        self.forgotten: list[Id] = []  # acknowledged, and not known to the repositories when it came back
        for fact in facts:
            match fact:
                case Began():
                    self.lives += 1
                    known = max((each for each in self.kept if each > fact.earlier), default=0)
                    self.forgotten += [(life, last) for life, last in self.kept.items() if life == known]
                    if self.kept.get(fact.earlier, 0) > fact.stored:
                        self.forgotten.append((fact.earlier, fact.stored + 1))
                    elif fact.stored:
                        self.kept[fact.earlier] = fact.stored  # it went on after what it was told
                case Sent():
                    self.rows[fact.life, fact.number] = fact.row
                case Kept():
                    more = fact.number - self.kept.get(fact.life, 0)
                    self.kept[fact.life] = fact.number
                    self.copies[fact.copies] = self.copies.get(fact.copies, 0) + more

    @property
    def acknowledged(self) -> set[Id]:
        return {(life, number) for life, last in self.kept.items() for number in range(1, last + 1)}


def judge(
    publications: Iterable[Publication], readers: Sequence[tuple[Wants, Sequence[Fact]]]
) -> list[SubscriberVerdict]:
    """One verdict for each subscriber."""
    rows: dict[Id, int] = {}
    settled = {(fact.life, fact.number) for _, facts in readers for fact in facts if isinstance(fact, Got)}
    for publication in publications:
        rows |= publication.rows
        settled |= publication.acknowledged
    return [_judge(rows, settled, wants, facts) for wants, facts in readers]


def _judge(rows: dict[Id, int], settled: set[Id], wants: Wants, facts: Sequence[Fact]) -> SubscriberVerdict:
    expected = {each for each in settled if each in rows and wants(rows[each])}
    reading = _Reading(rows, wants)
    for fact in facts:
        reading.take(fact)
    delivered = reading.had
    return SubscriberVerdict(
        len(expected),
        len(delivered),
        reading.redelivered,
        sorted(expected - delivered),
        reading.duplicated,
        reading.misplaced,
        reading.foreign,
    )


class _Reading:
    """Goes through what one subscriber had, life by life."""

    def __init__(self, rows: dict[Id, int], wants: Wants) -> None:
        self._rows, self._wants = rows, wants
        self._life: list[Id] = []  # what this life of the subscriber had, in order
        self._now: set[Id] = set()
        self._done: set[Id] = set()
        self._newest: dict[int, int] = {}  # number that this life had, by the publisher's life
        self.had: set[Id] = set()
        self.redelivered = 0
        self.duplicated: list[Id] = []
        self.misplaced: list[Id] = []
        self.foreign: list[Id] = []

    def take(self, fact: Fact) -> None:
        match fact:
            case Began():
                self._life = []
                self._now = set()
                self._newest = {}
            case Done():
                self._done.update(self._life[: fact.count])
            case Got():
                self._got((fact.life, fact.number), fact)

    def _got(self, event: Id, fact: Got) -> None:
        if self._rows.get(event) != fact.row or not self._wants(fact.row) or not fact.intact:
            self.foreign.append(event)
        if event in self._now or event in self._done or (event in self.had and not fact.redelivered):
            self.duplicated.append(event)
        elif event in self.had:
            self.redelivered += 1
        if fact.number <= self._newest.get(fact.life, 0):
            self.misplaced.append(event)
        self._newest[fact.life] = max(fact.number, self._newest.get(fact.life, 0))
        self._life.append(event)
        self._now.add(event)
        self.had.add(event)
