"""What a repository reads from its ledger and from the lake, and what for. `TopicRepository` hands what was found to
the part that asked for it.
"""

import msgspec

from stentor.machine import Recall, Scan, Step
from stentor.model.control import Recovery
from stentor.model.stored.position import Position
from stentor.model.stored.reading import PageRequest, StockRequest
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.repository.serving.subscriber_cursor import SubscriberCursor
from stentor.wire.block import Block

_SCAN = 1 << 20  # bytes read at once


class LoadTail(msgspec.Struct, frozen=True):
    """The newest records, which no subscriber was shown before the ledger was closed."""


class FeedCursor(msgspec.Struct, frozen=True):
    """Records of which a subscriber is to be told."""

    cursor: SubscriberCursor


class ResendWanted(msgspec.Struct, frozen=True):
    """Records that a subscriber asked for again."""

    cursor: SubscriberCursor


class AnswerPeer(msgspec.Struct, frozen=True):
    """Records that another repository lacks."""

    peer: str
    wanted: dict[StreamId, Spans]


class VerifyRecords(msgspec.Struct, frozen=True):
    """Records that are read to see whether they can be, because these repositories leave."""

    leaving: frozenset[str]


class WeighRecords(msgspec.Struct, frozen=True):
    """The oldest records, which may be forgotten."""


class CompareBlock(msgspec.Struct, frozen=True):
    """The record under whose numbers a second body may have come."""

    block: Block


class FillPage(msgspec.Struct, frozen=True):
    """Records for a page of stored events."""

    request: PageRequest
    wanted: Position


class NewSubscriber(msgspec.Struct, frozen=True):
    """A subscriber that is registered once it is known where it begins."""

    inbox: str
    event: Recovery
    where: str


class StartSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A search for what lies before a place: the first number of each stream that is found from there on."""

    then: NewSubscriber | StockRequest
    tops: dict[StreamId, int]  # Up to where each stream is in the ledger.
    seen: dict[StreamId, int]  # Invariant: the streams in it are in `tops`, or came later.
    first: int
    time: int = 0  # The search begins with the first record of this time, if it does not begin with `first`.
    lake_time: int = 0  # Afterwards the lake is asked for the first numbers of this time; 0 if it is not.


class LakeSearch(msgspec.Struct, frozen=True):
    """The same search in the lake; the numbers before those that the ledger has of each stream."""

    then: NewSubscriber | StockRequest
    before: dict[StreamId, int]


PartPurpose = (
    FeedCursor | ResendWanted | AnswerPeer | VerifyRecords | WeighRecords | CompareBlock | FillPage | StartSearch
)
ScanPurpose = LoadTail | PartPurpose
RecallPurpose = LakeSearch | PageRequest


class LedgerReads:
    """The reads of one topic that are under way, by token."""

    def __init__(self, topic: str, step: Step) -> None:
        self._topic, self._step = topic, step
        # Invariant: no token in either is greater than `token`, and none is in both.
        self.scans: dict[int, ScanPurpose] = {}
        self.recalls: dict[int, RecallPurpose] = {}
        self.token = 0  # the last one

    def scan(self, purpose: ScanPurpose, first: int, budget: int = _SCAN, time: int = 0) -> int:
        """Read from the ledger; return the token under which what is found will come."""
        self.token += 1
        self.scans[self.token] = purpose
        self._step.emit(Scan(self._topic, self.token, first, budget, time))
        return self.token

    def recall(self, purpose: RecallPurpose, wanted: Position, budget: int = 0, time: int = 0) -> None:
        """Read from the lake."""
        self.token += 1
        self.recalls[self.token] = purpose
        self._step.emit(Recall(self._topic, self.token, wanted, budget, time))

    def take_scan(self, token: int) -> ScanPurpose | None:
        return self.scans.pop(token, None)

    def take_recall(self, token: int) -> RecallPurpose:
        return self.recalls.pop(token)

    def skip(self, upto: int) -> None:
        """Use no token up to this one: it belongs to a machine that failed."""
        self.token = max(self.token, upto)
