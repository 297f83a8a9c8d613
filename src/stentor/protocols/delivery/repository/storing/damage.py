"""Damage: events that a repository had durably and cannot read any more.

They are set aside like all that is missing, and come back from another repository, or from their publisher if it still
has them. Until then this is an error that is shown, nobody gives them up, and readers stop in front of them. If nobody
has them any more, an operator accepts that they are lost: then readers pass them, and are told so.
"""

from collections.abc import Iterator

from stentor.machine import Scanned
from stentor.model.control import GossipVoid, StreamRanges
from stentor.model.errors import Refusal, Refused
from stentor.model.reports.report import DamageReport
from stentor.model.stored.span import Span
from stentor.model.wording.count import counted
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState

_MOST_SHOWN = 3  # stretches that one line names


class Damage:
    """That of one topic at one repository."""

    def __init__(self, state: TopicState, feeds: SubscriberFeeds, gossip: Gossip) -> None:
        self._state, self._log = state, state.log
        self._feeds, self._gossip = feeds, gossip
        self._streams: dict[PublisherStream, None] = {}  # of which something was damaged when somebody last looked
        self._told = 0  # events that readers were told to be lost
        self.unreadable = ""  # why the ledger could not be read when that was last tried

    def find(self) -> None:
        """Notice what the ledger held, or did not hold, when it was opened."""
        for stream in self._log.streams.values():
            if stream.damaged:
                self.notice(stream)
        if self._log.unknown:
            self._state.report("error", "a stored record is damaged", numbers=_shown(self._log.unknown.pairs()))

    def notice(self, stream: PublisherStream) -> None:
        """Say that records of a stream are damaged: to the log, and to the bundle, which must not count on them."""
        self._streams[stream] = None
        self._gossip.lost(stream)
        what = "a stored record is damaged"
        self._state.report("error", what, publisher=self._name(stream), numbers=_shown(stream.damaged.pairs()))

    def on_scanned(self, scanned: Scanned) -> None:
        """Take note of what could not be read."""
        lost = [line for line in scanned.damaged if self._log.lose(line)]
        for key in dict.fromkeys(line.stream for line in lost if line.publisher):
            self.notice(self._log.streams[key])
        if scanned.reason and not self.unreadable:
            self._state.report("error", "a ledger cannot be read", reason=scanned.reason)
        self.unreadable = scanned.reason

    def tell_losses(self) -> None:
        """If something was given up, here or elsewhere, readers are told so before they are told of what follows it."""
        if not self._log.losses:
            self._told = 0
            return
        lost = sum(len(stream.written_off) for stream in self._log.losses)
        if lost > self._told:
            self._feeds.retry_stalled()
            for cursor in self._feeds.cursors.values():
                self._feeds.report_losses(cursor)
        self._told = lost

    def tick(self) -> None:
        """See what is mended by now."""
        for stream in [stream for stream in self._streams if not stream.damaged]:
            del self._streams[stream]
            self._feeds.retry_stalled()
            self._state.report("info", "damage is mended, or nobody needs it any more", publisher=self._name(stream))
        if self._log.unknown and self._is_complete:
            self._log.write_off()  # whatever it was, it is here again under other numbers

    @property
    def _is_complete(self) -> bool:
        """Whether all numbers of all streams are here, and others who store all have no more."""
        others = [peer.name for peer in self._gossip.membership.living if not peer.unit and peer.told]
        streams = self._log.streams.values()
        wants = any(stream.holes or any(map(stream.wanted_from, others)) for stream in streams)
        return bool(others) and not wants

    @property
    def is_found(self) -> bool:
        """Whether something is damaged that nobody has mended or accepted."""
        return bool(self._log.unknown) or any(stream.damaged for stream in self._streams)

    def reports(self) -> Iterator[DamageReport]:
        """What is damaged; whose sequence numbers are told nobody knows."""
        for stream in self._streams:
            if stream.damaged:
                yield DamageReport(self._name(stream), stream.id[1], stream.damaged.pairs())
        if self._log.unknown:
            yield DamageReport("", 0, self._log.unknown.pairs())

    @property
    def events(self) -> int:
        """How many events are damaged."""
        return sum(len(stream.damaged) for stream in self._streams) + len(self._log.unknown)

    @property
    def trouble(self) -> str:
        """What an operator should know and do; "" if nothing is wrong."""
        if self.unreadable or not self.is_found:
            return self.unreadable
        found = list(self.reports())
        count = self.events
        what = "; ".join(
            f"{_shown(each.numbers)} of {each.publisher}" if each.publisher else f"sequence {_shown(each.numbers)}"
            for each in found[:_MOST_SHOWN]
        )
        more = f" and {counted(len(found) - _MOST_SHOWN, 'more publisher')}" if len(found) > _MOST_SHOWN else ""
        return (
            f"{counted(count, 'damaged event')} ({what}{more}): whoever has not got them waits; start "
            "a repository that has them, or give them up with "
            f"`stentor repository accept-loss {self._state.settings.name} --topic {self._state.topic}`"
        )

    def accept(self) -> None:
        """Give up what is damaged, for all repositories of the topic. Raises Refused if that would be a mistake."""
        living = self._gossip.membership.living
        having = {peer.name for peer in living for stream in self._streams if self._can_mend(stream, peer.name)}
        if having:
            raise Refused(
                Refusal.BUSY, f"{', '.join(sorted(having))} can mend what is damaged: wait until it is, or ask again"
            )
        for stream in list(self._streams):
            lost = StreamRanges(*stream.id, 0, tuple(self._log.void(stream, stream.damaged.pairs(), lost=True)))
            what = "damaged events are given up"
            self._state.report("warning", what, publisher=self._name(stream), numbers=_shown(lost.spans))
            self._state.say(GossipVoid(self._state.topic, self._state.settings.name, voids=(lost,), lost=True))
            self._gossip.lost(stream)
            self._state.streams.touch(stream)
        self._streams.clear()
        if self._log.unknown:
            self._log.write_off()

    def _can_mend(self, stream: PublisherStream, peer: str) -> bool:
        return any(stream.damaged.within(*span) for span in stream.offered_by(peer))

    def _name(self, stream: PublisherStream) -> str:
        return self._state.registry.publisher_name(stream.id[0]) or f"{stream.id[0]:016x}"


def _shown(spans: tuple[Span, ...]) -> str:
    parts = [f"{first:,}" if first == last else f"{first:,} … {last:,}" for first, last in spans[:_MOST_SHOWN]]
    return ", ".join(parts) + (" …" if len(spans) > _MOST_SHOWN else "")
