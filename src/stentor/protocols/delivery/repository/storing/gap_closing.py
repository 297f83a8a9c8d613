"""Gap closing: numbers that a publisher has used and nobody has. They become void, so that others do not wait behind
them.

Numbers that were acknowledged become void only if every member of the bundle is here and none has them, or if somebody
accepts their loss. Until then this repository steers nobody: a subscriber would get what follows them first.
"""

from stentor.machine import Report
from stentor.model.control import GossipVoid, RepositoryAck, RepositoryNak, StreamRanges
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.repository.registry import Registry
from stentor.protocols.delivery.repository.service import Change
from stentor.protocols.delivery.repository.serving.admission import Admission
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.egress_hold import EgressHold
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.settings import RepositorySettings

_MOST_MISSING = 64  # spans that a publisher is asked for at once


class GapClosing:
    """Asks for those of one topic at one repository, and closes those that nobody can fill."""

    def __init__(
        self,
        topic: str,
        settings: RepositorySettings,
        store: EventLog,
        registry: Registry,
        feeds: SubscriberFeeds,
        gossip: Gossip,
        admission: Admission,
        egress: EgressHold,
        lives: PublisherLives,
    ) -> None:
        self._topic, self._settings = topic, settings
        self._log, self._registry, self._feeds = store, registry, feeds
        self._gossip, self._admission, self._egress, self._lives = gossip, admission, egress, lives
        gossip.awaits = lives.is_waiting

    def acknowledge(self, stream: PublisherStream, copies: int) -> None:
        """Tell the publisher that we steer up to where its events are stored."""
        publisher = self._admission.publishers.get(stream.id[0])
        if publisher is None or publisher.incarnation != stream.id[1]:
            return
        mates = self._gossip.bundle.same_unit_peers
        upto = stream.owed(copies, mates)
        selective = bool(self._settings.unit)
        counts = tuple(stream.replicated_upto(number, mates, selective) for number in range(1, len(mates) + 2))
        said = (upto, *counts)
        if upto and said != publisher.acknowledged:
            publisher.acknowledged = said
            singles = stream.singles(upto) if copies == 1 else ()
            ack = RepositoryAck(self._topic, self._settings.name, stream.id[1], upto, singles, counts)
            self._admission.say(publisher.inbox, ack)

    def ask(self, now: int) -> bool:
        """Ask the publishers that we steer for what they have sent and we have not; return whether there is any."""
        busy = False
        for number, publisher in self._admission.publishers.items():
            stream = self._log.streams.get((number, publisher.incarnation))
            if stream is None or not (missing := stream.asked_for):
                continue
            busy = True
            overdue = stream.overdue(missing, now - self._settings.patience)
            if overdue and now - stream.asked_at >= self._settings.again:
                stream.asked_at = now
                spans = tuple(overdue[:_MOST_MISSING])
                nak = RepositoryNak(self._topic, self._settings.name, publisher.incarnation, spans)
                self._admission.say(publisher.inbox, nak)
        return busy

    def tick(self, now: int) -> None:
        """Close the gaps of publishers that are silent, or do not have what is missing: others wait behind them. Send
        clients away if something that was acknowledged is at none of those that live.
        """
        heard = self._gossip.membership.heard(now)
        is_behind = self._lives.unknown.is_waiting(now, longer_than=self._settings.void_after)
        for stream in list(self._log.streams.unsettled):
            missing = stream.missing
            if not missing or any(stream.wanted_from(peer.name) for peer in heard):
                continue  # somebody has it: it will come
            awaited = [] if self._registry.terms.open else self._lives.awaited(stream)
            is_behind |= self._is_overdue(now, stream, awaited) and not self._gossip.membership.is_here(now)
            if hopeless := self._expired_gaps(now, stream, missing, awaited):
                self._give_up(stream, hopeless, "debug" if self._registry.terms.open else "warning")
        if is_behind and self._gossip.ready:
            self._gossip.service.change(Change.FELL_BEHIND)
            details: dict[str, str | int | float] = {"topic": self._topic}
            self._feeds.effects.append(Report("error", "events are missing that were acknowledged", details))
            self._admission.dismiss()

    def accept_loss(self, now: int) -> tuple[StreamRanges, ...]:
        """Give up what holds up readiness and none of those that are heard can send, durably and at the other
        repositories; return what that is. Lives of which nothing is known here are among it, without numbers.
        """
        heard = self._gossip.membership.heard(now)
        found: list[StreamRanges] = []
        for stream in list(self._log.streams.unsettled):
            offered = [span for peer in heard for span in stream.offered_by(peer.name)]
            if awaited := _rest_of(self._lives.awaited(stream), offered):
                self._log.set_aside(stream, awaited[-1][1])  # so that it is written down that these are void
                found.append(self._give_up(stream, awaited, "error"))
        return (*found, *self._lives.unknown.accept_loss())

    def _give_up(self, stream: PublisherStream, spans: list[Span], level: str) -> StreamRanges:
        voided = StreamRanges(*stream.id, 0, tuple(self._log.void(stream, spans)))
        known = self._registry.publishers.get(stream.id[0])
        details: dict[str, str | int | float] = {"topic": self._topic, "publisher": known.name if known else ""}
        self._feeds.effects.append(Report(level, "a gap is closed", {**details, "events": _size(voided)}))
        self._gossip.say(GossipVoid(self._topic, self._settings.name, (voided,)))
        self._gossip.touched[stream] = self._gossip.changed[stream] = None
        return voided

    def _is_overdue(self, now: int, stream: PublisherStream, awaited: list[Span]) -> bool:
        """Whether what was acknowledged has been waited for long enough."""
        stream.lost = (stream.lost or now) if awaited else 0
        soon = self._settings.void_anew if self._gossip.membership.is_here(now) else self._settings.void_after
        return bool(awaited) and now - max(stream.lost, self._gossip.membership.turn(now)) >= soon

    def _expired_gaps(self, now: int, stream: PublisherStream, missing: list[Span], awaited: list[Span]) -> list[Span]:
        """What is missing of a stream and has been waited for long enough."""
        settings, membership = self._settings, self._gossip.membership
        if self._registry.terms.open:
            return missing  # what was sent after it is here, and nobody sends it again
        missing = stream.undamaged(missing)
        if self._egress.waits(self._gossip.bundle.peers.values(), self._gossip.living(now)):
            return []
        everyone = membership.is_here(now)
        hopeless = awaited if everyone and self._is_overdue(now, stream, awaited) else []
        silence = now - max(stream.publisher_heard_at, stream.changed_at, membership.turn(now))
        anew = everyone and not self._registry.is_current(*stream.id)  # one that is away may have it
        if membership.since and silence >= (settings.void_anew if anew else settings.void_after):
            hopeless = hopeless + _rest_of(missing, awaited)
        return hopeless


def _size(held: StreamRanges) -> int:
    return sum(last - first + 1 for first, last in held.spans)


def _rest_of(spans: list[Span], without: list[Span]) -> list[Span]:
    """Return what of these spans is not in the others."""
    others = Spans(without)
    return [rest for span in spans for rest in others.missing(*span)]
