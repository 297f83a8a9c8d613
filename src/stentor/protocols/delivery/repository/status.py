"""The status of a topic at a repository: what an operator wants to see, as it goes into a report."""

from typing import Any

import msgspec

from stentor.machine import SECOND
from stentor.model.reports.status import TopicHealth
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.repository.serving.dissemination_table import SubscriberProgress
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.storing.damage import Damage
from stentor.protocols.delivery.repository.storing.publisher_lives import PublisherLives
from stentor.protocols.delivery.repository.topic_state import TopicState


class TopicStatus:
    """What is told of one topic. It changes nothing, and may be asked between steps."""

    def __init__(
        self,
        state: TopicState,
        feeds: SubscriberFeeds,
        holders: NameHolders,
        commits: CommitQueue,
        lives: PublisherLives,
        damage: Damage,
    ) -> None:
        self._state, self._feeds = state, feeds
        self._holders, self._commits = holders, commits
        self._lives, self._damage = lives, damage
        self._log, self._registry = state.log, state.registry

    @property
    def health(self) -> TopicHealth:
        service, trouble = self._state.service, self._state.unopened or self._commits.failure or self._damage.trouble
        return TopicHealth(service.is_serving, service.is_leaving, trouble, self._damage.events)

    def report(self, now: int, client: str = "") -> dict[str, Any]:
        """Return what is known of all clients, or of the one of this name. A topic may have so many that a change of
        one of them must not cost a look at all.
        """
        cursors, settings = self._feeds.cursors, self._state.settings
        publishers = sorted(each.name for each in self._holders.publishers.values() if client in ("", each.name))
        subscribers = [name for name in ([client] if client else cursors) if name in cursors]
        return {
            "topic": self._state.topic,
            "repository": settings.name,
            "unit": settings.unit,
            **msgspec.structs.asdict(self.health),
            "bytes": self._state.size,
            "steers": sorted([*publishers, *subscribers]),
            "awaits": self._lives.described(),
            **self._topic(client),
            "subscribers": self._subscribers(client),
            "peers": {peer.name: self._peer(now, peer) for peer in self._state.bundle.peers.values()},
            "steered_publishers": publishers,
        }

    def _topic(self, client: str) -> dict[str, Any]:
        """What is stored, what of that cannot be read, on what terms, and who may publish: all, or one client."""
        log, terms = self._log, self._registry.terms
        return {
            "members": list(self._registry.members),
            "owner": terms.owner,
            "copies": terms.copies,
            "keep": terms.keep,
            "expire": terms.expire,
            "hold": terms.hold,
            "events": log.streams.event_count,
            "damage": list(self._damage.reports()),
            "first": log.first,
            "next": log.next,
            "horizon": log.horizon,
            "conflicts": log.conflicts,
            "unauthorised": log.strangers,
            "publishers": {name: grant.holder for name, grant in self._registry.grants("publisher", client).items()},
        }

    def _peer(self, now: int, peer: PeerRepository) -> dict[str, Any]:
        """How far another repository is, as far as we know."""
        wanted = [span for stream in self._log.streams.unsettled for span in stream.wanted_from(peer.name)]
        return {
            "ready": peer.is_ready,
            "heard": (now - peer.heard) / SECOND if peer.heard else None,
            "agrees": peer.told and peer.facts == self._registry.digest,
            "missing": sum(last - first + 1 for first, last in wanted),
        }

    def _subscribers(self, client: str) -> dict[str, dict[str, Any]]:
        """Everyone with a grant, or one client, and how far behind it is."""
        destinations = self._state.table.destinations
        return {
            name: {"holder": grant.holder, **self._subscriber(destinations.get(name))}
            for name, grant in self._registry.grants("subscriber", client).items()
        }

    def _subscriber(self, progress: SubscriberProgress | None) -> dict[str, Any]:
        if progress is None:
            return {"known": False}
        cursor = self._feeds.cursors.get(progress.name)
        return {
            "known": True,
            "where": progress.where,
            "sync": max(progress.sync, self._log.beginning(progress.done)),
            "lag": self._log.streams.behind(progress.done),
            "steered": cursor is not None,
            "pending": cursor.pending if cursor is not None else 0,
        }
