"""Whom a broker that starts asks who may do what, before it serves clients: the neighbours that it dials itself.

What its disk holds may be old: a grant that was revoked while it was down must not hold again. A neighbour that does
not answer is not waited for, since it may be down for hours, and a broker without one serves from its disk at once.
"""

from collections.abc import Iterable

from stentor.machine import SECOND, StartTimer, Step, StopTimer, Timer

_LONGEST_WAIT = 5 * SECOND  # as long as a client waits at most between two tries to connect


class NeighboursTimeout(Timer, frozen=True, gc=False, tag="acquaintance"):
    """Some neighbours have not answered since this broker started."""


class Acquaintance:
    """The addresses where nobody has answered yet; it is over when there are none, for good."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._awaited: set[str] = set()
        self.is_over = True

    def begin(self, addresses: Iterable[str]) -> None:
        self._awaited = set(addresses)
        self.is_over = not self._awaited
        if not self.is_over:
            self._step.emit(StartTimer(NeighboursTimeout(), self._step.now + _LONGEST_WAIT))

    def on_answer(self, address: str) -> None:
        """Whoever is at this address has told what it knows, or cannot."""
        self._awaited.discard(address)
        if not self._awaited and not self.is_over:
            self.is_over = True
            self._step.emit(StopTimer(NeighboursTimeout()))

    def expire(self) -> None:
        """The time is over: those who are still silent may be so for long."""
        self._step.report("warning", "serves without all neighbours", silent=", ".join(sorted(self._awaited)))
        self._awaited.clear()
        self.is_over = True
