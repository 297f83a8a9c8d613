"""A broker and access facts: who may tell them, who is told what they mean, and whom it serves before it knows them."""

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from stentor.machine import (
    SECOND,
    Append,
    Appended,
    AppendFailed,
    Dial,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Received,
    Rewrite,
    Send,
    Started,
    Stop,
    TimerFired,
)
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation, LinkId
from stentor.model.limits import Limits
from stentor.model.messages import Digest, Hello, Message, Rejection, Welcome
from stentor.model.scope import ScopePath
from stentor.model.trust.access import Membership, SharedFact, TopicTerms
from stentor.model.trust.access_messages import AccessFacts, AccessInventory, AccessReceipt, BundleReport, BundleRequest
from stentor.nodes.broker.access import bundle_watch
from stentor.nodes.broker.broker import Broker
from stentor.nodes.broker.heartbeats import BrokerTick
from stentor.nodes.network.acquaintance import NeighboursTimeout
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.protocols.dissemination.access import waves
from stentor.wire import frame
from stentor.wire.frame import CONTROL, PREAMBLE

if TYPE_CHECKING:
    from tests.unit.nodes.conftest import Stage


def topic(version: int = 1, owner: str = "olga") -> SharedFact:
    return "topic", version, "r1", msgspec.msgpack.encode(TopicTerms(owner))


def member(name: str, principal: str, version: int = 1) -> SharedFact:
    return f"member/{name}", version, "r1", msgspec.msgpack.encode(Membership(principal=principal))


def gone(version: int) -> SharedFact:
    return "topic", version, "r1", b""


def warnings(stage: "Stage") -> list[str]:
    return [report.what for report in stage.reports if report.level == "warning"]


def owner(stage: "Stage", name: str = "orders") -> str | None:
    charter = stage.broker.network.access.charters.of(name)
    return None if charter is None else charter.owner


# ---- who may tell facts


def test_a_repository_tells_its_topic_and_gets_a_receipt(stage: "Stage") -> None:
    r1 = stage.peer("repository:r1", "node-1")
    r1.hear()
    assert r1.say(AccessFacts(topic="orders", facts=(topic(), member("r1", "node-1")), token=5)) == [AccessReceipt(5)]
    assert owner(stage) == "olga"
    assert stage.broker.status(0).reliable == 1
    assert r1.say(AccessFacts(topic="orders", facts=(topic(2, "otto"),))) == []
    assert owner(stage) == "otto"


def test_a_client_that_is_no_repository_breaks_the_protocol(stage: "Stage") -> None:
    client = stage.peer("alice", "alice")
    client.hear()
    [rejection] = client.say(AccessFacts(topic="orders", facts=(topic(), member("alice", "alice")), token=5))
    assert rejection.code is Refusal.PROTOCOL
    assert owner(stage) is None


@pytest.mark.parametrize("name", ["repository:r1", "repository:r3"])
def test_who_is_no_member_is_ignored_and_its_link_goes_on(stage: "Stage", name: str) -> None:
    stage.peer("repository:r1", "node-1").say(AccessFacts(topic="orders", facts=(topic(), member("r1", "node-1"))))
    stranger = stage.peer(name, "node-3")
    stranger.hear()
    told = AccessFacts(
        topic="orders", facts=(topic(9, "mallory"), member("r3", "node-3", 9), member("r1", "node-3", 9)), token=5
    )
    assert stranger.say(told) == []
    assert stranger.closed is None
    assert owner(stage) == "olga"
    assert warnings(stage) == ["access facts ignored"]
    assert stranger.say(AccessFacts(topic="orders", facts=(topic(),), token=6)) == [AccessReceipt(6)], "that is no news"


def test_of_an_unknown_topic_a_repository_must_tell_the_topic_and_name_itself(stage: "Stage") -> None:
    r1 = stage.peer("repository:r1", "node-1")
    r1.hear()
    r1.say(
        AccessFacts(topic="orders", facts=(topic(),)),
        AccessFacts(topic="orders", facts=(topic(), member("r1", "node-2"))),
    )
    r1.say(
        AccessFacts(topic="orders", facts=(topic(), member("r2", "node-1"))),
        AccessFacts(topic="orders", facts=(gone(1 << 60),)),
    )
    r1.say(AccessFacts(topic="orders", facts=(member("r1", "node-1"),)))
    assert stage.broker.network.access.charters.find("orders") is None
    assert warnings(stage) == 5 * ["access facts ignored"]


def test_a_member_without_a_principal_may_name_its_own_once(stage: "Stage") -> None:
    r1, r2 = stage.peer("repository:r1", "node-1"), stage.peer("repository:r2", "node-2")
    r1.say(AccessFacts(topic="orders", facts=(topic(), member("r1", "node-1"), member("r2", ""))))
    r2.say(AccessFacts(topic="orders", facts=(topic(3, "otto"),)))
    assert owner(stage) == "olga", "it has not named it"
    r2.say(
        AccessFacts(topic="orders", facts=(member("r2", "node-2", 2),)),
        AccessFacts(topic="orders", facts=(topic(3, "otto"),)),
    )
    assert owner(stage) == "otto"
    other = stage.peer("repository:r2", "node-4")
    other.say(AccessFacts(topic="orders", facts=(member("r2", "node-4", 3),)))
    assert stage.broker.network.access.charters.of("orders").members["r2"] == "node-2"  # type: ignore[union-attr]


