"""The store: the same events may come again, however they are cut; others under the same numbers are noticed."""

from collections.abc import Sequence

from stentor.model.attribute import Value
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId
from stentor.model.stored.record import Record
from stentor.protocols.delivery.besteffort.batch_builder import BatchBuilder, check_columns
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.wire.block import Block, Origin

TEXTS: Sequence[Value] = ["b", "a", "c", "b", "a"]


def block(first: int, bodies: Sequence[bytes], time: int = 5) -> Block:
    schema, columns = check_columns(len(bodies), {"text": TEXTS[first - 1 : first - 1 + len(bodies)]})
    builder = BatchBuilder("t", time)
    builder.fill(schema, columns, bodies)
    origin = Origin(TopicId(1), PublisherId(2), Incarnation(3), CatenationNumber(first), time)
    return Block(builder.encode(origin), builder.schema)


def store(tail: int = 1 << 20) -> EventLog:
    made = EventLog(Streams(), Budget(tail), lambda _: {})
    made.receive(0, block(1, [b"1", b"2", b"3"]), known=True, ordered=True)
    return made


def test_the_same_events_may_come_cut_otherwise() -> None:
    here = store()
    for again in (block(1, [b"1", b"2", b"3"]), block(1, [b"1"]), block(2, [b"2", b"3"]), block(1, [b"1", b"2"], 7)):
        here.receive(0, again, known=True, ordered=True)
    here.receive(0, block(2, [b"2", b"3", b"4", b"5"]), known=True, ordered=True)
    here.receive(0, block(4, [b"4", b"5"], 9), known=True, ordered=True)  # stored as a part, spelled otherwise
    assert (here.stored, here.conflicts, here.clashes, here.suspects) == (5, 0, [], [])


def test_other_events_under_a_number_are_noticed() -> None:
    here = store()
    here.receive(0, block(1, [b"1", b"other", b"3"]), known=True, ordered=True)
    assert (here.stored, here.conflicts) == (3, 1)
    assert [(line.first, line.length) for line in here.clashes] == [(1, 3)]


def test_what_is_not_in_memory_is_read_before_it_is_judged() -> None:
    here = store(tail=0)
    record = next(entry for entry in here.unwritten.entries if isinstance(entry, Record))
    here.unwritten.take(1)
    here.committed(1)
    assert here.advance(1, ())
    for bodies, conflicts in (([b"1", b"2", b"3"], 0), ([b"1", b"2", b"x"], 1)):
        here.receive(0, block(1, bodies, time=6), known=True, ordered=True)
        ((sequence, suspect),) = here.suspects
        assert (sequence, here.conflicts) == (1, 0)
        here.suspects.clear()
        here.confront(record, suspect)
        assert here.conflicts == conflicts
