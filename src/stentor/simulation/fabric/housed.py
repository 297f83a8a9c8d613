"""A process of reliable delivery as a whole node on a host of the world: its letters travel over real links.

The host decides when the process lives. A start of the host builds the node of the process's next life; the machine of
the process is inside that node, watched. A process that is done for good leaves a host that does nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from stentor.machine import Effect, Input, Machine
from stentor.model.ids import Incarnation, publisher_id
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Spans
from stentor.nodes.client import Settings
from stentor.nodes.client_api import (
    CompleteFlush,
    ConfirmSubscription,
    Connect,
    DenySubscription,
    Disconnect,
    Moved,
    Refuse,
    ResumePublishing,
    TurnEnded,
)
from stentor.nodes.reliable_endpoint import LetterEndpoint
from stentor.nodes.repository import RepositoryNode
from stentor.protocols.delivery.transport import EventsReceived, LetterReceived, LinkUp, Publish, SendLetter
from stentor.simulation.delivery.process import SimProcess
from stentor.simulation.fabric.brokers import HEARTBEAT, FabricStage
from stentor.simulation.fabric.watched import WatchedTrail

_WINDOW = 1 << 20


class Nobody:
    """The machine of a process that has nothing to do any more."""

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        return []


class _Application:
    """A process, as the world sees it."""

    def __init__(self, actor: "Housed") -> None:
        self.told, self.died = actor.act, actor.died


class Housed(SimProcess):
    """Comes before the class of a process among the bases, and puts it on a host."""

    world: FabricStage
    traces: WatchedTrail

    def __init__(self, stage: FabricStage, *args: Any, **kwargs: Any) -> None:
        super().__init__(stage, *args, **kwargs)
        self.host = stage.world.add(self.seat, self._build, _Application(self))
        stage.principals[self.seat] = self.principal
        self._node: Machine | None = None
        self._is_building = False

    @property
    def clock(self) -> int:
        return self.host.now

    # ---- lives

    def start(self) -> None:
        if not self.host.up:
            self.host.start()

    def _build(self) -> Machine:
        """Begin the next life, if there is one."""
        self._node, self._is_building = None, True
        super().start()
        self._is_building = False
        return self._node if self._node is not None else Nobody()

    def begin(self, machine: Machine) -> None:
        self.traces = WatchedTrail()
        super().begin(machine)
        self._node = self.compose(machine)

    def compose(self, machine: Machine) -> Machine:
        """Return the node around a machine."""
        raise NotImplementedError

    def link_settings(self, incarnation: Incarnation) -> Settings:
        return Settings(
            name=self.name,
            addresses=self.world.draw_addresses(self.node if self.is_repository else ""),
            incarnation=incarnation,
            window=_WINDOW,
            buffer=_WINDOW,
            heartbeat=HEARTBEAT,
            can_move=not self.is_repository,
        )

    def crash(self, why: str = "crash") -> None:
        if self.host.up:
            self.note(why)
            self.host.crash(power=False)

    def died(self) -> None:
        super().crash("dies")

    def connect(self) -> None:
        """Its client dials by itself."""

    def wander(self) -> None:
        """It is told where to go when its node is made."""

    def roam(self, pause: int) -> None:  # noqa: ARG002
        self.host.handle(Moved(self.world.draw_addresses()))

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """Unless it crashes before, and when its process runs."""
        life = self.life
        self.world.after(delay, lambda: self.host.soon(action) if self.life == life and self.alive else None)

    def told_traces(self) -> tuple[StreamId, Spans] | None:
        """Return the numbers of the traces that it could tell again, and whose they are; None if it has no link."""
        if not self.alive or not isinstance(self._node, LetterEndpoint | RepositoryNode) or not self._node._post.linked:
            return None
        traces = self._node._post._traces
        return (publisher_id(self.principal, self.name), int(traces._incarnation)), traces.remembered

    # ---- steps

    def handle(self, happened: Input) -> None:
        if self._is_building:
            self.world.world.tell(self.seat, happened)
        else:
            self.host.handle(happened)

    def stepped(self, inputs: Sequence[Input], effects: list[Effect]) -> None:
        """The machine inside the node has made a step."""
        for happened in inputs:
            if isinstance(happened, LinkUp) and not self.is_repository:
                self.node = happened.node  # it may publish in this step, and its application hears of the link after it
            elif isinstance(happened, EventsReceived | LetterReceived):
                self.world.history.watch(self.name, self.node, happened.blocks)
        first, *more = inputs or (TurnEnded(),)  # a repository that has opened a ledger may have heard nothing
        did = self.did(first, effects)
        for happened in more:
            did += self.did(happened, [])
        rows = self.traces.take_fresh()
        if self.traces.on:
            self.testify(did, rows)
        for effect in effects:
            if isinstance(effect, SendLetter | Publish):
                self._acts[type(effect)](effect)
        self.observe()

    def act(self, effect: Effect) -> None:
        """Do what the node leaves to its application."""
        match effect:
            case Connect():
                self._links += 1
                self.link, self.node = self._links, effect.node
            case Disconnect():
                self.link = 0
            case Refuse():
                self._acts[Refuse](effect)
                self.crash("halts")  # its application is told an error, and ends
            case ConfirmSubscription() | DenySubscription() | CompleteFlush() | ResumePublishing():
                pass  # the machine inside is told what it must know of that
            case _:
                self._acts[type(effect)](effect)
