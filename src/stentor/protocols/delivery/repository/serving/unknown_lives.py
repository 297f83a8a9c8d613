"""Unknown lives: those that another repository has answered, and of which no fact is here.

Whoever first answers a life of a publisher fixes where earlier ones end, and tells all that live. A repository that was
away then may hear of the life from its publisher, when the others are away in their turn. If it steered the life, what
that sends would get places before those of what earlier lives had acknowledged. So it waits until somebody comes who
has the fact, until every member is here and none has it, or until an operator accepts that it is lost.
"""

from typing import NamedTuple

from stentor.model.control import Recovery, StreamRanges
from stentor.model.errors import Refusal, Refused
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.repository.topic_state import TopicState


class _Refusal(NamedTuple):
    """A life that was refused, how far it has published, and when it first asked."""

    name: str
    life: int
    last: int
    since: int


class UnknownLives:
    """Those that publishers of one topic have told one repository of."""

    def __init__(self, state: TopicState, membership: MembershipView) -> None:
        self._state, self._membership = state, membership
        self._registry = state.registry
        self._refused: dict[int, _Refusal] = {}  # the last one of each publisher
        self._accepted: dict[int, int] = {}  # by publisher, the last life whose facts an operator gave up

    def check(self, event: Recovery, sender: int) -> None:
        """Refuse a life that somebody has answered who is away, and those that follow it."""
        if self._registry.is_introduced(sender, event.incarnation):
            return
        name = self._state.settings.name
        answered = max([event.incarnation * event.answered, *self._answered(sender)])
        if answered > self._accepted.get(sender, 0) and not self._membership.knows_all:
            since = self._refused[sender].since if sender in self._awaited() else self._state.step.now
            self._refused[sender] = _Refusal(event.sender, answered, event.last, since)
            raise Refused(
                Refusal.BUSY,
                f"{event.sender} was answered by a repository that is away, and {name} does not know what "
                "it had published before",
            )

    def _answered(self, sender: int) -> list[int]:
        """Return the unknown lives of a publisher that were answered elsewhere; one that was not sends nothing."""
        streams = self._state.streams
        # Blocks without an order may be of an earlier topic of this name, which was deleted.
        heard = [key for key, stream in streams.strangers.streams.items() if stream.announced and key[0] == sender]
        stored = [life for life, stream in streams.lives(sender).items() if stream.announced]  # at another repository
        lives = [*stored, *(life for _, life in heard)]
        lives += [self._refused[sender].life] if sender in self._refused else []
        return [life for life in lives if not self._registry.is_introduced(sender, life)]

    def _awaited(self) -> dict[int, _Refusal]:
        """Return the lives that still cannot be steered."""
        is_introduced = self._registry.is_introduced
        refused = {number: each for number, each in self._refused.items() if not is_introduced(number, each.life)}
        return {number: each for number, each in refused.items() if each.life > self._accepted.get(number, 0)}

    def tick(self) -> None:
        """Store what came of lives of which no fact tells, once nobody has one: nobody has answered them."""
        registry = self._registry
        if self._membership.knows_all:
            self._state.log.introduce(lambda key: registry.is_authorised(key[0]) and registry.is_introduced(*key))

    def is_waiting(self, longer_than: int = 0) -> bool:
        """Return whether a life has been waited for that long, with nobody coming or going meanwhile."""
        since = [each.since for each in self._awaited().values()]
        if not since:
            return False
        waited = self._state.step.now - max(min(since), self._membership.turned_at)
        return waited >= longer_than and not self._membership.knows_all

    def described(self) -> dict[str, list[tuple[int, int, int]]]:
        """Return what is awaited, as people are told it: of each publisher the life, its first and its last number."""
        return {each.name: [(each.life, 1, max(each.last, 1))] for each in self._awaited().values()}

    def accept_loss(self) -> tuple[StreamRanges, ...]:
        """Steer these lives when they ask again, wherever earlier ones ended; return them."""
        awaited = {number: each.life for number, each in self._awaited().items()}
        self._accepted |= awaited
        return tuple(StreamRanges(*key, 0, ()) for key in awaited.items())
