"""Control messages: everything that two nodes say to each other except events. Nouns, validated as they are decoded."""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from stentor.model.access import SharedFact
from stentor.model.attribute import Schema
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation, SubscriptionId, TopicId

Stamp = tuple[int, str]  # a version, and who made it
NEVER: Stamp = (0, "")
_BOOTS = 20  # bits of a version that tell in which life of its maker it was made
Secret = Annotated[bytes, Meta(max_length=64)]  # a nonce, or the proof of a token; b"" is none
Want = tuple[str, str]  # a topic pattern and the text of a filter, "" for every event


def next_version(version: int, boot: int) -> int:
    """A version after this one. Who starts anew may count from the beginning: in no two lives it says the same."""
    return (version >> _BOOTS) + 1 << _BOOTS | boot % (1 << _BOOTS)


class Task(enum.StrEnum):
    """What an operator may ask of a broker."""

    ADD_LINK = "add link"  # to the broker at `address`
    REMOVE_LINK = "remove link"  # to the broker `name`
    SET_COST = "set cost"  # of the link to the broker `name`
    LEAVE = "leave"  # the network, and stop
    DISMISS = "dismiss"  # the member `name`, which is gone for good


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """A tagged array on the wire: fields may be added at the end, none is ever reused."""


class ChallengeRequest(Message, frozen=True, array_like=True, tag="challenge?", gc=False):
    """First word of whoever dialled and can prove the fabric's token: draw me a challenge."""


class Challenge(Message, frozen=True, array_like=True, tag="challenge", gc=False):
    """Answer to that; b"" from a broker that has no token."""

    nonce: Secret


class Hello(Message, frozen=True, array_like=True, tag="hello", gc=False):
    """First word of whoever dialled: who I am, and how many bytes of events you may send before I grant more."""

    name: str
    incarnation: Incarnation
    window: int
    role: str = "client"
    heartbeat: float = 0.0
    agent: str = ""
    attempt: int = 0  # counts this client's links, so that a late hello is known for one
    address: str = ""  # where a broker listens, for those who want to link with it
    cost: float = 0.0  # of a link between brokers, if whoever dialled it was told one
    nonce: Secret = b""  # drawn by whoever dialled, for the proof of the broker
    proof: Secret = b""  # that whoever dialled knows the fabric's token


class Welcome(Message, frozen=True, array_like=True, tag="welcome", gc=False):
    """Answer to a Hello: who you are to us, and our limits."""

    node: str
    boot: int
    principal: str
    window: int
    largest_body: int
    heartbeat: float
    agent: str = ""
    ahead: int = 0  # what is left of the window you asked for, if that was too much; 0 is all of it
    traces: bool = False  # tell what you do with the events of reliable topics
    proof: Secret = b""  # that the broker knows the fabric's token
    is_operator: bool = False  # you may order this broker, and take an operator's name


class Rejection(Message, frozen=True, array_like=True, tag="rejection", gc=False):
    """Last word before a link is closed."""

    code: Refusal
    reason: str


class Topic(Message, frozen=True, array_like=True, tag="topic", gc=False):
    """Defines a topic's number on this link, before its first use."""

    id: TopicId
    name: str


class SchemaDefinition(Message, frozen=True, array_like=True, tag="schema", gc=False):
    """Defines the number of a schema on this link, before its first use; the number is the schema's fingerprint."""

    schema: Schema


class Subscription(Message, frozen=True, array_like=True, tag="subscription", gc=False):
    """A wish for events: a topic pattern, and a filter over their attributes ("" is all)."""

    id: SubscriptionId
    pattern: str
    where: str = ""


class Unsubscription(Message, frozen=True, array_like=True, tag="unsubscription", gc=False):
    id: SubscriptionId


class Receipt(Message, frozen=True, array_like=True, tag="receipt", gc=False):
    """A subscription or unsubscription is in force; with a code, it was refused."""

    id: SubscriptionId
    code: Refusal | None = None
    reason: str = ""


class Credit(Message, frozen=True, array_like=True, tag="credit", gc=False):
    """The receiver of this may have sent at most `limit` bytes of events on this link, counted from its start."""

    limit: int


class Missed(Message, frozen=True, array_like=True, tag="missed", gc=False):
    """Events dropped since the last one sent, because the receiver was too slow, by subscription."""

    events: dict[SubscriptionId, int]


class Heartbeat(Message, frozen=True, array_like=True, tag="heartbeat", gc=False):
    """I am alive, and wrote `position` bytes before this frame: if you read another number, the link is broken."""

    position: int


class Marker(Message, frozen=True, array_like=True, tag="marker", gc=False):
    """Comes back as an Echo when everything sent before it has been taken in."""

    token: int


class Echo(Message, frozen=True, array_like=True, tag="echo", gc=False):
    token: int


class StatusRequest(Message, frozen=True, array_like=True, tag="status?", gc=False):
    token: int


class StatusReport(Message, frozen=True, array_like=True, tag="status", gc=False):
    token: int
    status: msgspec.Raw


class ViewRequest(Message, frozen=True, array_like=True, tag="view?", gc=False):
    """Tell me what you know of the network around you."""

    token: int


class ViewReport(Message, frozen=True, array_like=True, tag="view", gc=False):
    token: int
    view: msgspec.Raw


