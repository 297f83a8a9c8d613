"""How soon a named subscription says what it has, and asks for what it lacks."""

from typing import TypedDict

import msgspec

from stentor.machine import SECOND
from stentor.model.errors import InvalidInput
from stentor.protocols.delivery.settings import SubscriberSettings

_MOST_AT_ONCE = 65_536  # events: as many as a publisher may have under way
_SOONEST = 0.001  # seconds: below that a timer is late anyway
_LATEST = 60.0  # … so that a subscriber that says nothing for longer is away


class Pace(TypedDict, total=False):
    """Parameters of `Fabric.subscribe` with a name; what is left out has its default."""

    ack_every: int  # events that are acknowledged together, 1 to 65,536; 256 by default
    ack_within: float  # seconds after which fewer are, 0.001 to 60; 0.1 by default
    nak_after: float  # seconds that a stored event may take to come by itself, 0.001 to 60; 0.05 by default


def settings_of(pace: Pace) -> SubscriberSettings:
    """Return what a subscriber's machine makes of it; InvalidInput if that is out of range."""
    unknown = [name for name in pace if name not in Pace.__annotations__]
    if unknown:
        raise InvalidInput(f"subscribe knows no {unknown[0]}: there are {', '.join(Pace.__annotations__)}")
    settings = SubscriberSettings()
    every = pace.get("ack_every", settings.ack_events)
    if not isinstance(every, int) or not 1 <= every <= _MOST_AT_ONCE:
        raise InvalidInput(f"ack_every is a number of events from 1 to {_MOST_AT_ONCE:,}, not {every!r}")
    within, after = (
        pace.get("ack_within", settings.ack_after / SECOND),
        pace.get("nak_after", settings.missing / SECOND),
    )
    for name, seconds in (("ack_within", within), ("nak_after", after)):
        if not isinstance(seconds, int | float) or not _SOONEST <= seconds <= _LATEST:
            raise InvalidInput(f"{name} is a time from {_SOONEST:g} to {_LATEST:g} seconds, not {seconds!r}")
    return msgspec.structs.replace(
        settings, ack_events=every, ack_after=int(within * SECOND), missing=int(after * SECOND)
    )
