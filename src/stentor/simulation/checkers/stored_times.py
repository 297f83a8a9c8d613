"""Stored times: when each repository says that an event was stored, and what follows for keeping it.

A repository stamps what comes from a publisher with its own clock, which may be wrong, and takes over the stamp of what
it fetches from another one, unless that is in its future. It forgets an event only when it is older than its topic says
by its own clock.
"""

from collections.abc import Callable, Iterable

from stentor.machine import Input
from stentor.model.control import Retransmission
from stentor.model.stored.record import Record
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived

Key = tuple[int, int, int]  # publisher, incarnation, catenation number


class Arrivals(dict[Key, int]):
    """When events first came to a repository that no other repository had sent."""

    def note(self, happened: Input, now: int) -> None:
        if not isinstance(happened, EventsReceived | LetterReceived):
            return
        sender, events = (0, ()) if isinstance(happened, EventsReceived) else (happened.sender, happened.events)
        is_fetched = any(isinstance(each, Retransmission) for each in events)
        for block in happened.blocks:
            if not is_fetched or block.publisher == sender:
                for offset in block.offsets():
                    self.setdefault((block.publisher, block.incarnation, block.catenation + offset), now)


class StoredTimes:
    """Notes stamps by event and repository, and complains of those that no clock explains."""

    def __init__(self, accuse: Callable[[str, str], None]) -> None:
        self._accuse = accuse
        self._stamps: dict[Key, dict[str, list[int]]] = {}  # all that each repository gave; the last is its own now
        self.keep = self.expire = 0  # nanoseconds; an `expire` of 0 is never
        self.clocks: dict[str, Callable[[], int]] = {}  # what the clock of each repository shows

    def store(self, repository: str, record: Record, came: Callable[[Key], int | None]) -> None:
        """A record is durable; `came` tells when an event first came from its publisher in this life, if it did."""
        now = self.clocks[repository]()
        for number in range(record.line.first, record.line.last + 1):
            key = (*record.line.stream, number)
            stamps = self._stamps.setdefault(key, {})
            first = came(key)
            is_own = first is not None and first <= record.stored <= now
            others = [stamp for known in stamps.values() for stamp in known]
            is_taken_over = record.stored in others
            is_bounded = record.stored <= now and any(stamp > record.stored for stamp in others)
            if not is_own and not is_taken_over and not is_bounded:
                detail = f"{repository} says that {key} was stored at {record.stored}, others {stamps}, it came {first}"
                self._accuse("false-stored-time", detail)
            stamps.setdefault(repository, []).append(record.stored)

    def collect(self, repository: str, keys: Iterable[Key]) -> None:
        """A repository forgets these, of which no other one has forgotten anything yet."""
        now = self.clocks[repository]()
        shortest = min(self.keep, self.expire or self.keep)
        for key in keys:
            for stored in self._stamps.get(key, {}).get(repository, [])[-1:]:
                if stored <= now and now - stored <= shortest:
                    age = (now - stored) / 1e6
                    self._accuse("forgotten-early", f"{repository} forgets {key} {age} ms after it was stored")

    def has_expired(self, key: Key) -> bool:
        """Whether a repository may have dropped this although somebody had not got it."""
        stamps = self._stamps.get(key, {}).items() if self.expire else ()
        return any(self.clocks[name]() - stored > self.expire for name, known in stamps for stored in known)

    def is_overdue(self, repository: str, key: Key, bound: int) -> bool:
        """Whether a repository should have dropped this for so long."""
        known = self._stamps.get(key, {}).get(repository, []) if self.expire else []
        return any(self.clocks[repository]() - stored > self.expire + bound for stored in known[-1:])
