"""What the machines of reliable delivery say and hear. Whoever composes them puts it on links: see `wire.letter`."""

from collections.abc import Mapping, Sequence

from stentor.machine import Effect, Input
from stentor.model.control import ControlEvent
from stentor.model.errors import Refusal
from stentor.model.trust.access import SharedFact, TopicTerms
from stentor.wire.block import Block


class LetterReceived(Input, frozen=True, tag="heard"):
    """A letter came. `sender` is the id under which it was published, which brokers do not let anybody forge, and
    `requester` the name of its sender, if it came on a topic that tells: brokers compare that as a text.
    """

    sender: int
    events: Sequence[ControlEvent]
    blocks: Sequence[Block] = ()
    requester: str = ""


class EventsReceived(Input, frozen=True, tag="arrived"):
    """Events of the topic came as they were published; they are intact."""

    blocks: Sequence[Block]


class Greeted(Input, frozen=True, gc=False, tag="greeted"):
    """A broker has let us in, under this principal; LinkUp follows once everything that is listened to is heard."""

    node: str  # the broker's name
    principal: str


class NameRefused(Input, frozen=True, gc=False, tag="name refused"):
    """Brokers refuse this name for good."""

    code: Refusal
    reason: str


class LinkUp(Input, frozen=True, gc=False, tag="linked"):
    """There is a link to a broker, under this principal: what was said on an earlier one may be lost."""

    principal: str
    node: str = ""  # the broker's name


class Listening(Input, frozen=True, gc=False, tag="listening"):
    """What is said on this topic is heard now, as it was asked for with Subscribe."""

    to: str


class Founded(Input, frozen=True, gc=False, tag="founded"):
    """This repository alone keeps the topic, on these terms, and needs nobody to create it."""

    terms: TopicTerms
    born: int = 0  # in this millisecond since 1970


class Vouched(Input, frozen=True, tag="vouched"):
    """The broker says which repositories manage a topic, each under which principal: nobody else is believed. A topic
    of this name was deleted at the version `ended`; 0 is that none was.
    """

    topic: str
    members: Mapping[str, str]
    ended: int = 0


class AccessShared(Input, frozen=True, gc=False, tag="access shared"):
    """All brokers that can be reached have written down what was told of a topic with a ShareAccess."""

    topic: str
    token: int


class LinkDown(Input, frozen=True, gc=False, tag="unlinked"):
    """The link is gone: whatever is said now is lost."""

    reason: str = ""


class SendLetter(Effect, frozen=True, tag="post"):
    """Send a letter to whoever listens to this topic."""

    to: str
    events: Sequence[ControlEvent]
    blocks: Sequence[Block] = ()


class ShareAccess(Effect, frozen=True, tag="share access"):
    """Tell the broker who may do what on a topic; lost with the link, if there is none."""

    topic: str
    facts: tuple[SharedFact, ...]
    token: int


class Subscribe(Effect, frozen=True, gc=False, tag="listen"):
    """Hear what is said on this topic, on this link and later ones: letters, or the events that a filter chooses."""

    to: str
    letters: bool = True
    where: str = ""


class Unsubscribe(Effect, frozen=True, gc=False, tag="ignore"):
    """Hear no more of it."""

    to: str


class Publish(Effect, frozen=True, tag="publish"):
    """Publish events as they are, under the numbers that they have; on their topic if no other is named."""

    block: Block
    to: str = ""
