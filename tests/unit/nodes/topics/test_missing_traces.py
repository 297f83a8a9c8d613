"""A repository that keeps traces asks their nodes for those that it did not hear."""

from stentor.machine import SECOND
from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.communication import inbox_of
from stentor.model.control import RepositoryNak
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, topic_id
from stentor.model.reports.trace import SCHEMA, TRACE, Trace, TraceKind, to_columns
from stentor.model.stored.span import Span
from stentor.nodes.topics.missing_traces import MissingTraces
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived, SendLetter
from stentor.wire import block as wire
from stentor.wire.block import Block, Origin

WEST = "subscriber:west:flights"


def traces(first: int, last: int, node: str = WEST, incarnation: int = 1) -> Block:
    rows = [Trace(kind=TraceKind.RELEASED, at=number) for number in range(first, last + 1)]
    columns, bodies = to_columns(rows, node, 0)
    return Block(wire.encode(_origin(first, incarnation), SCHEMA, columns, bodies), SCHEMA)


def _origin(first: int, incarnation: int = 1) -> Origin:
    return Origin(topic_id(TRACE), PublisherId(7), Incarnation(incarnation), CatenationNumber(first), 0)


def heard(*blocks: Block) -> list[EventsReceived]:
    return [EventsReceived(blocks)]


def request(*missing: Span, node: str = WEST, incarnation: int = 1) -> SendLetter:
    nak = RepositoryNak("$stentor/trace/r1", "r1", incarnation=incarnation, missing=missing)
    return SendLetter(inbox_of(node), (nak,))


def test_what_follows_what_was_heard_is_not_asked_for() -> None:
    missing = MissingTraces("r1")
    assert missing.hear(0, heard(traces(1, 5), traces(6, 9)), {}) == []
    assert missing.hear(SECOND, heard(traces(10, 12), traces(4, 9)), {}) == []
    assert missing.ask(2 * SECOND) == []


def test_a_node_is_asked_at_once_for_what_is_missing_before_and_between_its_traces() -> None:
    missing = MissingTraces("r1")
    assert missing.hear(0, heard(traces(3, 5)), {}) == [request((1, 2))]
    assert missing.hear(SECOND, heard(traces(8, 8)), {}) == [request((1, 2), (6, 7))]
    assert missing.hear(2 * SECOND, heard(traces(1, 2), traces(6, 7)), {}) == []
    assert missing.ask(9 * SECOND) == []


def test_what_comes_in_a_letter_of_the_node_itself_is_not_asked_for_again() -> None:
    missing = MissingTraces("r1")
    assert missing.hear(0, heard(traces(4, 5)), {}) == [request((1, 3))]
    forged, again = LetterReceived(8, (), [traces(1, 3)]), LetterReceived(7, (), [traces(1, 2)])
    assert missing.hear(SECOND, [forged, again], {}) == [request((3, 3))]


def test_a_node_is_asked_again_each_second_and_not_for_ever() -> None:
    missing = MissingTraces("r1")
    assert missing.hear(0, heard(traces(3, 5)), {}) == [request((1, 2))]
    asked = [missing.ask(now * SECOND // 2) for now in range(1, 30)]
    assert [each for each in asked if each] == 4 * [[request((1, 2))]]
    assert missing.hear(20 * SECOND, heard(traces(7, 7)), {}) == [request((6, 6))]  # but for what is missing since


def test_a_ledger_says_what_was_heard_in_an_earlier_life() -> None:
    stream = PublisherStream((7, 1))
    stream.stored.add(1, 40)
    stream.stored.add(51, 60)
    assert MissingTraces("r1").hear(0, heard(traces(71, 80)), {stream.id: stream}) == [request((41, 50), (61, 70))]


def test_each_life_of_a_node_has_numbers_of_its_own() -> None:
    missing = MissingTraces("r1")
    assert missing.hear(0, heard(traces(1, 9), traces(2, 3, incarnation=2)), {}) == [request((1, 1), incarnation=2)]


def test_brokers_and_those_who_tell_no_name_are_not_asked() -> None:
    missing = MissingTraces("r1")
    assert missing.hear(0, heard(traces(3, 5, node="repository:r1", incarnation=4)), {}) == []  # it hears itself
    assert missing.hear(0, heard(traces(3, 5, node="demo/b1")), {}) == []
    unnamed = Block(wire.encode(_origin(3, incarnation=2), EMPTY_SCHEMA, [], [b""]), EMPTY_SCHEMA)
    endless = traces(3, 5, node="subscriber:" + 5000 * "x", incarnation=3)
    assert missing.hear(0, heard(unnamed, endless), {}) == []


def test_a_node_that_has_been_silent_for_long_is_forgotten() -> None:
    missing = MissingTraces("r1")
    missing.hear(0, heard(traces(1, 5)), {})
    missing.hear(100 * SECOND, heard(traces(1, 1, incarnation=2)), {})
    assert list(missing._heard) == [(7, 2)]
