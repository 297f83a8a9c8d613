"""Conflicts: two bodies under one number of a publisher. The first is kept, the second is refused and reported."""

from functools import partial

from stentor.machine import Report, Scanned
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.store import Store
from stentor.wire.block import Block


class Conflicts:
    """Those of one topic at one repository, as its store finds them."""

    def __init__(self, topic: str, store: Store, dispatch: Dispatch) -> None:
        self._topic, self._store, self._dispatch = topic, store, dispatch

    def tell(self) -> None:
        """Report conflicts, and read the records of which it is not known whether they are some."""
        suspects, self._store.suspects = self._store.suspects, []
        for sequence, block in suspects:
            self._dispatch.scan(partial(self._confront, block), sequence, 1)
        clashes, self._store.clashes = self._store.clashes, []
        for line in clashes:
            what = "two bodies under one number: the second is refused"
            details = {"publisher": line.publisher, "incarnation": line.incarnation, "number": line.first}
            self._dispatch.effects.append(Report("error", what, {"topic": self._topic, **details}))

    def _confront(self, block: Block, now: int, scanned: Scanned) -> None:  # noqa: ARG002
        for record in scanned.records[:1]:
            self._store.confront(record, block)
