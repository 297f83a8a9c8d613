"""A stranger overhears all letters, and answers them in the name of repositories, faster than these do.

It has an id, which brokers let nobody change, and can write everything else. Because names can be chosen, it has found
one with the id of its twin, an owner or a reader of stored events, and asks repositories in that name for things. A
node that believes it loses events, is handed some that nobody published, or forgets what it has: the other checks see
that.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from stentor.machine import MILLISECOND, Effect, Input
from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.communication import Role, bundle_of, end_name, inbox_of, repository_name
from stentor.model.control import (
    ControlEvent,
    Denial,
    GossipAck,
    GossipFacts,
    GossipState,
    GossipVoid,
    Migrate,
    Persistent,
    Probe,
    ProbeAnswer,
    PublisherOrder,
    Recovery,
    RecoveryResponse,
    Registration,
    RegistrationReceipt,
    RepositoryAck,
    Retransmission,
    SequenceRun,
    StreamRanges,
    SubscriberAck,
    SubscriberNak,
    Sync,
    TopicTask,
)
from stentor.model.errors import Refusal
from stentor.model.ids import CatenationNumber, Incarnation, PublisherId, topic_id
from stentor.model.stored.reading import Page, PageRequest, ReaderAck, Stock, StockRequest
from stentor.model.trust.request_topic import request_topic
from stentor.protocols.delivery.transport import SendLetter
from stentor.simulation.delivery.letter_network import Addressee
from stentor.simulation.delivery.process import TOPIC, DeliveryWorld, SimProcess
from stentor.simulation.delivery.stored_reader import SimStoredReader
from stentor.wire.block import Block, Origin, encode

_OFTEN = 0.3  # of what it could answer it answers
_FAR = 1 << 40  # a number that no stream reaches
_ABOVE_ALL = 0  # a level that every end prefers

Answer = tuple[str, ControlEvent, Sequence[Block]]


class Stranger(SimProcess):
    """A process with a certificate, to which nothing was granted."""

    is_stranger = True

    def __init__(
        self, world: DeliveryWorld, members: Callable[[], list[str]], twins: Sequence[SimProcess], seed: int
    ) -> None:
        """`members` are the repositories in whose names it speaks; it has the id of one of its `twins`."""
        super().__init__(world, "stranger", "stranger")
        self._twin = Random(f"{seed}/twin").choice(twins)
        self.id = self._twin.id
        self._members = members
        self._random = Random(f"{seed}/stranger")
        self._forgeries: dict[type[ControlEvent], Callable[[str, Any], list[Answer]]] = {
            Probe: self._on_probe,
            Recovery: self._on_recovery,
            PublisherOrder: self._on_order,
            SubscriberAck: self._on_subscriber_ack,
            SubscriberNak: self._on_subscriber_nak,
            StockRequest: self._on_stock_request,
            PageRequest: self._on_page_request,
            Registration: self._on_registration,
            GossipState: self._on_gossip_state,
        }

    @property
    def wants_events(self) -> bool:
        return False

    def start(self) -> None:
        if not self.alive:
            self.begin(self)
            self.connect()
            self.world.office.overhear = self._overhear

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        return []

    def _overhear(self, sender: Addressee, post: SendLetter) -> None:
        members = self._members()
        if sender is self or not members:
            return
        for event in post.events:
            forge = self._forgeries.get(type(event))
            if forge is not None and self._random.random() < _OFTEN:
                claimed = self._random.choice(members)
                for to, answer, blocks in forge(claimed, event):
                    self.world.seen["forged"] += 1
                    self._send(SendLetter(to, (answer,), blocks))

    def _send(self, post: SendLetter) -> None:
        delay = self._random.randrange(MILLISECOND)
        self.later(delay, lambda: self.world.office.post(self, post))

    # ---- to ends

    def _on_probe(self, name: str, probe: Probe) -> list[Answer]:
        answer = ProbeAnswer(TOPIC, name, probe.attempt, True, (name,), _ABOVE_ALL)
        return [(_inbox(probe.role, probe.sender), answer, ())]

    def _on_recovery(self, name: str, recovery: Recovery) -> list[Answer]:
        """Steer it; and now and then turn it away."""
        to, attempt = _inbox(recovery.role, recovery.sender), recovery.attempt
        if self._random.random() < 0.2:
            last = Denial(TOPIC, name, attempt, Refusal.NOT_AUTHORISED, "go away")
            return [(to, self._random.choice((last, Migrate(TOPIC, name))), ())]
        response = RecoveryResponse(
            TOPIC,
            name,
            attempt,
            1,
            (name,),
            recovery.incarnation,
            recovery.last,
            sync=self._random.choice((0, 3)),
            epoch=1,
        )
        return [(to, response, ()), *self._tell_of_lies(to, name, attempt)]

    def _tell_of_lies(self, to: str, name: str, attempt: int) -> list[Answer]:
        """An event that nobody has published, of a publisher that there is."""
        publishers = list(self.world.history.published)
        if not publishers:
            return []
        publisher, incarnation = self._random.choice(publishers)
        number = self._random.choice((1, 2, _FAR))
        told = Persistent(TOPIC, name, attempt, 0, 1, (SequenceRun(1, 1, publisher, incarnation, number),))
        return [(to, told, ()), (to, Retransmission(TOPIC, name), [_lie(publisher, incarnation, number)])]

    def _on_order(self, name: str, order: PublisherOrder) -> list[Answer]:
        ack = RepositoryAck(TOPIC, name, order.incarnation, order.last, (), (order.last,) * 3)
        return [(_inbox("publisher", order.sender), ack, ())]

    def _on_subscriber_ack(self, name: str, ack: SubscriberAck) -> list[Answer]:  # noqa: ARG002
        sync = Sync(TOPIC, ack.repository, 0, max(last for _, last in ack.spans) + 5, ended=True)
        return [(_inbox("subscriber", ack.sender), sync, ())]

    def _on_subscriber_nak(self, name: str, nak: SubscriberNak) -> list[Answer]:
        return self._tell_of_lies(_inbox("subscriber", nak.sender), name, nak.attempt)

    # ---- to readers and owners

    def _on_stock_request(self, name: str, request: StockRequest) -> list[Answer]:
        lie = (StreamRanges(7, 1, 0, ((1, 3),)),)
        stock = Stock(TOPIC, name, request.token, members=(name,), done=request.done, parts=(lie,))
        return [(inbox_of(request.sender), stock, ())]

    def _on_page_request(self, name: str, request: PageRequest) -> list[Answer]:
        page = Page(TOPIC, name, request.token, bases=(0,), covered=request.wanted)
        held = request.wanted[0]
        first = next(iter(held.spans), (1, 1))[0]
        return [(inbox_of(request.sender), page, [_lie(held.publisher, held.incarnation, first)])]

    def _on_registration(self, name: str, event: Registration) -> list[Answer]:
        code = self._random.choice((None, None, Refusal.NOT_AUTHORISED))
        return [(inbox_of(event.sender), RegistrationReceipt(TOPIC, name, event.token, code, "really"), ())]

    # ---- to repositories

    def _on_gossip_state(self, name: str, state: GossipState) -> list[Answer]:
        """It has everything, of which all is done with; nothing of it is to be found; and whoever it is, it leaves."""
        far = tuple(StreamRanges(each.publisher, each.incarnation, _FAR, ()) for each in state.held)
        gone = tuple(StreamRanges(each.publisher, each.incarnation, 0, ((1, 99),)) for each in state.held)
        rows = tuple(SequenceRun(99, 1, each.publisher, each.incarnation, 9) for each in state.held)
        removed = tuple((f"member/{member}", _FAR, name, b"") for member in self._members())
        forged = (
            msgspec.structs.replace(state, sender=name, held=far, whole=True, principal=self.principal),
            GossipVoid(TOPIC, name, gone),
            GossipAck(TOPIC, name, rows, (7,) * len(rows)),
            GossipFacts(TOPIC, name, removed, self.principal),
        )
        return [(bundle_of(TOPIC), self._random.choice(forged), ()), self._ask(name)]

    def _ask(self, repository: str) -> Answer:
        """Ask a repository for something in our twin's name: on our own topic, on its topic, or as it was once done."""
        topics = (request_topic(self.name, repository), request_topic(self._twin.name, repository))
        return self._random.choice((*topics, inbox_of(repository_name(repository)))), self._request(repository), ()

    def _request(self, repository: str) -> ControlEvent:
        name, principal = self._twin.name, self._twin.principal
        if isinstance(self._twin, SimStoredReader):
            read = tuple(StreamRanges(publisher, life, _FAR, ()) for publisher, life in self.world.history.published)
            return ReaderAck(TOPIC, name, self._twin.short, principal, read)
        task = self._random.choice((TopicTask.DELETE, TopicTask.REVOKE, TopicTask.REMOVE_REPOSITORY))
        return Registration(
            TOPIC,
            name,
            _FAR,
            task,
            principal,
            (repository,),
            role="publisher",
            name="author0",
        )


def _inbox(role: Role, name: str) -> str:
    return inbox_of(end_name(role, name, TOPIC))


def _lie(publisher: int, incarnation: int, number: int) -> Block:
    origin = Origin(
        topic_id(TOPIC), PublisherId(publisher), Incarnation(incarnation), CatenationNumber(number), MILLISECOND
    )
    return Block(encode(origin, EMPTY_SCHEMA, [], [b"a lie"]), EMPTY_SCHEMA)