def test_all_members_may_tell_that_a_topic_is_gone_and_a_later_one_is_another(stage: "Stage") -> None:
    r1, r2 = stage.peer("repository:r1", "node-1"), stage.peer("repository:r2", "node-2")
    r1.say(AccessFacts(topic="orders", facts=(topic(), member("r1", "node-1"), member("r2", "node-2"))))
    r1.say(AccessFacts(topic="orders", facts=(gone(5),)))
    r2.hear()
    assert r2.say(AccessFacts(topic="orders", facts=(gone(6),), token=1)) == [AccessReceipt(1)]
    assert owner(stage) is None
    r1.say(AccessFacts(topic="orders", facts=(topic(100, "otto"), member("r1", "node-1", 100))))
    assert owner(stage) == "otto"


def test_facts_that_cannot_be_end_the_link_and_change_nothing(stage: "Stage") -> None:
    r1 = stage.peer("repository:r1", "node-1")
    r1.hear()
    [rejection] = r1.say(AccessFacts(topic="a/#/b", facts=(topic(), member("r1", "node-1"))))
    assert rejection.code is Refusal.PROTOCOL
    assert list(stage.broker.network.access.charters) == []


def test_a_repository_that_does_not_wait_for_receipts_is_told_of_once(
    stage: "Stage", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waves, "MOST_WAVES", 0)
    r1 = stage.peer("repository:r1", "node-1")
    r1.hear()
    for number in range(3):
        assert r1.say(AccessFacts(topic=f"t{number}", facts=(topic(), member("r1", "node-1")), token=1)) == []
    assert len(list(stage.broker.network.access.charters)) == 3
    assert warnings(stage) == ["too many access facts at once"]


# ---- who manages a topic


def test_a_client_is_told_the_members_now_and_when_they_change(stage: "Stage") -> None:
    r1, client, other = stage.peer("repository:r1", "node-1"), stage.peer("alice"), stage.peer("bob")
    client.hear()
    assert client.say(BundleRequest("orders")) == [BundleReport("orders", {})]
    r1.say(AccessFacts(topic="orders", facts=(topic(), member("r1", "node-1"))))
    assert client.hear() == [BundleReport("orders", {"r1": "node-1"})]
    r1.say(AccessFacts(topic="orders", facts=(topic(2, "otto"),)))
    assert client.hear() == []
    r1.say(AccessFacts(topic="orders", facts=(member("r2", "node-2"),)))
    assert client.hear() == [BundleReport("orders", {"r1": "node-1", "r2": "node-2"})]
    other.hear()
    assert other.say(BundleRequest("orders"), BundleRequest("other")) == [
        BundleReport("orders", {"r1": "node-1", "r2": "node-2"}),
        BundleReport("other", {}),
    ]
    r1.say(AccessFacts(topic="orders", facts=(gone(9),)))
    assert client.hear() == other.hear() == [BundleReport("orders", {}, ended=9)]


def test_a_link_watches_a_bounded_number_of_topics_and_none_when_it_is_gone(
    stage: "Stage", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_watch, "MOST_WATCHED", 2)
    r1, client = stage.peer("repository:r1", "node-1"), stage.peer("alice")
    client.say(BundleRequest("a"), BundleRequest("b"), BundleRequest("a"), BundleRequest("c"))
    for name in "abc":
        r1.say(AccessFacts(topic=name, facts=(topic(), member("r1", "node-1"))))
    assert [report.topic for report in client.hear()] == ["a", "c"]
    stage.tell_broker(LinkLost(client.link, "gone"))
    watch = stage.broker._keeper._watch
    assert (watch._topics, watch._watchers, watch._told) == ({}, {}, {})


def test_a_topic_that_cannot_be_is_not_watched(stage: "Stage") -> None:
    client = stage.peer("alice")
    client.hear()
    [rejection] = client.say(BundleRequest("a/#"))
    assert rejection.code is Refusal.PROTOCOL


# ---- before it knows what its neighbours know


