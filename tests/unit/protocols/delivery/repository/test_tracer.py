"""What a repository traces: all that its ledger knows, also after a crash, and what readers are durably done with."""

from collections.abc import Iterable
from random import Random

import pytest
from tests.unit.protocols.delivery.repository.test_open_topic import Desk
from tests.unit.protocols.delivery.script import frame

from stentor.model.communication import end_name
from stentor.model.control import StreamRanges
from stentor.model.ids import publisher_id
from stentor.model.reports.trace import LEDGER, Trace, numbers_of
from stentor.model.stored.reading import ReaderAck, StockRequest
from stentor.model.stored.record import Record, RecordHeader, RecordKind
from stentor.protocols.delivery.repository.storing import commit_queue
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.repository.tracer import RepositoryTracer
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.trace_sum import TraceSum
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived

pytestmark = pytest.mark.req("SP-05")
Told = tuple[str, int, int, str]  # kind, numbers, peer


@pytest.fixture
def desk() -> Desk:
    return Desk(traces=True)


def rows(desk: Desk, *kinds: str) -> list[Trace]:
    return [row for row in desk.trail.take(desk.now) if row.kind in kinds]


def stored(told: Iterable[Trace]) -> list[Told]:
    return [(row.kind, row.first, row.last, row.peer) for row in told]


def places(told: Iterable[Trace]) -> list[Told]:
    return [(row.kind, row.start, row.end, row.peer) for row in told]


def test_a_ledger_that_is_opened_again_is_traced_again(desk: Desk) -> None:
    desk.tell(EventsReceived([frame(7, 1, 3)]))
    assert stored(rows(desk, "stored")) == [("stored", 1, 3, "")]
    desk.begin()  # after a crash: nobody can know what the first life had told
    end = desk.repository.log.next - 1
    assert stored(rows(desk, "stored")) == [("stored", 1, 3, LEDGER)]
    desk.begin()
    assert places(rows(desk, "stable")) == [("stable", 1, end, LEDGER)]
    desk.tell(EventsReceived([frame(7, 4, 2)]))
    assert [row.peer for row in rows(desk, "stored", "stable")] == ["", ""]


def test_what_is_kept_of_its_traces_is_not_told_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "_HORIZON_EVERY", 1)
    desk.tell(EventsReceived([frame(7, 1, 3)]))
    desk.repository.tracer.keep(desk.repository.tracer.traced_upto)
    desk.tell(EventsReceived([frame(7, 4, 2)]))
    desk.tell(EventsReceived([frame(7, 6, 2)]))  # the first commit after the traces were kept tells the ledger
    desk.begin()
    assert stored(rows(desk, "stored")) == [("stored", 4, 7, LEDGER)]


def test_nothing_is_forgotten_before_its_traces_are_kept(desk: Desk) -> None:
    for first in range(1, 91, 3):
        desk.tell(EventsReceived([frame(7, first, 3)]))
    desk.wait(10)
    assert desk.repository.log.first == 1
    desk.repository.tracer.keep(desk.repository.tracer.traced_upto)
    desk.wait(10)
    assert desk.repository.log.first > 1


def _read(desk: Desk, upto: int, *spans: tuple[int, int]) -> None:
    sender = end_name("subscriber", "spark", "t")
    desk.tell(
        LetterReceived(
            publisher_id("keeper", sender),
            [ReaderAck("t", sender, "spark", "keeper", (StreamRanges(7, 1, upto, spans),))],
            requester=sender,
        )
    )


def test_what_a_reader_is_done_with_is_traced_once_a_second_and_after_a_crash(desk: Desk) -> None:
    sender = end_name("subscriber", "spark", "t")
    desk.wait(3)
    request = StockRequest("t", sender, 1, "spark", "keeper", enrol=True)
    desk.tell(
        LetterReceived(publisher_id("keeper", sender), [request], requester=sender), EventsReceived([frame(7, 1, 39)])
    )
    desk.wait()
    _read(desk, 10)
    (row,) = rows(desk, "synced")
    assert (row.about, row.keeper, row.subscriber, row.source_id, row.life) == ("t", "r", "spark", 7, 1)
    assert (row.first, row.last, row.count, row.body) == (1, 10, 10, b"")
    _read(desk, 20)
    _read(desk, 20, (31, 39))
    assert rows(desk, "synced") == []
    desk.wait(2)
    (row,) = rows(desk, "synced")
    assert (row.first, row.last, row.count, numbers_of(row.body)) == (11, 39, 19, [(0, 9), (20, 28)])
    desk.wait(2)
    assert rows(desk, "synced") == []
    desk.begin()
    (row,) = rows(desk, "synced")
    assert (row.first, row.last, row.count) == (1, 39, 29)


@pytest.mark.parametrize("seed", range(40))
def test_records_that_go_on_are_summed_up_as_if_each_had_a_row(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> list[list[Trace]]:
        random, told = Random(seed), []
        state = TopicState("t", RepositorySettings(name="r1"))
        traces = TraceBuffer(sums=True)
        tracer = RepositoryTracer(state, traces)
        tracer.reopen(0, random.choice((0, 0, 5)))
        state.table.names.update({1: "west", 2: "east"})
        numbers, sequence = {(7, 1): 0, (7, 2): 0, (8, 1): 0}, 0
        audience: dict[int, bytes] = {}
        for step in range(80):
            state.step.now = step
            stream = random.choice(((7, 1), (7, 1), (7, 1), (7, 2), (8, 1)))
            if random.random() < 0.1:
                audience = random.choice(({}, {1: b""}, {1: b"", 2: b""}, {2: b"\x01"}))
            kind = random.choice((RecordKind.EVENTS,) * 9 + (RecordKind.VOID,))
            first, length = numbers[stream] + random.choice((1, 1, 1, 1, 3)), random.choice((1, 1, 4))
            numbers[stream] = first + length - 1
            header = RecordHeader(sequence + 1, length, *stream, first, kind)
            sequence += length
            tracer.stored([Record(header, bytes(10 * length), audience, random.choice((0, step)))])
            if random.random() < 0.7:
                tracer.stable(tracer.traced_upto + 1, sequence)
            if random.random() < 0.1:
                told.append(traces.take(step))
        return [*told, traces.take(100)]

    quick = run()
    assert any(row.count > 4 for rows in quick for row in rows)
    monkeypatch.setattr(TraceSum, "extend", lambda *_: False)
    monkeypatch.setattr(TraceSum, "extend_stable", lambda *_: False)
    assert run() == quick
