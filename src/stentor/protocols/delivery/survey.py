"""A survey of a repository: what an operator wants to see of one topic, as it goes into a report."""

from typing import Any

from stentor.machine import SECOND
from stentor.protocols.delivery.bundle import Bundle, Peer
from stentor.protocols.delivery.damage import Damage
from stentor.protocols.delivery.destination import Destination, DisseminationTable
from stentor.protocols.delivery.dispatch import Dispatch
from stentor.protocols.delivery.registry import Registry
from stentor.protocols.delivery.store import Store


def topic(store: Store, registry: Registry, damage: Damage, client: str) -> dict[str, Any]:
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


def peers(now: int, store: Store, registry: Registry, bundle: Bundle) -> dict[str, Any]:
    """How far the other repositories are, as far as we know."""
    return {peer.name: _peer(now, store, registry, peer) for peer in bundle.peers.values()}


def _peer(now: int, store: Store, registry: Registry, peer: Peer) -> dict[str, Any]:
    return {
        "ready": peer.ready,
        "heard": (now - peer.heard) / SECOND if peer.heard else None,
        "agrees": peer.told and peer.facts == registry.digest,
        "missing": sum(
            last - first + 1 for stream in store.streams.unsettled for first, last in stream.wanted_from(peer.name)
        ),
    }


def subscribers(
    store: Store, registry: Registry, table: DisseminationTable, dispatch: Dispatch, client: str
) -> dict[str, dict[str, Any]]:
    """Everyone with a grant, or one client, and how far behind it is."""
    return {
        name: {"holder": grant.holder, **_subscriber(store, dispatch, table.destinations.get(name))}
        for name, grant in registry.grants("subscriber", client).items()
    }


def _subscriber(store: Store, dispatch: Dispatch, destination: Destination | None) -> dict[str, Any]:
    if destination is None:
        return {"known": False}
    reader = dispatch.readers.get(destination.name)
    return {
        "known": True,
        "where": destination.where,
        "sync": max(destination.sync, store.beginning(destination.done)),
        "lag": store.behind(destination.done),
        "steered": reader is not None,
        "pending": reader.pending if reader is not None else 0,
    }
