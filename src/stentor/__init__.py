"""Stentor: an event fabric. Publishers and subscribers of any kind, joined by brokers that may grow and fail.

Start with `stentor.connect` (asyncio) or `stentor.blocking.connect` (scripts and notebooks). Whatever docs/api.md names
is here, and loaded when it is first used.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from stentor.version import __version__

if TYPE_CHECKING:
    from stentor.admin.topics import Registrar
    from stentor.client import blocking
    from stentor.client.connection.settling import Settled
    from stentor.client.event import Batch, Event, StoredBatch, StoredEvent
    from stentor.client.event_stream import Events
    from stentor.client.fabric import Fabric, connect
    from stentor.client.losses import LostEvents
    from stentor.client.reliable_publisher import Publisher, Stored
    from stentor.client.reliable_subscription import Subscription
    from stentor.client.stored_reader import Reader
    from stentor.model.column import Column
    from stentor.model.errors import (
        AttributeValueError,
        BodyTooLarge,
        BufferFull,
        Closed,
        ConfigError,
        Fenced,
        FilterError,
        InvalidInput,
        LinkBroken,
        Refusal,
        Refused,
        StentorError,
        TopicError,
        Unreachable,
        Unresponsive,
    )
    from stentor.model.filter import Filter
    from stentor.model.reports.status import NodeStatus

_MODULES = {
    "admin.topics": ("Registrar",),
    "client.connection.settling": ("Settled",),
    "client.event": ("Batch", "Event", "StoredBatch", "StoredEvent"),
    "client.event_stream": ("Events",),
    "client.fabric": ("Fabric", "connect"),
    "client.reliable_publisher": ("Publisher", "Stored"),
    "client.losses": ("LostEvents",),
    "client.reliable_subscription": ("Subscription",),
    "client.stored_reader": ("Reader",),
    "model.column": ("Column",),
    "model.errors": (
        "AttributeValueError",
        "BodyTooLarge",
        "BufferFull",
        "Closed",
        "ConfigError",
        "Fenced",
        "FilterError",
        "InvalidInput",
        "LinkBroken",
        "Refusal",
        "Refused",
        "StentorError",
        "TopicError",
        "Unreachable",
        "Unresponsive",
    ),
    "model.filter": ("Filter",),
    "model.reports.status": ("NodeStatus",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AttributeValueError",
    "Batch",
    "BodyTooLarge",
    "BufferFull",
    "Closed",
    "Column",
    "ConfigError",
    "Event",
    "Events",
    "Fabric",
    "Fenced",
    "Filter",
    "FilterError",
    "InvalidInput",
    "LinkBroken",
    "LostEvents",
    "NodeStatus",
    "Publisher",
    "Reader",
    "Refusal",
    "Refused",
    "Registrar",
    "Settled",
    "StentorError",
    "Stored",
    "StoredBatch",
    "StoredEvent",
    "Subscription",
    "TopicError",
    "Unreachable",
    "Unresponsive",
    "__version__",
    "blocking",
    "connect",
]

logging.getLogger("stentor").addHandler(logging.NullHandler())  # applications decide what they show


def __getattr__(name: str) -> object:
    if name == "blocking":
        return import_module("stentor.client.blocking")
    if name not in _HOMES:
        raise AttributeError(f"module 'stentor' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"stentor.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
