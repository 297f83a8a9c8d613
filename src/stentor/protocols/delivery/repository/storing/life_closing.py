"""Life closing: the lives of publishers of which nothing is left are forgotten.

Every life of a publisher is a stream of its own, and a publisher may have a million of them. When a newer life is known
and every repository of the bundle has durably forgotten all that the older one sent, one of them closes it: the
publisher's fact says up to which life all are closed. Nothing more of a closed life is stored, whoever sends it. Once
all repositories have that fact, each drops the stream; until then a fact that one of them wrote at the same time might
win and not tell of it.
"""

from collections.abc import Iterable

from stentor.model.stored.record import Fact, StreamId
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository.storing.publisher_stream import PublisherStream
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.repository.tracer import RepositoryTracer


class LifeClosing:
    """One repository's part in it, for one topic."""

    def __init__(self, state: TopicState, gossip: Gossip, syncs: SyncReplication, tracer: RepositoryTracer) -> None:
        self._state, self._settings = state, state.settings
        self._log, self._registry = state.log, state.registry
        self._table, self._syncs = state.table, syncs
        self._gossip, self._membership = gossip, gossip.membership
        self._tracer = tracer
        self._looked_at = 0

    @property
    def is_due(self) -> bool:
        """Whether there are lives that are closed once nothing was heard of them for a while."""
        outlived = self._registry.is_outlived
        return not self._settings.lake and any(outlived(*stream.id) for stream in self._log.streams.collected)

    def recall(self) -> None:
        """Leave out what a ledger tells of subscribers and lives that were closed since it was written down."""
        self._registry.news.take_closings()
        for each in self._table.destinations.values():
            each.abandon_all(self._log.streams.is_over)

    def obey(self) -> None:
        """Forget what subscribers have of lives that were closed."""
        streams, closings = self._log.streams, self._registry.news.take_closings()
        keys = [(publisher, life) for publisher in closings for life in streams.lives(publisher)]
        self._forget([key for key in keys if streams.is_over(key)])

    def _forget(self, over: Iterable[StreamId]) -> None:
        for key in over:
            for each in self._table.destinations.values():
                each.abandon(key)
            self._syncs.abandon(key)
            self._tracer.abandon(key)

    def tick(self) -> None:
        """Drop what is closed, and close what is over."""
        now = self._state.step.now
        if now - self._looked_at < self._settings.collect_every or not self._may_close:
            return
        self._looked_at = now
        streams = self._log.streams
        if self._is_agreed:
            self._drop([stream.id for stream in streams.collected if streams.is_over(stream.id)])
        self._drop([stream.id for stream in streams.collected if not stream.end and self._is_past(stream)])
        for stream in [each for each in streams.unsettled if each.waiting and self._is_past(each)]:
            stream.drop_waiting()  # nobody has said for so long that they were sent, or to which topic
        if self._settings.name == min(self._registry.storing_all(), default=""):
            self._close()

    def _drop(self, over: list[StreamId]) -> None:
        self._forget(over)
        for key in over:
            self._log.abandon(key)

    @property
    def _members(self) -> list[PeerRepository]:
        return [peer for peer in self._state.bundle.peers.values() if not peer.is_departed]

    @property
    def _may_close(self) -> bool:
        """Whether every repository is here, and none reads what it has forgotten from a lake: a lake holds events under
        the numbers of their lives. One that has left may still have something as long as it is heard.
        """
        living, members = self._membership.living, self._members
        is_here = all(peer in living and peer.retold and not peer.recalls for peer in members)
        silent_since = self._state.step.now - self._settings.void_after
        is_done = all(peer in members or peer.heard < silent_since for peer in self._state.bundle.peers.values())
        return self._state.service.is_serving and is_here and is_done and not self._settings.lake

    @property
    def _is_agreed(self) -> bool:
        """Whether every repository has durably what is registered here."""
        digest = self._registry.digest
        return self._gossip.are_registrations_durable and all(peer.facts == digest for peer in self._members)

    def _close(self) -> None:
        facts: list[Fact] = []
        for publisher in dict.fromkeys(stream.id[0] for stream in self._log.streams.collected):
            over = self._lives_over(publisher)
            if over:
                stored = [(life, stream.known) for life, stream in over if stream.known]
                facts += self._registry.close(publisher, over[-1][0], max(stored, default=(0, 0)))
        self._state.register(facts)
        self.obey()

    def _lives_over(self, publisher: int) -> list[tuple[int, PublisherStream]]:
        """Return the lives of a publisher that can be closed; all before the last of them are over, too."""
        known = self._registry.publishers.get(publisher)
        found: list[tuple[int, PublisherStream]] = []
        if known is None:
            return found
        for life, stream in sorted(self._log.streams.lives(publisher).items()):
            if life <= known.closed or life in known.resumed:
                continue
            if life >= known.incarnation or not self._is_over(stream):
                break
            found.append((life, stream))
        return found

    def _is_past(self, stream: PublisherStream) -> bool:
        """Whether a stream is an older life of its publisher, of which nothing comes any more."""
        return self._registry.is_outlived(*stream.id) and self._is_quiet(stream)

    def _is_quiet(self, stream: PublisherStream) -> bool:
        heard_at = max(stream.publisher_heard_at, stream.changed_at, self._membership.since)
        return self._state.step.now - heard_at >= self._settings.close_after

    def _is_over(self, stream: PublisherStream) -> bool:
        """Whether nothing of a stream is left anywhere, nor on its way."""
        is_left = not self._log.streams.is_collected(stream)
        members = (peer.name for peer in self._members)
        return not is_left and self._is_quiet(stream) and stream.is_forgotten_by(members)
