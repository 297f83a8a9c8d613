"""Streams that are recalled a chapter at a time are those to which each record was added when it came."""

from random import Random

import pytest

from stentor.model.stored.record import LedgerContents, RecordHeader, RecordKind
from stentor.model.stored.record_columns import RecordColumns, chapters_of
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.repository.storing.streams import Streams


def ledger(random: Random, count: int) -> list[RecordHeader]:
    """Three publishers' records, with reservations, voids that were filled late, notes and what was skipped."""
    lines: list[RecordHeader] = []
    following = 1
    tops = dict.fromkeys(((1 << 63, 1), (7, 1), (7, 2)), 0)
    voids: list[RecordHeader] = []
    for _ in range(count):
        stream = random.choice(list(tops))
        length = random.randrange(1, 5)
        kind = random.choices(
            [RecordKind.EVENTS, RecordKind.RESERVED, RecordKind.VOID, RecordKind.SKIPPED, RecordKind.NOTE],
            [20, 1, 2, 2, 1],
        )[0]
        line = RecordHeader(following, length, *stream, tops[stream] + 1, kind, random.getrandbits(64))
        if kind is RecordKind.NOTE:
            line = RecordHeader(following, 1, 0, 0, 0, kind)
        elif voids and random.random() < 0.1:
            late = voids.pop()
            line = late._replace(sequence=following, kind=RecordKind.EVENTS)
        else:
            tops[stream] += length
            voids += [line] if kind is RecordKind.VOID else []
        lines.append(line)
        following = line.end + 1
    return lines


def state(stream: PublisherStream) -> dict[str, object]:
    names = ("stored", "durable", "announced", "voids", "skipped")
    numbers = range(1, stream.highest_numbered + 1)
    return {
        **{name: list(getattr(stream, name)) for name in names},
        "top": stream.highest_numbered,
        "reserved": stream.reserved,
        "places": [stream.locate(number) for number in numbers],
        "digests": [stream.digest_at(number) for number in numbers],
    }


@pytest.mark.parametrize("seed", range(40))
def test_a_chapter_at_a_time_or_record_by_record(seed: int) -> None:
    random = Random(seed)
    lines = ledger(random, random.randrange(1, 200))
    whole, single = (EventLog(Streams(), Budget(1 << 20), lambda _: {}) for _ in range(2))
    whole.load(LedgerContents({}, lines, (), lines[-1].end + 1))
    for line in lines:
        single.load(LedgerContents({}, [line], (), line.end + 1))
    assert whole.streams.keys() == single.streams.keys()
    for key, stream in whole.streams.items():
        assert state(stream) == state(single.streams[key])
    assert (whole.first, whole.next) == (lines[0].sequence, lines[-1].end + 1)


def test_chapters_hold_all_lines_in_order() -> None:
    lines = ledger(Random(1), 9000)
    chapters = list(chapters_of(lines))
    assert len(chapters) == 3
    assert [line for chapter in chapters for line in chapter.lines()] == lines
    assert list(RecordColumns.of(lines).others()) == [line for line in lines if line.kind is not RecordKind.EVENTS]
