"""What a repository asks another one for."""

from stentor.model.control import Held
from stentor.model.record import Kind, Line
from stentor.protocols.delivery.bundle import Bundle
from stentor.protocols.delivery.store import Streams

STREAM = (7, 1)


def missing_in_steady_traffic(*held: tuple[int, int]) -> tuple[Held, ...]:
    """What is asked for by one that has these of 1 … 100, while events come all the time."""
    bundle, streams = Bundle("r1"), Streams()
    bundle.admit({"r1": "", "r2": ""})
    stream = streams[STREAM]
    for first, last in held:
        stream.file(Line(first, last - first + 1, *STREAM, first, Kind.EVENTS))
    stream.learn("r2", [(1, 100)])
    stream.seen = 1000
    return bundle.wants(bundle.peers["r2"], streams.values(), settled=999)


def test_a_gap_is_asked_for_while_later_events_keep_coming() -> None:
    assert missing_in_steady_traffic((1, 10), (91, 95)) == (Held(*STREAM, 0, ((11, 90),)),)


def test_what_may_be_on_its_way_is_not_asked_for() -> None:
    assert missing_in_steady_traffic((1, 95)) == ()
