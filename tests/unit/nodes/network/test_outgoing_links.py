"""The links that a broker opens are opened again, whatever it remembers; neighbours that are none are forgotten."""

from random import Random

import pytest
from tests.unit.nodes.network.desk import HALL, Desk

from stentor.machine import MILLISECOND, SECOND, Dial, LinkOpened, StartTimer, Step
from stentor.model.ids import Incarnation, LinkId
from stentor.model.messages import Hello
from stentor.nodes.broker.access.credentials import Credentials
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.greeting import Greeting
from stentor.nodes.network.outgoing_links import OutgoingLinks, Redial
from stentor.nodes.network.settings import GatewaySettings
from stentor.protocols.connection.connection import Connection

pytestmark = pytest.mark.req("CO-01", "CO-10")
NAMES = ("north/hall/b1", "south/lab/b1", "east/barn/b1")
_HEALED = 40 * SECOND  # a dial that nobody answers, and the longest pause


class _Dialler:
    """Outgoing links, with a test in the place of sockets: whatever they dial is opened a second later."""

    def __init__(self, heartbeat_ns: int = SECOND) -> None:
        self.step = Step()
        self.neighbours: set[str] = set()
        settings = [GatewaySettings(name=name, address=f"{name}:1") for name in NAMES]
        self.outgoing = OutgoingLinks(settings, heartbeat_ns, self.neighbours, self.step)
        self.sessions: dict[LinkId, LinkSession] = {}
        self.repaired = 0
        self._timers: dict[Redial, int] = {}
        self._dialled: dict[LinkId, Dial] = {}

    def second(self) -> None:
        """Carry out what was emitted, and audit once."""
        self.step.now += SECOND
        self._execute()
        for link, dial in list(self._dialled.items()):
            del self._dialled[link]
            assert link not in self.sessions, "a number is given once"
            self._open(link, dial.address)
        for redial in [each for each, at in self._timers.items() if at <= self.step.now]:
            del self._timers[redial]
            self.outgoing.on_redial(redial)
        self.repaired += self.outgoing.audit(self.sessions.values(), has_slept=False)
        self._execute()

    def _execute(self) -> None:
        for effect in self.step.end():
            if isinstance(effect, Dial):
                self._dialled[effect.link] = effect
            elif isinstance(effect, StartTimer) and isinstance(effect.timer, Redial):
                self._timers[effect.timer] = effect.at + effect.jitter

    def _open(self, link: LinkId, address: str) -> None:
        name = address.removesuffix(":1")
        if name in self.neighbours:  # the better of two links stays: the former one
            self.outgoing.on_loss(link, "there is one already")
            return
        connection = Connection(link, self.step.now, 1 << 20, 1 << 20, 5.0)
        connection.address = address
        session = self.sessions[link] = LinkSession(connection, Credentials(LinkOpened(link)), dialled=True)
        session.greeting = Greeting(LinkOpened(link), Hello(name=NAMES[0], incarnation=Incarnation(1), window=1 << 20))
        self.neighbours.add(name)

    def lose(self, name: str) -> None:
        """The link with a broker is gone, and the audit of links has noticed."""
        for link, session in list(self.sessions.items()):
            if session.connection.address == f"{name}:1":
                del self.sessions[link]
                self.neighbours.discard(name)
                self.outgoing.on_loss(link, "lost")


