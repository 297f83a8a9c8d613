"""What the parts of a repository share: all that it knows of one topic, and the step in which they act upon it.

What is held here is data, which knows neither the time nor what follows. Parts read it, change it by its methods, and
emit effects through `step`, in the order in which they are to be done.
"""

from collections.abc import Sequence

from stentor.machine import Step
from stentor.model.communication import bundle_of, inbox_of, repository_name
from stentor.model.control import ControlEvent, GossipFacts
from stentor.model.stored.record import Fact
from stentor.protocols.delivery.replication.bundle import Bundle, PeerRepository
from stentor.protocols.delivery.repository.ledger_reads import LedgerReads
from stentor.protocols.delivery.repository.registry import Registry
from stentor.protocols.delivery.repository.service import Service
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable
from stentor.protocols.delivery.repository.serving.mailboxes import Mailboxes
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.repository.storing.recent_records import Budget
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import SendLetter
from stentor.wire.block import Block


class TopicState:
    """One topic at one repository."""

    def __init__(self, topic: str, settings: RepositorySettings, budget: Budget | None = None) -> None:
        self.topic = topic
        self.settings = settings
        self.step = Step()
        self.service = Service()
        is_mail = topic == settings.mail
        self.registry = Registry(settings.name, is_mail=is_mail)
        # Invariant: the log and the table speak of these streams, and of no others.
        self.streams = Streams(self.registry.is_closed)
        self.table = DisseminationTable(self.streams)
        self.mailboxes = Mailboxes(self.table, is_mail=is_mail)
        self.log = EventLog(
            self.streams,
            budget or Budget(settings.tail),
            self.mailboxes.audience,
            selective=bool(settings.unit),
            is_introduced=self.registry.introduces,
            is_told_of=self.registry.tells_of,
        )
        self.bundle = Bundle(settings.name, settings.unit)
        self.reads = LedgerReads(topic, self.step)
        self.size = 0  # bytes on the disk
        self.unopened = ""  # why the ledger could not be opened when that was last tried

    def report(self, level: str, what: str, **details: str | int | float) -> None:
        """Tell people something about this topic."""
        self.step.report(level, what, topic=self.topic, **details)

    def send(self, to: str, *events: ControlEvent, blocks: Sequence[Block] = ()) -> None:
        """Send a letter to whoever listens to a topic: to a client, most often."""
        self.step.emit(SendLetter(to, events, blocks))

    def say(self, event: ControlEvent, to: PeerRepository | str | None = None, *more: ControlEvent) -> None:
        """Say something to the whole bundle, or to one repository: all in one letter, which comes or is lost as a
        whole.
        """
        if to is None and not self.bundle.peers:
            return
        name = to.name if isinstance(to, PeerRepository) else to
        self.send(bundle_of(self.topic) if name is None else inbox_of(repository_name(name)), event, *more)

    def register(self, facts: Sequence[Fact]) -> None:
        """Write registrations, and tell the other repositories at once."""
        if facts:
            self.log.register(facts)
            shared = tuple(self.registry.shared(fact.key) for fact in facts)
            self.say(GossipFacts(self.topic, self.settings.name, shared))
