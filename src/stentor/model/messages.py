"""Control messages: everything that two nodes say to each other except events. Nouns, validated as they are decoded."""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta
from xxhash import xxh3_64_intdigest

from stentor.model.attribute import MOST_ATTRIBUTES, Schema
from stentor.model.colours.plan import TopologyPlan
from stentor.model.colours.wave_messages import WaveMessage
from stentor.model.errors import Refusal
from stentor.model.ids import fingerprint
from stentor.model.message import Message as Message
from stentor.model.ranges import (
    LAST_VERSION,
    MOST_ITEMS,
    Address,
    Agent,
    AnyCost,
    Attempt,
    AttributeDecimal,
    AttributeInteger,
    AttributeName,
    AttributeText,
    BodySize,
    ByteCount,
    Cost,
    Count,
    ExitNumber,
    FilterText,
    GatewayCost,
    Id,
    Incarnation48,
    Level,
    MemberNumber,
    Path,
    Principal,
    Reason,
    Seconds,
    SubscriptionNumber,
    Text,
    Token,
    TopicName,
    TopicNumber,
    TopicPattern,
    Version,
    Word,
)
from stentor.model.trust.access_messages import (
    AccessFacts,
    AccessInventory,
    AccessReceipt,
    AccessReport,
    AccessRequest,
    BundleReport,
    BundleRequest,
    FlowRefusal,
)

Stamp = tuple[Version, Path]  # a version, and who made it
NEVER: Stamp = (0, "")
MARKS = "$settled/"  # how a mark begins: a pattern in a broker's profile that no client has
# Versions beyond this one are what damage left behind: nobody counts so far. Whoever holds one is not believed, and who
# owns one begins again.
LAST_CREDIBLE_VERSION = LAST_VERSION >> 1
_BOOTS = 20  # bits of a version that tell in which life of its maker it was made
Secret = Annotated[bytes, Meta(max_length=64)]  # a nonce, or the proof of a token; b"" is none
ProfileEntry = tuple[TopicPattern, FilterText]  # "" takes every event
Wants = Annotated[tuple[ProfileEntry, ...], Meta(max_length=MOST_ITEMS)]
Stamps = Annotated[dict[Path, Stamp], Meta(max_length=MOST_ITEMS)]
Paths = Annotated[tuple[Path, ...], Meta(max_length=MOST_ITEMS)]
AttributeValue = bool | AttributeInteger | AttributeDecimal | AttributeText


def next_version(version: int, boot: int) -> int:
    """Return a version after this one.

    A node that starts without memory may count from the beginning: its boot number keeps its versions apart from those
    of its earlier lives. A version that nobody believes is followed by the first: those who hold newer ones give them
    up when they hear of the owner's.
    """
    counted = version >> _BOOTS if version < LAST_CREDIBLE_VERSION - (1 << _BOOTS) else 0
    return counted + 1 << _BOOTS | boot % (1 << _BOOTS)


class AdminTask(enum.StrEnum):
    """What an operator may ask of a broker."""

    ADD_LINK = "add link"  # to the broker at `address`
    REMOVE_LINK = "remove link"  # to the broker `name`
    SET_COST = "set cost"  # of the link to the broker `name`
    LEAVE = "leave"  # the network, and stop
    DISMISS = "dismiss"  # the member `name`, which is gone for good
    MOVE_CLIENTS = "move clients"  # ask `count` clients to go to the broker at `address`; nothing to be remembered
    RECONFIGURE = "reconfigure"  # `scope` by `plan`, as its root
    WITHDRAW_PLAN = "withdraw plan"  # the plan of `scope` with the number of `plan`, if it is not switched yet
    SET_ROOTS = "set roots"  # of `scope` to the root group of `plan`: what a plan has done, no operator's order
    HAND_OVER = "hand over"  # be the root of no scope: others are, from now on
    CORRUPT = "corrupt"  # damage the parts of its memory that `name` lists, at random by the seed `count`; done once


class ChallengeRequest(Message, frozen=True, array_like=True, tag="challenge?", gc=False):
    """The first message of a dialler that can prove the fabric's token: it asks for a challenge."""


