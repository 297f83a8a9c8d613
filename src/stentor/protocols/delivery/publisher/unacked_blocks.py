"""What a publisher has sent and keeps until it is acknowledged."""

from collections.abc import Iterable

from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.ordered_queue import OrderedQueue
from stentor.wire.block import Block


class _Sent:
    __slots__ = ("block", "first", "last")

    def __init__(self, block: Block) -> None:
        self.block: Block | None = block  # None: acknowledged before others that went before it
        self.first = int(block.catenation)
        self.last = int(block.last())


class UnackedBlocks:
    """Frames with the catenation numbers of one stream: 1, 2, 3 … or those that follow where an earlier life was.

    Invariants: `upto` ≤ `last`; the numbers of `singles` are above `upto` and not beyond `last`; `size` is the sum of
    the sizes of the frames that are kept.
    """

    def __init__(self, after: int = 0) -> None:
        self._sent: OrderedQueue[_Sent] = OrderedQueue()
        self.singles = Spans()  # acknowledged, although something before them is not
        self.upto = after  # all up to this number is acknowledged
        self.last = after  # the last number that was sent
        self.size = 0  # bytes that are kept

    @property
    def events(self) -> int:
        """How many are not acknowledged, or come after one that is not."""
        return self.last - self.upto

    def add(self, block: Block) -> None:
        sent = _Sent(block)
        assert sent.first == self.last + 1, "no number is left out or used twice"
        self._sent.add(sent.first, sent)
        self.last = sent.last
        self.size += len(block.frame)

    def acknowledge(self, upto: int, singles: Iterable[Span]) -> bool:
        """Forget what is acknowledged; return whether that is news."""
        known, size = self.upto, self.size
        self.upto = max(known, min(upto, self.last))
        while len(self._sent) and self._sent.front.last <= self.upto:
            self._free(self._sent.take())
        for first, last in singles:
            self._acknowledge_single(max(first, self.upto + 1), min(last, self.last))
        if len(self._sent) and self.singles.covers(self.upto + 1, self._sent.front.last):
            self._free(self._sent.front)
        self.singles.remove(1, self.upto)
        return self.upto > known or self.size < size

    def _acknowledge_single(self, first: int, last: int) -> None:
        if last < first or self.singles.covers(first, last):
            return
        self.singles.add(first, last)
        for sent in self._sent.since(first):
            if sent.first > last:
                break
            if self.singles.covers(max(sent.first, self.upto + 1), sent.last):
                self._free(sent)

    def _free(self, sent: _Sent) -> None:
        if sent.block is not None:
            self.size -= len(sent.block.frame)
            sent.block = None

    def overlapping(self, spans: Iterable[Span]) -> list[Block]:
        """Return the frames, each once and in order, that hold any of these numbers and are not acknowledged."""
        found: dict[int, Block] = {}
        for first, last in spans:
            for sent in self._sent.since(first):
                if sent.first > last:
                    break
                if sent.last >= first and sent.block is not None:
                    found[sent.first] = sent.block
        return [found[first] for first in sorted(found)]
