"""Unknown lives: those that another repository has answered, and of which no fact is here.

Whoever first answers a life of a publisher fixes where earlier ones end, and tells all that live. A repository that was
away then may hear of the life from its publisher, when the others are away in their turn. If it steered the life, what
that sends would get places before those of what earlier lives had acknowledged. So it waits until somebody comes who
has the fact, until every member is here and none has it, or until an operator accepts that it is lost.
"""

from typing import NamedTuple

from stentor.model.control import Held, Recovery
from stentor.model.errors import Refusal, Refused
from stentor.protocols.delivery.gossip import Gossip
from stentor.protocols.delivery.registry import Registry
from stentor.protocols.delivery.settings import RepositorySettings


class _Refusal(NamedTuple):
    """A life that was refused, how far it has published, and when it first asked."""

    name: str
    life: int
    last: int
    since: int


class UnknownLives:
    """Those that publishers of one topic have told one repository of."""

    def __init__(self, settings: RepositorySettings, registry: Registry, gossip: Gossip) -> None:
        self._settings, self._registry, self._gossip = settings, registry, gossip
        self._refused: dict[int, _Refusal] = {}  # the last one of each publisher
        self._accepted: set[tuple[int, int]] = set()  # for whose facts an operator does not want to wait

    def check(self, now: int, event: Recovery, sender: int) -> None:
        """Refuse a life that somebody has answered who is away."""
        key = sender, event.incarnation
        if not event.answered or self._registry.is_introduced(*key) or key in self._accepted:
            return
        if not self._gossip.knows_all(now):
            former = self._refused.get(sender)
            since = former.since if former is not None and former.life == event.incarnation else now
            self._refused[sender] = _Refusal(event.sender, event.incarnation, event.last, since)
            raise Refused(
                Refusal.BUSY,
                f"{event.sender} was answered by a repository that is away, and {self._settings.name} does not know "
                "what it had published before",
            )

    def _awaited(self) -> dict[int, _Refusal]:
        """Return the lives that still cannot be steered."""
        is_introduced = self._registry.is_introduced
        refused = {number: each for number, each in self._refused.items() if not is_introduced(number, each.life)}
        return {number: each for number, each in refused.items() if (number, each.life) not in self._accepted}

    def is_waiting(self, now: int, longer_than: int = 0) -> bool:
        """Return whether a life has been waited for that long, with nobody coming or going meanwhile."""
        since = [each.since for each in self._awaited().values()]
        is_awaited = bool(since) and now - max(min(since), self._gossip.company.turn(now)) >= longer_than
        return is_awaited and not self._gossip.knows_all(now)

    def described(self) -> dict[str, list[tuple[int, int, int]]]:
        """Return what is awaited, as people are told it: of each publisher the life, its first and its last number."""
        return {each.name: [(each.life, 1, max(each.last, 1))] for each in self._awaited().values()}

    def accept_loss(self) -> tuple[Held, ...]:
        """Steer these lives when they ask again, wherever earlier ones ended; return them."""
        awaited = [(number, each.life) for number, each in self._awaited().items()]
        self._accepted.update(awaited)
        return tuple(Held(*key, 0, ()) for key in awaited)
