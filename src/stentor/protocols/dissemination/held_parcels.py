"""Held parcels: events that wait at the broker which gave them their colours, because their way has just changed.

What was sent before by the former way may be slower than what is sent now by the new one. So from the switch of a plan
until the former topology has drained, events for members whose way has changed wait here, in order.
"""

from collections import deque
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from stentor.model.routing_state import ExitNumbers
from stentor.wire.parcel import MaskArrays, Masks

H = TypeVar("H")
_BOUND = 64 << 20  # bytes of events that wait: some seconds of a busy broker


class HeldRun(NamedTuple, Generic[H]):
    """Events that wait for the same reason."""

    level: int  # below which they get colours when they leave
    colours: tuple[int, ...]  # of all levels; those from `level` on stay
    told: ExitNumbers  # the exits that were named as they came; those below `level` are chosen when they leave
    masks: Masks | None  # for all of them; None if each has its own
    arrays: MaskArrays
    inner: bytes
    events: int
    history: H


class HeldParcels(Generic[H]):
    """All that waits at one broker. Invariant, asserted by `validate`: `size` is the sum over the runs."""

    def __init__(self, bound: int = _BOUND) -> None:
        self.by_level: tuple[Mapping[int, int], ...] = ()  # whom events wait for that got colours below a level here
        self.size = 0
        self.held = 0  # events that had to wait, in total
        self.dropped = 0  # events that there was no room for
        self._bound = bound
        self._runs: deque[HeldRun[H]] = deque()

    @property
    def is_half_full(self) -> bool:
        return self.size > self._bound >> 1

    @property
    def waiting(self) -> int:
        """How many events wait now."""
        return sum(run.events for run in self._runs)

    def append(self, run: HeldRun[H]) -> None:
        """Let events wait; if there is no room, those that have waited longest are dropped."""
        self._runs.append(run)
        self.size += len(run.inner)
        self.held += run.events
        while self.size > self._bound and self._runs:
            oldest = self._runs.popleft()
            self.size -= len(oldest.inner)
            self.dropped += oldest.events

    def take(self) -> list[HeldRun[H]]:
        """Take all of it out, in order. What has to wait on comes back."""
        runs = list(self._runs)
        self._runs.clear()
        self.size = 0
        return runs

    def count(self, level: int, colour: int) -> int:
        """Return how many runs wait that have a colour of a level for good."""
        return sum(run.level <= level and run.colours[level] == colour for run in self._runs)

    def validate(self) -> None:
        assert self.size == sum(len(run.inner) for run in self._runs), "held events were counted wrong"
