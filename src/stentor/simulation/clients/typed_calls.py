"""Calls of a machine that need no time, as values: a world queues and traces them as it does inputs.

A publisher takes an event in without a step, because nothing follows from it before the turn ends. In a trace, a call
has the tag and the values that its event has always had, so that digests can be compared.
"""

from collections.abc import Mapping, Sequence

from stentor.machine import Effect, Input, Machine
from stentor.model.attribute import Value
from stentor.nodes.client import Client
from stentor.nodes.reliable_endpoint import ReliableEndpoint
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher


class PublishCalled(Input, frozen=True, tag="offered"):
    """`Client.publish`."""

    topic: str
    attributes: Mapping[str, Value]
    body: bytes
    time: int


class PublishManyCalled(Input, frozen=True, tag="offered many"):
    """`Client.publish_many`."""

    topic: str
    columns: Mapping[str, Sequence[Value | None]]
    bodies: Sequence[bytes]
    time: int


class ReliablePublishCalled(Input, frozen=True, tag="entrusted"):
    """`ReliablePublisher.publish`."""

    attributes: Mapping[str, Value]
    body: bytes
    time: int


class ReliablePublishManyCalled(Input, frozen=True, tag="entrusted many"):
    """`ReliablePublisher.publish_many`."""

    columns: Mapping[str, Sequence[Value | None]]
    bodies: Sequence[bytes]
    time: int


def step(machine: Machine, now: int, happened: Input) -> list[Effect]:
    """Make a step of a machine, or a call of it, from which nothing follows yet."""
    match happened:
        case PublishCalled():
            _client(machine).publish(happened.topic, happened.attributes, happened.body, happened.time)
        case PublishManyCalled():
            _client(machine).publish_many(happened.topic, happened.columns, happened.bodies, happened.time)
        case ReliablePublishCalled():
            _publisher(machine).publish(happened.attributes, happened.body, happened.time)
        case ReliablePublishManyCalled():
            _publisher(machine).publish_many(happened.columns, happened.bodies, happened.time)
        case _:
            return machine.step(now, happened)
    return []


def _client(machine: Machine) -> Client:
    assert isinstance(machine, Client), "nobody else publishes at best effort"
    return machine


def _publisher(machine: Machine) -> ReliablePublisher:
    publisher = machine.machine if isinstance(machine, ReliableEndpoint) else machine
    assert isinstance(publisher, ReliablePublisher), "nobody else publishes reliably"
    return publisher
