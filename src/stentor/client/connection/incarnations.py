"""Incarnations: the numbers of the lives of clients, which grow from life to life."""

import secrets
import threading
import time

from stentor.model.ids import LIFE_BITS, Incarnation, incarnation_at


class _Births:
    """Of lives in this process, each is newer than those before it, also within a millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest = 0

    def next(self) -> int:
        drawn = incarnation_at(time.time_ns()) | secrets.randbits(LIFE_BITS)
        with self._lock:
            self._newest = max(drawn, self._newest + 1)
            return self._newest


_births = _Births()


def draw_incarnation() -> Incarnation:
    """Return the incarnation of a life that begins now."""
    return Incarnation(_births.next())
