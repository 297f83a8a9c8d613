"""Filtered subscriptions: the interests in one pattern that have filters, matched together, however many there are."""

from array import array
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from stentor.matching.pairs.pair_index import Events, PairIndex
from stentor.model.attribute import Value
from stentor.model.batch import Batch
from stentor.model.filter.cost import Cost
from stentor.model.ids import SubscriptionId
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription, ReadAccess

D = TypeVar("D")
Places = NDArray[np.int64]
_FEW = 16  # pairs up to which a loop beats arrays
_MANY = 4096  # pairs from which only their counts are kept
_NOBODYS = 0  # stands for the owner of a place that is free


class SubscriptionSlots(Generic[D]):
    """All interests that have filters, by places that are used again: so what is known of them lies in arrays."""

    def __init__(self) -> None:
        self.accepted = np.zeros(64, np.int64)  # events, by place
        self.accepted_total = 0  # pairs of an event and a filter that took it, also of interests that are gone
        self.rejected_total = 0  # pairs of an event and a filter that did not
        self.subscriptions = np.zeros(64, np.int64)
        self._owners = np.zeros(64, np.int64)  # numbers of destinations, by place
        # Places that somebody left. Numbers in a list would be objects, made long ago among all that is gone now: each
        # would keep a page of memory from being given back.
        self._free = array("q")
        self._used = 0  # places that somebody has or had
        # Those who have, or had, a place, until they are abandoned. Invariant: each is the inverse of the other.
        self._destinations: dict[int, D] = {}
        self._numbers: dict[D, int] = {}
        self._last = 0

    def enter(self, destination: D, subscription: SubscriptionId) -> int:
        """A place for an interest."""
        place = self._take_place()
        owner = self._numbers.get(destination, _NOBODYS)
        if self._destinations.get(owner) is not destination:
            self._last += 1
            owner = self._numbers[destination] = self._last
            self._destinations[owner] = destination
        self._owners[place] = owner
        self.subscriptions[place] = subscription
        self.accepted[place] = 0
        return place

    def _take_place(self) -> int:
        while self._free:
            place = self._free.pop()
            if 0 <= place < self._used and self._owners[place] == _NOBODYS:
                return place
        place = self._used
        self._used += 1
        if place == len(self._owners):
            self._grow()
        return place

    def leave(self, place: int) -> None:
        self._owners[place] = _NOBODYS
        self._free.append(place)

    def destination(self, place: int) -> D | None:
        return self._destinations.get(int(self._owners[place]))

    def holds(self, place: int, destination: D, subscription: SubscriptionId) -> bool:
        """Return whether a place is that of an interest."""
        if not 0 <= place < self._used or self.subscriptions[place] != subscription:
            return False
        owner = self._numbers.get(destination, _NOBODYS)
        return owner == self._owners[place] and self._destinations.get(owner) is destination

    def keep(self, places: set[int]) -> None:
        """Let all places but these be free, and know just those whose they are."""
        owners = set(self._owners[[place for place in places if 0 <= place < len(self._owners)]].tolist())
        self._numbers = {each: owner for each, owner in self._numbers.items() if owner in owners}
        self._destinations = {owner: each for each, owner in self._numbers.items()}
        self._used = min(max(places, default=-1) + 1, len(self._owners))
        rest = [place for place in range(self._used) if place not in places]
        self._owners[rest] = _NOBODYS
        self._free = array("q", rest)

    def abandon(self, destination: D) -> None:
        """A destination is gone: nothing is for it any more, though its interests leave one by one."""
        owner = self._numbers.pop(destination, None)
        if owner is not None:
            self._destinations.pop(owner, None)

    def _grow(self) -> None:
        size = len(self._owners)
        self.accepted = np.concatenate((self.accepted, np.zeros(size, np.int64)))
        self.subscriptions = np.concatenate((self.subscriptions, np.zeros(size, np.int64)))
        self._owners = np.concatenate((self._owners, np.zeros(size, np.int64)))

    def share(self, events: Events, places: Places, count: int) -> Iterator[tuple[D, Events]]:
        """Yield the events of a batch for each destination, in order and each once."""
        owners = self._owners[places]
        if (owners == owners[0]).all():
            kept = np.zeros(count, np.bool_)
            kept[events] = True
            shares = [(int(owners[0]), kept.nonzero()[0])]
        else:
            pairs = np.unique(owners * count + events)
            mixed, rows = np.divmod(pairs, count)
            starts = np.flatnonzero(np.diff(mixed, prepend=-1))
            shares = list(zip(mixed[starts].tolist(), np.split(rows, starts[1:]), strict=True))
        for owner, rows in shares:
            destination = self._destinations.get(owner)
            if destination is not None:
                yield destination, rows

    def tally(self, destination: D, places: Places, counts: Places) -> Mapping[SubscriptionId, int]:
        """Return how much each subscription of a destination has of these."""
        mine = self._owners[places] == self._numbers.get(destination, 0)
        found: Counter[SubscriptionId] = Counter()
        for subscription, count in zip(self.subscriptions[places[mine]].tolist(), counts[mine].tolist(), strict=True):
            found[subscription] += count
        return found


