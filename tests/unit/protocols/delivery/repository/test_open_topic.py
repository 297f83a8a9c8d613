"""An open topic at one repository: who publishes is not asked, what is lost is passed, and what is old is forgotten."""

from random import Random

import pytest
from tests.unit.protocols.delivery.script import frame

from stentor.machine import (
    SECOND,
    Collect,
    Commit,
    Committed,
    Effect,
    Input,
    Opened,
    Scan,
    Scanned,
    TimerFired,
)
from stentor.model.communication import end_name
from stentor.model.control import Denial, Recovery, RecoveryResponse, Registration, RegistrationReceipt, TopicTask
from stentor.model.errors import Refusal, Refused
from stentor.model.ids import Incarnation, publisher_id
from stentor.model.trust.access import TopicTerms
from stentor.protocols.delivery.repository.registry import Registry
from stentor.protocols.delivery.repository.repository import TopicRepository, TopicTick
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.transport import (
    AccessShared,
    EventsReceived,
    Founded,
    LetterReceived,
    LinkUp,
    SendLetter,
    ShareAccess,
)
from stentor.simulation.disk import SimulatedDisk
from stentor.storage.segments import SegmentLedger

TERMS = TopicTerms("keeper", 1, 86_400, 86_400, open=True, most=40)


class Desk:
    """A repository whose disk does at once what it is told."""

    def __init__(self, *, traces: bool = False) -> None:
        self.traces = traces
        self.disk = SimulatedDisk(Random(1))
        self.now = SECOND
        self.begin()

    def begin(self) -> None:
        """A life of it."""
        self.ledger = SegmentLedger(self.disk, "t", 4 << 10)
        self.trail = TraceBuffer(self.traces)
        self.repository = TopicRepository("t", RepositorySettings(name="r"), self.trail)
        self.tell(Opened("t", self.ledger.load()), LinkUp("keeper"), Founded(TERMS))

    def tell(self, *happened: Input) -> list[Effect]:
        queue, rest = list(happened), list[Effect]()
        while queue:
            for effect in self.repository.step(self.now, queue.pop(0)):
                if isinstance(effect, Commit):
                    self.ledger.commit(effect.entries)
                    queue.append(Committed("t", effect.token))
                elif isinstance(effect, Scan):
                    found = self.ledger.scan(effect.first, effect.budget)
                    queue.append(Scanned("t", effect.token, found.records, found.damaged))
                elif isinstance(effect, ShareAccess):
                    queue.append(AccessShared(effect.topic, effect.token))
                elif isinstance(effect, Collect):
                    self.ledger.collect(effect.end)
                else:
                    rest.append(effect)
        return rest

    def wait(self, seconds: int = 1) -> list[Effect]:
        self.now += seconds * SECOND
        return self.tell(TimerFired(TopicTick("t")))

    def kinds(self) -> list[tuple[str, int, int]]:
        """What is written of events, in order."""
        records = self.ledger.scan(1, 1 << 20).records
        return [(each.line.kind.name, each.line.first, each.line.last) for each in records if each.line.publisher]

    def ask(self, name: str, principal: str, role: str = "subscriber") -> list[object]:
        """What somebody is told who wants to be steered."""
        end = end_name(role, name, "t")  # type: ignore[arg-type]
        recovery = Recovery(
            "t",
            name,
            role=role,  # type: ignore[arg-type]
            attempt=1,
            principal=principal,
            incarnation=Incarnation(1),
            since="beginning",
            asks=True,
        )
        said = [*self.tell(LetterReceived(publisher_id(principal, end), [recovery])), *self.wait(3), *self.wait(3)]
        return [event for post in said if isinstance(post, SendLetter) for event in post.events]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_tick_that_was_meant_for_a_former_machine_does_not_make_the_next_one_read_twice(desk: Desk) -> None:
    desk.tell(EventsReceived([frame(7, 1, 3)]))
    following = TopicRepository("t", RepositorySettings(name="r"), TraceBuffer(False))
    opened = following.step(desk.now, Opened("t", desk.ledger.load()))
    scan = next(effect for effect in opened if isinstance(effect, Scan))
    assert not [each for each in following.step(desk.now, TimerFired(TopicTick("t"))) if isinstance(each, Scan)]
    following.step(desk.now, Scanned("t", scan.token, [], [], "the disk does not answer"))
    again = following.step(desk.now + 60 * SECOND, TimerFired(TopicTick("t")))
    assert [each for each in again if isinstance(each, Scan)], "what could not be read is read later"


def test_whoever_publishes_is_stored_without_being_asked(desk: Desk) -> None:
    desk.tell(EventsReceived([frame(7, 1, 3), frame(8, 1, 2)]))
    assert desk.kinds() == [("EVENTS", 1, 3), ("EVENTS", 1, 2)]
    assert desk.repository.log.horizon == desk.repository.log.next - 1