class Challenge(Message, frozen=True, array_like=True, tag="challenge", gc=False):
    """The answer to a ChallengeRequest; its nonce is b"" if the broker has no token."""

    nonce: Secret


class Hello(Message, frozen=True, kw_only=True, array_like=True, tag="hello", gc=False):
    """The first message of a dialler: who it is, and how many bytes of events it takes before it grants more."""

    name: Text
    incarnation: Incarnation48
    window: ByteCount
    role: Word = "client"
    heartbeat: Seconds = 0.0
    agent: Agent = ""
    attempt: Attempt = 0  # counts this client's links, so that a late hello is known for one
    address: Address = ""  # where a broker listens, for those who want to link with it
    cost: Cost = 0.0  # of a link between brokers, if whoever dialled it was told one
    nonce: Secret = b""  # drawn by whoever dialled, for the proof of the broker
    proof: Secret = b""  # that whoever dialled knows the fabric's token
    can_move: bool = False  # understands a Redirect, and follows it
    is_placed: bool = False  # was told to come to this very broker: point it nowhere else


class Welcome(Message, frozen=True, kw_only=True, array_like=True, tag="welcome", gc=False):
    """The answer to a Hello: who the dialler is to this broker, and the broker's limits."""

    node: Path
    boot: Count
    principal: Principal
    window: ByteCount
    largest_body: BodySize
    heartbeat: Seconds
    agent: Agent = ""
    ahead: ByteCount = 0  # what is left of the window that the Hello asked for, if that was too much; 0 is all of it
    traces: bool = False  # whether the client shall trace what it does with the events of reliable topics
    proof: Secret = b""  # that the broker knows the fabric's token
    is_operator: bool = False  # whether the client may order this broker, and take an operator's name
    sums: bool = False  # whether the client shall sum its traces up


class Rejection(Message, frozen=True, array_like=True, tag="rejection", gc=False):
    """The last message before a link is closed: why it is."""

    code: Refusal
    reason: Reason


class Topic(Message, frozen=True, array_like=True, tag="topic", gc=False):
    """Defines a topic's number on this link, before its first use."""

    id: TopicNumber
    name: Text


class SchemaDefinition(Message, frozen=True, array_like=True, tag="schema", gc=False):
    """Defines the number of a schema on this link, before its first use; the number is the schema's fingerprint."""

    schema: Schema


class Subscription(Message, frozen=True, array_like=True, tag="subscription", gc=False):
    """A client wants events: of the topics of a pattern, if the filter takes them ("" takes all)."""

    id: SubscriptionNumber
    pattern: Text
    where: Text = ""

    @property
    def digest(self) -> int:
        """A digest of what it says, in the very words."""
        return xxh3_64_intdigest(f"{self.id}\0{self.pattern}\0{self.where}".encode())


class Unsubscription(Message, frozen=True, array_like=True, tag="unsubscription", gc=False):
    """A client ends a subscription; a Receipt follows."""

    id: SubscriptionNumber


class Receipt(Message, frozen=True, array_like=True, tag="receipt", gc=False):
    """A subscription or unsubscription is in force; with a code, it was refused."""

    id: SubscriptionNumber
    code: Refusal | None = None
    reason: Reason = ""


class SubscriptionInventory(Message, frozen=True, array_like=True, tag="subscriptions", gc=False):
    """A broker tells a client which of its subscriptions are in force, because their digest is another than the client
    said. The client ends and makes subscriptions until they are its own.
    """

    digests: Annotated[dict[SubscriptionNumber, Id], Meta(max_length=MOST_ITEMS)]
    more: bool = False  # too much for a frame: goes on in the next one


class Credit(Message, frozen=True, array_like=True, tag="credit", gc=False):
    """The receiver of this may have sent at most `limit` bytes of events on this link, counted from its start."""

    limit: ByteCount


class Missed(Message, frozen=True, array_like=True, tag="missed", gc=False):
    """How many events of each subscription were dropped since the last one sent, because the client was too slow."""

    events: Annotated[dict[SubscriptionNumber, Count], Meta(max_length=MOST_ITEMS)]


