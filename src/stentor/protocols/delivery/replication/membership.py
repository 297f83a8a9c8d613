"""Which members of the bundle this repository counts on.

It acknowledges with fewer copies only after recording durably that it no longer counts on a silent member. After a
restart it first waits for the members it last counted on, because they may have carried on without it.
"""

from collections.abc import Mapping

import msgspec

from stentor.model.stored.record import Fact
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.repository.deferred import CountOn
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.topic_state import TopicState

_COMPANY = "local/company"


class MembershipView:
    """The members of one bundle, as one of them sees them."""

    def __init__(self, state: TopicState, commits: CommitQueue) -> None:
        self._state, self._step = state, state.step
        self._settings, self._bundle = state.settings, state.bundle
        self._commits = commits
        self.since = 0  # when we can be heard, as a member
        # The members that may have what we lack. Invariant: `_noting` is `names`, or is being written to become it.
        self.names: frozenset[str] | None = None  # as it is written; None if nothing is
        self._noting: frozenset[str] | None = None

    @property
    def living(self) -> list[PeerRepository]:
        """The members that were heard not long ago, and do not leave."""
        return self._bundle.living(self._step.now, self._settings.suspicion)

    def recall(self, facts: Mapping[str, bytes]) -> None:
        """Count on the members that we counted on before we ended."""
        if _COMPANY in facts:
            self.names = self._noting = frozenset(msgspec.msgpack.decode(facts[_COMPANY], type=list[str]))

    def begin(self) -> None:
        """We can be heard from now on."""
        self.since = self._step.now

    def join(self) -> None:
        """We hear that we have joined: all others may have what we lack, although none of them was heard yet."""
        self.begin()
        self.names = self._noting = frozenset(self._bundle.peers)
        self._write(self.names)

    def count_on(self, names: frozenset[str]) -> None:
        """It is durable that we count on these."""
        self.names = names

    @property
    def copies(self) -> int:
        """How many repositories must have an event before it is acknowledged: fewer than asked for if too few live."""
        if not self._bundle.peers:
            return 1
        return max(1, min(self._state.registry.terms.copies, 1 + len(self._same_unit_peers)))

    @property
    def _same_unit_peers(self) -> frozenset[str]:
        """Those that serve the same unit and are not believed to be dead, or not durably."""
        counted = self._counted | (frozenset(self._bundle.peers) if self.names is None else self.names)
        return counted.intersection(self._bundle.same_unit_peers)

    @property
    def _counted(self) -> frozenset[str]:
        """Who was heard not long ago, or was not given the time to be heard yet."""
        if not self.since or self._step.now - self.since < self._settings.degrade:
            return frozenset(self._bundle.peers)
        return frozenset(peer.name for peer in self._bundle.living(self._step.now, self._settings.degrade))

    def note(self) -> None:
        """Write down on whom we count; while we catch up, we do not go on without anybody."""
        service = self._state.service
        if service.is_serving or service.is_leaving:
            counted = self._counted
        else:
            counted = (self.names or frozenset()).union(peer.name for peer in self.living)
        if counted != self._noting:
            self._noting = counted
            self._write(counted)
            self._commits.after_commit(CountOn(counted))

    def _write(self, names: frozenset[str]) -> None:
        self._state.log.unwritten.write(Fact(_COMPANY, msgspec.msgpack.encode(sorted(names))))

    @property
    def heard(self) -> list[PeerRepository]:
        """Those that were heard lately, be they members or about to leave: they can be asked for something."""
        since = self._step.now - self._settings.suspicion
        return [peer for peer in self._bundle.peers.values() if peer.heard > since]

    @property
    def is_here(self) -> bool:
        """Whether every member lives and has told all that it has."""
        living = self.living
        return all(peer.is_departed or (peer in living and peer.retold) for peer in self._bundle.peers.values())

    @property
    def knows_all(self) -> bool:
        """Whether every member is here, has told all that it has, and has registered what is registered here."""
        members = [peer for peer in self._bundle.peers.values() if not peer.is_departed]
        return self.is_here and all(peer.facts == self._state.registry.digest for peer in members)

    @property
    def may_lack_facts(self) -> bool:
        """Whether another member may have registered what we have not, and may still tell us. One that is silent is
        waited for as long as one that may have gone on without us: it may never come back.
        """
        return any(self._may_know_more(peer) for peer in self._bundle.peers.values() if not peer.is_departed)

    def _may_know_more(self, peer: PeerRepository) -> bool:
        if peer not in self.heard:
            return self._step.now - max(peer.heard, self.since) < self._settings.absence
        registry = self._state.registry
        is_behind = registry.registered_since(peer.facts) is not None
        return not (peer.retold and (is_behind or peer.facts == registry.digest))

    @property
    def turned_at(self) -> int:
        """When somebody, ourselves included, last came or went."""
        living = self.living
        turns = [peer.since if peer in living else peer.heard for peer in self._bundle.peers.values()]
        return max([self.since, *turns])

    @property
    def is_awaited(self) -> bool:
        """Whether those that are silent are to be waited for: longer if they may have gone on when we were away."""
        living = self.living
        away = self._bundle.peers.keys() - {peer.name for peer in living}
        left_behind = bool(self.names and self.names & away) and not any(peer.is_ready for peer in living)
        patience = self._settings.absence if left_behind else self._settings.grace
        return bool(away) and self._step.now - self.since < patience
