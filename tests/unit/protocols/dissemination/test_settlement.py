"""When a client is told that every broker knows what it asked for: networks in memory whose links can be held up."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from tests.unit.protocols.message_ports import KeepingPort

from stentor.machine import SECOND
from stentor.model.errors import FrameError
from stentor.model.messages import MARKS, MarkReceipt, Message, SettlementReport, SettlementRequest
from stentor.protocols.dissemination import settlement
from stentor.protocols.dissemination.held_parcels import HeldRun
from stentor.protocols.dissemination.parcel_sender import ParcelHistory
from stentor.protocols.dissemination.settlement import SettlementDue
from stentor.protocols.neighbours import NeighbourPort
from stentor.simulation.clients.workload import Interest
from stentor.simulation.outcome import Anomaly
from stentor.simulation.overlay.overlay_world import HEARTBEAT, OverlayWorld, SimBroker, SimLink
from stentor.simulation.replay_trace import ReplayTrace

pytestmark = pytest.mark.req("GE-20")

CLIENT, OTHER = "client", "other"
CHAIN = ("a-b", "b-c")
RING = ("a-b", "b-c", "c-d", "d-a")
CAMPUS = (
    "north/l/1-north/l/2",
    "north/l/2-north/h/1",
    "north/h/1-south/l/1",
    "south/l/1-south/l/2",
    "south/l/2-north/l/1",
)


class Lab:
    """Brokers and their links, given as "one-other"; `reports` are what clients were told."""

    def __init__(self, *links: str, seed: int = 1) -> None:
        self.anomalies: list[Anomaly] = []
        self.world = OverlayWorld(Random(seed), ReplayTrace(), self.anomalies)
        self.world.echoes = False  # costs stay as they are
        self.reports: list[tuple[str, str, Message]] = []  # at which broker, to whom, what
        self._ports: dict[tuple[str, str], KeepingPort] = {}
        numbers: dict[str, int] = {}
        for name in dict.fromkeys(name for link in links for name in link.split("-")):
            parts = name.split("/")
            units = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
            for unit in units:
                numbers.setdefault(unit, len(numbers))
            self.add(name, *(numbers[unit] for unit in units))
        for link in links:
            one, other = link.split("-")
            self.world.connect(one, other, 0.0)
        self.quiet()

    def add(self, name: str, *numbers: int) -> None:
        self.world.start(self.world.add(name, numbers))

    def port(self, name: str, client: str) -> KeepingPort:
        """A client's port at a broker."""
        if (name, client) not in self._ports:
            self._ports[name, client] = KeepingPort(
                client, lambda client, report: self.reports.append((name, client, report))
            )
        return self._ports[name, client]

    def site(self, name: str) -> SimBroker:
        return self.world.brokers[name]

    def wire(self, link: str) -> SimLink:
        return next(self.world.wires(*link.split("-")))

    def want(self, name: str, pattern: str, where: str = "") -> None:
        wish = Interest(pattern, where, lambda *_: True)
        self.world.act(self.site(name), "wants", lambda: self.site(name).want(wish))

    def ask(
        self, name: str, token: int = 1, client: str = CLIENT, within: float = 10.0, *, drained: bool = False
    ) -> None:
        asked, port = SettlementRequest(token, within, drained), self.port(name, client)
        broker = self.site(name)
        self.world.act(broker, "asks", lambda: broker.network.settlement.ask(port, asked))

    def quiet(self) -> None:
        """Until nobody has anything to say."""
        while self.world.deliver(1000):
            pass
        assert self.anomalies == []

    def beat(self, times: int = 1) -> None:
        for _ in range(times):
            self.world.now += HEARTBEAT // 2
            for broker in self.world.alive():
                self.world.beat(broker)
            self.quiet()

    def knows(self, name: str, pattern: str) -> bool:
        """Whether a broker would send events on a topic to others."""
        return bool(self.site(name).network.route(pattern).demands)

    def marks(self) -> int:
        """In the profiles that any broker has of others."""
        profiles = [broker.network.profiles for broker in self.world.alive()]
        standings = [each for one in profiles for level in one.members for each in level.values()]
        return sum(pattern.startswith(MARKS) for each in standings for pattern, _ in each.wants)


