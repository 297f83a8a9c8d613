"""What a subscription was told to be lost: damaged, and given up by an operator."""

from typing import NamedTuple

from stentor.model.stored.position import Position
from stentor.protocols.delivery.endpoint_api import ReportLoss


class LostEvents(NamedTuple):
    """Events of one life of a publisher, from one number to another, that were stored and are lost."""

    publisher: str  # its id, as events have it
    incarnation: int
    first: int
    last: int
    name: str = ""  # the publisher's, if its repository knows it


class Losses:
    """Those of one subscription."""

    def __init__(self) -> None:
        self._lost = Position()
        self._names: dict[int, str] = {}  # of publishers

    def learn(self, report: ReportLoss) -> list[LostEvents]:
        """Return what is new in a report: the same may be reported again."""
        news = Position.of(report.lost).minus(self._lost)
        self._lost = self._lost.plus(news)
        named = zip(report.lost, report.lost_by, strict=False)  # older repositories name nobody
        self._names |= {held.publisher: name for held, name in named if name}
        return self._listed(news)

    def listed(self) -> list[LostEvents]:
        return self._listed(self._lost)

    def _listed(self, lost: Position) -> list[LostEvents]:
        return [
            LostEvents(f"{publisher:016x}", life, *span, self._names.get(publisher, ""))
            for (publisher, life), spans in sorted(lost.streams.items())
            for span in spans
        ]
