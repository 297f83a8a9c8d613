"""Waves: a repository is told when all brokers that can be reached have written down what it told.

This is propagation of information with feedback (Segall 1983), also called the echo algorithm. A broker that hears of a
wave for the first time passes it on to all its neighbours but the one that it has it from, its parent, and answers the
parent when its own disk and all those neighbours have answered. One that knows the wave already answers as soon as its
own disk has: whoever told it first waits for the rest. If a link is lost meanwhile, what is behind it may have counted
on it, although there is another way: the answer then says that the wave was not whole, and the broker that began it
begins another one.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

from stentor.model.trust.access import SharedFact
from stentor.model.trust.access_messages import AccessFacts, AccessReceipt
from stentor.model.trust.facts import portions
from stentor.protocols.neighbours import MessagePort, Neighbours

# Told with a token and not confirmed, on one link. Who tells more is not held up, nor lied to: that is spread and
# written down like everything else, but no receipt is given for it.
MOST_WAVES = 1000


class _Question(NamedTuple):
    """A neighbour that waits for our answer."""

    neighbour: str
    token: int


class _Tell:
    """A repository that waits for our answer: it told facts, in one wave or in several that fit into frames."""

    __slots__ = ("repository", "token", "waves")

    def __init__(self, repository: MessagePort, token: int) -> None:
        self.repository = repository
        self.token = token
        self.waves = 0  # that are not over


class _Wave:
    """What a broker that takes part in a wave waits for."""

    __slots__ = ("asked", "facts", "is_durable", "is_whole", "parent", "topic")

    def __init__(self, topic: str, facts: tuple[SharedFact, ...], parent: _Question | _Tell) -> None:
        self.topic, self.facts = topic, facts
        self.parent: _Question | _Tell | None = parent  # None if it is gone
        self.asked: set[_Question] = set()  # neighbours that have not answered
        self.is_durable = False  # the facts are on our own disk
        self.is_whole = True  # no link was lost on which an answer was waited for, here or further on


class Waves:
    """The waves in which one broker takes part."""

    def __init__(self, name: str, neighbours: Neighbours, tokens: Iterator[int]) -> None:
        self._name = name
        self._neighbours = neighbours
        self._tokens = tokens  # none is used twice on any link
        self.boot = 0
        self._begun = 0
        self._waves: dict[str, _Wave] = {}
        self._asked: dict[_Question, str] = {}  # Invariant: each is in `asked` of the wave with this name.
        self._tells: Counter[MessagePort] = Counter()
        # What waits for our disk, in the order of the numbers of the news that must be durable.
        self._unwritten: deque[tuple[int, str | _Question]] = deque()
        self._durable = 0

    def __len__(self) -> int:
        return len(self._waves)

    # ---- repositories

    def is_full(self, repository: MessagePort) -> bool:
        return self._tells[repository] >= MOST_WAVES

    def tell(self, repository: MessagePort, told: AccessFacts, number: int) -> None:
        """Begin the waves of what a repository told; our own disk has it when news of this number are durable."""
        tell = _Tell(repository, told.token)
        self._tells[repository] += 1
        parts = list(portions(told.facts)) or [()]
        tell.waves = len(parts)
        for part in parts:
            self._begin(_Wave(told.topic, part, tell), number)

    def forget(self, repository: MessagePort) -> None:
        """A repository is gone, and waits for nothing any more."""
        if self._tells.pop(repository, 0):
            for wave in self._waves.values():
                if isinstance(wave.parent, _Tell) and wave.parent.repository is repository:
                    wave.parent = None

    # ---- neighbours

    def hear(self, neighbour: str, told: AccessFacts, number: int) -> None:
        """A neighbour passes a wave on."""
        question = _Question(neighbour, told.token)
        wave = self._waves.get(told.wave)
        if wave is None:
            wave = self._waves[told.wave] = _Wave(told.topic, told.facts, question)
            self._explore(told.wave, wave, number, parent=neighbour)
        elif wave.parent != question:  # a damaged stream may repeat what it carried, until that is found out
            self._await_disk(number, question)

    def answered(self, neighbour: str, receipt: AccessReceipt) -> None:
        """A neighbour, and all that is behind it, has written down what was asked; or it was no wave's token."""
        question = _Question(neighbour, receipt.token)
        name = self._asked.pop(question, None)
        if name is not None:
            wave = self._waves[name]
            wave.asked.remove(question)
            wave.is_whole &= receipt.whole
            self._look(name, wave)

    def link_down(self, neighbour: str) -> None:
        """A neighbour is gone: nobody waits there any more, and it does not answer what it was asked."""
        self._unwritten = deque(
            each for each in self._unwritten if isinstance(each[1], str) or each[1].neighbour != neighbour
        )
        for wave in self._waves.values():
            if isinstance(wave.parent, _Question) and wave.parent.neighbour == neighbour:
                wave.parent = None
        for question in [question for question in self._asked if question.neighbour == neighbour]:
            self.answered(neighbour, AccessReceipt(question.token, whole=False))

    # ---- the disk

    def written(self, durable: int) -> None:
        """News up to this number are durable."""
        self._durable = durable
        while self._unwritten and self._unwritten[0][0] <= durable:
            waits = self._unwritten.popleft()[1]
            if isinstance(waits, _Question):
                self._neighbours.say(waits.neighbour, AccessReceipt(waits.token))
            elif waits in self._waves:
                self._waves[waits].is_durable = True
                self._look(waits, self._waves[waits])

    def await_disk(self, neighbour: str, token: int, number: int) -> None:
        """Answer a neighbour, which told something without a wave, when our own disk has it."""
        self._await_disk(number, _Question(neighbour, token))

    def _await_disk(self, number: int, waits: str | _Question) -> None:
        self._unwritten.append((number, waits))
        self.written(self._durable)

    # ---- a wave

    def _begin(self, wave: _Wave, number: int) -> None:
        self._begun += 1
        name = f"{self._name}:{self.boot}:{self._begun}"
        self._waves[name] = wave
        self._explore(name, wave, number)

    def _explore(self, name: str, wave: _Wave, number: int, parent: str = "") -> None:
        for neighbour in self._neighbours:
            if neighbour != parent:
                question = _Question(neighbour, next(self._tokens))
                wave.asked.add(question)
                self._asked[question] = name
                self._neighbours.say(
                    neighbour, AccessFacts(topic=wave.topic, facts=wave.facts, token=question.token, wave=name)
                )
        self._await_disk(number, name)

    def _look(self, name: str, wave: _Wave) -> None:
        """Answer if all have."""
        if wave.asked or not wave.is_durable:
            return
        del self._waves[name]
        match wave.parent:
            case _Question(neighbour, token):
                self._neighbours.say(neighbour, AccessReceipt(token, wave.is_whole))
            case _Tell() if not wave.is_whole:
                self._begin(_Wave(wave.topic, wave.facts, wave.parent), self._durable)
            case _Tell() as tell:
                tell.waves -= 1
                if not tell.waves:
                    self._tells[tell.repository] -= 1
                    tell.repository.post(AccessReceipt(tell.token))
