"""Repair responder: what a repository sends to another one that asks for what it lacks."""

from collections.abc import Iterator

from stentor.machine import Scanned
from stentor.model.communication import inbox_of, repository_name
from stentor.model.control import GossipAck, GossipRequest, GossipVoid, Retransmission, StreamRanges
from stentor.model.stored.record import Record, RecordKind
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.repository.ledger_reads import AnswerPeer
from stentor.protocols.delivery.repository.serving.dissemination_table import run_of
from stentor.protocols.delivery.repository.serving.subscriber_feeds import LETTER
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState

ANSWER = 8 * LETTER  # bytes of events that are sent before the other one asks for more


class RepairResponder:
    """Of one repository, for one topic. Only what is durable here is sent: it may be on its way out of its unit."""

    def __init__(self, state: TopicState) -> None:
        self._state, self._log = state, state.log
        self._topic, self._name = state.topic, state.settings.name

    def answer(self, peer: str, request: GossipRequest) -> None:
        """Send what is asked for, as much as fits; the other one asks for the rest."""
        records: list[Record] = []
        voids: list[StreamRanges] = []
        room = ANSWER
        for wanted in request.wanted:
            stream = self._log.streams.get((wanted.publisher, wanted.incarnation))
            if stream is None:
                continue
            nothing = [span for first, last in wanted.spans for span in stream.voids.within(first, last)]
            if nothing:
                voids.append(StreamRanges(*stream.id, 0, tuple(nothing)))
            for place in _places(stream, wanted):
                record = self._log.at(place)
                if record is None and not records:
                    self._read(peer, place, request)
                if record is None or room <= 0:
                    room = 0
                    break
                records.append(record)
                room -= len(record.frame)
            if room <= 0:
                break
        if voids:
            self._state.say(GossipVoid(self._topic, self._name, tuple(voids)), peer)
        self._send(peer, records)

    def _read(self, peer: str, sequence: int, request: GossipRequest) -> None:
        wanted = {(each.publisher, each.incarnation): Spans(each.spans) for each in request.wanted}
        self._state.reads.scan(AnswerPeer(peer, wanted), sequence, ANSWER)

    def on_scanned(self, answer: AnswerPeer, scanned: Scanned) -> None:
        """Send another repository what it asked for, of the records that were read."""
        nothing = Spans()
        found = ((record, record.line) for record in scanned.records)
        within = [each for each, line in found if answer.wanted.get(line.stream, nothing).within(line.first, line.last)]
        self._send(answer.peer, within)

    def _send(self, peer: str, records: list[Record]) -> None:
        letters: list[list[Record]] = []
        room = 0
        for record in records:
            if record.line.kind is RecordKind.EVENTS:
                if room < len(record.frame):  # a letter is never cut: its times belong to its frames
                    letters.append([])
                    room = LETTER
                letters[-1].append(record)
                room -= len(record.frame)
        to = inbox_of(repository_name(peer))
        for left, letter in zip(reversed(range(len(letters))), letters, strict=True):
            stored = tuple(record.stored for record in letter)
            again = Retransmission(self._topic, self._name, more=left > 0, stored=stored)
            blocks = [self._log.block(record) for record in letter]
            self._state.send(to, self._numbers(letter), again, blocks=blocks)

    def _numbers(self, records: list[Record]) -> GossipAck:
        """Our numbers of these: an epoch that a client has from us means the same to who serves it next."""
        lines = [record.line for record in records]
        return GossipAck(self._topic, self._name, tuple(map(run_of, lines)), tuple(line.digest for line in lines))


def _places(stream: PublisherStream, wanted: StreamRanges) -> Iterator[int]:
    """The sequence numbers of the records that hold what is wanted, in order."""
    for first, last in wanted.spans:
        for start, end in stream.stored_within(max(first, stream.floor + 1), last):
            number = start
            while number <= end:
                place = stream.locate(number)
                if place is None:
                    break
                yield place[1]
                number = stream.next_record(number, end)