@pytest.mark.parametrize("seed", range(40))
def test_every_link_is_opened_again_whatever_is_remembered_of_it(seed: int) -> None:
    draw, dialler = Random(seed), _Dialler()
    dialler.outgoing.begin()
    for _ in range(draw.randrange(4)):
        dialler.second()
    for _ in range(3):
        _damage(dialler.outgoing, draw)
        for name in NAMES:
            if draw.random() < 0.5:
                dialler.lose(name)
    for _ in range(_HEALED // SECOND):
        dialler.second()
    open_ones = {session.connection.address: link for link, session in dialler.sessions.items()}
    assert sorted(open_ones) == sorted(f"{name}:1" for name in NAMES)
    assert {address: each.link for address, each in dialler.outgoing.links.items()} == open_ones
    assert not dialler.outgoing.audit(dialler.sessions.values(), has_slept=False)


@pytest.mark.parametrize("heartbeat_ns", [SECOND, 10 * MILLISECOND])
def test_nothing_is_wrong_with_links_that_are_opened_lost_removed_and_asked_for(heartbeat_ns: int) -> None:
    dialler = _Dialler(heartbeat_ns)
    outgoing = dialler.outgoing
    outgoing.begin()
    for _ in range(5):
        dialler.second()
    dialler.lose(NAMES[0])
    outgoing.request(GatewaySettings(name="west/mill/b1", address="mill:1", is_requested=True))
    dialler.second()
    outgoing.withdraw("west/mill/b1")
    outgoing.remove(f"{NAMES[1]}:1")
    for _ in range(20):
        dialler.second()
    assert dialler.repaired == 0
    assert not outgoing.requested


def test_whoever_has_slept_does_not_take_what_is_due_for_damage() -> None:
    dialler = _Dialler()
    dialler.outgoing.begin()
    dialler.step.now += 60 * SECOND
    assert dialler.outgoing.audit([], has_slept=True) == 0
    assert dialler.outgoing.audit([], has_slept=False) == 0


def test_a_link_that_is_open_is_known_again_and_not_dialled() -> None:
    dialler = _Dialler()
    dialler.outgoing.begin()
    for _ in range(2):
        dialler.second()
    found = dict(dialler.outgoing.links)
    dialler.outgoing.change(found[f"{NAMES[0]}:1"], GatewaySettings(name=NAMES[0], address=f"{NAMES[0]}:1", cost=7.0))
    dialler.outgoing.links.clear()
    dialler.step.end()
    dialler.outgoing.audit(dialler.sessions.values(), has_slept=False)
    known = dialler.outgoing.links
    assert {address: each.link for address, each in known.items()} == {at: each.link for at, each in found.items()}
    assert known[f"{NAMES[0]}:1"].settings.cost == 7.0
    assert not [effect for effect in dialler.step.end() if isinstance(effect, Dial)]


def _damage(outgoing: OutgoingLinks, draw: Random) -> None:
    for each in outgoing.links.values():
        each.link = draw.choice((each.link, None, LinkId(-(1 + draw.randrange(1 << 30)))))
        each.due_at = draw.choice((each.due_at, 0, 1 << 62, -(1 << 62)))
        each.pause_ns = draw.choice((each.pause_ns, 0, 1 << 62, -(1 << 62)))
    addresses = list(outgoing.links)
    outgoing.links[draw.choice(addresses)] = outgoing.links[draw.choice(addresses)]
    outgoing.links.pop(draw.choice((*addresses, "nowhere:1")), None)
    outgoing.last_number = draw.choice((outgoing.last_number, 0, -5, 1 << 80))


def test_a_neighbour_under_whose_name_the_link_of_another_one_is_kept_is_forgotten() -> None:
    desk = Desk()
    hall = desk.link(HALL, 1000)
    network = desk.network
    network.peers["north/hall/b2"] = network.peers[HALL]
    network._neighbours["north/hall/b2"] = network._neighbours[HALL]
    assert network.knows(hall)
    assert network.drop_ghosts({hall.connection.link: hall}) == 1
    assert list(network.peers) == list(network._neighbours) == [HALL]


def test_a_link_is_not_that_of_its_neighbour_if_something_else_is_kept_of_that_one() -> None:
    desk = Desk()
    hall, other = desk.link(HALL, 1000), desk.link("north/hall/b2", 1000)
    desk.network._neighbours[HALL] = desk.network._neighbours["north/hall/b2"]
    assert not desk.network.knows(hall)
    assert desk.network.knows(other)


def test_a_cost_that_is_damaged_is_asked_of_no_plan() -> None:
    desk = Desk()
    desk.link(HALL, 1000)
    neighbour, links = desk.network._neighbours[HALL], desk.network.colouring._work[1]._links
    neighbour.cost = 1 << 60
    assert links.requests(1) == ()
    neighbour.cost, desk.network.peers[HALL].cost.base = 1000, 1 << 60
    assert links.requests(1) == ()
    desk.network.peers[HALL].cost.set_base(3000)
    assert [(each.before, each.after) for each in links.requests(1)] == [(1000, 3000)]
