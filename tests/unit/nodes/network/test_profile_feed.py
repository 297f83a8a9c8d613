"""What our clients want gets into our profile: at once, or in portions when the first neighbour comes."""

from stentor.model.context import Context
from stentor.model.ids import LinkId, SubscriptionId
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
