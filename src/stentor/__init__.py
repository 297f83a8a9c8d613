"""Stentor: an event fabric. Publishers and subscribers of any kind, joined by brokers that may grow and fail.

Start with `stentor.connect` (asyncio) or `stentor.blocking.connect` (scripts and notebooks).
"""

import logging

from stentor import blocking
from stentor.client import Events, Fabric, connect
from stentor.event import Batch, Event
from stentor.model.column import Column
from stentor.model.errors import (
    AttributeValueError,
    BodyTooLarge,
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
from stentor.settling import Settled
from stentor.version import __version__

logging.getLogger("stentor").addHandler(logging.NullHandler())  # applications decide what they show

__all__ = [
    "AttributeValueError",
    "Batch",
    "BodyTooLarge",
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
    "Refusal",
    "Refused",
    "Settled",
    "StentorError",
    "TopicError",
    "Unreachable",
    "Unresponsive",
    "__version__",
    "blocking",
    "connect",
]