def test_a_lone_broker_answers_at_once() -> None:
    lab = Lab("a-b")
    lab.world.cut(lab.wire("a-b"))
    lab.world.notice(2)
    lab.ask("a")
    assert lab.reports == [("a", CLIENT, SettlementReport(1, 1))]


@pytest.mark.parametrize("links", [CHAIN, RING, CAMPUS], ids=["chain", "ring", "units"])
def test_when_it_is_told_every_broker_sends_what_is_wanted_and_no_mark_stays(links: tuple[str, ...]) -> None:
    for seed in range(20):
        lab = Lab(*links, seed=seed)
        first, *others = lab.world.brokers
        lab.want(first, "t", "n > 1")
        lab.ask(first)
        while not lab.reports:
            assert lab.world.deliver(1), "they stopped talking before it was told"
        assert lab.reports == [(first, CLIENT, SettlementReport(1, 1 + len(others)))]
        assert all(lab.knows(name, "t") for name in others)
        lab.quiet()
        assert lab.marks() == 0
        assert all(broker.network.settlement.is_idle for broker in lab.world.alive())


def test_a_wish_that_another_one_covers_is_known_when_that_one_is() -> None:
    lab = Lab(*CAMPUS)
    lab.want("north/l/2", "t/#")
    lab.world.stall(lab.wire("north/h/1-south/l/1"), True)
    lab.world.stall(lab.wire("south/l/2-north/l/1"), True)
    lab.quiet()
    lab.want("north/l/1", "t/a", "n > 1")  # nobody in the south is told of it: the north wants all of t/#
    lab.ask("north/l/1")
    lab.quiet()
    assert lab.reports == []
    assert not lab.knows("south/l/1", "t/a")
    for link in ("north/h/1-south/l/1", "south/l/2-north/l/1"):
        lab.world.stall(lab.wire(link), False)
    lab.quiet()
    assert lab.reports == [("north/l/1", CLIENT, SettlementReport(1, 5))]
    assert all(lab.knows(name, "t/a") for name in ("north/h/1", "south/l/1", "south/l/2"))


def test_after_the_time_those_are_named_who_are_silent() -> None:
    lab = Lab("a-b", "b-c", "c-d")
    lab.world.stall(lab.wire("b-c"), True)
    lab.ask("a", within=1.0)
    lab.quiet()
    assert lab.reports == []
    broker = lab.site("a")
    lab.world.now += SECOND
    lab.world.act(broker, "timer", lambda: broker.network.timers[SettlementDue](SettlementDue()))
    assert lab.reports == [("a", CLIENT, SettlementReport(1, 2, ("c",)))]  # nobody said that there is a d
    lab.world.stall(lab.wire("b-c"), False)
    lab.quiet()
    assert (len(lab.reports), lab.marks()) == (1, 0)


def test_who_asks_while_a_mark_is_under_way_waits_for_the_next_one() -> None:
    lab = Lab(*CHAIN)
    lab.world.stall(lab.wire("b-c"), True)
    lab.ask("a", 1)
    lab.quiet()
    lab.want("a", "t")
    lab.ask("a", 2, OTHER)
    lab.world.stall(lab.wire("b-c"), False)
    while len(lab.reports) < 2:
        assert lab.world.deliver(1)
        assert len(lab.reports) < 2 or lab.knows("c", "t")
    assert lab.reports == [("a", CLIENT, SettlementReport(1, 3)), ("a", OTHER, SettlementReport(2, 3))]


def test_a_link_that_is_lost_meanwhile_is_gone_round() -> None:
    lab = Lab(*RING)
    lab.world.stall(lab.wire("c-d"), True)
    lab.world.stall(lab.wire("b-c"), True)
    lab.want("a", "t")
    lab.ask("a")
    lab.quiet()
    assert lab.reports == []  # c has not heard of it
    lab.world.cut(lab.wire("b-c"))
    lab.world.notice(2)
    lab.world.stall(lab.wire("c-d"), False)
    lab.quiet()
    lab.beat(3)  # what was lost with the link is told by others, and the answers come to another mark
    assert lab.reports == [("a", CLIENT, SettlementReport(1, 4))]
    assert lab.knows("c", "t")


def test_who_cannot_be_reached_any_more_is_not_waited_for() -> None:
    lab = Lab(*CHAIN)
    lab.world.stall(lab.wire("b-c"), True)
    lab.ask("a")
    lab.quiet()
    lab.world.cut(lab.wire("b-c"))
    lab.world.notice(2)
    lab.quiet()
    lab.beat(3)
    assert lab.reports == [("a", CLIENT, SettlementReport(1, 2))]


