"""Publisher lives: the events of a publisher's lives follow each other as the lives do, at every repository.

When a life is first steered, the end of each earlier life is fixed in the publisher's fact: the last number that is
known to be acknowledged, or stored without a gap. Whoever hears of the fact and knows more of these lives raises the
ends, and the life is answered when all that live have the same fact. They set all up to these ends aside before they
store anything of the new life; what comes before the fact waits for it. So a repository that was away fetches the
earlier lives into places before those of the new one.
"""

from collections.abc import Iterable
from itertools import pairwise

from stentor.model.communication import end_name
from stentor.model.control import Recovery
from stentor.model.errors import Refusal, Refused
from stentor.model.stored.record import Fact, StreamId
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.repository.registry_records import PublisherEnds
from stentor.protocols.delivery.repository.serving.unknown_lives import UnknownLives
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.streams import MOST_LIVES
from stentor.protocols.delivery.repository.topic_state import TopicState


class PublisherLives:
    """The lives of all publishers of one topic, as one repository knows them."""

    def __init__(self, state: TopicState, unknown: UnknownLives) -> None:
        self._log = state.log
        self._registry = state.registry
        self._bundle = state.bundle
        self.unknown = unknown
        self._fixed: dict[int, int] = {}  # the newest life of each publisher before which we have said what we know
        # What was to be set aside when we last looked: whoever tells of a newer life may never have heard of it.
        self._ends: dict[int, PublisherEnds] = {}

    def may_store(self, stream: StreamId) -> bool:
        """Return whether what a publisher sends of a life is stored when it comes."""
        return self._registry.is_authorised(stream[0]) and self._log.is_past_known(stream)

    # ---- steering

    def stream(self, event: Recovery, sender: int) -> PublisherStream:
        """Return the stream of a life that is to be steered. Raise Refused if a newer one is known and this one is not
        resumed, or if its publisher has too many.
        """
        if self._registry.is_outlived(sender, event.incarnation) and not event.resumes:  # older ledgers know that alone
            raise Refused(
                Refusal.FENCED, f"a newer {event.sender} published here; if there is none, the clock here is behind"
            )
        if self._registry.is_closed((sender, event.incarnation)):
            raise Refused(Refusal.FENCED, f"a newer {event.sender} has published since, and this life of it is closed")
        stream = self._log.streams.find((sender, event.incarnation))
        if stream is None:
            raise Refused(Refusal.TOO_MANY, f"{event.sender} has had {MOST_LIVES:,} lives: let it resume one of them")
        return stream

    def begin(self, event: Recovery, sender: int) -> list[Fact]:
        """A life is steered: return what is new of that, to be written down before it is answered."""
        end = end_name("publisher", event.sender, event.topic)
        known = self._registry.publishers.get(sender)
        ends = None
        if known is None or event.incarnation > known.incarnation:
            self._fixed[sender] = event.incarnation
            ends = self._merged(sender, self._known_ends(sender, event.incarnation))
            ends = tuple(each for each in ends if not self._is_collected(sender, *each))
        facts = self._registry.record_publisher(
            event.sender, end, event.principal, event.incarnation, event.resumes, ends
        )
        return facts + self.apply()

    def _known_ends(self, publisher: int, before: int) -> dict[int, int]:
        """Return up to where lives before this one are known here, but for those that are collected or resumed."""
        registry, ends = self._registry, dict(self._ends.get(publisher, ()))
        for life, stream in self._log.streams.lives(publisher).items():
            if life < before and stream.end > stream.floor:
                ends[life] = max(stream.known, ends.get(life, 0))
        over = {life for life in ends if registry.is_resumed(publisher, life) or registry.is_closed((publisher, life))}
        over |= {life for life, end in ends.items() if self._is_collected(publisher, life, end)}
        return {life: end for life, end in ends.items() if life not in over}

    def _is_collected(self, publisher: int, life: int, end: int) -> bool:
        stream = self._log.streams.get((publisher, life))
        return end <= (stream.floor if stream is not None else 0)

    def _merged(self, publisher: int, ends: dict[int, int]) -> PublisherEnds:
        known = self._registry.publishers.get(publisher)
        fixed = dict(known.ends) if known is not None else {}
        lives = sorted(fixed.keys() | ends.keys())
        return tuple((life, max(fixed.get(life, 0), ends.get(life, 0))) for life in lives)

    def recall(self) -> None:
        """Set aside what was to be set aside when we ended."""
        self._fixed = {number: known.incarnation for number, known in self._registry.publishers.items()}
        self._ends = {number: known.ends for number, known in self._registry.publishers.items() if known.ends}
        self.apply()

    def apply(self) -> list[Fact]:
        """Set aside what earlier lives had acknowledged, of the publishers of whom there is news. Return what is known
        here of these lives beyond the ends that were fixed elsewhere: the new life is not answered before all agree.
        """
        facts: list[Fact] = []
        for publisher in self._registry.news.take_publishers():
            newest = self._registry.publishers[publisher].incarnation
            if newest > self._fixed.get(publisher, 0):
                self._fixed[publisher] = newest
                ends = self._merged(publisher, self._known_ends(publisher, newest))
                facts += self._registry.fix_ends(publisher, ends)
            self._ends[publisher] = self._registry.publishers[publisher].ends
            for life, end in self._ends[publisher]:
                if not self._is_collected(publisher, life, end):
                    self._log.set_aside(self._log.streams[publisher, life], end)
        return facts

    def newest_of(self, publisher: int) -> int:
        """Return the newest life of a publisher; 0 if there is none."""
        known = self._registry.publishers.get(publisher)
        return known.incarnation if known is not None else 0

    # ---- what is told

    def newest(self, publisher: int, incarnation: int) -> tuple[int, int]:
        """Return this stream of a publisher, else the newest, that begins with something stored, and up to where it has
        no gap: what comes after one was never acknowledged.
        """
        return self._log.streams.newest((publisher, incarnation), self._registry.publishers[publisher].told)

    # ---- what must not be given up

    def awaited(self, stream: PublisherStream) -> list[Span]:
        """Return the numbers that are missing here although they were acknowledged: up to the end of an earlier life,
        or as their publisher says. What is damaged holds nothing up: it is a trouble of its own.
        """
        missing = stream.undamaged(stream.missing)
        if not missing:
            return []
        acknowledged = self._acknowledged(stream)
        return [part for gap in missing for part in acknowledged.within(*gap)]

    def _acknowledged(self, stream: PublisherStream) -> Spans:
        """Return what its publisher does not have any more, or will not have: what is on as many others as an event
        must be on is acknowledged, although we may not hear it from the publisher. With a single copy nobody promises
        that its events outlive a repository.
        """
        known, copies = self._registry.publishers.get(stream.id[0]), self._registry.terms.copies
        acknowledged = stream.acknowledged.copy()
        acknowledged.add(1, dict(known.ends).get(stream.id[1], 0) if known is not None else 0)
        if copies > 1:
            acknowledged.update(_on_several(stream, copies, self._bundle.same_unit_peers))
        return acknowledged

    def write_down(self, stream: PublisherStream, awaited: list[Span]) -> list[Fact]:
        """Raise the end of a life to what is awaited of it, so that a restart does not forget it, and others who never
        heard of it do not give it up. Whoever resumes a life sends it again.
        """
        publisher, life = stream.id
        known = self._registry.publishers.get(publisher)
        if not awaited or known is None or life in known.resumed or not self._registry.is_introduced(publisher, life):
            return []
        acknowledged = self._acknowledged(stream)
        acknowledged.update(stream.stored)
        end = acknowledged.upto()
        return (
            []
            if end <= dict(known.ends).get(life, 0)
            else self._registry.fix_ends(publisher, self._merged(publisher, {life: end}))
        )

    def hopeless(self, stream: PublisherStream, voids: Iterable[Span]) -> list[Span]:
        """Return what another repository was right to give up: it may not have heard that some was acknowledged."""
        awaited = Spans(self.awaited(stream))
        return [rest for span in stream.readable(voids) for rest in awaited.missing(*span)]

    @property
    def is_waiting(self) -> bool:
        """Whether something is awaited of any stream, or of a life that is not known."""
        return self.unknown.is_waiting() or any(map(self.awaited, self._log.streams.unsettled))

    def described(self) -> dict[str, list[tuple[int, int, int]]]:
        """Return what is awaited, as people are told it: of each publisher lives, first and last numbers."""
        found = self.unknown.described()
        for stream in sorted(self._log.streams.unsettled, key=lambda each: each.id):
            publisher, life = stream.id
            if awaited := self.awaited(stream):
                name = self._registry.publishers[publisher].name if publisher in self._registry.publishers else ""
                found.setdefault(name, []).extend((life, *span) for span in awaited)
        return found


def _on_several(stream: PublisherStream, copies: int, others: Iterable[str]) -> Spans:
    """Return what we lack and at least as many of these others have as there must be copies."""
    found = [Spans() for _ in range(copies)]  # what one of them has, what two have, and so on
    for name in others:
        theirs = Spans(stream.wanted_from(name))
        for fewer, more in reversed(list(pairwise(found))):
            more.update(part for span in fewer for part in theirs.within(*span))
        found[0].update(theirs)
    return found[-1]
