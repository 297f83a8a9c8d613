"""Control messages: everything that two nodes say to each other except events. Nouns, validated as they are decoded."""

import msgspec

from stentor.model.attribute import Schema
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation, SubscriptionId, TopicId


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """A tagged array on the wire: fields may be added at the end, none is ever reused."""


class Hello(Message, frozen=True, array_like=True, tag="hello", gc=False):
    """First word of whoever dialled: who I am, and how many bytes of events you may send before I grant more."""

    name: str
    incarnation: Incarnation
    window: int
    role: str = "client"
    heartbeat: float = 0.0
    agent: str = ""
    attempt: int = 0  # counts this client's links, so that a late hello is known for one


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


class Farewell(Message, frozen=True, array_like=True, tag="farewell", gc=False):
    """I leave on purpose."""

    reason: str = ""


AnyMessage = (
    Hello
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
    | Farewell
)
