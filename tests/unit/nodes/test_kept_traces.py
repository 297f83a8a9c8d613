"""A repository node keeps the traces that it hears, and asks for those that it does not."""

from typing import TYPE_CHECKING

import msgspec

from stentor.machine import Commit, Committed, Effect, Input, Open, Opened, Scan, Scanned, Started, Step, TimerFired
from stentor.model.communication import inbox_of
from stentor.model.ids import Incarnation, publisher_id
from stentor.model.reports.trace import Trace, TraceKind, kept_of
from stentor.model.stored.record import LedgerContents, Record, RecordKind
from stentor.model.stored.span import Span
from stentor.nodes.client import Settings
from stentor.nodes.letter_transport import LetterTransport, TracesDue
from stentor.nodes.repository import RepositoryNode
from stentor.protocols.delivery.besteffort.publish_queue import PublishQueue
from stentor.protocols.delivery.settings import RepositorySettings

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Actor, Stage

BEGIN = 10**18  # on clocks on walls
NAME = "subscriber:west:flights"


class Keeper:
    """A repository node over ledgers that are quick and never fail."""

    def __init__(self) -> None:
        link = Settings(name="repository:r1", incarnation=Incarnation(1), addresses=("anywhere",))
        self._node = RepositoryNode(link, RepositorySettings(name="r1"))
        self.kept: list[Span] = []  # numbers of the traces of `NAME` that are durable

    def step(self, now: int, happened: Input) -> list[Effect]:
        done: list[Effect] = []
        is_timed = isinstance(happened, Started | TimerFired)
        inputs = [msgspec.structs.replace(happened, wall=BEGIN + now) if is_timed else happened]
        while inputs:
            for effect in self._node.step(now, inputs.pop(0)):
                if isinstance(effect, Open):
                    inputs.append(Opened(effect.ledger, LedgerContents(), wall=BEGIN + now))
                elif isinstance(effect, Commit):
                    self._note(effect)
                    inputs.append(Committed(effect.ledger, effect.token))
                elif isinstance(effect, Scan):
                    inputs.append(Scanned(effect.ledger, effect.token, []))
                else:
                    done.append(effect)
        return done

    def _note(self, commit: Commit) -> None:
        assert commit.ledger == kept_of("r1")
        records = [each for each in commit.entries if isinstance(each, Record)]
        lines = [each.line for each in records if each.line.kind is RecordKind.EVENTS]
        self.kept += [(line.first, line.last) for line in lines if line.incarnation == 2]


class Teller:
    """A node that does nothing but tell traces."""

    def __init__(self) -> None:
        self._step = Step()
        self.post = LetterTransport(
            Settings(name=NAME, incarnation=Incarnation(2), addresses=("anywhere",)), self._step
        )
        self.post.listen(inbox_of(NAME))

    def step(self, now: int, happened: Input) -> list[Effect]:
        self._step.now = now
        self.post.handle(happened)
        self.post.send()
        return self._step.end()


def occupy(stage: "Stage", actor: "Actor", machine: Keeper | Teller) -> None:
    """Put a node into the place of a client."""
    actor.machine = machine  # type: ignore[assignment]
    stage.cut(actor)
    actor.do(Started())


def tell(stage: "Stage", actor: "Actor", teller: Teller, count: int = 1) -> None:
    for number in range(count):
        teller.post.traces.add(Trace(kind=TraceKind.RELEASED, at=stage.now, first=10 * number + 1))
    actor.do(TimerFired(TracesDue()))


def enter(stage: "Stage") -> tuple[Keeper, "Actor", Teller]:
    stage.wait(1)  # nothing begins at 0
    keeper, teller = Keeper(), Teller()
    occupy(stage, stage.client("repository:r1"), keeper)
    actor = stage.client(NAME)
    occupy(stage, actor, teller)
    stage.wait(20)  # after that its topic rests, since it has heard nothing
    return keeper, actor, teller


def test_traces_are_written_a_second_after_they_were_heard_also_while_their_topic_rests(
    new_stage: "type[Stage]",
) -> None:
    stage = new_stage(traces=True)
    keeper, actor, teller = enter(stage)
    for number in range(1, 20):
        tell(stage, actor, teller)
        stage.wait(1)
        assert keeper.kept[-1:] == [(number, number)]
        stage.wait(0.3)


def test_traces_that_were_lost_on_the_way_are_asked_for_and_kept(new_stage: "type[Stage]") -> None:
    stage = new_stage(traces=True)
    keeper, actor, teller = enter(stage)
    tell(stage, actor, teller, 3)
    stage.wait(1)
    lost = [Trace(kind=TraceKind.RELEASED, at=stage.now)]
    teller.post._traces.send(stage.now, 0, publisher_id("anonymous", NAME), lost, PublishQueue())  # which nobody sends
    tell(stage, actor, teller, 2)
    stage.wait(2)
    assert sorted(keeper.kept) == [(1, 3), (4, 4), (5, 6)]
