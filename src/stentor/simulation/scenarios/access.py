"""Brokers that are told who may do what, by repositories that come, go and crash, while links, disks and brokers fail.

Every receipt is true when it is given: the facts are on the disks of all brokers that can be reached. When the faults
have ended, every broker knows what the repositories know, on its disk too, and everything that was told is confirmed.
"""

from collections import Counter
from random import Random

import msgspec

from stentor.machine import MILLISECOND, SECOND, Effect, Report, Step
from stentor.model.limits import Limits
from stentor.model.messages import Message
from stentor.model.scope import ScopePath
from stentor.model.trust.access import ANONYMOUS, TOPIC, Grant, Membership, SharedFact, TopicTerms
from stentor.model.trust.access_messages import AccessFacts, AccessReceipt
from stentor.model.trust.charter import Charter
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.protocols.dissemination.access.access_log import LOG, AccessLog
from stentor.protocols.dissemination.access.charters import Charters
from stentor.protocols.dissemination.access.spread import AccessSpread
from stentor.protocols.neighbours import MessagePort
from stentor.simulation.clients.teller import Confirmed, Connected, FactsDue, Teller
from stentor.simulation.disk import DiskFaults, SimulatedDisk
from stentor.simulation.fault_injector import FaultInjector
from stentor.simulation.faults import Faults, LinkFaults
from stentor.simulation.host import Factory, Host
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.overlay.topology import Topology
from stentor.simulation.scenario import Scenario
from stentor.simulation.world import World
from stentor.storage.segment import SUFFIX, SegmentLog

_CALM = 11 * SECOND  # after the last fault, whatever it left behind is found out
_REPAIR = 4 * SECOND  # after it, somebody restarts brokers that cannot write
_TOPICS = ("orders", "quotes", "a/b", "zeta")
_NAMES = ("alice", "bob", "carol")
_RETRY = SECOND  # after which a repository tells again what nobody confirmed
_DELAYS = (MILLISECOND, 20 * MILLISECOND, 100 * MILLISECOND)  # on slow links a wave takes long, and more happens to it
_LIMITS = Limits(window=64 << 10, queue=64 << 10, heartbeat=1.0, hello_within=2.0)


def _draw_faults(random: Random) -> Faults:
    """Each seed has troubles of its own."""

    def some(rate: float) -> float:
        return rate * random.uniform(0.3, 1.0) if random.random() < 0.4 else 0.0

    return Faults(
        until=random.choice((2 * SECOND, 4 * SECOND)),
        # Only bits flip: a stream that loses some bytes and repeats as many is not found out at once, and nor is a
        # receipt that is lost with them.
        weather=LinkFaults(mean_delay=random.choice(_DELAYS), cut=0.1, damage=some(0.01), damages=("flipped",)),
        disk=DiskFaults(sync_error=some(0.03), full=some(0.1)),
        breaks=some(5.0),
        partitions=some(1.5),
        crashes=some(1.2),
        stalls=some(0.8),
        mean_stall=SECOND // 2,
    )


class _World(World):
    """Remembers since when brokers are linked, as each end sees it."""

    def __init__(self, seed: int, faults: Faults, keep_trace: bool) -> None:
        super().__init__(seed, faults, keep_trace=keep_trace)
        self.linked: dict[tuple[str, str], int] = {}

    def reported(self, host: Host, report: Report) -> None:
        super().reported(host, report)
        if report.what == "linked":
            self.linked[host.name, str(report.details["peer"])] = self.now


class _WitnessedPort:
    """Stands before the link of a repository, and looks whether the receipts that it is given are true."""

    def __init__(self, stage: "_Stage", broker: str, port: MessagePort) -> None:
        self._stage = stage
        self._broker = broker
        self._port = port

    def post(self, message: Message) -> None:
        assert isinstance(message, AccessReceipt), "nothing else is told to a repository"
        self._stage.check_receipt(self._broker, message.token)
        self._port.post(message)


