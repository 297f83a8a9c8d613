"""The owner of the topic: asks repositories to register something, again and again until one has done it."""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from stentor.machine import MILLISECOND, Effect, Input
from stentor.model.control import Registration, RegistrationReceipt, TopicTask
from stentor.model.errors import Refusal
from stentor.model.trust.request_topic import request_topic
from stentor.protocols.delivery.authentication import BundleMembers
from stentor.protocols.delivery.transport import LetterReceived, LinkDown, LinkUp, SendLetter
from stentor.simulation.delivery.process import TOPIC, DeliveryWorld, SimProcess

_AGAIN = 150 * MILLISECOND


class RequestDue(Input, frozen=True, tag="ask"):
    """It is time to ask the repositories again."""

    to: str


class OwnerRequest(msgspec.Struct):
    """Something that the owner wants done; any one of the repositories may do it."""

    registration: Registration
    ask: Sequence[str]
    then: Callable[[RegistrationReceipt], None] | None = None


class SimOwner(SimProcess):
    """The owner, or whoever else asks for such things, as a process with a machine of its own: nothing fails it but the
    letter network.
    """

    def __init__(self, world: DeliveryWorld, name: str = "owner", principal: str = "owner", token: int = 0) -> None:
        super().__init__(world, name, principal)
        self.requests: deque[OwnerRequest] = deque()  # of which the first one is asked for
        self.refused: list[RegistrationReceipt] = []
        self.believed = BundleMembers()  # all repositories that there are
        self._token = token  # the last one that was used: no two of a run are the same

    @property
    def wants_events(self) -> bool:
        return False

    def start(self) -> None:
        self.begin(self)
        self.connect()
        self._ask()

    def request(
        self,
        task: TopicTask,
        ask: Sequence[str],
        then: Callable[[RegistrationReceipt], None] | None = None,
        **details: object,
    ) -> None:
        self._token += 1
        registration = Registration(TOPIC, self.name, token=self._token, task=task, principal=self.principal, **details)  # type: ignore[arg-type]
        self.requests.append(OwnerRequest(registration, ask, then))

    def _ask(self) -> None:
        self._ask_now()
        self.later(_AGAIN, self._ask)

    def _ask_now(self) -> None:
        if self.requests:
            self.handle(RequestDue(self.world.random.choice(self.requests[0].ask)))

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        match happened:
            case RequestDue(to) if self.requests:
                registration = msgspec.structs.replace(self.requests[0].registration, after=self.world.brokers.ended)
                return [SendLetter(request_topic(self.name, to), (registration,))]
            case LetterReceived():
                for event in happened.events:
                    if isinstance(event, RegistrationReceipt) and self.believed.wrote(happened.sender, event.sender):
                        self._receive(event)
            case LinkUp() | LinkDown():
                pass
        return []

    def _receive(self, receipt: RegistrationReceipt) -> None:
        if not self.requests or receipt.token != self.requests[0].registration.token:
            return
        if (receipt.sender, receipt.token) not in self.world.history.receipts:
            self.accuse("forged-receipt", f"{receipt.sender} never said {receipt}")
        if receipt.code is Refusal.BUSY or (receipt.code is Refusal.UNKNOWN and "earlier" in receipt.reason):
            return  # that one has a topic of this name which was deleted: another one is asked, or this one again
        if receipt.code is Refusal.UNKNOWN and "does not manage" in receipt.reason:
            self.requests[0].ask = tuple(self.believed.principals)  # it was never told that it does, so ask any other
            return
        request = self.requests.popleft()
        if receipt.code is not None:
            self.refused.append(receipt)
        if request.then is not None:
            request.then(receipt)
        self.later(0, self._ask_now)
