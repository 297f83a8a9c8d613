"""Start positions: from where on a new subscriber gets events, in numbers of streams: a frontier.

An epoch is a sequence number of one repository. Another one translates it by its repository table, which may lack some
of what that repository said: then the subscriber begins earlier than it asked, and never later.
"""

import msgspec

from stentor.machine import Recalled, Scanned
from stentor.model.errors import Refusal, Refused
from stentor.model.stored.epoch import Epoch
from stentor.model.stored.position import Position
from stentor.model.stored.reading import StockRequest
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.repository.ledger_reads import LakeSearch, NewSubscriber, StartSearch
from stentor.protocols.delivery.repository.registry import Frontier
from stentor.protocols.delivery.repository.topic_state import TopicState


class StartPositions:
    """Finds them in one repository's ledger, and in its repository table."""

    def __init__(self, state: TopicState) -> None:
        self._state, self._reads = state, state.reads
        self._topic, self._own = state.topic, state.settings.name
        self._log, self._bundle = state.log, state.bundle

    def locate(self, since: str, then: NewSubscriber | StockRequest) -> Frontier | None:
        """Return all that lies before `since`; None if it is looked for, and comes with what it is for."""
        kind, _, number = since.partition(" ")
        epoch = Epoch.parse(number) if kind == "epoch" else None
        if epoch is not None:
            self._check(epoch)
            if epoch.repository in ("", self._own):
                self._search(StartSearch(then=then, tops=self._tops(), seen={}, first=epoch.number))
                return None
            return self._translate(epoch)
        if kind == "time" and number.lstrip("-").isdigit():
            time = int(number)
            lake_time = time if self._state.settings.lake else 0  # what is forgotten is in the lake
            self._search(StartSearch(then=then, tops=self._tops(), seen={}, first=0, time=time, lake_time=lake_time))
            return None
        if kind in ("now", "beginning") and not number:
            return self._log.streams.tops() if kind == "now" else ()
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

    def _search(self, search: StartSearch) -> None:
        self._reads.scan(search, search.first, time=search.time)

    def on_scanned(self, search: StartSearch, scanned: Scanned) -> Frontier | None:
        """Note the first number of each stream: what lies before these is the frontier. Return it, or None if the
        search goes on. What is damaged counts as well, since another repository may mend it. If nothing can be read,
        there is no answer, and the subscriber asks again.
        """
        if scanned.reason:
            return None
        seen, tops = search.seen, search.tops
        lines = sorted([*(record.line for record in scanned.records), *scanned.damaged])
        for line in lines:
            if line.publisher:
                seen.setdefault(line.stream, line.first + max(search.first - line.sequence, 0))
        end = lines[-1].end + 1 if lines else self._log.next
        if end < self._log.next and len(seen) < len(tops):
            self._search(msgspec.structs.replace(search, first=end, time=0))
            return None
        before = {key: seen.get(key, top + 1) - 1 for key, top in tops.items()}
        if search.lake_time:
            known = {key: number for key, number in before.items() if number > 0}
            self._reads.recall(LakeSearch(search.then, known), Position(), time=search.lake_time)
            return None
        return _frontier(before)

    def on_recalled(self, search: LakeSearch, recalled: Recalled) -> Frontier:
        """Return the frontier, after the lake was looked at, too."""
        if recalled.reason:
            self._state.report("warning", "a beginning is not looked for in the lake", reason=recalled.reason)
        before = search.before
        for key, spans in recalled.found.streams.items():
            before[key] = min(before.get(key, spans.first - 1), spans.first - 1)
        return _frontier(before)


def _frontier(before: dict[StreamId, int]) -> Frontier:
    return tuple((*key, number) for key, number in sorted(before.items()) if number > 0)
