"""Floors as they are written down: of each stream what is forgotten, and what of that was void."""

from collections.abc import Mapping

from stentor.model.stored.record import Fact, StreamId
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.storing.streams import Streams

FLOOR = "local/floor/"


def floor_key(stream: StreamId) -> str:
    return f"{FLOOR}{stream[0]:016x}/{stream[1]}"


def floor_fact(stream: PublisherStream) -> Fact:
    voids = b"".join(b" %d-%d" % span for span in stream.voids)
    return Fact(floor_key(stream.id), b"%d %d%s" % (stream.floor, stream.unit_floor, voids))


def recall_floors(streams: Streams, facts: Mapping[str, bytes]) -> None:
    """What was forgotten when a ledger was closed is forgotten again."""
    for key, value in facts.items():
        if key.startswith(FLOOR):
            publisher, incarnation = key.removeprefix(FLOOR).split("/")
            stream = streams[int(publisher, 16), int(incarnation)]
            floor, cared, *voids = value.split()
            stream.voids.remove(1, int(floor))  # what was found to be forgotten elsewhere was no gap
            for first, _, last in (void.partition(b"-") for void in voids):
                stream.voids.update(stream.stored.missing(int(first), int(last)))
            stream.unit_floor = int(cared)
            stream.forget(int(floor))
            stream.durable_floor = stream.floor