class Heartbeat(Message, frozen=True, array_like=True, tag="heartbeat", gc=False):
    """The sender is alive, and wrote `position` bytes before this frame: otherwise the link is broken.

    Both ends also compare what else they count up to this frame; None is not told.
    """

    position: ByteCount
    sent: ByteCount | None = None  # bytes of events among them
    granted: ByteCount | None = None  # credit that the sender has given the receiver since the link's start
    subscriptions: Id | None = None  # of a client: the exclusive or of the digests of all its subscriptions


class Ping(Message, frozen=True, array_like=True, tag="marker", gc=False):
    """The receiver answers with a Pong when it has taken in everything that was sent before."""

    token: Token


class Pong(Message, frozen=True, array_like=True, tag="echo", gc=False):
    """The answer to a Ping."""

    token: Token


class StatusRequest(Message, frozen=True, array_like=True, tag="status?", gc=False):
    """A client asks what the broker counts."""

    token: Token


class StatusReport(Message, frozen=True, array_like=True, tag="status", gc=False):
    """The answer to a StatusRequest: a `NodeStatus`."""

    token: Token
    status: msgspec.Raw


class ViewRequest(Message, frozen=True, array_like=True, tag="view?", gc=False):
    """A client asks what the broker knows of the network around it."""

    token: Token


class ViewReport(Message, frozen=True, array_like=True, tag="view", gc=False):
    """The answer to a ViewRequest: a `NetworkView`."""

    token: Token
    view: msgspec.Raw


class ExplanationRequest(Message, frozen=True, kw_only=True, array_like=True, tag="explanation?", gc=False):
    """A client asks what the broker would do with an event.

    Without masks the event is from one of the broker's own clients; with masks it came in a parcel from a broker whose
    path differs from this one's at this level, and which names these exits.
    """

    token: Token
    topic: Text
    attributes: Annotated[dict[AttributeName, AttributeValue], Meta(max_length=MOST_ATTRIBUTES)] = msgspec.field(
        default_factory=dict
    )
    level: Level = 0
    masks: Annotated[dict[Level, Id], Meta(max_length=64)] | None = None
    exits: Annotated[tuple[ExitNumber, ...], Meta(max_length=8)] = ()


class ExplanationReport(Message, frozen=True, array_like=True, tag="explanation", gc=False):
    """The answer to an ExplanationRequest."""

    token: Token
    explanation: msgspec.Raw


class SettlementRequest(Message, frozen=True, array_like=True, tag="settled?", gc=False):
    """A client asks to be told when every reachable broker knows its subscriptions, or after `within` who does not."""

    token: Token
    within: Seconds
    drained: bool = False  # and when the events have come to its broker that they had sent before they said so


class SettlementReport(Message, frozen=True, array_like=True, tag="settled", gc=False):
    """How many brokers know the client's subscriptions, and which ones did not say so in time."""

    token: Token
    brokers: Count
    silent: Paths = ()


class AdminRequest(Message, frozen=True, kw_only=True, array_like=True, tag="order", gc=False):
    """An operator wants a broker to change: see `AdminTask`."""

    token: Token
    task: AdminTask
    name: Text = ""
    address: Address = ""
    cost: AnyCost = 0.0
    force: bool = False
    count: Count = 0
    scope: Text = ""
    plan: TopologyPlan | None = None


class AdminReceipt(Message, frozen=True, array_like=True, tag="ordered", gc=False):
    """The broker did what an AdminRequest asks for, durably; with a code, nothing has changed."""

    token: Token
    code: Refusal | None = None
    reason: Reason = ""


class Gateway(msgspec.Struct, frozen=True, array_like=True, gc=False, order=True):
    """A link of a unit to another one, as the unit's scope sees it: both ends call it by one number, which tells nobody
    who they are.
    """

    unit: Path
    link: Id
    cost: GatewayCost


