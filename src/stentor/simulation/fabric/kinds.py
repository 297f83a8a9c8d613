"""Who takes part in a fabric: the processes of reliable delivery, as whole nodes."""

from collections.abc import Sequence
from typing import Any

from stentor.machine import CloseLedger, Collect, Commit, Discard, Effect, Input, Machine, Open, Opened
from stentor.model.reports.trace import Trace
from stentor.model.stored.record import LedgerContents, StreamId
from stentor.model.stored.span import Spans
from stentor.nodes.conclusion import Concluded
from stentor.nodes.reliable_endpoint import LetterEndpoint, StoredReadEndpoint
from stentor.nodes.repository import RepositoryNode
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher
from stentor.protocols.delivery.repository.repository import TopicRepository
from stentor.protocols.delivery.stored.read_client import StoredReadClient
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber
from stentor.protocols.delivery.transport import SendLetter
from stentor.simulation.checkers import trace_checker
from stentor.simulation.delivery.owner import SimOwner
from stentor.simulation.delivery.participants import Kinds
from stentor.simulation.delivery.process import TOPIC, SimProcess
from stentor.simulation.delivery.publisher import SimPublisher
from stentor.simulation.delivery.repository import YEAR, SimRepository
from stentor.simulation.delivery.resuming_publisher import SimResumingPublisher
from stentor.simulation.delivery.stored_reader import SimStoredReader
from stentor.simulation.delivery.stranger import Stranger
from stentor.simulation.delivery.subscriber import SimSubscriber
from stentor.simulation.disk import SimulatedDisk
from stentor.simulation.fabric.brokers import FabricStage
from stentor.simulation.fabric.housed import Housed, Nobody
from stentor.simulation.fabric.watched import WatchedNode, WatchedRetrieval, watched_end
from stentor.storage.ledger import Excerpt, LedgerDamaged, LedgerError


class HousedOwner(Housed, SimOwner):
    def compose(self, machine: Machine) -> Machine:
        return _letter_writer(self, machine)

    def step(self, now: int, happened: Input) -> list[Effect]:
        effects = super().step(now, happened)
        self.stepped((happened,), effects)
        return effects


class HousedStoredReader(Housed, SimStoredReader):
    def compose(self, machine: Machine) -> Machine:
        assert isinstance(machine, StoredReadClient)
        machine.__class__ = WatchedRetrieval
        assert isinstance(machine, WatchedRetrieval)
        machine.watch = self.stepped
        endpoint = StoredReadEndpoint(self.link_settings(self.world.begin_life(self.name)), machine)
        endpoint._post.traces = self.traces
        return endpoint


class Forge(Input, frozen=True, tag="forge"):
    """A stranger has a letter to send."""

    post: SendLetter


class HousedStranger(Housed, Stranger):
    """A stranger with the id that brokers give it: it has found no name with the id of somebody else."""

    def compose(self, machine: Machine) -> Machine:
        return _letter_writer(self, machine)

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        return [happened.post] if isinstance(happened, Forge) else []

    def _send(self, post: SendLetter) -> None:
        self.later(0, lambda: self.handle(Forge(post)))


def _letter_writer(actor: Housed, machine: Machine) -> Machine:
    """Return a client whose letters a machine writes and reads, as the asyncio shell of owners does."""
    endpoint = LetterEndpoint(actor.link_settings(actor.world.begin_life(actor.name)), TOPIC, machine)
    endpoint._post.traces = actor.traces
    return endpoint


class HousedPublisher(Housed, SimPublisher):
    def compose(self, machine: Machine) -> Machine:
        assert isinstance(machine, ReliablePublisher)
        return watched_end(self.link_settings(self._incarnation), TOPIC, machine, self.stepped, self.traces)


class HousedResumingPublisher(HousedPublisher, SimResumingPublisher):
    pass


class HousedSubscriber(Housed, SimSubscriber):
    def compose(self, machine: Machine) -> Machine:
        assert isinstance(machine, ReliableSubscriber)
        return watched_end(self.link_settings(self._incarnation), TOPIC, machine, self.stepped, self.traces)