class _WitnessedSpread(AccessSpread):
    """Put in the place of a broker's own for one life of it."""

    _stage: "_Stage"
    _broker: str
    _ports: dict[MessagePort, _WitnessedPort]

    @staticmethod
    def watch(access: AccessSpread, stage: "_Stage", broker: str) -> None:
        access.__class__ = _WitnessedSpread
        assert isinstance(access, _WitnessedSpread)
        access._stage, access._broker = stage, broker
        access._ports = {}

    def tell(self, repository: MessagePort, told: AccessFacts) -> bool:
        port = self._ports.setdefault(repository, _WitnessedPort(self._stage, self._broker, repository))
        return super().tell(port, told)

    def forget(self, repository: MessagePort) -> None:
        super().forget(self._ports.pop(repository, repository))


class _Repository:
    """Tells what it knows on every link, changes while it is connected, and again what nobody confirmed."""

    def __init__(self, stage: "_Stage", name: str) -> None:
        self._stage, self.name = stage, name
        self._lives = 0
        self.unconfirmed: dict[
            int, tuple[str, tuple[SharedFact, ...]]
        ] = {}  # by the token with which it was first told
        self._first: dict[int, int] = {}  # tokens, and with which each was first told

    def factory(self) -> Teller:
        self._lives += 1
        addresses = sorted(self._stage.addresses.values())
        self._stage.random.shuffle(addresses)
        return Teller(self.name, self._lives, tuple(addresses), _LIMITS)

    def tell(self, topic: str, facts: tuple[SharedFact, ...], first: int = 0) -> None:
        token = self._stage.note(topic, facts)
        first = self._first[token] = first or token
        self.unconfirmed[first] = topic, facts
        self._stage.world.tell(self.name, FactsDue(topic, facts, token))
        self._stage.world.schedule.after(_RETRY, lambda: self._retry(first))

    def _retry(self, first: int) -> None:
        told = self.unconfirmed.pop(first, None)
        if told is not None and (self._stage.is_member(self.name, told[0]) or _is_over(told[1])):
            self.tell(*told, first)

    def told(self, effect: Effect) -> None:
        match effect:
            case Connected():
                for topic, charter in self._stage.truth.items():
                    self._stage.world.tell(self.name, FactsDue(topic, tuple(charter.facts())))
            case Confirmed():
                self.unconfirmed.pop(self._first[effect.token], None)
                self._stage.confirmed += 1

    def died(self) -> None:
        """Its ledger survives."""


