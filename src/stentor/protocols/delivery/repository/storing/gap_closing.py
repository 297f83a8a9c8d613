"""Gap closing: numbers that a publisher has used and nobody has. They become void, so that others do not wait behind
them.

Numbers that were acknowledged become void only if every member of the bundle is here and none has them, or if somebody
accepts their loss; then readers are told that they are lost. Until then this repository steers nobody: a subscriber
would get what follows them first.
"""

from stentor.model.control import GossipVoid, RepositoryAck, RepositoryNak, StreamRanges
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.repository.service import ServiceChange
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.storing.egress_hold import EgressHold
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState

_MOST_MISSING = 64  # spans that a publisher is asked for at once


class GapClosing:
    """Asks for those of one topic at one repository, and closes those that nobody can fill."""

    def __init__(
        self, state: TopicState, gossip: Gossip, holders: NameHolders, egress: EgressHold, lives: PublisherLives
    ) -> None:
        self._state, self._step = state, state.step
        self._topic, self._settings = state.topic, state.settings
        self._log, self._registry = state.log, state.registry
        self._gossip, self._membership = gossip, gossip.membership
        self._holders, self._egress = holders, egress
        self._lives = lives

    def acknowledge(self, stream: PublisherStream, copies: int) -> None:
        """Tell the publisher that we steer up to where its events are stored."""
        publisher = self._holders.publishers.get(stream.id[0])
        if publisher is None or publisher.incarnation != stream.id[1]:
            return
        mates = self._state.bundle.same_unit_peers
        upto = stream.owed(copies, mates)
        selective = bool(self._settings.unit)
        counts = tuple(stream.replicated_upto(number, mates, selective) for number in range(1, len(mates) + 2))
        said = (upto, *counts)
        if upto and said != publisher.acknowledged:
            publisher.acknowledged = said
            singles = stream.singles(upto) if copies == 1 else ()
            ack = RepositoryAck(
                self._topic, self._settings.name, incarnation=stream.id[1], upto=upto, singles=singles, copies=counts
            )
            self._state.send(publisher.inbox, ack)

    def ask(self) -> bool:
        """Ask the publishers that we steer for what they have sent and we have not; return whether there is any."""
        now, busy = self._step.now, False
        for number, publisher in self._holders.publishers.items():
            stream = self._log.streams.get((number, publisher.incarnation))
            if stream is None or not (missing := stream.asked_for):
                continue
            busy = True
            overdue = stream.overdue(missing, now - self._settings.patience)
            if overdue and now - stream.asked_at >= self._settings.again:
                stream.asked_at = now
                spans = tuple(overdue[:_MOST_MISSING])
                nak = RepositoryNak(self._topic, self._settings.name, incarnation=publisher.incarnation, missing=spans)
                self._state.send(publisher.inbox, nak)
        return busy

    def tick(self) -> None:
        """Close the gaps of publishers that are silent, or do not have what is missing: others wait behind them. Send
        clients away if something that was acknowledged is at none of those that live.
        """
        heard = self._membership.heard
        is_behind = self._lives.unknown.is_waiting(longer_than=self._settings.void_after)
        for stream in list(self._log.streams.unsettled):
            missing = stream.missing
            if not missing or any(stream.wanted_from(peer.name) for peer in heard):
                continue  # somebody has it: it will come
            awaited = [] if self._registry.terms.open else self._lives.awaited(stream)
            self._state.register(self._lives.write_down(stream, awaited))
            is_overdue = self._is_overdue(stream, awaited)
            is_behind |= is_overdue and not self._membership.is_here
            if is_overdue and self._membership.is_here:
                self._write_off(stream, awaited)
            if hopeless := self._expired_gaps(stream, missing, awaited):
                self._give_up(stream, hopeless, "debug" if self._registry.terms.open else "warning", "a gap is closed")
        if is_behind and self._state.service.is_serving:
            self._state.service.change(ServiceChange.FELL_BEHIND)
            self._state.report("error", "events are missing that were acknowledged")
            self._holders.send_all_away()

    def note_acknowledged(self, stream: PublisherStream) -> None:
        """Write down what a publisher has just told us to be acknowledged, if nobody here can send it: a moment later
        we may be the only one that has heard of it.
        """
        if self._registry.terms.open or not stream.missing:
            return
        if not any(stream.wanted_from(peer.name) for peer in self._membership.heard):
            self._state.register(self._lives.write_down(stream, self._lives.awaited(stream)))

    def accept_loss(self) -> tuple[StreamRanges, ...]:
        """Give up what holds up readiness and none of those that are heard can send, durably and at the other
        repositories; return what that is. Lives of which nothing is known here are among it, without numbers.
        """
        heard = self._membership.heard
        found: list[StreamRanges] = []
        for stream in list(self._log.streams.unsettled):
            offered = [span for peer in heard for span in stream.offered_by(peer.name)]
            if awaited := _rest_of(self._lives.awaited(stream), offered):
                found.append(self._write_off(stream, awaited))
        return (*found, *self._lives.unknown.accept_loss())

    def _write_off(self, stream: PublisherStream, awaited: list[Span]) -> StreamRanges:
        """Give up what was acknowledged, and have readers told so."""
        self._log.set_aside(stream, awaited[-1][1])  # so that it is written down that these are lost
        return self._give_up(stream, awaited, "error", "acknowledged events are lost", lost=True)

    def _give_up(
        self, stream: PublisherStream, spans: list[Span], level: str, what: str, lost: bool = False
    ) -> StreamRanges:
        voided = StreamRanges(*stream.id, 0, tuple(self._log.void(stream, spans, lost=lost)))
        known = self._registry.publishers.get(stream.id[0])
        self._state.report(level, what, publisher=known.name if known else "", events=_size(voided))
        self._state.say(GossipVoid(self._topic, self._settings.name, voids=(voided,), lost=lost))
        self._state.streams.touch(stream)
        self._gossip.note_change(stream)
        return voided

    def _is_overdue(self, stream: PublisherStream, awaited: list[Span]) -> bool:
        """Whether what was acknowledged has been waited for long enough."""
        now = self._step.now
        stream.lost = (stream.lost or now) if awaited else 0
        soon = self._settings.void_anew if self._membership.is_here else self._settings.void_after
        return bool(awaited) and now - max(stream.lost, self._membership.turned_at) >= soon

    def _expired_gaps(self, stream: PublisherStream, missing: list[Span], awaited: list[Span]) -> list[Span]:
        """What is missing of a stream, was never acknowledged, and has been waited for long enough."""
        settings, membership = self._settings, self._membership
        if self._registry.terms.open:
            return missing  # what was sent after it is here, and nobody sends it again
        missing = stream.undamaged(missing)
        if self._egress.waits(membership.living):
            return []
        silence = self._step.now - max(stream.publisher_heard_at, stream.changed_at, membership.turned_at)
        anew = membership.is_here and not self._registry.is_current(*stream.id)  # one that is away may have it
        is_over = membership.since and silence >= (settings.void_anew if anew else settings.void_after)
        return _rest_of(missing, awaited) if is_over else []


def _size(held: StreamRanges) -> int:
    return sum(last - first + 1 for first, last in held.spans)


def _rest_of(spans: list[Span], without: list[Span]) -> list[Span]:
    """Return what of these spans is not in the others."""
    others = Spans(without)
    return [rest for span in spans for rest in others.missing(*span)]
