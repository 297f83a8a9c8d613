"""Membership: the other repositories on whom one counts, as it is written down, and what it may do when they are
silent.

It goes on without somebody only when that is durable; one that begins again waits for those on whom it counted, who
may have gone on without it.
"""

from collections.abc import Callable, Mapping

import msgspec

from stentor.model.stored.record import Fact
from stentor.protocols.delivery.replication.bundle import Bundle, PeerRepository
from stentor.protocols.delivery.repository.storing.event_log import EventLog
from stentor.protocols.delivery.settings import RepositorySettings

_COMPANY = "local/company"


class MembershipView:
    """Whom one repository counts on."""

    def __init__(self, settings: RepositorySettings, store: EventLog, bundle: Bundle) -> None:
        self._settings, self._log, self._bundle = settings, store, bundle
        self.since = 0  # when we can be heard, as a member
        self.names: frozenset[str] | None = None  # who may have what we lack, durably; None: nothing is written down
        self._noting: frozenset[str] | None = None  # … as it is being written down

    def living(self, now: int) -> list[PeerRepository]:
        return self._bundle.living(now, self._settings.suspicion)

    def recall(self, facts: Mapping[str, bytes]) -> None:
        """On whom we counted before we ended."""
        if _COMPANY in facts:
            self.names = self._noting = frozenset(msgspec.msgpack.decode(facts[_COMPANY], type=list[str]))

    def join(self, now: int) -> None:
        """We hear that we have joined: all others may have what we lack, although none of them was heard yet."""
        self.since = now
        self.names = self._noting = frozenset(self._bundle.peers)
        self._log.entries.append(_fact(self.names))

    def same_unit_peers(self, now: int) -> frozenset[str]:
        """Those that serve the same unit and are not believed to be dead, or not durably."""
        counted = self._counted(now) | (frozenset(self._bundle.peers) if self.names is None else self.names)
        return counted.intersection(self._bundle.same_unit_peers)

    def _counted(self, now: int) -> frozenset[str]:
        """Who was heard not long ago, or was not given the time to be heard yet."""
        if not self.since or now - self.since < self._settings.degrade:
            return frozenset(self._bundle.peers)
        return frozenset(peer.name for peer in self._bundle.living(now, self._settings.degrade))

    def note(self, now: int, leaving_others: bool, then: Callable[[Callable[[int], None]], None]) -> None:
        """Write down on whom we count; `leaving_others` tells whether we may go on without somebody."""
        if leaving_others:
            counted = self._counted(now)
        else:
            counted = (self.names or frozenset()).union(peer.name for peer in self.living(now))
        if counted != self._noting:
            self._noting = counted
            self._log.entries.append(_fact(counted))
            then(lambda _: setattr(self, "names", counted))

    def heard(self, now: int) -> list[PeerRepository]:
        """Those that were heard lately, be they members or about to leave: they can be asked for something."""
        return [peer for peer in self._bundle.peers.values() if peer.heard > now - self._settings.suspicion]

    def is_here(self, now: int) -> bool:
        """Whether every member lives and has told all that it has."""
        living = self.living(now)
        return all(peer.departed or (peer in living and peer.retold) for peer in self._bundle.peers.values())

    def turn(self, now: int) -> int:
        """When somebody, ourselves included, last came or went."""
        living = self.living(now)
        turns = [peer.since if peer in living else peer.heard for peer in self._bundle.peers.values()]
        return max([self.since, *turns])

    def is_awaited(self, now: int) -> bool:
        """Whether those that are silent are to be waited for: longer if they may have gone on when we were away."""
        living = self.living(now)
        away = self._bundle.peers.keys() - {peer.name for peer in living}
        left_behind = bool(self.names and self.names & away) and not any(peer.ready for peer in living)
        return bool(away) and now - self.since < (self._settings.absence if left_behind else self._settings.grace)


def _fact(names: frozenset[str]) -> Fact:
    return Fact(_COMPANY, msgspec.msgpack.encode(sorted(names)))