class _Stage:
    """The world with its players."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        self.random = random = Random(f"{seed}/{SCENARIO.name}")
        self.world = world = _World(seed, _draw_faults(random), keep_trace)
        self.trouble = world.faults.until
        self.fault_injector = FaultInjector(world)
        self.topology = Topology(random, random.randint(1, 2), random.choices((1, 2, 3, 4, 6), (5, 15, 30, 30, 20))[0])
        self.addresses = {name: f"at-{name.replace('/', '_')}" for name in self.topology.brokers}
        self.truth: dict[str, Charter] = {}  # what repositories know; gossip makes it the same for all of them
        self.tells: list[tuple[int, str, tuple[SharedFact, ...]]] = []  # when each was told, by its token - 1
        self.confirmed = 0
        self.checked = 0
        self.changes = 0
        for name in self.topology.brokers:
            world.add(self.addresses[name], self._broker(name))
        self.repositories = [_Repository(self, f"r{number}") for number in range(random.randint(1, 3))]
        for repository in self.repositories:
            world.add(repository.name, repository.factory, repository)
        for host in world.hosts.values():
            world.restart(host, random.randrange(SECOND))
        for _ in range(random.randint(3, 25)):
            world.schedule.at(random.randrange(SECOND // 2, self.trouble + SECOND), self._change)
        world.schedule.at(self.trouble + _REPAIR, self._repair)

    def _broker(self, name: str) -> Factory:
        gateways = tuple(
            GatewaySettings(address=self.addresses[far]) for near, far, _ in self.topology.links if near == name
        )
        settings = NetworkSettings(numbers=self.topology.brokers[name], address=self.addresses[name], gateways=gateways)

        def build() -> Broker:
            broker = Broker(ScopePath.parse(name), _LIMITS, network=settings)
            _WitnessedSpread.watch(broker.network.access, self, name)
            return broker

        return build

    def _repair(self) -> None:
        """A log that once failed to sync is not written any more until its node is restarted."""
        for name, broker in self.brokers().items():
            if broker.network.access.unwritten:
                host = self.world.hosts[self.addresses[name]]
                host.crash(power=False)
                self.world.restart(host, SECOND // 10)

    # ---- what repositories do

    def is_member(self, repository: str, topic: str) -> bool:
        charter = self.truth[topic]
        return repository in (charter.members or charter.former)

    def note(self, topic: str, facts: tuple[SharedFact, ...]) -> int:
        """A repository tells something; returns the token for it."""
        self.tells.append((self.world.now, topic, facts))
        return len(self.tells)

    def _change(self) -> None:
        topic = self.random.choice(_TOPICS)
        charter = self.truth.setdefault(topic, Charter())
        facts = self._draw(charter)
        before = [each for each in self.repositories if each.name in charter.members]
        charter.learn(facts)
        after = [each for each in self.repositories if self.is_member(each.name, topic)]
        self.changes += 1
        for repository in dict.fromkeys((*before, *after)):
            delay = self.random.choice((0, 0, self.random.randrange(SECOND // 2)))
            self.world.schedule.after(delay, lambda each=repository: each.tell(topic, facts))  # type: ignore[misc]

    def _draw(self, charter: Charter) -> tuple[SharedFact, ...]:
        """A change that a topic's owner may want; versions are as repositories give them."""
        writer = self.random.choice(self.repositories).name
        newest = max((version for _, version, _, _ in charter.facts()), default=0)
        version = newest + self.random.randint(1, 2)
        if not charter.is_live:
            keys = {"topic": TopicTerms("olga", open=self.random.random() < 0.3)}
            members = self.random.sample(self.repositories, self.random.randint(1, len(self.repositories)))
            values = {**keys, **{f"member/{each.name}": Membership(principal=ANONYMOUS) for each in members}}
            return tuple((key, version, writer, msgspec.msgpack.encode(value)) for key, value in values.items())
        dice = self.random.random()
        if dice < 0.15:
            return (("topic", version, writer, b""),)
        if dice < 0.3:
            return (("topic", version, writer, msgspec.msgpack.encode(TopicTerms(self.random.choice(_NAMES)))),)
        name, role = self.random.choice(_NAMES), self.random.choice(("publisher", "subscriber"))
        value = b"" if self.random.random() < 0.4 else msgspec.msgpack.encode(Grant(self.random.choice(("", *_NAMES))))
        if dice < 0.4:
            newcomer = self.random.choice(self.repositories).name
            return ((f"member/{newcomer}", version, writer, msgspec.msgpack.encode(Membership(principal=ANONYMOUS))),)
        return ((f"grant/{role}/{name}", version, writer, value),)

    # ---- what must hold

    def anomaly(self, kind: str, detail: str) -> None:
        self.world.anomalies.append(Anomaly(kind, detail))

    def brokers(self) -> dict[str, Broker]:
        """Those that run, by name."""
        hosts = {name: self.world.hosts[address] for name, address in self.addresses.items()}
        return {name: host.machine for name, host in hosts.items() if isinstance(host.machine, Broker)}

    def stored(self, name: str) -> Charters:
        """What a broker would know after a power cut."""
        data = self.world.hosts[self.addresses[name]].disk.synced(LOG + SUFFIX)
        charters = Charters(lambda _: None)
        if data:
            copy = SimulatedDisk(Random(0))
            copy.open(LOG + SUFFIX).write(0, data)
            AccessLog(charters, Step()).recall(SegmentLog(copy, LOG).recovered)
        return charters

    def _reachable(self, start: str, since: int) -> set[str]:
        """Brokers to which a path of links leads that both ends had at that time and have had ever since."""
        brokers, linked = self.brokers(), self.world.linked
        found, edge = {start}, [start]
        while edge:
            near = edge.pop()
            for far in brokers[near].network.peers:
                times = [linked.get((self.addresses[one], other), since) for one, other in ((near, far), (far, near))]
                both = far in brokers and near in brokers[far].network.peers
                if both and far not in found and max(times) < since:
                    found.add(far)
                    edge.append(far)
        return found

    def check_receipt(self, broker: str, token: int) -> None:
        """A broker gives a receipt."""
        told_at, topic, facts = self.tells[token - 1]
        reachable = self._reachable(broker, told_at)
        self.checked += len(reachable)
        for name in sorted(reachable):
            charter = self.stored(name).find(topic)
            if charter is None or not charter.knows(facts):
                self.anomaly("unsafe-ack", f"{broker} confirmed {topic} (token {token}), which {name} had not on disk")

    def run(self) -> None:
        self.fault_injector.begin()
        self.world.run(self.trouble + _REPAIR + _CALM)
        truth = {topic: charter for topic, charter in self.truth.items() if charter.is_live}
        digests = {name: broker.network.access.digest for name, broker in self.brokers().items()}
        if len(set(digests.values())) > 1 or len(digests) < len(self.addresses):
            self.anomaly("diverged", f"brokers know different things: {digests}")
        for name, broker in self.brokers().items():
            known = broker.network.access.charters
            for topic in sorted({*truth, *known}):
                ours, theirs = known.of(topic), truth.get(topic)
                if _meaning(ours) != _meaning(theirs):
                    self.anomaly("lost-write", f"{name} knows {_meaning(ours)} of {topic}, not {_meaning(theirs)}")
            if self.stored(name).digest != known.digest:
                self.anomaly("volatile", f"{name} knows what its disk does not")
            if broker.network.access.waves:
                self.anomaly("endless", f"{name} takes part in {broker.network.access.waves} waves")
        for repository in self.repositories:
            for topic, facts in repository.unconfirmed.values():
                if self.is_member(repository.name, topic):  # from others it is news only to those who must not hear it
                    self.anomaly("unconfirmed", f"{repository.name} never got a receipt for {topic}: {facts}")

    def statistics(self) -> dict[str, int]:
        world = self.world
        counts = Counter(
            {
                "steps": world.trace.steps,
                "brokers": len(self.addresses),
                "changes": self.changes,
                "told": len(self.tells),
                "confirmed": self.confirmed,
                "checked": self.checked,
                "ignored": world.reports["warning: access facts ignored"],
                "unwritable": world.reports["warning: cannot write access facts"],
            }
        )
        for host in world.hosts.values():
            counts.update(host.disk.faults_seen)
        return dict(sorted((counts + self.fault_injector.struck + world.network.sky.seen + world.failures).items()))


def _is_over(facts: tuple[SharedFact, ...]) -> bool:
    """Whether they tell that a topic is gone, which nobody else may know."""
    return any(key == TOPIC and not value for key, _, _, value in facts)


def _meaning(charter: Charter | None) -> object:
    if charter is None:
        return None
    return charter.owner, charter.open, charter.members, charter.publishers, charter.subscribers


def run(seed: int, keep_trace: bool = False) -> Outcome:
    stage = _Stage(seed, keep_trace)
    stage.run()
    world = stage.world
    return Outcome.of(SCENARIO.name, seed, world.trace, world.anomalies, stage.statistics())


SCENARIO = Scenario(
    "access", "1 to 6 brokers that repositories tell who may do what; links, processes and disks fail", run
)
