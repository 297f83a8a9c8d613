"""Traces of a client that may have gone down with a broker, or that a repository misses, are sent again, under the
numbers that they had.
"""

from typing import TYPE_CHECKING

from stentor.machine import SECOND, Effect, Input, Started, Step, TimerFired
from stentor.model.communication import bundle_of, inbox_of
from stentor.model.control import RepositoryNak, Retransmission
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, TopicId
from stentor.model.reports.trace import TRACE, Trace, TraceKind, kept_of
from stentor.model.stored.span import Span
from stentor.nodes.client import Settings
from stentor.nodes.letter_transport import LetterTransport, TracesDue
from stentor.nodes.trace_publisher import TracePublisher
from stentor.protocols.delivery.besteffort.publish_queue import PublishQueue
from stentor.protocols.delivery.besteffort.publisher import BestEffortPublisher
from stentor.wire import letter
from stentor.wire.block import Block, Origin

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Actor, Stage

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


def new_publisher() -> tuple[BestEffortPublisher, TracePublisher]:
    return BestEffortPublisher(Incarnation(3), 1 << 20), TracePublisher("me", Incarnation(3))


def nak(*missing: Span, repository: str = "r1", incarnation: int = 3) -> RepositoryNak:
    return RepositoryNak(kept_of(repository), repository, incarnation=incarnation, missing=missing)


def test_what_was_sent_within_the_last_seconds_is_sent_again_with_its_numbers() -> None:
    drafts, publisher = new_publisher()
    publisher.send(1 * SECOND, 0, SENDER, rows(11, 12), drafts)
    publisher.send(7 * SECOND, 0, SENDER, rows(13), drafts)
    publisher.send(8 * SECOND, 0, SENDER, rows(14, 15), drafts)
    assert sent(drafts) == [(1, [11, 12]), (3, [13]), (4, [14, 15])]
    publisher.send_again(drafts)
    assert sent(drafts) == [(3, [13]), (4, [14, 15])]
    publisher.send(9 * SECOND, 0, SENDER, rows(16), drafts)
    assert sent(drafts) == [(6, [16])]


def answered(publisher: TracePublisher, now: int, asked: RepositoryNak) -> list[int]:
    return [int(block.catenation) for block in publisher.answer(now, asked)]


def test_a_repository_gets_the_frames_that_it_misses() -> None:
    drafts, publisher = new_publisher()
    for second, first in enumerate((11, 12, 13)):
        publisher.send(second * SECOND, 0, SENDER, rows(first), drafts)
    assert answered(publisher, 3600 * SECOND, nak((1, 2))) == [1, 2]
    assert answered(publisher, 3600 * SECOND, nak((1, 2))) == []  # that is on its way
    assert answered(publisher, 3600 * SECOND, nak((2, 3), repository="r2")) == [2, 3]
    assert answered(publisher, 3601 * SECOND, nak((2, 2))) == [2]
    assert answered(publisher, 3602 * SECOND, nak((1, 3), incarnation=2)) == []  # traces of a life before


def test_not_everybody_who_writes_letters_is_answered() -> None:
    drafts, publisher = new_publisher()
    publisher.send(0, 0, SENDER, rows(11), drafts)
    asked = [answered(publisher, SECOND, nak((1, 1), repository=f"r{number}")) for number in range(1000)]
    assert asked == 64 * [[1]] + 936 * [[]]
    assert answered(publisher, 2 * SECOND, nak((1, 1), repository="r999")) == [1]


def test_older_traces_are_remembered_as_long_as_they_are_small() -> None:
    drafts, publisher = new_publisher()
    for second in range(1000):
        publisher.send(second * SECOND, 0, SENDER, rows(*range(100)), drafts)
        sent(drafts)
    again = answered(publisher, 1000 * SECOND, nak((1, 100_000)))
    assert 5 < len(again) < 1000
    assert again[-1] == 99_901
    assert publisher.remembered.pairs() == ((again[0], 100_000),)


def test_many_traces_are_several_frames() -> None:
    drafts, publisher = new_publisher()
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


def seat(stage: "Stage", end: "Actor") -> Speaker:
    """Put the link of an end into the place of a client."""
    speaker = Speaker(Settings(name="end", incarnation=Incarnation(2), addresses=("anywhere",)))
    end.machine = speaker  # type: ignore[assignment]
    stage.cut(end)
    return speaker


def test_traces_that_were_lost_with_a_link_come_over_the_next_one(new_stage: "type[Stage]") -> None:
    stage = new_stage(traces=True)
    reader, end = stage.client("reader"), stage.client("end")
    reader.subscribe(1, TRACE)
    speaker = seat(stage, end)
    end.do(Started())
    speaker.post.linked = True  # it listens to nothing that it would have to wait for
    speaker.post.traces.add(rows(11)[0])
    end.tell(TimerFired(TracesDue()))
    stage.cut(end)  # with what it had just sent
    stage.wait(5)  # it leaves with the next heartbeat at the latest
    assert [row["first"] for _, row, _ in reader.read(1)] == [11]


def test_what_was_traced_without_a_link_comes_behind_what_was_lost_with_the_former_one(
    new_stage: "type[Stage]",
) -> None:
    stage = new_stage(traces=True)
    reader, end = stage.client("reader"), stage.client("end")
    reader.subscribe(1, TRACE)
    speaker = seat(stage, end)
    end.do(Started())
    speaker.post.traces.add(rows(11)[0])
    end.tell(TimerFired(TracesDue()))
    stage.cut(end)  # with what it had just sent
    assert not speaker.post.linked
    speaker.post.traces.add(rows(12)[0])
    end.tell(TimerFired(TracesDue()))
    stage.wait(5)
    end.tell(TimerFired(TracesDue()))
    stage.wait(5)
    assert [row["first"] for _, row, _ in reader.read(1)] == [11, 12]  # a reader drops what comes late


def test_a_letter_from_a_repository_that_misses_traces_is_answered_with_them(new_stage: "type[Stage]") -> None:
    stage = new_stage(traces=True)
    repository, end = stage.client("repository:r1"), stage.client("end")
    speaker = seat(stage, end)
    speaker.post.listen(inbox_of("end"))
    end.do(Started())
    speaker.post.traces.add(rows(11)[0])
    end.tell(TimerFired(TracesDue()))
    stage.run()  # nobody hears it
    repository.subscribe(1, bundle_of(kept_of("r1")))
    repository.publish(inbox_of("end"), body=letter.write((nak((1, 1), incarnation=2),)))
    [(_, _, body)] = repository.read(1)
    answer = letter.read(body)
    assert answer.events == [Retransmission(kept_of("r1"), "end")]
    assert [row["first"] for block in answer.blocks for row in block.rows()] == [11]
