"""The overlay world: the networks of many brokers joined by links in memory, without sockets and clients.

Each simulated broker runs what a broker has to do with other brokers, `nodes.network`, as it is. A message on a link
arrives in order and is lost only with the link; between links everything is interleaved at random. An end may learn
late that its link is gone.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from random import Random

from stentor.machine import MILLISECOND, SECOND, Dial, Effect, Input, LinkOpened, StartTimer, Step, StopTimer, Timer
from stentor.model.colours.wave_messages import Ack, RootClaim, Rotate
from stentor.model.colours.wave_timing import ColourSettings
from stentor.model.context import Context
from stentor.model.errors import FrameError
from stentor.model.filter import Filter
from stentor.model.ids import LinkId, SubscriptionId
from stentor.model.limits import Limits
from stentor.model.messages import AdminRequest, Digest, Farewell, Message, Ping, Pong
from stentor.model.scope import ScopePath
from stentor.nodes.broker.access.credentials import Credentials
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.network import BrokerNetwork, NetworkSettings
from stentor.nodes.network.outgoing_links import Redial
from stentor.policies.scope_policies import ScopePolicies
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox, Unflushed
from stentor.protocols.dissemination.broker_subscription import BrokerSubscription
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.simulation.checkers.network_oracle import BrokerView
from stentor.simulation.clients.workload import Interest
from stentor.simulation.outcome import Anomaly
from stentor.simulation.replay_trace import ReplayTrace
from stentor.simulation.validation import validate_sometimes

HEARTBEAT = SECOND
_LIMITS = Limits(heartbeat=HEARTBEAT / SECOND)
_MOST_AT_ONCE = 4  # messages that one read brings
_PASSING = MILLISECOND // 100  # that a delivery takes
ROUTINE = (Digest, Ping, Pong, Rotate, Ack, RootClaim)  # said whether or not there is news


class NeighbourMessage(Input, frozen=True, tag="overlay heard"):
    """A simulated broker received messages of a neighbour."""

    peer: str
    messages: tuple[Message, ...]


class Befell(Input, frozen=True, tag="overlay befell"):
    """Something else that a simulated broker had to deal with."""

    what: str
    detail: str = ""


class Say(Effect, frozen=True, tag="overlay say"):
    peer: str
    message: Message


class Mailbox(Outbox):
    """An outbox that keeps messages as they are, since nobody in the overlay world reads bytes."""

    __slots__ = ("messages",)

    def __init__(self, link: LinkId, unflushed: Unflushed | None = None) -> None:
        super().__init__(link, 1 << 20, unflushed)
        self.messages: list[Message] = []

    def post(self, message: Message) -> None:
        self.messages.append(message)
        self.enter()

    post_behind = post  # there are no events


class End:
    """A simulated broker's end of a link, and the messages of the other end that it has not received yet."""

    __slots__ = ("deaf", "link", "mailbox", "peer", "queue", "session", "site", "waiting")

    def __init__(self, link: "SimLink", site: str, peer: str, session: LinkSession, mailbox: Mailbox) -> None:
        self.link = link
        self.site = site
        self.peer = peer
        self.session = session
        self.mailbox = mailbox
        self.queue: deque[Message | None] = deque()  # None is the welcome
        self.deaf = False  # its site left
        self.waiting = False  # listed among those that have something to hear


class SimLink:
    """A link that somebody dialled."""

    __slots__ = ("cost", "cut", "ends", "stalled")

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self.cut = self.stalled = False
        self.ends: tuple[End, ...] = ()

    def other(self, end: End) -> End:
        return self.ends[1] if end is self.ends[0] else self.ends[0]