class FilteredSubscriptions(Generic[D]):
    """The interests in one pattern that have filters, and that may read the same."""

    def __init__(
        self, number: int, pattern: str, roster: SubscriptionSlots[D], access: ReadAccess | None = None
    ) -> None:
        self.number = number
        self.pattern = pattern
        self.access = access  # of all of them
        self.events = 0
        self._slots = roster
        self._index = PairIndex()

    def __len__(self) -> int:
        return len(self._index)

    def add(self, subscription: BrokerSubscription[D]) -> None:
        assert subscription.filter is not None, "an interest in all of a topic has no need of an audience"
        subscription.place = self._slots.enter(subscription.destination, subscription.id)
        subscription.counts, subscription.since = self, self.events
        if subscription.place in self._index:  # damage has left something there
            self._index.remove(subscription.place)
        self._index.add(subscription.filter, subscription.place)

    def remove(self, subscription: BrokerSubscription[D]) -> None:
        self._index.remove(subscription.place)
        self._slots.leave(subscription.place)

    def move(self, subscription: BrokerSubscription[D], to: "FilteredSubscriptions[D]") -> None:
        """Let an interest join another audience; it keeps its place, and what was counted for it."""
        assert subscription.filter is not None, "whoever is in an audience has a filter"
        self._index.remove(subscription.place)
        to._index.add(subscription.filter, subscription.place)
        subscription.counts, subscription.since = to, to.events - (self.events - subscription.since)

    def holds(self, subscription: BrokerSubscription[D]) -> bool:
        """Return whether an interest is indexed here."""
        where = subscription.filter
        return subscription.counts is self and where is not None and self._index.holds(where, subscription.place)

    def serves(self, subscription: BrokerSubscription[D]) -> bool:
        """Return whether what an interest wants goes to whom it is of."""
        return self._slots.holds(subscription.place, subscription.destination, subscription.id)

    def keep(self, places: Container[int]) -> None:
        """Forget the interests in all places but these."""
        self._index.keep(places)

    def renew(self, most: int) -> int:
        """Index so many interests anew, beside where they are; return how many there were."""
        return self._index.renew(most)

    @property
    def is_renewed(self) -> bool:
        """Whether no interest is left to be indexed anew."""
        return self._index.is_renewed

    @property
    def load(self) -> Cost:
        return self._index.load

    @property
    def evaluated(self) -> int:
        return self._index.evaluated

    def accepted(self, place: int) -> int:
        return int(self._slots.accepted[place])

    def wanting(self, attributes: Mapping[str, Value]) -> Iterator[D]:
        """Return who wants an event; just asked, not counted."""
        for place in self._index.match_one(attributes):
            destination = self._slots.destination(place)
            if destination is not None:
                yield destination

    def match(self, batch: Batch) -> tuple[Events, Places]:
        """Return which events go to whom, and count them."""
        self.events += batch.count
        events, places = self._index.match_pairs(batch)
        self._slots.accepted_total += len(places)
        self._slots.rejected_total += batch.count * len(self._index) - len(places)
        accepted = self._slots.accepted
        if len(self._index) == 1:
            if len(places):
                accepted[places[0]] += len(places)
        elif len(places) <= _FEW:
            for place in places.tolist():
                accepted[place] += 1
        else:
            np.add.at(accepted, places, 1)
        return events, places


class MatchedSubscriptions(Generic[D]):
    """Who chose what of some events; asked only if these events have to wait, in the same step."""

    __slots__ = ("_parts", "_slots")

    def __init__(self, roster: SubscriptionSlots[D]) -> None:
        self._slots = roster
        self._parts: list[tuple[Places, Places | None]] = []  # None is once each

    def add(self, places: Places) -> "MatchedSubscriptions[D]":
        """Return the places of those who chose, each as often as it chose an event."""
        if len(places) > _MANY:  # a frame may claim many events for few bytes
            self._parts.append(np.unique(places, return_counts=True))
        else:
            self._parts.append((places, None))
        return self

    def get(self, destination: D, default: Mapping[SubscriptionId, int]) -> Mapping[SubscriptionId, int]:
        if not self._parts:
            return default
        counts = [np.ones(len(places), np.int64) if some is None else some for places, some in self._parts]
        places = np.concatenate([places for places, _ in self._parts])
        return self._slots.tally(destination, places, np.concatenate(counts))
