"""Subscriptions: the registered subscribers of a topic, for whom events are kept whether they are here or not."""

from collections.abc import Iterable

import msgspec

from stentor.model.control import StreamRanges
from stentor.model.stored.position import Position
from stentor.model.stored.record import Fact
from stentor.protocols.delivery.replication.sync_replication import SyncReplication
from stentor.protocols.delivery.repository.registry import SubscriptionRecord, is_within
from stentor.protocols.delivery.repository.serving.unit_service import UnitService
from stentor.protocols.delivery.repository.storing.commit_queue import PROGRESS
from stentor.protocols.delivery.repository.topic_state import TopicState


class TopicSubscriptions:
    """Those of one topic at one repository."""

    def __init__(self, state: TopicState, units: UnitService, syncs: SyncReplication) -> None:
        self._state, self._units = state, units
        self._syncs, self._settings = syncs, state.settings
        self._log, self._registry = state.log, state.registry
        self._table = state.table
        self._without_right: dict[str, None] = {}  # registered when they had no grant any more

    def register(self, name: str, subscription: SubscriptionRecord) -> None:
        """Keep events for a new subscriber from now on; one that is registered stays as it is."""
        if name not in self._registry.subscriptions:
            given = self._log.streams.current(StreamRanges(*each, ()) for each in subscription.frontier)
            starts = {(each.publisher, each.incarnation): each.floor for each in given}
            # Nobody can be sure to get what is forgotten anywhere.
            for publisher, incarnation, floor in self._log.streams.floors(others=True):
                key = publisher, incarnation
                starts[key] = max(starts.get(key, 0), floor)
            frontier = tuple((*key, floor) for key, floor in sorted(starts.items()))
            known = msgspec.structs.replace(subscription, frontier=frontier)
            if self._settings.lake:
                voids = Position({key: stream.voids for key, stream in self._log.streams.items()})
                past = Position.before(frontier).minus(Position.before(subscription.frontier)).minus(voids)
                known = msgspec.structs.replace(known, past=past.held)
            self._state.register(self._registry.subscribe(name, known))
            self.add(name)

    def update(self, name: str, subscription: SubscriptionRecord) -> None:
        """Register what is different about a subscriber; another filter holds for all that is not there yet."""
        known = self._registry.subscriptions[name]
        if subscription != known:
            self._state.register(self._registry.subscribe(name, subscription))
            if subscription.where != known.where:
                self._rebind(name, subscription)

    def pass_by(self, name: str, done: Position) -> None:
        """Note that a subscriber has got some of what it wants of the past."""
        known = self._registry.subscriptions.get(name)
        if known is not None and known.past:
            past = Position.of(known.past).minus(done).held
            if past != known.past:
                self._state.register(self._registry.subscribe(name, msgspec.structs.replace(known, past=past)))

    def _rebind(self, name: str, subscription: SubscriptionRecord) -> None:
        self._table.change(self._table.destinations[name], subscription, self._log.next - 1)
        self._table.note_progress(name)

    def add(self, name: str) -> None:
        """Enter a registered subscriber, who is new here, into the dissemination table."""
        subscription = self._registry.subscriptions[name]
        served = is_within(subscription.home, self._settings.unit)
        progress = self._table.add(name, subscription, self._log.next - 1, served)
        progress.advance(self._log.streams.current(StreamRanges(*each, ()) for each in subscription.frontier))
        if served:
            self._units.begin(progress)
        self._table.note_progress(name)

    def recall(self, name: str, note: bytes) -> None:
        """Enter a subscriber that was known here before, with its progress as it was written down."""
        subscription = self._registry.subscriptions[name]
        self._units.move(self._table.recall(name, subscription, note), subscription.home)

    # ---- what was registered, here or elsewhere

    def remove_former(self, names: Iterable[str]) -> None:
        """Forget those of these that are no subscribers any more, or are registered anew."""
        for name in names:
            progress, known = self._table.destinations.get(name), self._registry.subscriptions.get(name)
            if progress is not None and (known is None or known.registration != progress.registration):
                if self._registry.admits("subscriber", name):  # it unsubscribed, be it for a while
                    self._units.send_away(name)
                self._table.remove(name)
                self._syncs.forget(name)
                self._state.bundle.end_registration(name)
                self._log.unwritten.write(Fact(PROGRESS + name, None))

    def apply(self, names: Iterable[str]) -> None:
        """Enter those of these that are new, and note what others want by now and where they are."""
        for name in names:
            subscription = self._registry.subscriptions.get(name)
            progress = self._table.destinations.get(name)
            if subscription is None:
                continue
            if progress is None:
                self.add(name)
            else:
                if progress.where != subscription.where:
                    self._rebind(name, subscription)
                self._units.move(progress, subscription.home)

    def note_without_right(self, names: Iterable[str]) -> None:
        """Note those of these that are registered although they have no grant any more: whoever registered them had
        not heard of that.
        """
        self._without_right.update((name, None) for name in names if self._has_no_right(name))

    def without_right(self) -> list[str]:
        """Return those of which that was noted, and still holds."""
        self._without_right = {name: None for name in self._without_right if self._has_no_right(name)}
        return list(self._without_right)

    def _has_no_right(self, name: str) -> bool:
        registry = self._registry
        return name in registry.subscriptions and registry.created and not registry.admits("subscriber", name)
