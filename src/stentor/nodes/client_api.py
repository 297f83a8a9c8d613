"""What an application and its client say to each other: the inputs and effects above the link."""

from collections.abc import Mapping, Sequence

from stentor.machine import Effect, Input
from stentor.model.errors import Refusal
from stentor.model.ids import SubscriptionId, TopicId
from stentor.model.messages import (
    AdminReceipt,
    AdminRequest,
    ExplanationReport,
    ExplanationRequest,
    SettlementReport,
    SettlementRequest,
    StatusReport,
    StatusRequest,
    ViewReport,
    ViewRequest,
)
from stentor.model.trust.access_messages import AccessFacts, AccessReceipt, AccessReport, AccessRequest
from stentor.protocols.delivery.endpoint_api import Refuse as Refuse
from stentor.protocols.delivery.endpoint_api import ResumePublishing as ResumePublishing
from stentor.protocols.delivery.endpoint_api import TurnEnded as TurnEnded
from stentor.wire.block import Block

Question = (
    StatusRequest | ViewRequest | ExplanationRequest | SettlementRequest | AccessRequest | AdminRequest | AccessFacts
)
Answer = StatusReport | ViewReport | ExplanationReport | SettlementReport | AccessReport | AdminReceipt | AccessReceipt

# ---- what the application says


class SubscribeRequested(Input, frozen=True, gc=False, tag="wished"):
    """A subscription; who is `eager` takes whatever comes and need not demand it."""

    subscription: SubscriptionId
    pattern: str
    where: str = ""
    eager: bool = False


class UnsubscribeRequested(Input, frozen=True, gc=False, tag="unwished"):
    subscription: SubscriptionId


class MoreRequested(Input, frozen=True, gc=False, tag="demanded"):
    """The application can take more events of a subscription; one Deliver follows, now or when some come."""

    subscription: SubscriptionId


class FlushRequested(Input, frozen=True, gc=False, tag="flush requested"):
    token: int


class FlowCheckRequested(Input, frozen=True, gc=False, tag="flow check requested"):
    """Whether the broker takes what was offered before this; a CompleteFlush follows, and before it a RefuseFlow if
    not."""

    token: int


class Asked(Input, frozen=True, gc=False, tag="asked"):
    """A question to the broker, under a token of its own; a AnswerQuery with the answer follows, or a CompleteFlush
    with a reason."""

    question: Question


class BundleWatched(Input, frozen=True, gc=False, tag="bundle watched"):
    """The application wants to know which repositories manage a topic; a TellBundle follows, and one on each change."""

    topic: str


class Moved(Input, frozen=True, gc=False, tag="moved"):
    """From now on the client is at home at one of these addresses."""

    addresses: tuple[str, ...]


# ---- what the application is told


class Deliver(Effect, frozen=True, tag="deliver"):
    """Verified events of a subscription; `missed` were dropped before them."""

    subscription: SubscriptionId
    blocks: Sequence[Block]
    missed: int


class ConfirmSubscription(Effect, frozen=True, gc=False, tag="confirm"):
    """A subscription is in force (again, after each reconnection)."""

    subscription: SubscriptionId


class DenySubscription(Effect, frozen=True, gc=False, tag="deny"):
    """A subscription was refused."""

    subscription: SubscriptionId
    code: Refusal
    reason: str


class RefuseFlow(Effect, frozen=True, gc=False, tag="refuse flow"):
    """Whatever is published on a topic is dropped by the broker, as long as this link lasts."""

    topic: TopicId
    code: Refusal
    reason: str


class CompleteFlush(Effect, frozen=True, gc=False, tag="settle"):
    """A flush is through; with a reason, the link broke before that was known."""

    token: int
    reason: str = ""


class AnswerQuery(Effect, frozen=True, gc=False, tag="tell"):
    answer: Answer


class TellBundle(Effect, frozen=True, tag="tell bundle"):
    """These repositories manage a topic, each under its principal, says the broker; none if it is not reliable. One of
    this name was deleted at the version `ended`; 0 is that none was.
    """

    topic: str
    members: Mapping[str, str]
    ended: int = 0


class Connect(Effect, frozen=True, gc=False, tag="connect"):
    """The link is up."""

    node: str
    principal: str


class Disconnect(Effect, frozen=True, gc=False, tag="disconnect"):
    """The link is down and will be tried again."""

    reason: str