class ExplanationRequest(Message, frozen=True, array_like=True, tag="explanation?", gc=False):
    """What would you do with this event? Without masks it is one of your own clients'; with masks it came in a parcel
    from a broker that differs from you at this level.
    """

    token: int
    topic: str
    attributes: dict[str, bool | int | float | str] = {}
    level: int = 0
    masks: dict[int, int] | None = None


class ExplanationReport(Message, frozen=True, array_like=True, tag="explanation", gc=False):
    token: int
    explanation: msgspec.Raw


class Order(Message, frozen=True, array_like=True, tag="order", gc=False):
    """An operator wants a broker to change: see `Task`."""

    token: int
    task: Task
    name: str = ""
    address: str = ""
    cost: float = 0.0
    force: bool = False


class OrderReceipt(Message, frozen=True, array_like=True, tag="ordered", gc=False):
    """The order is carried out and will be remembered; with a code, nothing has changed."""

    token: int
    code: Refusal | None = None
    reason: str = ""


class Gateway(msgspec.Struct, frozen=True, array_like=True, gc=False, order=True):
    """Links of a unit to another one, as the unit's scope sees them: how many, and the least cost."""

    unit: str
    links: int
    cost: int  # in thousandths


class Presence(Message, frozen=True, array_like=True, tag="presence", gc=False):
    """A member of a scope and its gateways, said by its speaker to all brokers of that scope and to nobody else."""

    unit: str
    version: int
    speaker: str  # the broker that speaks for the unit; of two versions of one number the greater name's counts
    number: int  # the unit's bit in the masks of its scope
    address: str = ""  # where the speaker listens
    gateways: tuple[Gateway, ...] = ()
    members: int = 1  # of the unit, as many as the speaker can reach
    left: bool = False  # it is no member any more

    @property
    def stamp(self) -> Stamp:
        return self.version, self.speaker


class ProfileChange(Message, frozen=True, array_like=True, tag="profile", gc=False):
    """What a unit wants, as far as it changed: ±, from one stamp to the next; from NEVER on it is all that it wants."""

    unit: str
    before: Stamp
    stamp: Stamp
    added: tuple[Want, ...] = ()
    removed: tuple[Want, ...] = ()
    predicates: int = 0  # wishes of clients behind it
    more: bool = False  # too much for a frame: goes on in the next one


class Inventory(Message, frozen=True, array_like=True, tag="inventory", gc=False):
    """What I know of a scope's members: whoever knows newer things sends them."""

    scope: str
    presences: dict[str, Stamp]
    profiles: dict[str, Stamp]


class LinkCost(Message, frozen=True, array_like=True, tag="cost", gc=False):
    """From now on this link between brokers costs so much."""

    cost: float


class Digest(Message, frozen=True, array_like=True, tag="digest", gc=False):
    """The same as one number per scope; whoever gets another number answers with an Inventory."""

    scopes: dict[str, int]
    access: int = 0  # of all that is known of reliable topics


# ---- who may do what


class AccessFacts(Message, frozen=True, array_like=True, tag="access", gc=False):
    """A repository tells its broker, and brokers tell each other, who may do what on a reliable topic. Whoever sends a
    token is told by an AccessReceipt when all brokers that can be reached from here have written that down.
    """

    topic: str
    facts: tuple[SharedFact, ...]
    token: int = 0


class AccessReceipt(Message, frozen=True, array_like=True, tag="accessed", gc=False):
    token: int


class AccessInventory(Message, frozen=True, array_like=True, tag="access inventory", gc=False):
    """Digests of what a broker knows of the reliable topics from `first` to `last` in the order of their names; ""
    is no bound. Whoever knows something else tells it.
    """

    first: str
    last: str
    digests: dict[str, int]


class BundleRequest(Message, frozen=True, array_like=True, tag="bundle?", gc=False):
    """Tell me which repositories manage a topic, now and whenever that changes as long as this link lasts."""

    topic: str


class BundleReport(Message, frozen=True, array_like=True, tag="bundle", gc=False):
    """These do, each under this principal, and nobody else may be believed; none if the topic is not reliable."""

    topic: str
    members: dict[str, str]


class FlowRefusal(Message, frozen=True, array_like=True, tag="flow refused", gc=False):
    """What you publish on this topic is dropped, and why; the link goes on."""

    topic: TopicId
    code: Refusal
    reason: str


class Farewell(Message, frozen=True, array_like=True, tag="farewell", gc=False):
    """I leave on purpose."""

    reason: str = ""


AnyMessage = (
    ChallengeRequest
    | Challenge
    | Hello
    | Welcome
    | Rejection
    | Topic
    | SchemaDefinition
    | Subscription
    | Unsubscription
    | Receipt
    | Credit
    | Missed
    | Heartbeat
    | Marker
    | Echo
    | StatusRequest
    | StatusReport
    | ViewRequest
    | ViewReport
    | ExplanationRequest
    | ExplanationReport
    | Order
    | OrderReceipt
    | Presence
    | ProfileChange
    | Inventory
    | LinkCost
    | Digest
    | AccessFacts
    | AccessReceipt
    | AccessInventory
    | BundleRequest
    | BundleReport
    | FlowRefusal
    | Farewell
)
