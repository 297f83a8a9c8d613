"""Conflicts: two bodies under one number of a publisher. The first is kept, the second is refused and reported."""

from functools import partial

from stentor.machine import Report, Scanned
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.wire.block import Block


class Conflicts:
    """Those of one topic at one repository, as its store finds them."""

    def __init__(self, topic: str, store: EventLog, feeds: SubscriberFeeds) -> None:
        self._topic, self._log, self._feeds = topic, store, feeds

    def tell(self) -> None:
        """Report conflicts, and read the records of which it is not known whether they are some."""
        suspects, self._log.suspects = self._log.suspects, []
        for sequence, block in suspects:
            self._feeds.scan(partial(self._confront, block), sequence, 1)
        clashes, self._log.clashes = self._log.clashes, []
        for line in clashes:
            what = "two bodies under one number: the second is refused"
            details = {"publisher": line.publisher, "incarnation": line.incarnation, "number": line.first}
            self._feeds.effects.append(Report("error", what, {"topic": self._topic, **details}))

    def _confront(self, block: Block, now: int, scanned: Scanned) -> None:  # noqa: ARG002
        for record in scanned.records[:1]:
            self._log.confront(record, block)