class SimBroker:
    """A broker without clients, as far as its neighbours can tell; the scenario says what it wants."""

    def __init__(
        self,
        name: str,
        numbers: tuple[int, ...],
        path_length: float = 0.0,
        colours: Mapping[str, ColourSettings] | None = None,
    ) -> None:
        self.name = name
        self._colours = dict(colours or {})
        self.numbers = numbers
        self._path_length = path_length
        self.boot = 0
        self.interests: dict[int, Interest] = {}
        self._last = 0
        self._subscriptions: dict[int, BrokerSubscription[Outbox]] = {}
        self._nobody: Outbox = Mailbox(LinkId(0))
        self.alive = False
        self.step = Step()
        self.unflushed: Unflushed = {}
        self.forwarder: Forwarder[Outbox]
        self.network: BrokerNetwork

    @property
    def address(self) -> str:
        return f"at/{self.name}"

    def start(self) -> None:
        """Begin again, with nothing but what a disk would remember."""
        self.boot += 1
        self.alive = True
        self.interests, self._subscriptions = {}, {}
        path = ScopePath.parse(self.name)
        policies = ScopePolicies(Context(path).scopes)
        self.forwarder = Forwarder(_LIMITS, self.unflushed, policies, self._on_subscription_change)
        settings = NetworkSettings(
            numbers=self.numbers, address=self.address, path_length=self._path_length, colours=self._colours
        )
        self.network = BrokerNetwork(path, settings, _LIMITS, policies, self.forwarder, self.step, self)
        self.network.begin(self.boot)

    def _on_subscription_change(self, subscription: BrokerSubscription[Outbox], comes: bool) -> None:
        self.network.feed.on_subscription_change(subscription, comes)

    def on_charter_change(self, topic: str) -> None:
        """Charters are no matter of this world."""

    def end_link(self, session: LinkSession, reason: str) -> None:
        raise AssertionError(f"nobody plans anything in this world: {session.connection.name}, {reason}")

    def remember(self, request: AdminRequest) -> None:
        raise AssertionError(f"nobody plans anything in this world: {request}")

    def want(self, interest: Interest) -> None:
        self._last += 1
        where = Filter(interest.where) if interest.where else None
        subscription = BrokerSubscription(self._last, SubscriptionId(self._last), self._nobody, interest.pattern, where)
        self.interests[self._last] = interest
        self._subscriptions[self._last] = subscription
        self.forwarder.table.add(subscription)

    def unwant(self, number: int) -> None:
        del self.interests[number]
        self.forwarder.table.remove(self._subscriptions.pop(number))

    def spot(self) -> BrokerView:
        links = {name: each.cost for name, each in self.network.gateways.neighbours.items() if each.is_used}
        return BrokerView(
            self.numbers,
            self.address,
            links,
            tuple(interest.wants for interest in self.interests.values()),
            self.network,
        )