def test_a_gap_holds_nobody_up(desk: Desk) -> None:
    desk.tell(EventsReceived([frame(7, 5, 2)]))
    assert desk.repository.log.horizon < desk.repository.log.next - 1
    desk.wait()
    assert ("VOID", 1, 4) in desk.kinds()
    assert desk.repository.log.horizon == desk.repository.log.next - 1
    desk.tell(EventsReceived([frame(7, 9, 1)]))
    desk.wait()
    assert desk.repository.log.streams[7, 1].voids.within(1, 9) == [(1, 4), (7, 8)]


def test_what_comes_twice_is_stored_once(desk: Desk) -> None:
    desk.tell(EventsReceived([frame(7, 1, 3), frame(7, 1, 3)]))
    assert desk.kinds() == [("EVENTS", 1, 3)]


def test_it_founds_itself_once(desk: Desk) -> None:
    desk.tell(EventsReceived([frame(7, 1, 3)]))
    before = desk.repository.log.next
    desk.begin()
    assert desk.repository.registry.terms == TERMS
    assert desk.repository.log.next == before
    desk.tell(EventsReceived([frame(7, 1, 3), frame(7, 4, 1)]))
    assert desk.kinds() == [("EVENTS", 1, 3), ("EVENTS", 4, 4)]


def test_what_is_too_much_is_forgotten_with_the_stream_and_for_ever(desk: Desk) -> None:
    for first in range(1, 31, 3):
        desk.tell(EventsReceived([frame(7, first, 3)]))
    for first in range(1, 60, 3):
        desk.tell(EventsReceived([frame(8, first, 3)]))
    desk.wait(10)
    for _ in range(2):
        assert (7, 1) not in desk.repository.log.streams
        assert (8, 1) in desk.repository.log.streams
        kept = desk.repository.log.next - desk.repository.log.first
        assert 40 <= kept < 46
        desk.begin()
        desk.wait(10)
    desk.tell(EventsReceived([frame(7, 31, 1)]))  # it was only silent
    desk.wait()
    assert desk.repository.log.horizon == desk.repository.log.next - 1


def test_those_who_read_hold_nothing_up_either(desk: Desk) -> None:
    assert [answer for answer in desk.ask("audit", "me") if isinstance(answer, RecoveryResponse)]
    for first in range(1, 90, 3):
        desk.tell(EventsReceived([frame(7, first, 3)]))
    for first in range(1, 60, 3):
        desk.tell(EventsReceived([frame(8, first, 3)]))
    desk.wait(10)
    assert desk.repository.log.next - desk.repository.log.first < 46
    assert (7, 1) not in desk.repository.table.destinations["audit"].done


def test_a_name_belongs_to_who_came_first_until_it_is_revoked(desk: Desk) -> None:
    assert [answer for answer in desk.ask("audit", "me") if isinstance(answer, RecoveryResponse)]
    assert [answer.code for answer in desk.ask("audit", "you") if isinstance(answer, Denial)] == [
        Refusal.NOT_AUTHORISED
    ]
    sender = publisher_id("keeper", "op")
    revoke = Registration(
        "t", "op", token=1, task=TopicTask.REVOKE, principal="keeper", role="subscriber", name="audit"
    )
    said = desk.tell(LetterReceived(sender, [revoke], requester="op"))
    told = [event for post in said if isinstance(post, SendLetter) for event in post.events]
    assert [each.code for each in told if isinstance(each, RegistrationReceipt)] == [None]
    assert [each.code for each in told if isinstance(each, Denial)] == [Refusal.NOT_AUTHORISED]
    assert [answer for answer in desk.ask("audit", "you") if isinstance(answer, RecoveryResponse)]


def test_nobody_publishes_reliably(desk: Desk) -> None:
    assert [answer.code for answer in desk.ask("shop", "me", "publisher") if isinstance(answer, Denial)] == [
        Refusal.NOT_AUTHORISED
    ]


@pytest.mark.parametrize(("topic", "is_open"), [("t", True), ("$stentor/trace/r", False)])
def test_traces_are_read_by_whoever_runs_their_repository_and_by_those_who_were_granted_it(
    topic: str, is_open: bool
) -> None:
    registry = Registry("r")
    registry.create(TERMS, {"r": "keeper"})
    registry.grant("subscriber", "audit", "auditor")
    for name, principal, may in (
        ("", "keeper", True),
        ("me", "keeper", True),
        ("audit", "auditor", True),
        ("audit", "mallory", False),
        ("", "mallory", is_open),
        ("me", "mallory", is_open),
    ):
        if may:
            registry.check_reader(topic, name, principal)
        else:
            with pytest.raises(Refused):
                registry.check_reader(topic, name, principal)
