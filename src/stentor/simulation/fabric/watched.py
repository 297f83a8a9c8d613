"""The machines inside whole nodes, watched: the checkers of a run are told of each of their steps.

A node composes its machines with a client, so what they say leaves it as bytes. A watched machine is the machine
itself; it tells checkers what it was told and what it decided before the node acts on it.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from stentor.machine import Effect, Input
from stentor.model.control import Registration
from stentor.model.errors import Refused
from stentor.model.reports.trace import Trace
from stentor.nodes.client import Settings
from stentor.nodes.containment import senders_of
from stentor.nodes.reliable_endpoint import ReliableEndpoint
from stentor.nodes.repository import RepositoryNode
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher
from stentor.protocols.delivery.repository.repository import TopicRepository
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.stored.read_client import StoredReadClient
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber
from stentor.protocols.delivery.trace_buffer import TraceBuffer

Watch = Callable[[Sequence[Input], list[Effect]], None]


class WatchedTrail(TraceBuffer):
    """A trace buffer that keeps the rows of a step apart from those that wait to be sent."""

    __slots__ = ("fresh",)

    def __init__(self) -> None:
        super().__init__()
        self.fresh: list[Trace] = []

    def add(self, row: Trace) -> None:
        if self.on:
            self.fresh.append(row)
        super().add(row)

    def take_fresh(self) -> list[Trace]:
        fresh, self.fresh = self.fresh, []
        return fresh


class WatchedPublisher(ReliablePublisher):
    watch: Watch

    def step(self, now: int, happened: Input) -> list[Effect]:
        effects = super().step(now, happened)
        self.watch((happened,), effects)
        return effects


class WatchedSubscriber(ReliableSubscriber):
    watch: Watch

    @property
    def wanted(self) -> str | None:
        """The filter with which it was made."""
        return self._where

    def step(self, now: int, happened: Input) -> list[Effect]:
        effects = super().step(now, happened)
        self.watch((happened,), effects)
        return effects


class WatchedRetrieval(StoredReadClient):
    watch: Watch

    def step(self, now: int, happened: Input) -> list[Effect]:
        effects = super().step(now, happened)
        self.watch((happened,), effects)
        return effects


class Stumble(Exception):
    """A machine fails at a peer's letter, for a reason that nobody thought of."""


class WatchedRepository(TopicRepository):
    watch: Watch
    stumbles = False  # at the next message of a peer

    def step(self, now: int, *happened: Input) -> list[Effect]:
        effects = super().step(now, *happened)
        if self.stumbles and senders_of(happened):
            raise Stumble
        self.watch(happened, effects)
        return effects


def watched_end(
    link: Settings, topic: str, machine: ReliablePublisher | ReliableSubscriber, watch: Watch, trail: TraceBuffer
) -> ReliableEndpoint:
    """Return the node of a publisher or subscriber, whose machine is watched from now on."""
    where: str | None = None
    if isinstance(machine, ReliablePublisher):
        machine.__class__ = WatchedPublisher
    else:
        machine.__class__ = WatchedSubscriber
    assert isinstance(machine, WatchedPublisher | WatchedSubscriber)
    machine.watch = watch
    if isinstance(machine, WatchedSubscriber):
        where = machine.wanted
    endpoint = ReliableEndpoint(link, topic, machine, where)
    endpoint._post.traces = machine.traces = trail
    return endpoint


class NodeWatcher(Protocol):
    """The checker that judges what a repository node does."""

    def manages(self, repository: TopicRepository) -> None:
        """A machine for the topic begins, the first one or another after one that failed."""
        ...

    def stepped(self, inputs: Sequence[Input], effects: list[Effect]) -> None: ...

    def replied(self, token: int) -> None:
        """The node itself answers an owner or an operator."""
        ...


class WatchedNode(RepositoryNode):
    """A repository node of which one topic is watched."""

    def __init__(
        self,
        link: Settings,
        settings: RepositorySettings,
        topics: Sequence[str],
        watched: str,
        watcher: NodeWatcher,
        trail: TraceBuffer,
    ) -> None:
        super().__init__(link, settings, topics)
        self._post.traces = trail
        self._watched, self._watcher = watched, watcher

    def _machine(self, topic: str) -> TopicRepository:
        machine = super()._machine(topic)
        if topic == self._watched:
            machine.__class__ = WatchedRepository
            assert isinstance(machine, WatchedRepository)
            machine.watch = self._watcher.stepped
            self._watcher.manages(machine)
        return machine

    def _reply(self, event: Registration, refused: Refused | None = None, report: bytes = b"") -> None:
        self._watcher.replied(event.token)
        super()._reply(event, refused, report)
