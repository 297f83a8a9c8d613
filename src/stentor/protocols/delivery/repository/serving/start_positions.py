"""Start positions: from where on a new subscriber gets events, in numbers of streams: a frontier.

An epoch is a sequence number of one repository. Another one translates it by its repository table, which may lack some
of what that repository said: then the subscriber begins earlier than it asked, and never later.
"""

from collections.abc import Callable

from stentor.machine import Recalled, Report, Scanned
from stentor.model.epoch import Epoch
from stentor.model.errors import Refusal, Refused
from stentor.model.position import Position
from stentor.model.record import StreamId
from stentor.model.span import Spans
from stentor.protocols.delivery.replication.bundle import Bundle, PeerRepository
from stentor.protocols.delivery.repository.registry import Frontier
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.settings import RepositorySettings


class StartPositions:
    """Finds them in one repository's ledger, and in its repository table."""

    def __init__(
        self, topic: str, settings: RepositorySettings, store: EventLog, feeds: SubscriberFeeds, bundle: Bundle
    ) -> None:
        self._topic, self._own, self._lake = topic, settings.name, settings.lake  # what is forgotten is in the lake
        self._log, self._feeds, self._bundle = store, feeds, bundle

    def locate(self, now: int, since: str, then: Callable[[int, Frontier], None]) -> None:
        """Go on with all that lies before `since`."""
        kind, _, number = since.partition(" ")
        epoch = Epoch.parse(number) if kind == "epoch" else None
        if epoch is not None:
            self._check(epoch)
            if epoch.repository in ("", self._own):
                self._search(self._tops(), {}, epoch.number, 0, then)
            else:
                then(now, self._translate(epoch))
        elif kind == "time" and number.lstrip("-").isdigit():
            time = int(number)
            if time and self._lake:
                then = self._in_lake(time, then)
            self._search(self._tops(), {}, 0, time, then)
        elif kind in ("now", "beginning") and not number:
            then(now, self._log.streams.tops() if kind == "now" else ())
        else:
            raise Refused(Refusal.PROTOCOL, f"{since!r} is no beginning: now, beginning, epoch R:N or time N")

    def _tops(self) -> dict[StreamId, int]:
        """Up to where each stream is in the ledger: what waits to be written would not be found there."""
        return {key: stream.settled(1, ()) for key, stream in self._log.streams.items()}

    # ---- epochs

    def _check(self, epoch: Epoch) -> None:
        """Refuse a number that may be anybody's, and one of a repository that we do not know so far."""
        names = sorted([self._own, *(peer.name for peer in self._bundle.peers.values())])
        if not epoch.repository and len(names) > 1:
            raise Refused(
                Refusal.PROTOCOL,
                f"{epoch} is a number of which repository? {self._topic} is on {', '.join(names)}, and each has its "
                f"own numbers: write {names[0]}:{epoch}",
            )
        if epoch.repository in ("", self._own):
            if epoch.number > self._log.next:
                raise Refused(
                    Refusal.PROTOCOL, f"{epoch} is none yet: the next number of {self._own} is {self._log.next}"
                )
            return
        peer = self._bundle.peers.get(epoch.repository)
        if peer is None:
            raise Refused(Refusal.PROTOCOL, f"{epoch.repository} is no repository of {self._topic}: {', '.join(names)}")
        if (not peer.lines or epoch.number < peer.oldest) and self._has_gaps(peer):
            knows = f"those from {peer.oldest} to {peer.lines[-1].end}" if peer.lines else "none"
            raise Refused(
                Refusal.PROTOCOL,
                f"{self._own} cannot translate {epoch}: of the numbers of {epoch.repository} it knows {knows}",
            )

    def _has_gaps(self, peer: PeerRepository) -> bool:
        """Whether another one has something that is not forgotten here, and we do not know under which number."""
        numbered: dict[StreamId, Spans] = {}
        for line in peer.lines:
            numbered.setdefault(line.stream, Spans()).add(line.first, line.last)
        theirs = {key: stream.peer_stored.get(peer.name, Spans()) for key, stream in self._log.streams.items()}
        return any(
            numbered.get(key, Spans()).missing(*span)
            for key, spans in theirs.items()
            for span in spans.within(self._log.streams[key].floor + 1, spans.last)
        )

    def _translate(self, epoch: Epoch) -> Frontier:
        """Return what another repository is known to have stored before an epoch."""
        before: dict[StreamId, int] = {}
        behind: dict[StreamId, int] = {}
        for line in self._bundle.peers[epoch.repository].lines:
            last = min(line.last, line.first + epoch.number - 1 - line.sequence)
            if last >= line.first:
                before[line.stream] = max(before.get(line.stream, 0), last)
            if last < line.last:  # something came late: it may have a lower number than what was before
                start = max(line.first, last + 1)
                behind[line.stream] = min(behind.get(line.stream, start), start)
        ends = {key: min(last, behind.get(key, last + 1) - 1) for key, last in before.items()}
        return tuple((*key, last) for key, last in sorted(ends.items()) if last)

    # ---- times, and our own numbers

    def _in_lake(self, time: int, then: Callable[[int, Frontier], None]) -> Callable[[int, Frontier], None]:
        """Go on when the lake has been asked too."""

        def look(now: int, frontier: Frontier) -> None:  # noqa: ARG001
            before = {(publisher, incarnation): number for publisher, incarnation, number in frontier}

            def found(now: int, recalled: Recalled) -> None:
                if recalled.reason:
                    details: dict[str, str | int | float] = {"topic": recalled.ledger, "reason": recalled.reason}
                    self._feeds.effects.append(Report("warning", "a beginning is not looked for in the lake", details))
                for key, spans in recalled.found.streams.items():
                    before[key] = min(before.get(key, spans.first - 1), spans.first - 1)
                then(now, tuple((*key, number) for key, number in sorted(before.items()) if number > 0))

            self._feeds.recall(found, Position(), time=time)

        return look

    def _search(
        self,
        tops: dict[StreamId, int],
        seen: dict[StreamId, int],
        first: int,
        time: int,
        then: Callable[[int, Frontier], None],
    ) -> None:
        """Read from a place on, and note the first number of each stream: a frontier is what lies before these. What is
        damaged counts as well, since another repository may mend it. If nothing can be read, there is no answer, and
        the subscriber asks again.
        """

        def found(now: int, scanned: Scanned) -> None:
            if scanned.reason:
                return
            lines = sorted([*(record.line for record in scanned.records), *scanned.damaged])
            for line in lines:
                if line.publisher:
                    start = max(first - line.sequence, 0)
                    seen.setdefault(line.stream, line.first + start)
            end = lines[-1].end + 1 if lines else self._log.next
            if end < self._log.next and len(seen) < len(tops):
                self._search(tops, seen, end, 0, then)
            else:
                frontier = {key: seen[key] - 1 if key in seen else top for key, top in tops.items()}
                then(now, tuple((*key, number) for key, number in sorted(frontier.items()) if number > 0))

        self._feeds.scan(found, first, time=time)
