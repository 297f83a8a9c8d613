"""What nodes and clients say to each other about who may do what."""

from typing import Annotated

import msgspec
from msgspec import Meta

from stentor.model.errors import Refusal
from stentor.model.message import Message
from stentor.model.ranges import (
    MOST_ITEMS,
    Address,
    AnyTopicName,
    Id,
    Principal,
    Reason,
    ReliableTopic,
    RepositoryName,
    Text,
    Token,
    TopicName,
    TopicNumber,
    Version,
    WaveName,
)
from stentor.model.trust.access import SharedFact


class AccessFacts(Message, frozen=True, kw_only=True, array_like=True, tag="access", gc=False):
    """A repository tells its broker, and brokers tell each other, who may do what on a reliable topic.

    A sender that gives a token gets an AccessReceipt when all brokers that can be reached from the receiver have
    written the facts down; a broker that gives one without a wave, when the receiver has.
    """

    topic: ReliableTopic
    facts: Annotated[tuple[SharedFact, ...], Meta(max_length=MOST_ITEMS)]
    token: Token = 0
    wave: WaveName = ""  # between brokers: which one, so that each takes part in it once


class AccessReceipt(Message, frozen=True, array_like=True, tag="accessed", gc=False):
    """Access facts are written down. A wave that lost a link may have left a broker out: then it is not `whole`."""

    token: Token
    whole: bool = True


class AccessInventory(Message, frozen=True, array_like=True, tag="access inventory", gc=False):
    """Digests of what a broker knows of the reliable topics from `first` on and before `last`, by name; "" is no bound.

    A receiver that knows something else sends that, and after all of it an AccessReceipt with token 0.
    """

    first: AnyTopicName
    last: AnyTopicName
    digests: Annotated[dict[ReliableTopic, Id], Meta(max_length=MOST_ITEMS)]


class BundleRequest(Message, frozen=True, array_like=True, tag="bundle?", gc=False):
    """A client asks which repositories manage a topic, now and whenever that changes as long as the link lasts."""

    topic: TopicName


class BundleReport(Message, frozen=True, array_like=True, tag="bundle", gc=False):
    """The repositories that manage a topic, each with its principal; nobody else may be believed.

    There are none if the topic is not reliable. A topic of this name was deleted at the version `ended`: a client or
    repository with a topic that is not newer has the deleted one.
    """

    topic: TopicName
    members: Annotated[dict[RepositoryName, Principal], Meta(max_length=4096)]
    ended: Version = 0


class FlowRefusal(Message, frozen=True, array_like=True, tag="flow refused", gc=False):
    """The broker drops what a client publishes on a topic, and says why; the link goes on."""

    topic: TopicNumber
    code: Refusal
    reason: Reason


class AccessRequest(Message, frozen=True, kw_only=True, array_like=True, tag="access?", gc=False):
    """A client asks what a principal may do on a topic or, without a topic, which rules are in force.

    Nodes and operators may ask about everybody, others about themselves: the principal "".
    """

    token: Token
    principal: Principal = ""
    topic: Text = ""
    attributes: Annotated[tuple[Address, ...], Meta(max_length=64)] = ()  # of its certificate, such as OU=trading


class AccessReport(Message, frozen=True, array_like=True, tag="access report", gc=False):
    """The answer to an AccessRequest."""

    token: Token
    report: msgspec.Raw
