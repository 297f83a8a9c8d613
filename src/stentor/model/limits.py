"""Limits on everything a peer can make a node hold or do."""

from typing import Annotated

import msgspec

Size = Annotated[int, msgspec.Meta(ge=1024, le=1 << 32)]
DiskSize = Annotated[int, msgspec.Meta(ge=1024, le=1 << 60)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every one has a default that works on one machine."""

    largest_body: Size = 1 << 20  # bytes of one event's body
    window: Size = 4 << 20  # bytes of events that may be under way to a peer before it grants more
    queue: Size = 8 << 20  # bytes that wait for a slow subscriber before the oldest are dropped
    heartbeat: Seconds = 5.0  # a silent link is asked this often, and lost after three
    hello_within: Seconds = 3.0  # time to say who one is
    links: Count = 20_000
    subscriptions: Count = 1_000_000  # of all clients together
    subscriptions_per_client: Count = 200_000
    evaluation: Seconds = 0.02  # for evaluating filters for one event with the longest texts; a client has half of it
    topics: Count = 1_000_000  # topics known at once
    topics_per_client: Count = 100_000  # topics that one client defines on one link
    schemas_per_client: Count = 4_096  # sets of attributes that one client defines on one link
    flows: Count = 65_536  # routes remembered per link
    reliable_topics: Count = 1_000  # that a repository manages; fewer if its process may not open as many files
    reliable_topics_per_owner: Count = 200  # unless the owner is whoever runs the repository
    recent_events: Size = 64 << 20  # bytes that a repository keeps in memory of the newest events of all its topics
