"""Unit service: which subscribers a repository can serve. One for a unit stores what subscribers there want, and serves
those that left until they have all that there was: whoever serves them next may count on that.
"""

from stentor.model.control import GossipOffer, Migrate
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.repository.registry import is_within
from stentor.protocols.delivery.repository.serving.dissemination_table import SubscriberProgress
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.topic_state import TopicState


class UnitService:
    """That of one repository for one topic."""

    def __init__(self, state: TopicState, feeds: SubscriberFeeds, membership: MembershipView) -> None:
        self._state, self._feeds = state, feeds
        self._membership = membership
        self._log, self._table = state.log, state.table
        self._name, self._unit = state.settings.name, state.settings.unit

    # ---- whom it can serve

    def can_serve(self, name: str) -> bool:
        """Whether we have what a subscriber has not got. A storage for a unit serves whom it knows to be there."""
        progress = self._table.destinations.get(name)
        if progress is None:
            return not self._unit
        streams = self._log.streams
        if any(stream.unit_floor and progress.misses(stream, stream.unit_floor) for stream in streams.values()):
            return False
        if not progress.served or any(
            key in streams and progress.misses(streams[key], last) for key, last in progress.needs.items()
        ):
            return False
        return not progress.until or self._log.beginning(progress.done) < progress.until

    def is_kept_elsewhere(self, name: str) -> bool:
        """Whether another one still has what we have forgotten and a subscriber has not got."""
        progress = self._table.destinations.get(name)
        if progress is None or self._unit:
            return False
        others = [peer.name for peer in self._membership.living if not peer.unit]
        return any(
            progress.misses(stream, stream.floor) and any(stream.is_kept_by(other) for other in others)
            for stream in self._log.streams.values()
        )

    def cared_for(self) -> tuple[str, ...]:
        """Return the subscribers in our unit for whom we have, and keep, all that they have not got."""
        if not self._unit:
            return ()
        return tuple(name for name, each in self._table.destinations.items() if not each.until and self.can_serve(name))

    # ---- who comes and goes

    def begin(self, progress: SubscriberProgress) -> None:
        """Match events for a subscriber from now on; what was skipped before, it must get from elsewhere."""
        progress.epoch = self._log.next - 1
        if self._unit:
            lasts = {key: max(stream.skipped.last, stream.floor) for key, stream in self._log.streams.items()}
            progress.needs = {key: last for key, last in lasts.items() if last}

    def move(self, progress: SubscriberProgress, home: str) -> None:
        """Note that a subscriber is at this broker."""
        if is_within(home, self._unit):
            progress.until = 0
            if not progress.served:
                self._table.serve(progress, True)
                self.begin(progress)
                self._table.note_progress(progress.name)
        elif progress.served:
            if not progress.until:
                progress.until = max(self._log.next - 1, 1)
                self._table.note_progress(progress.name)
            self._see_off(progress)

    def _see_off(self, progress: SubscriberProgress) -> None:
        """Serve a subscriber that left our unit no longer, if it has all that there was."""
        if self._log.beginning(progress.done) >= progress.until:
            self._table.serve(progress, False)
            progress.until = 0
            self._table.note_progress(progress.name)
            self.send_away(progress.name)

    def send_away(self, name: str) -> None:
        """Send a subscriber to another repository, if we steer it."""
        cursor = self._feeds.drop(name)
        if cursor is not None:
            self._migrate(cursor.inbox)

    def send_away_unserved(self) -> None:
        """Send away those who miss what is forgotten elsewhere, and what we never had."""
        for name in [name for name in self._feeds.cursors if not self.can_serve(name)]:
            self.send_away(name)

    def accept_offer(self, names: tuple[str, ...]) -> None:
        """Send subscribers to the storage for their unit, which can serve them."""
        for name in names:
            cursor = self._feeds.cursors.get(name)
            if cursor is not None:
                self._migrate(cursor.inbox)

    def _migrate(self, inbox: str) -> None:
        self._state.send(inbox, Migrate(self._state.topic, self._name))

    def tick(self) -> None:
        """Offer to serve those in our unit whom a coarser storage serves, and see off those that left it."""
        if not self._unit or not self._state.service.is_serving:
            return
        units = self._state.registry.units
        names = tuple(
            name
            for name, each in self._table.destinations.items()
            if each.served
            and each.steerer in units
            and not is_within(units[each.steerer], self._unit)
            and not each.until
            and self.can_serve(name)
        )
        if names:
            self._state.say(GossipOffer(self._state.topic, self._name, names))
        for progress in self._table.destinations.values():
            if progress.until:
                self._see_off(progress)
