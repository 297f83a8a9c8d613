"""What our clients want gets into our profile: at once, or in portions when the first neighbour comes."""

import pytest

from stentor.model.context import Context
from stentor.model.ids import LinkId, SubscriptionId
from stentor.model.messages import MARKS
from stentor.model.scope import ScopePath
from stentor.nodes.network.profile_feed import ProfileFeed
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.dissemination.routes import RouteTable
from stentor.protocols.neighbours import Neighbours


class Desk:
    """A broker's table of routes, its profile, and the feed between them."""

    def __init__(self, *, is_active: bool = False) -> None:
        self.table: RouteTable[Outbox] = RouteTable(on_change=self._on_change)
        self.profiles = Profiles(Context(ScopePath.parse("a/b")), Neighbours(), self.table)
        self.feed = ProfileFeed(self.profiles, self.table, is_active=is_active)
        self._outbox = Outbox(LinkId(1), 1000)

    def _on_change(self, subscription: BrokerSubscription[Outbox], comes: bool) -> None:
        self.feed.on_subscription_change(subscription, comes)

    def subscribe(self, number: int) -> BrokerSubscription[Outbox]:
        made = BrokerSubscription(number, SubscriptionId(number), self._outbox, f"t/{number}", None)
        self.table.add(made)
        return made

    def told(self) -> set[str]:
        self.profiles.flush()
        return {pattern for pattern, _ in self.profiles.members[0]["a/b"].wants}


def test_a_broker_without_neighbours_sums_up_nothing() -> None:
    desk = Desk()
    desk.table.remove(desk.subscribe(1))
    desk.subscribe(2)
    assert not desk.feed.is_waiting
    assert desk.told() == set()


def test_a_broker_that_will_have_neighbours_sums_up_at_once() -> None:
    desk = Desk(is_active=True)
    first = desk.subscribe(1)
    desk.subscribe(2)
    assert desk.told() == {"t/1", "t/2"}
    desk.table.remove(first)
    assert desk.told() == {"t/2"}


def test_with_the_first_neighbour_all_is_told_in_portions_and_what_comes_meanwhile_after_it() -> None:
    desk = Desk()
    subscriptions = [desk.subscribe(number) for number in range(50)]
    desk.feed.activate()
    desk.feed.activate()
    steps = 0
    while desk.feed.is_waiting:
        desk.feed.run()
        steps += 1
        if steps == 1:
            assert len(desk.told()) < 50, "a step does not sum up everything"
            desk.subscribe(99)
            desk.table.remove(subscriptions[0])  # it was told
            desk.table.remove(subscriptions[49])  # it was not, and never is
    assert desk.told() == {f"t/{number}" for number in range(1, 49)} | {"t/99"}
    assert steps > 2


@pytest.mark.req("CO-01")
@pytest.mark.parametrize("many", [False, True])
def test_what_was_forgotten_or_made_up_is_summed_up_anew(many: bool) -> None:
    desk = Desk(is_active=True)
    for number in range(300 if many else 3):
        desk.subscribe(number)
    wanted = desk.told()
    assert not desk.feed.renew(), "nothing was wrong"
    for damaged in (desk.feed._told, desk.profiles._clients._told, desk.profiles._clients._entries):
        damaged.popitem()
    desk.profiles._clients._told["ghost", ""] = None
    assert desk.feed.renew()
    assert desk.told() == wanted
    for subscription in list(desk.table.subscriptions.values()):
        desk.table.remove(subscription)
    assert desk.told() == set()


def test_a_mark_survives_that_all_is_summed_up_anew() -> None:
    desk = Desk(is_active=True)
    desk.subscribe(1)
    desk.profiles.subscribe(f"{MARKS}1/1/a/b", None)
    assert not desk.feed.renew()
    assert desk.told() == {"t/1", f"{MARKS}1/1/a/b"}


def test_a_subscription_ends_although_its_summary_is_damaged() -> None:
    desk = Desk(is_active=True)
    subscription = desk.subscribe(1)
    desk.told()
    desk.profiles._clients._entries.clear()
    desk.table.remove(subscription)
    assert desk.profiles.is_damaged
    desk.feed.renew()
    assert desk.told() == set()
