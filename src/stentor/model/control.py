"""The control events of reliable delivery: figure 1 of the paper, in ranges.

They travel as bodies of events on communication topics, as whole frames, and events that are sent again travel beside
them. P is a publisher, S a subscriber, R a repository, B all repositories of the topic's bundle.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from stentor.model import ranges
from stentor.model.communication import Role, check_answerable, end_name
from stentor.model.errors import InvalidInput, Refusal
from stentor.model.stored.stream_ranges import HandedOut as HandedOut
from stentor.model.stored.stream_ranges import SequenceRun as SequenceRun
from stentor.model.stored.stream_ranges import StreamRanges as StreamRanges
from stentor.model.stored.stream_ranges import StreamsHeld, Stretches
from stentor.model.trust.access import FactKey, SharedFact


class ControlEvent(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """A tagged array on the wire: fields may be added at the end, none is ever reused."""

    topic: ranges.AnyReliableTopic
    sender: ranges.ClientName  # name of the publisher or subscriber, or of the repository

    def check(self) -> None:
        """Raise InvalidInput if its fields do not fit together; whoever decodes it calls this."""
        if not self.topic:
            raise InvalidInput("a control event about no topic")


# ---- finding a repository


class Probe(ControlEvent, frozen=True, array_like=True, tag="probe", gc=False):
    """C → B: who is there? `attempt` counts the times this client looked for a steering repository."""

    role: Role
    attempt: ranges.Attempt
    node: ranges.Path = ""  # the broker at which the client is

    def check(self) -> None:
        super().check()
        check_answerable(end_name(self.role, self.sender, self.topic))


class ProbeAnswer(ControlEvent, frozen=True, array_like=True, tag="here", gc=False):
    """R → C: the answer to a Probe. A repository that is not ready steers nobody yet.

    `members` is the bundle as the repository knows it, `level` that of the unit that it serves: a client prefers the
    finest level, and of these the nearest repository.
    """

    attempt: ranges.Attempt
    ready: bool
    members: ranges.RepositoryNames
    level: ranges.Level = 0


class Recovery(ControlEvent, frozen=True, array_like=True, tag="recovery", gc=False):
    """C → R: steer me from now on, and tell me where I am (P2R- and S2R-Recovery). Repeated until it is answered.

    A publisher says up to which number it has sent; a subscriber what it wants: `where`, or what it wanted before if it
    `keeps` that, and, if its name is new, from where on: "now", "beginning", "epoch REPOSITORY:NUMBER" or
    "time NANOSECONDS".
    """

    role: Role
    attempt: ranges.Attempt
    principal: ranges.Principal
    incarnation: ranges.Life
    last: ranges.EventNumber = 0
    where: ranges.Text = ""
    since: ranges.Beginning = "now"
    node: ranges.Path = ""  # the broker at which the client is
    resumes: bool = False  # a publisher that goes on, life after life, with the numbers of this incarnation
    asks: bool = False  # a subscriber whose application has asked for events in this life
    told: bool = False  # a subscriber that was told of some in this life, perhaps by another repository
    keeps: bool = False  # a subscriber that names no filter: the one that is registered holds; a new name gets all
    ended: ranges.Version = 0  # at which a topic of this name was deleted, as the client's broker knows
    answered: bool = False  # a publisher that was answered in this life: whoever did that knows where earlier ones end

    def check(self) -> None:
        super().check()
        check_answerable(end_name(self.role, self.sender, self.topic))


class RecoveryResponse(ControlEvent, frozen=True, array_like=True, tag="recovered", gc=False):
    """R → C: I steer you.

    A publisher learns the last number that is stored of its stream, or else of its newest one. A subscriber learns its
    sync, its epoch and what it is done with; a Persistent or Rectify follows if there is anything to get. `copies` is
    how many repositories must have an event before it is acknowledged. `chorus` is the number of the subscriber's
    notice group: all who want the same are told on one topic.
    """

    attempt: ranges.Attempt
    copies: ranges.Copies
    members: ranges.RepositoryNames
    incarnation: ranges.Life = 0
    last: ranges.EventNumber = 0
    sync: ranges.SequenceNumber = 0
    epoch: ranges.SequenceNumber = 0
    done: StreamsHeld = ()
    chorus: ranges.Attempt = 0
    within: ranges.Path = ""  # the unit on whose topic events are published and heard; "" is the topic itself
    past: StreamsHeld = ()  # what a subscriber must still read from a lake, page by page
    where: ranges.FilterText = ""  # the filter of a subscriber, as it is registered
    version: ranges.Version = 0  # of the topic: one of the same name that was deleted had another


class Denial(ControlEvent, frozen=True, array_like=True, tag="denial", gc=False):
    """R → C: I do not steer you, and why.

    With NOT_AUTHORISED it is of no use to ask again or elsewhere. With FENCED a publisher learns its `newest` life,
    since its own clock may be behind.
    """

    attempt: ranges.Attempt
    code: Refusal
    reason: ranges.Reason
    newest: ranges.Life = 0


class Migrate(ControlEvent, frozen=True, array_like=True, tag="migrate", gc=False):
    """R → C: choose another repository, because I leave; or the one that is named, because an operator wants that."""

    to: ranges.AnyRepositoryName = ""


# ---- publishing


class PublisherOrder(ControlEvent, frozen=True, array_like=True, tag="order", gc=False):
    """P → B: in this incarnation I have sent the numbers `first` to `last` (P2R-Order).

    Events up to `acknowledged`, and `singles`, were acknowledged to me, and I do not have them any more.
    """

    incarnation: ranges.Life
    first: ranges.EventNumber
    last: ranges.EventNumber
    acknowledged: ranges.EventNumber = 0
    singles: ranges.NumberSpans = ()
    version: ranges.Version = 0  # of the topic that I mean, as I was told: another one may have its name since


class RepositoryAck(ControlEvent, frozen=True, array_like=True, tag="ack", gc=False):
    """R → P: all up to `upto` are stored as asked for, and so are `singles` (R2P-ACK).

    `copies[i]`: all up to this number are durable on i + 1 repositories.
    """

    incarnation: ranges.Life
    upto: ranges.EventNumber
    singles: ranges.NumberSpans = ()
    copies: Annotated[tuple[ranges.EventNumber, ...], Meta(max_length=4096)] = ()


class RepositoryNak(ControlEvent, frozen=True, array_like=True, tag="nak", gc=False):
    """R → P: these are missing (R2P-NAK); the publisher answers with a Retransmission to the bundle."""

    incarnation: ranges.Life
    missing: ranges.NumberSpans


class Retransmission(ControlEvent, frozen=True, array_like=True, tag="again", gc=False):
    """The events frames that follow in this body are sent again: P → B, R → S or R → R. Schemas are defined before.

    With `more`, another letter of the same answer follows: what is missing is asked for after the last one. Between
    repositories `stored` says of each frame when a repository first stored it.
    """

    more: bool = False
    stored: ranges.Nanoseconds = ()
    version: ranges.Version = 0  # of the topic that a publisher means


# ---- subscribing


class Persistent(ControlEvent, frozen=True, array_like=True, tag="persistent", gc=False):
    """R → S: these events for you are stored (R2S-Persistent).

    `previous` is the `upto` of the Persistent before it, so that a gap shows; numbers up to `upto` that are not listed
    are not for you. Sequence numbers up to `redelivered` may have been given to your application in an earlier life of
    yours. `left` is how many more are stored. To a notice group, `attempt` is the negative number of the group: that
    is for you once it is `known` that you asked. Events that are `lost` you would have been told of, unless your filter
    does not take them; `lost_by` names their publishers, in the same order, as far as they are known.
    """

    attempt: ranges.ChorusOrAttempt
    previous: ranges.SequenceNumber
    upto: ranges.SequenceNumber
    stretches: Stretches
    redelivered: ranges.SequenceNumber = 0
    left: ranges.SequenceNumber = 0
    known: bool = False
    lost: StreamsHeld = ()
    lost_by: ranges.AnyClientNames = ()


class SubscriberAck(ControlEvent, frozen=True, array_like=True, tag="received", gc=False):
    """S → B: the application has these sequence numbers of `repository`, and all that is not mine between them."""

    incarnation: ranges.Life
    repository: ranges.RepositoryName
    spans: ranges.SequenceSpans


class SubscriberNak(ControlEvent, frozen=True, array_like=True, tag="missing", gc=False):
    """S → R: I know that these events exist and do not have them: send them.

    With `after`, I have missed a Persistent: tell me what there is after this sequence number; with `tuned`, I hear my
    notice group, so that I need not be told alone. With `asks`, my application asks for events: before it did, there
    was no need to tell me of any.
    """

    attempt: ranges.Attempt
    missing: ranges.SequenceSpans = ()
    after: ranges.SequenceNumber | None = None
    tuned: bool = False
    asks: bool = False


class SubscriberEnd(ControlEvent, frozen=True, array_like=True, tag="ended", gc=False):
    """S → R: this life of mine ends in good order.

    Of the streams `given` my application was handed events up to these numbers, and has not acknowledged them all. With
    `unsubscribes`, nothing is to be kept for my name any more. Repeated until a Sync says that this is written down.
    """

    attempt: ranges.Attempt
    incarnation: ranges.Life
    given: ranges.StreamNumbers = ()
    unsubscribes: bool = False

    def check(self) -> None:
        super().check()
        check_answerable(end_name("subscriber", self.sender, self.topic))


class Sync(ControlEvent, frozen=True, array_like=True, tag="sync", gc=False):
    """R → S: everything up to here is acknowledged, durably (R2S-Sync); if you have `ended`, that is durable too."""

    attempt: ranges.Attempt
    upto: ranges.SequenceNumber
    ended: bool = False


class Rectify(ControlEvent, frozen=True, array_like=True, tag="rectify", gc=False):
    """R → S: your sync, and all that is yours between `sync` and `upto` and not acknowledged (R2S-Rectify)."""

    attempt: ranges.Attempt
    sync: ranges.SequenceNumber
    upto: ranges.SequenceNumber
    stretches: Stretches
    redelivered: ranges.SequenceNumber = 0
    left: ranges.SequenceNumber = 0
    known: bool = False  # as in a Persistent
    lost: StreamsHeld = ()
    lost_by: ranges.AnyClientNames = ()


# ---- between repositories


class GossipAck(ControlEvent, frozen=True, array_like=True, tag="stored", gc=False):
    """R → B: I have stored these events, under these numbers.

    `digests` belong to the `stretches`, of which some are `skipped` because nobody whom I serve wants them.
    """

    stretches: Stretches
    digests: Annotated[tuple[ranges.Id, ...], Meta(max_length=ranges.MOST_ITEMS)]
    skipped: ranges.SequenceSpans = ()

    def check(self) -> None:
        super().check()
        if len(self.digests) != len(self.stretches):
            raise InvalidInput("stretches without a digest for each")


class GossipState(ControlEvent, frozen=True, array_like=True, tag="state", gc=False):
    """R → B, regularly: what I have, so that a repository that has more or less notices.

    It is about all streams if it is `whole`, else about those that changed. `facts` is a digest of all registrations.
    """

    ready: bool
    held: StreamsHeld
    facts: ranges.Id
    leaving: bool = False
    whole: bool = True
    asking: bool = False  # I have not heard everyone yet: tell me all that you have
    principal: ranges.Principal = ""  # not used any more: members' facts name their principals
    syncs: ranges.Id = 0  # a digest of what subscribers have acknowledged, if it is `whole`
    unit: ranges.Path = ""  # that it serves
    cares: ranges.SubscriberNames = ()  # in this unit, for whom it has all that they have not got, if it is `whole`
    inspected: ranges.RepositoryNames = ()  # since these repositories leave it has read all that it has
    stuck: bool = False  # nothing can be written here
    number: ranges.Count = 0  # of the last state that I told to the bundle: this one, unless it is to one alone
    version: ranges.Version = 0  # of the topic: one of the same name that was deleted had another
    after: ranges.Version = 0  # at which that one was deleted
    damaged: StreamsHeld = ()  # of the streams that it names, what was here and cannot be read any more
    recalls: bool = False  # what I have forgotten can be read from a lake, by its publisher's numbers


class GossipSync(ControlEvent, frozen=True, array_like=True, tag="syncs", gc=False):
    """R → B or R → R: what subscribers have acknowledged of each stream, as it is written down here.

    It is what is new, or the `whole`. With `asking`, tell me the whole of what you have written down.
    """

    syncs: Annotated[dict[ranges.ClientName, StreamsHeld], Meta(max_length=ranges.MOST_ITEMS)]
    asking: bool = False
    whole: bool = False
    # Which events each of them may have been handed; a subscriber that never asked is not in it.
    handed: Annotated[dict[ranges.ClientName, HandedOut], Meta(max_length=ranges.MOST_ITEMS)] = {}
    # The registration of each of them that unsubscribed once: what is said of another registration is not theirs.
    registrations: Annotated[dict[ranges.ClientName, ranges.Life], Meta(max_length=ranges.MOST_ITEMS)] = {}


class GossipSteering(ControlEvent, frozen=True, array_like=True, tag="steering", gc=False):
    """R → B: from now on I steer this client, in its incarnation; whoever steered it before is silent towards it."""

    role: Role
    name: ranges.ClientName
    incarnation: ranges.Life
    attempt: ranges.Attempt


class GossipOffer(ControlEvent, frozen=True, array_like=True, tag="offer", gc=False):
    """R → B: these subscribers are in the unit that I serve, and I have all that they have not got: send them to me."""

    names: ranges.SubscriberNames


class GossipFacts(ControlEvent, frozen=True, array_like=True, tag="facts", gc=False):
    """R → B or R → R: registrations: key, version, who wrote it, and the value; the newest version counts."""

    facts: Annotated[tuple[SharedFact, ...], Meta(max_length=ranges.MOST_ITEMS)]
    principal: ranges.Principal = ""  # not used any more: members' facts name their principals


class FactsRequest(ControlEvent, frozen=True, array_like=True, tag="facts?", gc=False):
    """R → R: my registrations, by key and version, or all of them as a digest: tell me what is newer."""

    versions: Annotated[dict[FactKey, tuple[ranges.Version, ranges.Principal]], Meta(max_length=ranges.MOST_ITEMS)]
    digest: ranges.Id = 0  # if it is given instead of `versions`: what was registered since yours had this one?


class GossipRequest(ControlEvent, frozen=True, array_like=True, tag="want", gc=False):
    """R → R: send me these events; a Retransmission follows, perhaps of a part."""

    wanted: StreamsHeld


class GossipVoid(ControlEvent, frozen=True, array_like=True, tag="void", gc=False):
    """R → B: nobody has these events, and their publisher is gone.

    Or they were damaged and are `lost`, which an operator has accepted.
    """

    voids: StreamsHeld
    lost: bool = False


class GossipLeave(ControlEvent, frozen=True, array_like=True, tag="leave", gc=False):
    """R → B: I am no member of the bundle any more."""


class EgressRelease(ControlEvent, frozen=True, array_like=True, tag="passage", gc=False):
    """R → B: the events in the frames that follow were issued in the unit that I serve and are durable here.

    They may leave the unit. `upto` is the last of my sequence numbers among them, and `previous` that of the release
    before this one.
    """

    unit: ranges.Path
    previous: ranges.SequenceNumber
    upto: ranges.SequenceNumber


# ---- owners and operators


class TopicTask(enum.StrEnum):
    """What owners of topics and operators may ask of a repository."""

    CREATE = "create"
    DELETE = "delete"
    GRANT = "grant"
    REVOKE = "revoke"
    SHOW = "show"
    ADD_REPOSITORY = "add repository"
    REMOVE_REPOSITORY = "remove repository"
    STATUS = "status"  # of the repository itself; the topic is ""
    STEER = "steer"  # let the one of `repositories` steer a client
    DRAIN = "drain"  # leave all bundles; the topic is ""
    RETIRE = "retire"  # leave all bundles, and then end; the topic is ""
    ACCEPT_LOSS = "accept loss"  # give up what is damaged, or awaited, and nobody has any more
    LEAVE = "leave"  # end the subscription of a name, whoever holds it; for whoever may use that


class Registration(ControlEvent, frozen=True, array_like=True, tag="registration", gc=False):
    """Owner → R: do this task. `sender` is the name under which the owner is connected, so that it can be answered."""

    token: ranges.Token
    task: TopicTask
    principal: ranges.Principal = ""  # of the owner
    repositories: ranges.RepositoryNames = ()
    copies: ranges.Copies = 0
    role: Role = "publisher"
    name: ranges.AnyClientName = ""  # of whom something is granted to or revoked from
    holder: ranges.Principal = ""  # that may use this name; "" is anyone
    keep: ranges.WholeSeconds = 0  # seconds that events are kept after everyone has them
    expire: ranges.WholeSeconds = 0  # after which they are dropped even if somebody has not got them; 0 is never
    hold: bool = False  # at the borders of top-level units, until a repository for the unit has them
    principals: ranges.Principals = ()  # of the repositories, in the same order
    born: ranges.Millisecond = 0  # since 1970, when a topic is created
    units: ranges.Units = ()  # that the repositories serve, in the same order
    joins: bool = False  # one that is added may serve a unit together with the one that it has
    after: ranges.Version = 0  # at which a topic of this name was deleted before

    def check(self) -> None:
        """What is asked of the repository itself is about no topic."""
        check_answerable(self.sender)


class RegistrationReceipt(ControlEvent, frozen=True, array_like=True, tag="registered", gc=False):
    """R → owner: the task is done, durably; with a code, nothing has changed.

    `report` is what was asked for, as JSON. A reason without a code is what the owner should know nevertheless.
    """

    token: ranges.Token
    code: Refusal | None = None
    reason: ranges.Reason = ""
    report: ranges.Report = b""

    def check(self) -> None:
        """As in a Registration."""


AnyControlEvent = (
    Probe
    | ProbeAnswer
    | Recovery
    | RecoveryResponse
    | Denial
    | Migrate
    | PublisherOrder
    | RepositoryAck
    | RepositoryNak
    | Retransmission
    | Persistent
    | SubscriberAck
    | SubscriberNak
    | SubscriberEnd
    | Sync
    | Rectify
    | GossipAck
    | GossipState
    | GossipSync
    | GossipSteering
    | GossipOffer
    | GossipFacts
    | FactsRequest
    | GossipRequest
    | GossipVoid
    | GossipLeave
    | EgressRelease
    | Registration
    | RegistrationReceipt
)
