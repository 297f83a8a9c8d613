"""What a repository tells its broker, and when it answers owners."""

import pytest
from tests.paper.bundle import KEEPER, TOPIC, PaperBundle

from stentor.machine import SECOND, Discard, Effect, TimerFired
from stentor.model.control import RegistrationReceipt, TopicTask
from stentor.protocols.delivery.repository.repository import TopicTick
from stentor.protocols.delivery.transport import AccessShared, LinkUp, ShareAccess


class SlowBrokers(PaperBundle):
    """A bundle whose brokers confirm nothing by themselves."""

    def __init__(self, *names: str) -> None:
        self.shared: list[ShareAccess] = []
        self.discarded = False
        super().__init__(*names, create=False)

    def _perform(self, name: str, effect: Effect) -> None:
        if isinstance(effect, ShareAccess):
            self.shared.append(effect)
        elif isinstance(effect, Discard):
            self.discarded = True
        else:
            super()._perform(name, effect)

    def told_keys(self) -> list[str]:
        """The keys that brokers were told since this was last asked."""
        keys = [key for share in self.shared for key, *_ in share.facts]
        self.shared.clear()
        return keys

    def confirm(self) -> None:
        shared, self.shared = self.shared, []
        for share in shared:
            self.step("r1", AccessShared(share.topic, share.token))

    def receipts(self) -> list[str]:
        """The reasons in receipts that came since this was last asked."""
        told = self.told(RegistrationReceipt)
        assert all(receipt.code is None for receipt in told)
        self.clear()
        return [receipt.reason for receipt in told]


@pytest.fixture
def bundle() -> SlowBrokers:
    made = SlowBrokers("r1")
    made.owner("r1", TopicTask.CREATE, repositories=("r1",))
    return made


def test_an_owner_is_answered_when_brokers_have_confirmed(bundle: SlowBrokers) -> None:
    assert bundle.receipts() == []
    bundle.confirm()
    assert bundle.receipts() == [""]
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="shop")
    assert bundle.receipts() == []
    bundle.confirm()
    assert bundle.receipts() == [""]


def test_without_confirmation_it_is_answered_after_a_while_with_a_reason(bundle: SlowBrokers) -> None:
    bundle.pass_time(9_000, pace=250)
    assert bundle.receipts() == []
    bundle.pass_time(2_000, pace=250)
    (reason,) = bundle.receipts()
    assert "not all brokers have confirmed it" in reason
    bundle.confirm()
    assert bundle.receipts() == [], "it is answered once"


def test_what_was_never_confirmed_delays_nobody_later(bundle: SlowBrokers) -> None:
    bundle.pass_time(11_000, pace=250)
    assert len(bundle.receipts()) == 1
    bundle.shared.clear()
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="shop")
    bundle.confirm()
    assert bundle.receipts() == [""]


def test_brokers_are_told_what_changes_and_all_of_it_on_a_new_link(bundle: SlowBrokers) -> None:
    assert bundle.told_keys() == ["topic", "member/r1"]
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="shop")
    assert bundle.told_keys() == ["grant/publisher/shop"]
    bundle.recover("publisher", "shop", "r1")
    assert bundle.told_keys() == [], "who publishes and where is no matter of brokers"
    bundle.step("r1", LinkUp(KEEPER))
    assert bundle.told_keys() == ["topic", "member/r1", "grant/publisher/shop"]


def test_brokers_are_told_nothing_that_is_not_durable(bundle: SlowBrokers) -> None:
    bundle.told_keys()
    bundle.lazy.add("r1")
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="shop")
    assert bundle.told_keys() == []
    bundle.write("r1")
    assert bundle.told_keys() == ["grant/publisher/shop"]


def test_whoever_waits_is_answered_when_what_was_told_on_the_next_link_is_confirmed(bundle: SlowBrokers) -> None:
    bundle.shared.clear()  # lost with the link
    bundle.step("r1", LinkUp(KEEPER))
    assert bundle.receipts() == []
    bundle.confirm()
    assert bundle.receipts() == [""]


def test_a_topic_is_discarded_when_brokers_know_that_it_is_deleted(bundle: SlowBrokers) -> None:
    bundle.confirm()
    bundle.owner("r1", TopicTask.DELETE)
    bundle.pass_time(2_000)
    assert not bundle.discarded
    ((key, _, _, value),) = bundle.shared[0].facts
    assert (key, value) == ("topic", b"")
    bundle.confirm()
    bundle.pass_time(500)
    assert bundle.discarded


def test_a_repository_leaves_when_whoever_removed_it_is_answered() -> None:
    bundle = SlowBrokers("r1", "r2")
    for name in ("r1", "r2"):
        bundle.owner(name, TopicTask.CREATE, repositories=("r1", "r2"), copies=1)
    bundle.pass_time(2_000)
    for share in bundle.shared:
        for name in ("r1", "r2"):
            bundle.step(name, AccessShared(share.topic, share.token))
    bundle.clear()
    bundle.owner("r1", TopicTask.REMOVE_REPOSITORY, repositories=("r1",))
    bundle.pass_time(4_000)
    assert not bundle.discarded
    assert bundle.receipts() == []
    bundle.pass_time(8_000)
    assert len(bundle.receipts()) == 1
    assert bundle.discarded


def test_brokers_that_do_not_confirm_keep_no_deleted_topic_alive(bundle: SlowBrokers) -> None:
    bundle.confirm()
    bundle.owner("r1", TopicTask.DELETE)
    bundle.step("r1", TimerFired(TopicTick(TOPIC)))
    bundle.now += 11 * SECOND
    bundle.step("r1", TimerFired(TopicTick(TOPIC)))
    assert bundle.discarded
