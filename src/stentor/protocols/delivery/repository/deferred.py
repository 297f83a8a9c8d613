"""What waits until something is durable: values, which `TopicRepository` carries out when their time has come.

Most of them wait for a commit. What answers a client waits longer: what it changed is registered at the other
repositories, too, before the client is told so.
"""

import msgspec

from stentor.machine import Effect
from stentor.model.control import Recovery, RegistrationReceipt
from stentor.model.stored.position import Position
from stentor.model.stored.reading import StockRequest
from stentor.model.trust.access import SharedFact
from stentor.protocols.delivery.repository.serving.steered_publisher import SteeredPublisher
from stentor.protocols.delivery.repository.serving.subscriber_cursor import SubscriberCursor


class AnswerPublisher(msgspec.Struct, frozen=True):
    """Tell a publisher that it is steered here, and what is stored of it by then."""

    publisher: SteeredPublisher
    event: Recovery


class AnswerSubscriber(msgspec.Struct, frozen=True):
    """Tell a subscriber that it is steered here, and where it is."""

    cursor: SubscriberCursor
    event: Recovery


class AnswerOwner(msgspec.Struct, frozen=True):
    """Give an owner or operator its receipt, once brokers know what it changed."""

    to: str
    receipt: RegistrationReceipt


class AnswerStockRequest(msgspec.Struct, frozen=True):
    """Tell somebody who reads stored events what there is."""

    event: StockRequest
    done: Position


Answer = Effect | AnswerPublisher | AnswerSubscriber | AnswerOwner | AnswerStockRequest


class AwaitSharing(msgspec.Struct, frozen=True):
    """Wait until the other repositories have what is registered here."""

    answer: Answer


class TellRegistrations(msgspec.Struct, frozen=True):
    """Let the other repositories rely on the registrations of this digest."""

    digest: int


class TellAccess(msgspec.Struct, frozen=True):
    """Tell brokers who may do what: all of it on a new link, else what has changed."""

    facts: tuple[SharedFact, ...]
    is_all: bool = False


class CountOn(msgspec.Struct, frozen=True):
    """Count on these repositories, and on no others."""

    names: frozenset[str]


Deferred = Answer | AwaitSharing | TellRegistrations | TellAccess | CountOn
