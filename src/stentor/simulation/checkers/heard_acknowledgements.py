"""Heard acknowledgements: a repository never gives up what a publisher has told it to be acknowledged.

What follows such a gap would be shown first, and whoever is away and has the events would bring them too late. A
repository remembers what it heard over its restarts. What it heard in the last seconds before it ended it may forget:
as long as others can send what it lacks, it writes nothing down.
"""

from collections.abc import Callable, Iterable

from stentor.machine import SECOND, Input
from stentor.model.control import PublisherOrder
from stentor.model.stored.record import RecordHeader, RecordKind, StreamId
from stentor.protocols.delivery.transport import LetterReceived

_MAY_FORGET = SECOND
Key = tuple[int, int, int]  # publisher, incarnation, catenation number


class HeardAcknowledgements:
    """Up to where each repository was told that the events of a publisher's life are acknowledged, and when."""

    def __init__(self, accuse: Callable[[str, str], None], is_kept_elsewhere: Callable[[str, Key], bool]) -> None:
        """`is_kept_elsewhere` tells whether another member of the bundle can be relied upon for an event."""
        self._accuse, self._is_kept_elsewhere = accuse, is_kept_elsewhere
        self._heard: dict[str, dict[StreamId, list[tuple[int, int]]]] = {}  # in the order of both

    def hear(self, repository: str, happened: Input, now: int) -> None:
        """A repository that manages the topic is told something."""
        for event in happened.events if isinstance(happened, LetterReceived) else ():
            if isinstance(event, PublisherOrder) and event.acknowledged:
                assert isinstance(happened, LetterReceived)
                stream = happened.sender, event.incarnation
                heard = self._heard.setdefault(repository, {}).setdefault(stream, [])
                if not heard or event.acknowledged > heard[-1][1]:
                    heard.append((now, event.acknowledged))

    def crash(self, repository: str, now: int) -> None:
        """A repository ends, and may forget what it has just heard."""
        for heard in self._heard.get(repository, {}).values():
            heard[:] = [each for each in heard if each[0] <= now - _MAY_FORGET]

    def forget(self, repository: str) -> None:
        """A repository throws away all that it has."""
        self._heard.pop(repository, None)

    def check(self, repository: str, lines: Iterable[RecordHeader]) -> None:
        """A repository writes these down."""
        for line in lines:
            heard = self._heard.get(repository, {}).get(line.stream, []) if line.kind is RecordKind.VOID else []
            upto = heard[-1][1] if heard else 0
            for number in range(line.first, min(line.last, upto) + 1):
                if self._is_kept_elsewhere(repository, (*line.stream, number)):
                    self._accuse("gave-up-acknowledged", f"{repository} gives up {number} of {line.stream}: {heard}")
