"""Who draws what damage leaves in a broker's memory."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Draw(Protocol):
    """Random numbers; `random.Random` has them."""

    def random(self) -> float: ...
    def randrange(self, stop: int, /) -> int: ...
    def choice(self, seq: Sequence[T], /) -> T: ...
