"""Records that tell which ones they are."""

from random import Random

from stentor.model.stored.record import Record, RecordHeader, RecordKind

EVERYTHING = 1 << 30  # bytes: more than any of these tests reads


def events(sequence: int, length: int = 1, first: int = 0, publisher: int = 7, size: int = 20, time: int = 0) -> Record:
    """A record whose frame tells which one it is."""
    first = first or sequence
    frame = b"%d:%d:%d|" % (publisher, first, length)
    frame += Random(frame).randbytes(max(0, size - len(frame)))
    line = RecordHeader(sequence, length, publisher, 1, first, RecordKind.EVENTS, digest=len(frame))
    return Record(line, frame, {3: b"", 5: b"\x01"}, time or 1000 + sequence, stored=2000 + sequence)


def other(
    sequence: int, length: int = 1, kind: RecordKind = RecordKind.RESERVED, first: int = 0, publisher: int = 7
) -> Record:
    return Record(RecordHeader(sequence, length, publisher, 1, first or sequence, kind))


def reserved(line: RecordHeader) -> RecordHeader:
    """How a line looks whose record is damaged."""
    return line._replace(kind=RecordKind.RESERVED)
