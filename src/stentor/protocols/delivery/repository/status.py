"""A survey of a repository: what an operator wants to see of one topic, as it goes into a report."""

from typing import Any

from stentor.machine import SECOND
from stentor.protocols.delivery.replication.bundle import Bundle, PeerRepository
from stentor.protocols.delivery.repository.registry import Registry
from stentor.protocols.delivery.repository.serving.dissemination_table import DisseminationTable, SubscriberProgress
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.damage import Damage
from stentor.protocols.delivery.repository.storing.event_log import EventLog


def topic(store: EventLog, registry: Registry, damage: Damage, client: str) -> dict[str, Any]:
    """What is stored, what of that cannot be read, on what terms, and who may publish: all, or one client."""
    terms = registry.terms
    return {
        "members": list(registry.members),
        "owner": terms.owner,
        "copies": terms.copies,
        "keep": terms.keep,
        "expire": terms.expire,
        "hold": terms.hold,
        "events": store.streams.event_count,
        "damage": list(damage.reports()),
        "first": store.first,
        "next": store.next,
        "horizon": store.horizon,
        "conflicts": store.conflicts,
        "unauthorised": store.strangers,
        "publishers": {name: grant.holder for name, grant in registry.grants("publisher", client).items()},
    }


def peers(now: int, store: EventLog, registry: Registry, bundle: Bundle) -> dict[str, Any]:
    """How far the other repositories are, as far as we know."""
    return {peer.name: _peer(now, store, registry, peer) for peer in bundle.peers.values()}


def _peer(now: int, store: EventLog, registry: Registry, peer: PeerRepository) -> dict[str, Any]:
    return {
        "ready": peer.ready,
        "heard": (now - peer.heard) / SECOND if peer.heard else None,
        "agrees": peer.told and peer.facts == registry.digest,
        "missing": sum(
            last - first + 1 for stream in store.streams.unsettled for first, last in stream.wanted_from(peer.name)
        ),
    }


def subscribers(
    store: EventLog, registry: Registry, table: DisseminationTable, feeds: SubscriberFeeds, client: str
) -> dict[str, dict[str, Any]]:
    """Everyone with a grant, or one client, and how far behind it is."""
    return {
        name: {"holder": grant.holder, **_subscriber(store, feeds, table.destinations.get(name))}
        for name, grant in registry.grants("subscriber", client).items()
    }


def _subscriber(store: EventLog, feeds: SubscriberFeeds, progress: SubscriberProgress | None) -> dict[str, Any]:
    if progress is None:
        return {"known": False}
    cursor = feeds.cursors.get(progress.name)
    return {
        "known": True,
        "where": progress.where,
        "sync": max(progress.sync, store.beginning(progress.done)),
        "lag": store.behind(progress.done),
        "steered": cursor is not None,
        "pending": cursor.pending if cursor is not None else 0,
    }
