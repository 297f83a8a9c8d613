"""Beginnings: from where on a new subscriber gets events, in numbers of streams: a frontier."""

from collections.abc import Callable

from stentor.machine import Recalled, Report, Scanned
from stentor.model.errors import Refusal, Refused
from stentor.model.position import Position
from stentor.model.record import StreamId
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.registry import Frontier
from stentor.protocols.delivery.store import Store


class Beginnings:
    """Finds them in one repository's ledger."""

    def __init__(self, store: Store, dispatch: Dispatch, lake: bool) -> None:
        """With a `lake`, what is forgotten counts too."""
        self._store, self._dispatch, self._lake = store, dispatch, lake

    def locate(self, now: int, since: str, then: Callable[[int, Frontier], None]) -> None:
        """Go on with all that lies before `since`."""
        kind, _, number = since.partition(" ")
        if kind in ("epoch", "time") and number.lstrip("-").isdigit():
            tops = {key: stream.top for key, stream in self._store.streams.items()}
            first, time = (int(number), 0) if kind == "epoch" else (0, int(number))
            if time and self._lake:
                then = self._in_lake(time, then)
            self._search(tops, {}, first, time, then)
        elif kind in ("now", "beginning") and not number:
            then(now, self._store.tops() if kind == "now" else ())
        else:
            raise Refused(Refusal.PROTOCOL, f"{since!r} is no beginning: now, beginning, epoch N or time N")

    def _in_lake(self, time: int, then: Callable[[int, Frontier], None]) -> Callable[[int, Frontier], None]:
        """Go on when the lake has been asked too."""

        def look(now: int, frontier: Frontier) -> None:  # noqa: ARG001
            before = {(publisher, incarnation): number for publisher, incarnation, number in frontier}

            def found(now: int, recalled: Recalled) -> None:
                if recalled.reason:
                    details: dict[str, str | int | float] = {"topic": recalled.ledger, "reason": recalled.reason}
                    self._dispatch.effects.append(
                        Report("warning", "a beginning is not looked for in the lake", details)
                    )
                for key, spans in recalled.found.streams.items():
                    before[key] = min(before.get(key, spans.first - 1), spans.first - 1)
                then(now, tuple((*key, number) for key, number in sorted(before.items()) if number > 0))

            self._dispatch.recall(found, Position(), time=time)

        return look

    def _search(
        self,
        tops: dict[StreamId, int],
        seen: dict[StreamId, int],
        first: int,
        time: int,
        then: Callable[[int, Frontier], None],
    ) -> None:
        """Read from a place on, and note the first number of each stream: a frontier is what lies before these."""

        def found(now: int, scanned: Scanned) -> None:
            for record in scanned.records:
                if record.line.publisher:
                    start = max(first - record.line.sequence, 0)
                    seen.setdefault(record.line.stream, record.line.first + start)
            end = scanned.records[-1].line.end + 1 if scanned.records else self._store.next
            if end < self._store.next and len(seen) < len(tops):
                self._search(tops, seen, end, 0, then)
            else:
                frontier = {key: seen[key] - 1 if key in seen else top for key, top in tops.items()}
                then(now, tuple((*key, number) for key, number in sorted(frontier.items()) if number > 0))

        self._dispatch.scan(found, first, time=time)