class Starting:
    """A broker that dials two others, stepped by hand."""

    def __init__(self, *addresses: str, records: dict[str, list[bytes]] | None = None) -> None:
        gateways = tuple(GatewaySettings(address=address) for address in addresses)
        settings = NetworkSettings(numbers=(0,), address="here:1", gateways=gateways)
        self.broker = Broker(ScopePath.parse("b1"), Limits(), network=settings)
        self.dialled: dict[str, LinkId] = {}
        self.writes: list[Append | Rewrite] = []
        self.heard: dict[LinkId, list[Any]] = {}
        self.effects: list[Effect] = []
        self.now = 0
        self.tell(Started(records or {}))
        self.tell(Appended("boot", 1))

    def tell(self, happened: Input) -> None:
        effects = self.broker.step(self.now, happened)
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Dial):
                self.dialled[effect.address] = effect.link
            elif isinstance(effect, Append | Rewrite) and effect.log == "access":
                self.writes.append(effect)
            elif isinstance(effect, Send):
                self.heard.setdefault(effect.link, []).extend(messages(b"".join(effect.data)))

    def say(self, link: LinkId, *words: Message | bytes) -> list[Any]:
        self.heard[link] = []
        data = b"".join(word if isinstance(word, bytes) else frame.encode(word) for word in words)
        self.tell(Received(link, data))
        return self.heard[link]

    def greet(self, number: int, name: str) -> Any:
        """What a client is answered."""
        link = LinkId(number)
        self.tell(LinkOpened(link, principal="somebody"))
        return self.say(link, PREAMBLE, Hello(name=name, incarnation=Incarnation(1), window=1 << 20))[0]

    def welcome(self, address: str, name: str) -> LinkId:
        """The broker at an address takes the link."""
        link = self.dialled[address]
        self.tell(LinkOpened(link, dialled=True))
        self.say(
            link,
            PREAMBLE,
            Welcome(node=name, boot=1, principal="p", window=1 << 20, largest_body=1 << 20, heartbeat=5.0),
        )
        return link

    def is_busy(self, number: int) -> bool:
        answer = self.greet(number, f"client-{number}")
        assert type(answer) is Welcome or (type(answer) is Rejection and answer.code is Refusal.BUSY), answer
        return type(answer) is Rejection


def messages(data: bytes) -> list[Message]:
    found: list[Message] = []
    position = len(PREAMBLE) if data.startswith(PREAMBLE) else 0
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "little")
        if data[position + 4] == CONTROL:
            found.append(frame.decode(data[position : position + length]))
        position += length
    return found


def test_a_broker_serves_clients_once_each_neighbour_that_it_dials_has_told_all_or_cannot() -> None:
    starting = Starting("one:1", "two:1")
    assert starting.is_busy(1)
    link = starting.welcome("one:1", "b2")
    starting.say(link, AccessInventory("", "", {}))
    assert starting.is_busy(2), "what it lacks is still under way"
    starting.say(link, AccessReceipt(0))
    assert starting.is_busy(3)
    starting.tell(LinkLost(starting.dialled["two:1"], "connection refused"))
    assert not starting.is_busy(4)
    starting.tell(LinkLost(link, "gone"))
    assert not starting.is_busy(5), "for good"


def test_repositories_and_brokers_are_let_in_at_once() -> None:
    starting = Starting("one:1")
    assert type(starting.greet(1, "repository:r1")) is Welcome
    link = LinkId(2)
    starting.tell(LinkOpened(link))
    answer = starting.say(link, PREAMBLE, Hello(name="b3", incarnation=Incarnation(1), window=1 << 20, role="broker"))
    assert [type(each) for each in answer if type(each) in (Welcome, AccessInventory)] == [Welcome, AccessInventory]


def test_silent_neighbours_are_not_waited_for_any_longer_than_five_seconds() -> None:
    starting = Starting("one:1")
    starting.now = 5 * SECOND
    assert starting.is_busy(1)
    starting.tell(TimerFired(NeighboursTimeout()))
    assert not starting.is_busy(2)


def test_a_broker_that_dials_nobody_serves_at_once_from_its_disk() -> None:
    facts = msgspec.msgpack.encode([("orders", [topic()])])
    starting = Starting(records={"access": [facts]})
    assert not starting.is_busy(1)
    assert starting.broker.network.access.charters.of("orders") is not None
    assert starting.writes == []


def test_a_broker_tells_the_digest_of_all_that_it_knows_with_each_beat() -> None:
    starting = Starting("one:1", records={"access": [msgspec.msgpack.encode([("orders", [topic()])])]})
    link = starting.welcome("one:1", "b2")
    starting.heard[link] = []
    starting.now = 3 * SECOND
    starting.tell(TimerFired(BrokerTick()))
    digest = next(each for each in starting.heard[link] if type(each) is Digest)
    assert digest.access == starting.broker.network.access.digest != 0


def test_a_full_disk_holds_the_receipt_back_and_nothing_else() -> None:
    starting = Starting()
    starting.greet(1, "repository:r1")
    told = AccessFacts(topic="orders", facts=(topic(), member("r1", "somebody")), token=3)
    assert starting.say(LinkId(1), told) == []
    starting.tell(AppendFailed("access", starting.writes[-1].token, "no space"))
    assert not any(isinstance(effect, Stop) for effect in starting.effects)
    assert starting.broker.network.access.charters.of("orders") is not None
    starting.now = 3 * SECOND
    starting.tell(TimerFired(BrokerTick()))
    starting.heard[LinkId(1)] = []
    starting.tell(Appended("access", starting.writes[-1].token))
    assert len(starting.writes) == 2
    assert starting.heard[LinkId(1)] == [AccessReceipt(3)]


def test_a_log_with_more_than_twice_what_holds_is_rewritten_at_the_start() -> None:
    records = [msgspec.msgpack.encode([("orders", [topic(version)])]) for version in (1, 2, 3)]
    [rewrite] = Starting(records={"access": records}).writes
    assert isinstance(rewrite, Rewrite)
    assert rewrite.records == (records[2],)