class HousedRepository(Housed, SimRepository):
    """A repository node over its ledgers; the checkers look at the topic of the run alone."""

    def __init__(self, stage: FabricStage, *args: Any, **kwargs: Any) -> None:
        super().__init__(stage, *args, **kwargs)
        self._lead = 0  # of the clock on its wall
        self._acts[Open] = self._open
        self._acts[Concluded] = lambda _: stage.seen.update(["concluded"])
        self._acts[CloseLedger] = self._fall_asleep

    def new_disk(self, ledger: str) -> SimulatedDisk:
        return self.world.new_disk(self.seat, ledger)

    @property
    def serves(self) -> bool:
        """Whether its process manages the topic: not while it throws it away, or has not been invited again."""
        return super().serves and self.repository is not None

    @property
    def wall(self) -> int:
        return self.host.now + self._lead

    def _build(self) -> Machine:
        if self.dead:
            return Nobody()
        self._lead = YEAR + self.world.now - self.host.now
        self.begin(Nobody())
        assert self._node is not None
        return self._node

    def compose(self, machine: Machine) -> Machine:  # noqa: ARG002
        link = self.link_settings(self.world.begin_life(self.name))
        topics = self.ledgers.topics()
        return WatchedNode(link, self.settings, topics, TOPIC, self, self.traces)

    def manages(self, repository: TopicRepository) -> None:
        """Also one that had left, and was invited again."""
        self.repository = repository
        if self.left:
            self.left = self.leaving = False

    def replied(self, token: int) -> None:
        self.world.history.receipts.add((self.short, token))

    def cut_power(self, why: str = "power cut") -> None:
        self.note(why)
        self.host.crash(power=True, silent=True)
        self.world.seen["power-cut"] += 1

    def stepped(self, inputs: Sequence[Input], effects: list[Effect]) -> None:
        for happened in inputs:
            self._came.note(happened, self.wall)
            if isinstance(happened, Opened) and not happened.reason and self.repository is not None:
                self.forget_dropped(self.repository)
        super().stepped(inputs, effects)
        if self.repository is not None and self.repository.is_open:
            self._is_opening = False

    def testify(self, did: trace_checker.Told, rows: list[Trace]) -> None:
        SimProcess.testify(self, did, rows)
        self.check_noted(rows)

    def kept_traces(self) -> list[tuple[StreamId, Spans]]:
        """Return the numbers of the traces that it keeps, by whom they are."""
        if not self.alive or not isinstance(self._node, RepositoryNode):
            return []
        managed = self._node._managed.get(self._node._kept)
        return [(key, stream.stored) for key, stream in managed.machine.log.streams.items()] if managed else []

    # ---- the ledgers

    def _open(self, effect: Open) -> None:
        self.ledgers.queue(effect.ledger, lambda: self._load(effect.ledger))

    def _fall_asleep(self, effect: CloseLedger) -> None:
        """Its ledger is left as a crash would leave it: the next machine begins with what is on the disk."""
        if effect.ledger == TOPIC:
            self.world.seen["asleep"] += 1

    def _load(self, ledger: str) -> None:
        try:
            contents = self.ledgers.open(ledger)
        except LedgerDamaged as damaged:
            if ledger == TOPIC:
                self.destroyed(damaged)
            self.handle(Opened(ledger, LedgerContents(), str(damaged), wall=self.wall))
            return
        except LedgerError as error:
            self.handle(Opened(ledger, LedgerContents(), str(error), wall=self.wall))
            return
        if ledger == TOPIC:
            self.look_into(contents)
        self.handle(Opened(ledger, contents, wall=self.wall))

    def writing(self, commit: Commit) -> None:
        if commit.ledger == TOPIC:
            super().writing(commit)

    def written(self, commit: Commit) -> None:
        if commit.ledger == TOPIC:
            super().written(commit)

    def read(self, ledger: str, excerpt: Excerpt) -> None:
        if ledger == TOPIC:
            super().read(ledger, excerpt)

    def _collect(self, collect: Collect) -> None:
        if collect.ledger == TOPIC:
            super()._collect(collect)
            return
        try:
            self.ledgers.collect(collect)
        except LedgerError as error:
            self.note(f"cannot collect: {error}")

    def _discard(self, discard: Discard) -> None:
        if discard.ledger != TOPIC:
            self.ledgers.queue(discard.ledger, lambda: self.ledgers.discard(discard.ledger))
            return
        assert self.repository is not None
        registry, self.repository = self.repository.registry, None
        self.ledgers.queue(TOPIC, lambda: self.throw_away(registry))


HOUSED = Kinds(
    HousedOwner,
    HousedRepository,
    HousedPublisher,
    HousedResumingPublisher,
    HousedSubscriber,
    HousedStoredReader,
    HousedStranger,
)