class Presence(Message, frozen=True, kw_only=True, array_like=True, tag="presence", gc=False):
    """A member of a scope and its gateways; the member's speaker tells all brokers of the scope and no other."""

    unit: Path
    version: Version
    speaker: Path  # the broker that speaks for the unit; of two versions of one number the greater name's counts
    number: MemberNumber  # the unit's bit in the masks of its scope
    address: Address = ""  # where the speaker listens
    gateways: Annotated[tuple[Gateway, ...], Meta(max_length=4096)] = ()
    members: Count = 1  # of the unit, as many as the speaker can reach
    left: bool = False  # it is no member any more

    @property
    def stamp(self) -> Stamp:
        return self.version, self.speaker

    @property
    def is_credible(self) -> bool:
        """Whether it may be true: only a broker of a unit speaks for it, but for those who say that it has left."""
        is_own = self.left or f"{self.speaker}/".startswith(f"{self.unit}/")
        return is_own and self.version <= LAST_CREDIBLE_VERSION

    @property
    def digest(self) -> int:
        """A digest of what it says, but for its version and how many members can be reached now."""
        said = (self.unit, self.speaker, self.number, self.address, self.gateways, self.left)
        return fingerprint("presence", repr(said))


class ProfileChange(Message, frozen=True, kw_only=True, array_like=True, tag="profile", gc=False):
    """What a unit wants, as changes from one stamp to the next; changes from NEVER are all that it wants."""

    unit: Path
    before: Stamp
    stamp: Stamp
    added: Wants = ()
    removed: Wants = ()
    predicates: Count = 0  # how many subscriptions of clients the profile sums up
    more: bool = False  # too much for a frame: goes on in the next one


class MarkReceipt(Message, frozen=True, kw_only=True, array_like=True, tag="marked", gc=False):
    """A broker tells the broker that set a mark that it knows it, and so all that was subscribed there before."""

    mark: TopicName
    broker: Path
    neighbours: Paths  # brokers that it has links with: they must know the mark, too
    hops: Count = 0
    exits: Annotated[tuple[ExitNumber, ...], Meta(max_length=8)] = ()  # that events on the same way name


class Inventory(Message, frozen=True, array_like=True, tag="inventory", gc=False):
    """The stamps of all that the sender knows of a scope's members: a receiver that knows newer things sends them."""

    scope: Path
    presences: Stamps
    profiles: Stamps


class LinkCost(Message, frozen=True, array_like=True, tag="cost", gc=False):
    """A broker tells the other end of a link what the link costs from now on."""

    cost: Cost


class LinkReturned(Message, frozen=True, array_like=True, tag="link returned", gc=False):
    """The link was lost and is there again: the sender lets no event use it until a plan brings it, and so should the
    other end. Said when it comes up, and with each heartbeat until it is used.
    """


class Digest(Message, frozen=True, array_like=True, tag="digest", gc=False):
    """An Inventory as one number per scope; a receiver that has another number answers with an Inventory."""

    scopes: Annotated[dict[Path, Id], Meta(max_length=64)]
    access: Id = 0  # a digest of all access facts
    clients: Count = 0  # how many clients the sender serves, for brokers that send newcomers elsewhere


class Redirect(Message, frozen=True, array_like=True, tag="redirect", gc=False):
    """A broker asks a client that can move to go to another one; the client subscribes there before it leaves."""

    address: Address


class Farewell(Message, frozen=True, array_like=True, tag="farewell", gc=False):
    """The sender leaves on purpose: the receiver need not wait for it."""

    reason: Reason = ""


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
    | SubscriptionInventory
    | Credit
    | Missed
    | Heartbeat
    | Ping
    | Pong
    | StatusRequest
    | StatusReport
    | ViewRequest
    | ViewReport
    | ExplanationRequest
    | ExplanationReport
    | SettlementRequest
    | SettlementReport
    | AdminRequest
    | AdminReceipt
    | Presence
    | ProfileChange
    | MarkReceipt
    | Inventory
    | LinkCost
    | LinkReturned
    | Digest
    | AccessFacts
    | AccessReceipt
    | AccessInventory
    | BundleRequest
    | BundleReport
    | FlowRefusal
    | AccessRequest
    | AccessReport
    | Farewell
    | Redirect
    | WaveMessage
)
