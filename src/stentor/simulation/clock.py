"""A node's own monotonic clock: it drifts, it jumps forward, it never goes back."""

from typing import Final

_MILLION: Final = 1_000_000


class Clock:
    """`drift` is in parts per million; times are integer nanoseconds."""

    __slots__ = ("_base", "_drift", "_since")

    def __init__(self, drift: int = 0, base: int = 0, since: int = 0) -> None:
        assert drift > -_MILLION, "a clock that stands still fires no timer"
        self._drift = drift
        self._base = base  # what it shows at `since`
        self._since = since  # time of the world

    def read(self, time: int) -> int:
        """What this clock shows at a time of the world."""
        elapsed = time - self._since
        return self._base + elapsed + elapsed * self._drift // _MILLION

    def jump(self, time: int, by: int) -> None:
        """From now on it shows `by` more, as after a suspended machine woke up."""
        self._base, self._since = self.read(time) + by, time

    def when(self, shown: int) -> int:
        """The first time of the world at which this clock shows at least `shown`."""
        wanted = shown - self._base
        time = self._since + wanted * _MILLION // (_MILLION + self._drift)
        while self.read(time) < shown:
            time += 1
        return time
