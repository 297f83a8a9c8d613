"""Filed subscriptions: what a broker's clients ask for, by pattern, so that a topic finds all who want its events.

Where a subscription is filed follows from what it says. An audit looks whether it is there, some at a time, and files
it again if not; what is found and was never filed counts for nothing.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from stentor.matching.topic_tree import PatternMap
from stentor.model.filter.cost import NOTHING
from stentor.model.topic import matches
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription, ReadAccess
from stentor.protocols.dissemination.filtered_subscriptions import FilteredSubscriptions, SubscriptionSlots

D = TypeVar("D")


class TopicSeeker(Protocol):
    """Whoever asks for the topics of a pattern, or for those of them that it may read."""

    number: int
    pattern: str
    access: ReadAccess | None


A = TypeVar("A", bound=TopicSeeker)


class FiledSubscriptions(Generic[D]):
    """The subscriptions in force. Invariants, asserted by `validate`:

    each audience is of somebody, and all of them are of the interests with filters; `evaluated` and `evaluated_for` are
    the sums over these
    """

    def __init__(self) -> None:
        self.by_number: dict[int, BrokerSubscription[D]] = {}
        self.slots: SubscriptionSlots[D] = SubscriptionSlots()
        self.is_loaded = False  # some events take a while to be matched
        self.evaluated = 0  # nanoseconds for evaluating the filters of all audiences, for the worst event
        self.evaluated_for: Counter[D] = Counter()  # … by whose filters these are
        self._whole: PatternMap[BrokerSubscription[D]] = PatternMap()
        self._audiences: PatternMap[FilteredSubscriptions[D]] = PatternMap()
        self._by_pattern: dict[tuple[str, ReadAccess | None], FilteredSubscriptions[D]] = {}
        self._last_audience = 0
        self._due: deque[FilteredSubscriptions[D]] = deque()  # audiences that are to be indexed anew, in turns

    def add(self, subscription: BrokerSubscription[D]) -> bool:
        """File a subscription; return whether routes change. One with a filter joins those in the same pattern: only
        the first of them changes routes.
        """
        self.by_number[subscription.number] = subscription
        return self._file(subscription)

    def _file(self, subscription: BrokerSubscription[D]) -> bool:
        if subscription.filter is None:
            self._whole.add(subscription.pattern, subscription.number, subscription)
            return True
        audience, is_new = self._audience(subscription.pattern, subscription.access)
        before = audience.evaluated
        audience.add(subscription)
        self.evaluated += audience.evaluated - before
        self._book(subscription, audience.evaluated - before, audience)
        return is_new

    def _audience(self, pattern: str, access: ReadAccess | None) -> tuple[FilteredSubscriptions[D], bool]:
        """Return the audience of whoever has this pattern and may read the same, and whether it is new."""
        audience = self._by_pattern.get((pattern, access))
        if audience is not None:
            return audience, False
        self._last_audience += 1
        audience = FilteredSubscriptions(self._last_audience, pattern, self.slots, access)
        self._by_pattern[pattern, access] = audience
        self._audiences.add(pattern, audience.number, audience)
        return audience, True

    def _book(self, subscription: BrokerSubscription[D], evaluated: int, audience: FilteredSubscriptions[D]) -> None:
        """An interest has joined an audience, and made evaluating filters dearer by so much."""
        subscription.evaluated = evaluated
        if evaluated:
            self.evaluated_for[subscription.destination] += evaluated
        self.is_loaded = self.is_loaded or audience.load != NOTHING

    def _strike(self, subscription: BrokerSubscription[D]) -> None:
        """An interest has left its audience."""
        if subscription.evaluated:
            self.evaluated_for[subscription.destination] -= subscription.evaluated
            if not self.evaluated_for[subscription.destination]:
                del self.evaluated_for[subscription.destination]

    def remove(self, subscription: BrokerSubscription[D]) -> bool:
        """Forget a subscription; return whether routes change."""
        if not self._holds(subscription):  # what is not there cannot be taken away
            self._file_again(subscription)
        del self.by_number[subscription.number]
        if not self.by_number:
            self.by_number.clear()  # a table that held many keeps its size otherwise
        if subscription.filter is None:
            self._whole.remove(subscription.pattern, subscription.number)
            return True
        audience = self._by_pattern[subscription.pattern, subscription.access]
        before = audience.evaluated
        audience.remove(subscription)
        self.evaluated += audience.evaluated - before
        self._strike(subscription)
        return self._tidy(audience)

    def _tidy(self, audience: FilteredSubscriptions[D]) -> bool:
        """Forget an audience of nobody; return whether it is one."""
        if audience:
            return False
        self.is_loaded = any(each.load != NOTHING for each in self._by_pattern.values() if each is not audience)
        del self._by_pattern[audience.pattern, audience.access]
        self._audiences.remove(audience.pattern, audience.number)
        return True

    def change_access(self, subscription: BrokerSubscription[D], access: ReadAccess | None) -> None:
        """From now on an interest means other topics of its pattern."""
        if subscription.filter is not None:
            former = self._by_pattern[subscription.pattern, subscription.access]
            joined, _ = self._audience(subscription.pattern, access)
            before, dearer = former.evaluated + joined.evaluated, -joined.evaluated
            former.move(subscription, joined)
            self.evaluated += former.evaluated + joined.evaluated - before
            self._strike(subscription)
            self._book(subscription, dearer + joined.evaluated, joined)
            self._tidy(former)
        subscription.access = access

    def has_exact(self, topic: str) -> bool:
        """Return whether anybody here asked for a topic by its name."""
        return self._whole.has_exact(topic) or self._audiences.has_exact(topic)

    def covering(self, topic: str) -> tuple[list[BrokerSubscription[D]], list[FilteredSubscriptions[D]]]:
        """Return the subscriptions and the audiences that a topic's events are for, in the order of their numbers."""
        filed, audiences = self.by_number, self._by_pattern
        whole = {each.number: each for each in self._whole.covering(topic) if filed.get(each.number) is each}
        some = {
            each.number: each
            for each in self._audiences.covering(topic)
            if audiences.get((each.pattern, each.access)) is each
        }
        return _in_order(_meant(whole.values(), topic)), _in_order(_meant(some.values(), topic))

    # ---- what damage may have done

    def repair(self, subscription: BrokerSubscription[D]) -> bool:
        """File a subscription again that is not where it belongs; return whether that was so."""
        audience = self._by_pattern.get((subscription.pattern, subscription.access))
        is_served = subscription.filter is None or (audience is not None and audience.serves(subscription))
        if is_served and self._holds(subscription):
            return False
        self._file_again(subscription)
        return True

    def _holds(self, subscription: BrokerSubscription[D]) -> bool:
        """Return whether a subscription is found under its pattern, whether or not anybody is served by that."""
        if subscription.filter is None:
            return self._whole.holds(subscription.pattern, subscription.number, subscription)
        audience = self._by_pattern.get((subscription.pattern, subscription.access))
        if audience is None or not audience.holds(subscription):
            return False
        return self._audiences.holds(audience.pattern, audience.number, audience)

    def _file_again(self, subscription: BrokerSubscription[D]) -> None:
        if subscription.filter is None:
            self._whole.add(subscription.pattern, subscription.number, subscription)
            return
        audience, _ = self._audience(subscription.pattern, subscription.access)
        if not self._audiences.holds(audience.pattern, audience.number, audience):
            self._audiences.add(audience.pattern, audience.number, audience)
        if not (audience.holds(subscription) and audience.serves(subscription)):
            self._file(subscription)  # in another place: nobody knows whose the former one is

    def drop_strays(self) -> set[str]:
        """Forget what is indexed and of nobody, and count the costs anew; return the patterns whose routes change. That
        there is something tells the number of all.
        """
        filtered = [each for each in self.by_number.values() if each.filter is not None]
        audiences = list(self._by_pattern.values())
        if sum(map(len, audiences)) == len(filtered) and self._has_right_sums(filtered):
            return set()
        places = {each.place for each in filtered}
        self.slots.keep(places)
        changed = set()
        for audience in audiences:
            audience.keep({each.place for each in filtered if each.counts is audience})
            if not audience:
                del self._by_pattern[audience.pattern, audience.access]
                changed.add(audience.pattern)
        self._audiences = PatternMap()
        for audience in self._by_pattern.values():
            self._audiences.add(audience.pattern, audience.number, audience)
        self.evaluated = sum(audience.evaluated for audience in audiences)
        self.evaluated_for = _costs(filtered)
        self.is_loaded = any(audience.load != NOTHING for audience in audiences)
        return changed

    def _has_right_sums(self, filtered: Iterable[BrokerSubscription[D]]) -> bool:
        evaluated = sum(audience.evaluated for audience in self._by_pattern.values())
        return self.evaluated == evaluated and self.evaluated_for == _costs(filtered)

    def renew(self, most: int) -> None:
        """Index so many filters anew, beside the indexes that are in use."""
        self._due = self._due or deque(self._by_pattern.values())
        while self._due and most > 0:
            audience = self._due[0]
            before = audience.evaluated
            most -= 1 + audience.renew(most)
            self.evaluated += audience.evaluated - before
            if audience.is_renewed:
                self._due.popleft()

    def validate(self) -> None:
        assert all(self._by_pattern.values()), "an audience of nobody"
        filtered = [subscription for subscription in self.by_number.values() if subscription.filter is not None]
        assert sum(map(len, self._by_pattern.values())) == len(filtered), "an audience of interests that are gone"
        assert self.evaluated == sum(audience.evaluated for audience in self._by_pattern.values())
        assert self.evaluated_for == _costs(filtered), "filters that are gone are still paid for"


def _meant(found: Iterable[A], topic: str) -> Iterator[A]:
    """Yield those that mean a topic, and may read it."""
    meant: dict[str, bool] = {}  # by pattern: many have the same
    for each in found:
        pattern = each.pattern
        if pattern not in meant:
            meant[pattern] = matches(pattern, topic)
        if meant[pattern] and (each.access is None or each.access.may_read(topic)):
            yield each


def _in_order(found: Iterable[A]) -> list[A]:
    return sorted(found, key=lambda each: each.number)


def _costs(filtered: Iterable[BrokerSubscription[D]]) -> Counter[D]:
    """Return what evaluating the filters of each destination costs, of those who have any that cost something."""
    costs: Counter[D] = Counter()
    for subscription in filtered:
        costs[subscription.destination] += subscription.evaluated
    return +costs