def test_who_joins_meanwhile_is_waited_for() -> None:
    lab = Lab(*CHAIN)
    lab.world.stall(lab.wire("b-c"), True)
    lab.want("a", "t")
    lab.ask("a")
    lab.quiet()
    lab.add("e", 9)
    lab.world.connect("e", "c", 0.0)
    lab.quiet()
    lab.world.stall(lab.wire("b-c"), False)
    while not lab.reports:
        assert lab.world.deliver(1)
    assert lab.reports == [("a", CLIENT, SettlementReport(1, 4))]
    assert lab.knows("e", "t")


def test_a_client_that_is_gone_is_not_answered_and_may_not_ask_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "_MOST_WAITING", 2)
    lab = Lab(*CHAIN)
    lab.world.stall(lab.wire("b-c"), True)
    machine, client = lab.site("a").network.settlement, lab.port("a", CLIENT)
    for token in (1, 2):
        lab.ask("a", token)
    with pytest.raises(FrameError, match="wait for the network"):
        machine.ask(client, SettlementRequest(3, 1.0))
    lab.ask("a", 4, OTHER)
    machine.forget(client)
    machine.ask(client, SettlementRequest(5, 0.0))
    machine.forget(client)
    lab.world.stall(lab.wire("b-c"), False)
    lab.quiet()
    assert lab.reports == [("a", OTHER, SettlementReport(4, 3))]


def test_a_receipt_for_nobody_goes_nowhere() -> None:
    lab = Lab(*CHAIN)
    broker = lab.site("b")
    for mark in ("t", f"{MARKS}1/2", f"{MARKS}1/2/x/y", f"{MARKS}1/2/../z", f"{MARKS}1/2/b", f"{MARKS}1/2/unknown"):
        receipt = MarkReceipt(mark=mark, broker="c", neighbours=())
        lab.world.act(broker, "hears", partial(broker.network.settlement.hear, receipt))
    tired = MarkReceipt(mark=f"{MARKS}1/2/a", broker="c", neighbours=(), hops=63)
    lab.world.act(broker, "hears", lambda: broker.network.settlement.hear(tired))
    assert not lab.world.said["MarkReceipt"]


@pytest.mark.req("CO-15")
def test_a_broker_that_holds_events_says_later_that_they_have_left() -> None:
    lab = Lab(*CHAIN)
    held = lab.site("c").network.relay.held
    run: HeldRun[ParcelHistory] = HeldRun(0, (0,), (), {}, {}, b"events", 1, ParcelHistory(0, 0, b""))
    held.append(run)
    lab.ask("a", 1)
    lab.quiet()
    assert lab.reports == [("a", CLIENT, SettlementReport(1, 3))], "that it knows a subscription it says at once"
    lab.ask("a", 2, drained=True)
    lab.quiet()
    assert len(lab.reports) == 1
    held.take()
    lab.beat()
    assert lab.reports[1:] == [("a", CLIENT, SettlementReport(2, 3))]
    assert all(broker.network.settlement.is_idle for broker in lab.world.alive())


@pytest.mark.req("CO-15")
def test_receipts_for_a_client_that_leaves_go_behind_the_events_of_every_link() -> None:
    lab = Lab(*CHAIN)
    behind: list[tuple[str, Message]] = []
    for name in ("b", "c"):
        neighbours = lab.site(name).network.gateways.neighbours
        for each in neighbours.values():
            each.port = _Witness(each.port, partial(_note, behind, name))
    lab.ask("a", 1)
    lab.quiet()
    assert behind == []
    lab.ask("a", 2, drained=True)
    lab.quiet()
    assert [name for name, _ in behind] == ["b", "c", "b"], "their own, and what is passed on"


class _Witness:
    """Stands before a port, and tells what is posted behind events."""

    def __init__(self, port: NeighbourPort, tell: Callable[[Message], None]) -> None:
        self._port = port
        self._tell = tell

    def post(self, message: Message) -> None:
        self._port.post(message)

    def post_behind(self, message: Message) -> None:
        self._tell(message)
        self._port.post_behind(message)


def _note(seen: list[tuple[str, Message]], name: str, message: Message) -> None:
    seen.append((name, message))
