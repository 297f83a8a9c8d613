"""State that is damaged on purpose: a repository's `validate` sees it."""

from collections.abc import Callable

import pytest
from tests.paper.bundle import PaperBundle

from stentor.model.stored.record import RecordHeader, RecordKind
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.replication.bundle import PeerRepository, PeerState
from stentor.protocols.delivery.repository.repository import TopicRepository
from stentor.protocols.delivery.repository.serving.subscriber_cursor import SubscriberCursor
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream

LINE = RecordHeader(90, 1, 1, 1, 1, RecordKind.EVENTS)
STRANGE = (1, 1)


def repository() -> TopicRepository:
    """One of two that has stored three events, has acknowledged one, and lacks the fifth."""
    bundle = PaperBundle("r1", "r2")
    bundle.recover("publisher", "shop", "r1")
    bundle.recover("subscriber", "billing", "r1")
    bundle.publish(1, 3)
    bundle.acknowledge("billing", "r1", (1, 3))
    bundle.publish(4, 1)
    bundle.publish(6, 1, "r1")
    made = bundle.repositories["r1"]
    made.validate()
    return made


def stream(here: TopicRepository) -> PublisherStream:
    return next(iter(here.log.streams.values()))


def reader(here: TopicRepository) -> SubscriberCursor:
    return here.feeds.cursors["billing"]


def peer(here: TopicRepository) -> PeerRepository:
    return here.gossip.bundle.peers["r2"]


def lose_number(here: PublisherStream, number: int) -> None:
    for spans in (here.stored, here.durable):
        spans.remove(number, number)


def depart(here: PeerRepository) -> None:
    here.state, here.cares = PeerState.DEPARTED, {"billing": {}}


DAMAGES: dict[str, Callable[[TopicRepository], object]] = {
    "durable, and neither held nor skipped": lambda here: stream(here).durable.add(90, 90),
    "held, and still reserved": lambda here: stream(here).reserved.append((1, 1, 90)),
    "held, and still void": lambda here: stream(here).voids.add(2, 2),
    "damaged, and not reserved": lambda here: stream(here).damaged.add(2, 2),
    "written off, and not void": lambda here: stream(here).written_off.add(2, 2),
    "forgotten, and not counted as stored": lambda here: setattr(stream(here), "floor", 6),
    "a floor above what it is the floor of": lambda here: setattr(stream(here), "durable_floor", 1),
    "stored above the highest number": lambda here: stream(here).stored.add(7, 7),
    "what waits is of another size": lambda here: setattr(stream(here), "held_back", 1),
    "columns of records differ in length": lambda here: stream(here)._firsts.append(90),
    "out of order": lambda here: stream(here)._firsts.reverse(),
    "a record of numbers that are not held": lambda here: lose_number(stream(here), 6),
    "nobody looks at": lambda here: here.log.streams.unsettled.clear(),
    "a life without a stream": lambda here: here.log.streams._lives.update({1: {1: PublisherStream(STRANGE)}}),
    "an abandoned stream": lambda here: here.log.streams.unsettled.update({PublisherStream(STRANGE): None}),
    "a stranger that is known": lambda here: here.log.streams.strangers.streams.update(
        {stream(here).id: PublisherStream(stream(here).id)}
    ),
    "is reserved twice": lambda here: stream(here).reserved.extend(stream(here).reserved),
    "are no neighbours": lambda here: here.log._recent._records.update(
        {here.log._recent._sequences[0]: here.log._recent._records[here.log._recent._sequences[-1]]}
    ),
    "a tail of another size": lambda here: setattr(here.log._recent, "size", 1),
    "what no reader was shown is let go": lambda here: setattr(here.log._recent, "start", 90),
    "in a row": lambda here: setattr(here.log, "horizon", here.log.next),
    "a number that is given twice": lambda here: setattr(stream(here), "last_sequence", here.log.next),
    "lines without entries": lambda here: here.log.unwritten.lines.append(LINE),
    "pending is not what is inflight": lambda here: setattr(reader(here), "pending", 90),
    "more is safe than was acknowledged": lambda here: setattr(reader(here), "safe", 90),
    "a line that was not looked at": lambda here: reader(here).lines.append(LINE),
    "acked, and not told": lambda here: reader(here).acked.add(90, 90),
    "inflight, and acknowledged or not sent": lambda here: reader(here).inflight.append((90, 0)),
    "news of": lambda here: reader(here).progress._news.update({STRANGE: Spans(((1, 1),))}),
    "the digest of what it was done with before": lambda here: setattr(reader(here).progress, "_digest", 1),
    "slots and names differ": lambda here: here.table.names.clear(),
    "who is served": lambda here: setattr(here.table, "_served", 90),
    "who wants everything": lambda here: here.table._whole.clear(),
    "it is among the others": lambda here: here.gossip.bundle.peers.update({"r1": PeerRepository("r1")}),
    "rows and their numbers differ": lambda here: peer(here).lines.append(LINE),
    "no member, and cares for somebody": lambda here: depart(peer(here)),
    "heard for longer": lambda here: setattr(peer(here), "since", peer(here).heard + 1),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_seen(what: str) -> None:
    here = repository()
    DAMAGES[what](here)
    with pytest.raises(AssertionError, match=what):
        here.validate()
