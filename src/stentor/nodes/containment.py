"""Containment: an exception at a peer's message ends what that peer touched, and nothing else.

Ranges keep out what machines cannot handle; this is the second line, for what nobody thought of. An assertion says that
our own state is wrong, so it ends the node, and so does an exception at an input of our own.
"""

import traceback
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from stentor.machine import SECOND, Input, Report
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived
from stentor.wire.block import Block

FATAL: Final = (AssertionError, MemoryError)  # whoever sent what they came of, the node cannot trust itself
_MOST_PLACES: Final = 64  # in the code, of which it is remembered that they failed
_PAUSE: Final = 60 * SECOND  # between two reports of one place: who can make a node fail can do so a thousand times
REFUSED_FOR: Final = 60 * SECOND  # long enough that a peer which repeats itself costs one failure, not three
_MOST_FAILURES: Final = 3  # within that time: then the fault is hardly that of one letter


class FaultReports:
    """Reports exceptions with their traces, each place in the code once in a while."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int]] = {}  # when each was reported, and how often it failed since

    def report(self, now: int, error: Exception, **details: str) -> list[Report]:
        """Return a report, unless this place was reported a short time ago."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {frame.name}, line {frame.lineno}"
        reported_at, silent = self._places.pop(place, (now - _PAUSE, 0))
        if now - reported_at < _PAUSE:
            self._places[place] = reported_at, silent + 1
            return []
        if len(self._places) >= _MOST_PLACES:
            del self._places[next(iter(self._places))]
        self._places[place] = now, 0
        trace = "".join(traceback.format_exception(error))
        found: dict[str, str | int | float] = {**details, "error": f"{type(error).__name__}: {error}"[:1000]}
        return [Report("error", "a message could not be handled", {**found, "since": silent, "trace": trace})]


class Offenders:
    """Whose letters a repository does not hear for a while, because its machines failed at one of them."""

    def __init__(self) -> None:
        self.reports = FaultReports()
        self._failed: deque[tuple[int, frozenset[int]]] = deque()  # when, and at whose letters; never more than three

    def blame(self, now: int, senders: Iterable[int], error: Exception, topic: str) -> list[Report]:
        """Note a failure; raise it again if it is one too many."""
        self._forget(now)
        self._failed.append((now, frozenset(senders)))
        if len(self._failed) >= _MOST_FAILURES:
            raise error
        return self.reports.report(now, error, topic=topic)

    def admit(self, now: int, inputs: Sequence[Input]) -> Sequence[Input]:
        """Return what is left of inputs without those who are not heard."""
        if not self._failed:
            return inputs
        self._forget(now)
        return [rest for each in inputs if (rest := self._rest_of(each)) is not None]

    def _rest_of(self, happened: Input) -> Input | None:
        if isinstance(happened, LetterReceived):
            return None if self._is_refused(happened.sender) else happened
        if isinstance(happened, EventsReceived):
            blocks: list[Block] = [block for block in happened.blocks if not self._is_refused(block.publisher)]
            return EventsReceived(blocks) if blocks else None
        return happened

    def _is_refused(self, sender: int) -> bool:
        return any(sender in senders for _, senders in self._failed)

    def _forget(self, now: int) -> None:
        while self._failed and now - self._failed[0][0] >= REFUSED_FOR:
            self._failed.popleft()


def senders_of(happened: Iterable[Input]) -> set[int]:
    """Whose messages these are; nobody's if they are our own inputs."""
    found: set[int] = set()
    for each in happened:
        if isinstance(each, LetterReceived):
            found.add(each.sender)
        elif isinstance(each, EventsReceived):
            found.update(int(block.publisher) for block in each.blocks)
    return found