class OverlayWorld:
    """Simulated brokers and links; all that is random comes from `random`."""

    def __init__(self, random: Random, trace: ReplayTrace, anomalies: list[Anomaly]) -> None:
        self.random = random
        self.trace = trace
        self.anomalies = anomalies
        self.now = SECOND
        self.validates = True  # False while state is damaged on purpose
        self.echoes = True  # markers come back, so that costs follow the time that it takes
        self.colours: dict[str, ColourSettings] = {}  # of scopes
        self.path_length = 0.0  # that sites keep to; 0 is any
        self.brokers: dict[str, SimBroker] = {}
        self.timers: dict[tuple[str, Timer], int] = {}  # of whom, and when they fire, if anybody lets them
        self.said: Counter[str] = Counter()  # kinds of messages
        self.heard: Counter[str] = Counter()  # messages that are no routine, by site
        self._links = 0
        self._ends: dict[LinkId, End] = {}
        self._waiting: list[End] = []
        self._unaware: list[End] = []  # whose link is gone without their knowing it

    # ---- sites

    def add(self, name: str, numbers: tuple[int, ...]) -> SimBroker:
        assert name not in self.brokers, f"two sites called {name}"
        broker = self.brokers[name] = SimBroker(name, numbers, self.path_length, self.colours)
        return broker

    def start(self, site: SimBroker) -> None:
        site.step.now = self.now
        site.start()
        self.act(site, "started", site.network.end_step)

    def crash(self, site: SimBroker) -> None:
        """It is gone with all that it knew; its neighbours will find out."""
        self.trace.note(self.now, site.name, "crashed")
        site.alive = False
        for link in list(self.wires(site.name)):
            self.cut(link)

    def leave(self, site: SimBroker) -> None:
        """It says farewell as a broker does that is told to stop."""

        def farewell() -> None:
            site.network.gateways.leave()
            for peer in list(site.network.peers.values()):
                peer.session.connection.outbox.post(Farewell("leaving"))
                site.network.link_down(peer.session, "leaving")

        self.act(site, "leaves", farewell)
        site.alive = False
        for end in [end for end in self._ends.values() if end.site == site.name]:
            end.deaf = True
            if end.session.hop is None:
                self.cut(end.link)  # it was not welcomed yet, so there was nobody to say farewell to

    def act(self, site: SimBroker, what: str, action: Callable[[], object], detail: str = "") -> None:
        """Something happens at a site, in one step."""
        self._step(site, Befell(what, detail), action)

    def alive(self) -> list[SimBroker]:
        return [broker for broker in self.brokers.values() if broker.alive]

    def spots(self) -> dict[str, BrokerView]:
        return {broker.name: broker.spot() for broker in self.alive()}

    # ---- wires

    def wires(self, *names: str) -> Iterator[SimLink]:
        """Those that are not cut, of or between these sites."""
        for link, end in self._ends.items():
            wire = end.link
            if not wire.cut and link == wire.ends[0].session.connection.link:
                sites = {each.site for each in wire.ends}
                if sites.issuperset(names):
                    yield wire

    def connect(self, dialler: str, acceptor: str, cost: float) -> None:
        """One site dials another, which takes the link or not; the dialler knows it when the welcome is heard."""
        if not (self.brokers[dialler].alive and self.brokers[acceptor].alive):
            return
        link = SimLink(cost)
        link.ends = (self._end(link, dialler, acceptor, True), self._end(link, acceptor, dialler, False))
        near, far = link.ends
        near.queue.append(None)
        self._admit(far, self.brokers[dialler].address)
        self._wait(near)

    def _end(self, wire: SimLink, site: str, peer: str, dialled: bool) -> End:
        self._links += 1
        link = LinkId(self._links)
        connection = Connection(link, self.now, 1 << 20, 1 << 20, _LIMITS.heartbeat)
        mailbox = connection.outbox = Mailbox(link, self.brokers[site].unflushed)
        session = LinkSession(connection, Credentials(LinkOpened(link)), dialled=dialled)
        end = self._ends[link] = End(wire, site, peer, session, mailbox)
        return end

    def _admit(self, end: End, address: str) -> None:
        broker, link = self.brokers[end.site], end.link

        def admit() -> None:
            try:
                former = broker.network.link_up(end.session, end.peer, link.cost, address)
            except FrameError:
                self.cut(link)
                return
            if former is not None:
                former.leave_network()
                replaced = self._ends.get(former.connection.link)
                if replaced is not None:
                    self.cut(replaced.link)

        self._step(broker, Befell("linked", end.peer), admit)

    def cut(self, link: SimLink) -> None:
        """What is under way is lost; the ends learn of it later."""
        if link.cut:
            return
        link.cut = True
        for end in link.ends:
            end.queue.clear()
            del self._ends[end.session.connection.link]
            if self.brokers[end.site].alive:
                self._unaware.append(end)

    def notice(self, count: int) -> None:
        """So many ends learn that their link is gone."""
        for _ in range(min(count, len(self._unaware))):
            self._notice(self._unaware.pop(self.random.randrange(len(self._unaware))))

    def _notice(self, end: End) -> None:
        broker = self.brokers[end.site]
        if broker.alive and end.session.hop is not None and end.peer in broker.network.peers:
            self._step(broker, Befell("lost", end.peer), lambda: self._part(broker, end))

    def _part(self, site: SimBroker, end: End) -> None:
        if site.network.peers[end.peer].session is end.session:
            site.network.link_down(end.session, "lost")
        end.session.leave_network()

    # ---- what is said and heard

    def stall(self, link: SimLink, stalled: bool) -> None:
        link.stalled = stalled
        if not stalled:
            for end in link.ends:
                self._wait(end)

    def _wait(self, end: End) -> None:
        if end.queue and not end.waiting and not end.link.stalled and not end.link.cut:
            end.waiting = True
            self._waiting.append(end)

    def deliver(self, most: int) -> int:
        """Let messages arrive, at most about so many; returns how many did."""
        count = 0
        while self._waiting and count < most:
            place = self.random.randrange(len(self._waiting))
            end, self._waiting[place] = self._waiting[place], self._waiting[-1]
            self._waiting.pop()
            end.waiting = False
            if not end.link.cut and not end.link.stalled:
                count += self._read(end)
                self._wait(end)
        return count

    def _read(self, end: End) -> int:
        self.now += _PASSING
        broker = self.brokers[end.site]
        end.session.connection.heard = self.now
        if end.deaf:
            end.queue.clear()
            return 1
        if end.queue[0] is None:
            end.queue.popleft()
            self._admit(end, "")
            return 1
        some = [end.queue.popleft() for _ in range(min(len(end.queue), self.random.randint(1, _MOST_AT_ONCE)))]
        messages = tuple(message for message in some if message is not None)
        if not broker.alive or end.session.hop is None:
            return len(some)
        self.heard[broker.name] += sum(not isinstance(message, ROUTINE) for message in messages)
        self._step(broker, NeighbourMessage(end.peer, messages), lambda: self._hear(broker, end, messages))
        return len(some)

    def _hear(self, site: SimBroker, end: End, messages: tuple[Message, ...]) -> None:
        for message in messages:
            match message:
                case Ping():
                    if self.echoes:
                        end.mailbox.post(Pong(message.token))
                case Farewell():
                    self._part(site, end)
                    self._unlink(end.link)
                    return
                case _:
                    site.network.hear(end.session, message)

    def _unlink(self, link: SimLink) -> None:
        link.cut = True
        for end in link.ends:
            self._ends.pop(end.session.connection.link, None)

    def fire(self, until: int) -> bool:
        """Let the next timer fire that is due until then; return whether there was one."""
        due = min(self.timers.items(), key=lambda each: each[1], default=None)
        if due is None or due[1] > until:
            return False
        (name, timer), at = due
        del self.timers[name, timer]
        self.now = max(self.now, at)
        broker = self.brokers[name]
        if broker.alive:
            self._step(broker, Befell("timer", str(timer.__struct_config__.tag)), lambda: self._on_timer(broker, timer))
        return True

    def _on_timer(self, site: SimBroker, timer: Timer) -> None:
        handle = site.network.timers.get(type(timer))
        if handle is not None and not isinstance(timer, Redial):  # links come and go as the scenario says
            handle(timer)

    def beat(self, site: SimBroker) -> None:
        self._step(site, Befell("beat"), lambda: site.network.beat(0))

    def _step(self, site: SimBroker, happened: Input, action: Callable[[], object]) -> None:
        site.step.now = self.now
        try:
            action()
            site.network.end_step()
            while site.network.feed.is_waiting:
                site.network.feed.run()
                site.network.end_step()
        except (FrameError, AssertionError, LookupError, AttributeError) as error:
            self.anomalies.append(Anomaly("raised", f"{site.name} on {str(happened)[:200]}: {error!r}"))
        effects: list[Effect] = []
        for outbox in site.unflushed:
            assert isinstance(outbox, Mailbox)
            self._carry(outbox, effects)
        site.unflushed.clear()
        if self.validates:
            validate_sometimes(site.name, site.network, self.trace.steps, self.anomalies)
        self.trace.step(self.now, site.name, happened, effects)
        for effect in site.step.end():
            match effect:
                case Dial():
                    self.link_up(site.name, effect.address)
                case StartTimer():
                    self.timers[site.name, effect.timer] = effect.at
                case StopTimer():
                    self.timers.pop((site.name, effect.timer), None)

    def link_up(self, dialler: str, address: str) -> None:
        """A site dials an address, unless there is a link already."""
        acceptor = address.removeprefix("at/")
        if not any(self.wires(dialler, acceptor)):
            self.connect(dialler, acceptor, 0.0)

    def _carry(self, mailbox: Mailbox, effects: list[Effect]) -> None:
        messages, mailbox.messages = mailbox.messages, []
        end = self._ends.get(mailbox.link)
        for message in messages:
            self.said[type(message).__name__] += 1
            if end is not None:
                effects.append(Say(end.peer, message))
        if end is not None:
            other = end.link.other(end)
            other.queue.extend(messages)
            self._wait(other)
