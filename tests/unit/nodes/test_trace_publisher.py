"""Traces of a client that may have gone down with a broker are sent again, under the numbers that they had."""

from typing import TYPE_CHECKING

from stentor.machine import SECOND, Effect, Input, Started, Step, TimerFired
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId
from stentor.model.reports.trace import TRACE, Trace, TraceKind
from stentor.nodes.client import Settings
from stentor.nodes.letter_transport import LetterTransport, TracesDue
from stentor.nodes.trace_publisher import TracePublisher
from stentor.protocols.delivery.besteffort.publish_queue import PublishQueue
from stentor.protocols.delivery.besteffort.publisher import BestEffortPublisher
from stentor.wire.block import Block, Origin

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Stage

SENDER = PublisherId(7)
ANY = Origin(TopicId(0), SENDER, Incarnation(0), CatenationNumber(0), 0)


def rows(*firsts: int) -> list[Trace]:
    return [Trace(kind=TraceKind.PUBLISHED, at=first, first=first, last=first, count=1) for first in firsts]


def sent(drafts: PublishQueue) -> list[tuple[int, list[int]]]:
    """Numbers of the first trace of each frame, and which traces are in it."""
    found = []
    while not drafts.idle:
        draft = drafts.take()
        assert draft.topic == TRACE
        block = Block(draft.encode(ANY), draft.schema)
        assert (block.publisher, block.incarnation) == (7, 3)
        found.append((int(block.catenation), [int(row["first"]) for row in block.rows()]))
    return found


def test_what_was_sent_within_the_last_seconds_is_sent_again_with_its_numbers() -> None:
    drafts, publisher = BestEffortPublisher(Incarnation(3), 1 << 20), TracePublisher("me", Incarnation(3))
    publisher.send(1 * SECOND, 0, SENDER, rows(11, 12), drafts)
    publisher.send(7 * SECOND, 0, SENDER, rows(13), drafts)
    publisher.send(8 * SECOND, 0, SENDER, rows(14, 15), drafts)
    assert sent(drafts) == [(1, [11, 12]), (3, [13]), (4, [14, 15])]
    publisher.send_again(drafts)
    assert sent(drafts) == [(3, [13]), (4, [14, 15])]
    publisher.send(9 * SECOND, 0, SENDER, rows(16), drafts)
    assert sent(drafts) == [(6, [16])]


def test_many_traces_are_several_frames() -> None:
    drafts, publisher = BestEffortPublisher(Incarnation(3), 1 << 20), TracePublisher("me", Incarnation(3))
    publisher.send(1, 0, SENDER, rows(*range(1000)), drafts)
    assert [(first, len(found)) for first, found in sent(drafts)] == [(1, 512), (513, 488)]


class Speaker:
    """Nothing but the link of an end, with its traces."""

    def __init__(self, settings: Settings) -> None:
        self._step = Step()
        self.post = LetterTransport(settings, self._step)

    def step(self, now: int, happened: Input) -> list[Effect]:
        self._step.now = now
        self.post.handle(happened)
        return self._step.end()


def test_traces_that_were_lost_with_a_link_come_over_the_next_one(new_stage: "type[Stage]") -> None:
    stage = new_stage(traces=True)
    reader, end = stage.client("reader"), stage.client("end")
    reader.subscribe(1, TRACE)
    speaker = Speaker(Settings(name="end", incarnation=Incarnation(2), addresses=("anywhere",)))
    end.machine = speaker  # type: ignore[assignment]
    stage.cut(end)
    end.do(Started())
    speaker.post.linked = True  # it listens to nothing that it would have to wait for
    speaker.post.traces.add(rows(11)[0])
    end.tell(TimerFired(TracesDue()))
    stage.cut(end)  # with what it had just sent
    stage.wait(5)  # it leaves with the next heartbeat at the latest
    assert [row["first"] for _, row, _ in reader.read(1)] == [11]
