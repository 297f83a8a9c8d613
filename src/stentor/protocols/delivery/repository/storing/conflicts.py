"""Conflicts: two bodies under one number of a publisher. The first is kept, the second is refused and reported."""

from stentor.machine import Scanned
from stentor.protocols.delivery.repository.ledger_reads import CompareBlock
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.wire.block import Block


class Conflicts:
    """Those of one topic at one repository, as its log finds them."""

    def __init__(self, state: TopicState) -> None:
        self._state = state

    def tell(self) -> None:
        """Report conflicts, and read the records of which it is not known whether they are some."""
        suspects, clashes = self._state.log.take_conflicts()
        for sequence, block in suspects:
            self._state.reads.scan(CompareBlock(block), sequence, 1)
        for line in clashes:
            self._state.report(
                "error",
                "two bodies under one number: the second is refused",
                publisher=line.publisher,
                incarnation=line.incarnation,
                number=line.first,
            )

    def on_scanned(self, block: Block, scanned: Scanned) -> None:
        """Compare a block with the record under whose numbers it came."""
        for record in scanned.records[:1]:
            self._state.log.confront(record, block)
