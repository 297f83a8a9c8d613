"""A client says odd things to a broker and a repository: no node ends, and whoever behaves goes on undisturbed.

Nothing was granted to a stranger. An insider is a publisher, a subscriber, a repository and a broker of the network: it
may well destroy what it was trusted with, so its seeds must show no more than that nodes live.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from random import Random

import msgspec

from stentor.machine import (
    MILLISECOND,
    SECOND,
    Close,
    CloseLedger,
    Collect,
    Commit,
    Committed,
    Dial,
    Discard,
    Effect,
    Input,
    LinkOpened,
    Machine,
    Open,
    Opened,
    Report,
    Scan,
    Scanned,
    Send,
    Started,
    StartTimer,
    Timer,
    TimerFired,
)
from stentor.model.attribute import EMPTY_SCHEMA, Kind, Schema
from stentor.model.communication import REPOSITORIES, Role, bundle_of, end_name, inbox_of, repository_name
from stentor.model.control import ControlEvent, GossipState, Recovery, Registration, Retransmission, TopicTask
from stentor.model.ids import CatenationNumber, Incarnation, LinkId, SubscriptionId, publisher_id, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import MARKS, Hello, SchemaDefinition, Subscription, Topic
from stentor.model.scope import ScopePath
from stentor.model.stored.record import LedgerContents
from stentor.model.trust.request_topic import request_topic
from stentor.nodes.broker.admin.admin_requests import LEFT
from stentor.nodes.broker.broker import Broker
from stentor.nodes.client import Client, Settings
from stentor.nodes.client_api import Deliver, SubscribeRequested, TurnEnded
from stentor.nodes.network.network import NetworkSettings
from stentor.nodes.reliable_endpoint import ReliableEndpoint
from stentor.nodes.repository import RepositoryNode
from stentor.protocols.delivery.endpoint_api import ConfirmDurable, DurabilityAwaited, EventsRequested, Release
from stentor.protocols.delivery.publisher.publisher import ReliablePublisher
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.subscriber.subscriber import ReliableSubscriber
from stentor.simulation.clients.odd_messages import LETTERS, MESSAGES, OddMessages, odd_events
from stentor.simulation.clients.typed_calls import PublishCalled, ReliablePublishCalled
from stentor.simulation.disk import SimulatedDisk
from stentor.simulation.fabric.doorman import Doorman
from stentor.simulation.host import Host
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.scenario import Scenario
from stentor.simulation.world import World
from stentor.storage.segments import SegmentLedger
from stentor.wire import block, frame, parcel
from stentor.wire.block import Origin
from stentor.wire.letter import frame_of, write

BROKER, REPOSITORY, ODD = "b1", "r1", "mallory"
TOPIC = "orders"
_LIFE = Incarnation(1)
_NEWS = "news/today"
_PATH = "fuzz/b1"
_BEGIN = SECOND  # by then everybody is at work
_PAUSE = 20 * MILLISECOND  # between volleys
_VOLLEYS = 40
_CHECKED_AFTER = SECOND // 2
_END = 8 * SECOND  # after the last volley: ends that were in trouble ask again after seconds
_LIMITS = Limits(largest_body=1 << 20, heartbeat=1.0, hello_within=1.0)
_SCHEMA = Schema(("n", "who"), (Kind.INTEGER, Kind.STRING))
_ATTEMPT = 1 << 15
_MOST_LETTERS = 12  # of a volley: they close no link
_SHOWN = 3  # of the last volleys, in what is said of a node that ended


class VolleyDue(Timer, frozen=True, gc=False, tag="volley"):
    """It is time for the next odd messages."""


class _Ledgers:
    """The ledgers of a repository, each on a disk of its own."""

    def __init__(self, world: World, host: str) -> None:
        self._world, self._host = world, host
        self._open: dict[str, SegmentLedger] = {}
        self._disks: dict[str, SimulatedDisk] = {}

    def told(self, effect: Effect) -> None:
        match effect:
            case Open():
                self._answer(Opened(effect.ledger, self._load(effect.ledger)))
            case Commit():
                self._open[effect.ledger].commit(effect.entries)
                self._answer(Committed(effect.ledger, effect.token))
            case Scan():
                ledger = self._open[effect.ledger]
                found = ledger.scan(ledger.find(effect.time) if effect.time else effect.first, effect.budget)
                self._answer(Scanned(effect.ledger, effect.token, found.records, found.damaged))
            case Collect():
                self._open[effect.ledger].collect(effect.end)
            case CloseLedger():
                self._open.pop(effect.ledger).close()
            case Discard():
                del self._open[effect.ledger], self._disks[effect.ledger]
            case _:
                pass  # what a client tells its application

    def _load(self, topic: str) -> LedgerContents:
        disk = self._disks.setdefault(topic, SimulatedDisk(self._world.stream(f"disk/{topic}")))
        ledger = self._open[topic] = SegmentLedger(disk, topic, 1 << 20)
        held = ledger.load()
        return LedgerContents(held.facts, list(held.lines), list(held.rows), held.next)

    def _answer(self, happened: Input) -> None:
        self._world.tell(self._host, happened)

    def died(self) -> None:
        self._open.clear()


class _Volley(msgspec.Struct, frozen=True):
    """What is said on one link, and how that is told to people."""

    words: list[bytes]
    messages: int
    what: str


class _Mallory:
    """A machine that dials, says a volley, and goes on with the next one on another link."""

    def __init__(self, volleys: Iterator[_Volley], said: Callable[[_Volley], None]) -> None:
        self._volleys, self._said = volleys, said
        self._link = 0

    def step(self, now: int, happened: Input) -> list[Effect]:
        match happened:
            case Started():
                return [StartTimer(VolleyDue(), now + _BEGIN)]
            case TimerFired():
                return self._dial()
            case LinkOpened():
                volley = next(self._volleys, None)
                if volley is None:
                    return []
                self._said(volley)
                return [
                    Send(happened.link, [b"".join(volley.words)]),
                    StartTimer(VolleyDue(), now + _PAUSE),
                ]
            case _:
                return []

    def _dial(self) -> list[Effect]:
        self._link += 1
        former = [Close(LinkId(self._link - 1), "next")] if self._link > 1 else []
        return [*former, Dial(LinkId(self._link), BROKER)]


class _Attack:
    """Draws volleys."""

    def __init__(self, random: Random, *, inside: bool) -> None:
        self._random, self._inside = random, inside
        self._number = 0
        names: list[object] = [ODD, "shop", "till", "r9", REPOSITORY, "elsewhere"]
        known: dict[str, list[object]] = {
            "topic": [TOPIC],
            "sender": ["r9", ODD, ODD] if inside else [ODD, *names],
            "name": names,
            "principal": [ODD, ODD, "shop", "owner"],
            "node": [_PATH, "fuzz/b9"],
            "repository": [REPOSITORY, "r9"],
            "unit": ["fuzz/b9", "fuzz", _PATH, ""],
            "scope": ["fuzz", ""],
            "mark": [f"{MARKS}1/1/{owner}" for owner in (_PATH, "fuzz/b9", "b9", "")],
            "task": [each.value for each in TopicTask if each not in (TopicTask.DRAIN, TopicTask.RETIRE)],
            "incarnation": [1, 1, 2, 7],
            "attempt": [_ATTEMPT],
            "publisher": [publisher_id(ODD, end_name("publisher", ODD, TOPIC)), 5],
        }
        keys = [
            "topic",
            "member/r1",
            "member/r9",
            f"grant/publisher/{ODD}",
            f"subscription/{ODD}",
            f"life/subscriber/{ODD}",
            f"life/left/{ODD}",
            "publisher/" + "5" * 16,
        ]
        self._odd = OddMessages(random, known, keys, random.choice((0.05, 0.15, 0.4)))

    def volleys(self) -> Iterator[_Volley]:
        for _ in range(_VOLLEYS):
            yield self._volley()

    def _volley(self) -> _Volley:
        kinds = [self._client, self._client, self._letters, self._letters, self._events, self._stranger]
        if self._inside:
            kinds += [self._member, self._member, self._end, self._broker, self._parcels]
        return self._random.choice(kinds)()

    def _greeted(self, name: str, words: list[bytes], odd: int, what: str, role: str = "client") -> _Volley:
        self._number += 1
        hello = Hello(
            name=name,
            incarnation=Incarnation(self._number),
            window=1 << 20,
            role=role,
            address="nowhere" if role == "broker" else "",
        )
        return _Volley([frame.PREAMBLE, frame.encode(hello), *words], odd, what)

    def _some(self, kinds: tuple[type[msgspec.Struct], ...]) -> tuple[list[bytes], str]:
        chosen = self._random.choices(kinds, k=self._random.choice((1, 1, 2, 5)))
        payloads = [self._odd.encode(kind) for kind in chosen]
        return payloads, "; ".join(f"{payload[:400].hex()}" for payload in payloads)

    def _client(self) -> _Volley:
        payloads, what = self._some(MESSAGES)
        return self._greeted(ODD, [frame_of(each) for each in payloads], len(payloads), f"messages {what}")

    def _broker(self) -> _Volley:
        payloads, what = self._some(MESSAGES)
        words = [frame_of(each) for each in payloads]
        return self._greeted("fuzz/b9", words, len(payloads), f"as a broker {what}", "broker")

    def _stranger(self) -> _Volley:
        payload = self._odd.encode(Hello)
        words = [frame.PREAMBLE, frame_of(payload), frame_of(self._odd.encode(Subscription))]
        return _Volley(words, 2, f"a hello {payload[:400].hex()}")

    def _letters(self) -> _Volley:
        return self._post(ODD)

    def _member(self) -> _Volley:
        """What a repository of the bundle says, after it has proved that it is one."""
        proof = GossipState(TOPIC, "r9", ready=True, held=(), facts=0, principal=ODD)
        return self._post(repository_name("r9"), proof)

    def _end(self) -> _Volley:
        """What a publisher or a subscriber says to the repository that steers it."""
        role: Role = self._random.choice(("publisher", "subscriber"))
        recovery = Recovery(
            TOPIC, ODD, role=role, attempt=_ATTEMPT, principal=ODD, incarnation=_LIFE, node=_PATH, asks=True
        )
        return self._post(end_name(role, ODD, TOPIC), recovery)

    def _post(self, name: str, first: ControlEvent | None = None) -> _Volley:
        inbox, own = inbox_of(repository_name(REPOSITORY)), request_topic(name, REPOSITORY)
        to = self._random.choice((bundle_of(TOPIC), REPOSITORIES, inbox, own))
        words, said, odd = [frame.encode(Topic(topic_id(to), to))], [], 0
        if first is not None:
            words.append(self._events_of(name, to, write([first])))
        for _ in range(self._random.randrange(1, _MOST_LETTERS)):
            payloads, what = self._some(LETTERS)
            body = b"".join(frame_of(each) for each in payloads)
            if self._random.random() < 0.3:
                body = write([Retransmission(TOPIC, name)]) + body + self._frame(name, TOPIC)
            words.append(self._events_of(name, to, body))
            said.append(what)
            odd += len(payloads)
        return self._greeted(name, words, odd, f"letters of {name} to {to}: {' | '.join(said)}")

    def _events_of(self, name: str, topic: str, body: bytes) -> bytes:
        self._number += 1
        origin = Origin(topic_id(topic), publisher_id(ODD, name), Incarnation(self._number), CatenationNumber(1), 0)
        return block.encode(origin, EMPTY_SCHEMA, [], [body])

    def _frame(self, name: str, topic: str) -> bytes:
        origin = Origin(topic_id(topic), publisher_id(ODD, name), Incarnation(1), CatenationNumber(1), 0)
        if self._random.random() < 0.5:
            sound = block.encode(origin, EMPTY_SCHEMA, [], [b"x", b"y"])
        else:
            sound = block.encode(origin, _SCHEMA, [[1, 5], ["a", "b"]], [b"x", b"yy"])
        return odd_events(self._random, sound)

    def _events(self) -> _Volley:
        topic = self._random.choice((_NEWS, TOPIC))
        frames = [self._frame(ODD, topic) for _ in range(3)]
        words = [frame.encode(Topic(topic_id(topic), topic)), frame.encode(SchemaDefinition(_SCHEMA)), *frames]
        return self._greeted(ODD, words, len(frames), f"events on {topic}: {b' '.join(frames)[:400].hex()}")

    def _parcels(self) -> _Volley:
        topic = self._random.choice((_NEWS, TOPIC))
        inside = self._frame(ODD, topic)
        number = self._random.choice((0, 1, 2, 2**31, 2**32 - 1))
        label = parcel.label({self._random.choice((0, 1, 7)): self._random.choice((0, 1, 2, 2**64 - 1))})
        whole = parcel.head(label, len(inside), number, number & 255, number, bytes([number & 255] * 8)) + inside
        words = [frame.encode(Topic(topic_id(topic), topic)), frame.encode(SchemaDefinition(_SCHEMA)), whole]
        return self._greeted("fuzz/b9", words, 1, f"a parcel {whole[:400].hex()}", "broker")


class _World(World):
    """Reports and ends of nodes are anomalies here, with what was said last."""

    def __init__(self, seed: int, *, keep_trace: bool) -> None:
        super().__init__(seed, keep_trace=keep_trace)
        self.last: deque[str] = deque(maxlen=_SHOWN)

    def reported(self, host: Host, report: Report) -> None:
        super().reported(host, report)
        if report.what == "a message could not be handled":
            self.accuse("unhandled", f"{host.name}: {report.details['trace']}")

    def raised(self, host: Host, happened: Input, error: Exception) -> None:
        super().raised(host, happened, error)
        self.accuse("ended", f"{host.name}: {type(error).__name__}: {error}")

    def stopped(self, host: Host, reason: str) -> None:
        super().stopped(host, reason)
        if reason != LEFT:
            self.accuse("ended", f"{host.name}: {reason}")

    def accuse(self, kind: str, detail: str) -> None:
        last = "\n    ".join(self.last)
        self.anomalies.append(Anomaly(kind, f"{detail}\n  the last that was said:\n    {last}"))


class _Listener:
    """Applications that behave: what they are told is counted."""

    def __init__(self, seen: Counter[str]) -> None:
        self._seen = seen

    def told(self, effect: Effect) -> None:
        if isinstance(effect, Deliver):
            self._seen["news"] += 1
        elif isinstance(effect, Release):
            self._seen["orders"] += sum(portion.block.count for portion in effect.portions)
        elif isinstance(effect, ConfirmDurable) and effect.code is None:
            self._seen["assured"] += 1

    def died(self) -> None:
        """Nobody kills them."""


class _Stage:
    def __init__(self, seed: int, keep_trace: bool) -> None:
        random = Random(f"{seed}/{SCENARIO.name}")
        self.inside = random.random() < 0.5
        self.world = _World(seed, keep_trace=keep_trace)
        self.seen: Counter[str] = Counter()
        nodes = {REPOSITORY, "owner", *([ODD] if self.inside else [])}
        settings = NetworkSettings(traces=random.random() < 0.5)
        path = ScopePath.parse(_PATH)
        self._add(BROKER, lambda: Doorman(Broker(path, _LIMITS, "", settings), lambda who: (who, who in nodes)), 0)
        quick = RepositorySettings(
            name=REPOSITORY,
            interval=100 * MILLISECOND,
            suspicion=300 * MILLISECOND,
            grace=200 * MILLISECOND,
            absence=200 * MILLISECOND,
            degrade=300 * MILLISECOND,
            void_after=SECOND,
        )
        self._add(
            REPOSITORY,
            lambda: RepositoryNode(self._link(repository_name(REPOSITORY)), quick),
            100 * MILLISECOND,
            _Ledgers(self.world, REPOSITORY),
        )
        self._add("owner", lambda: Client(self._link("owner")), 200 * MILLISECOND, _Listener(self.seen))
        self._add("reader", lambda: Client(self._link("reader")), 200 * MILLISECOND, _Listener(self.seen))
        shop = ReliableEndpoint(
            self._link(end_name("publisher", "shop", TOPIC)), TOPIC, ReliablePublisher(TOPIC, "shop", _LIFE)
        )
        till = ReliableEndpoint(
            self._link(end_name("subscriber", "till", TOPIC)), TOPIC, ReliableSubscriber(TOPIC, "till", _LIFE)
        )
        self._add("shop", lambda: shop, 600 * MILLISECOND, _Listener(self.seen))
        self._add("till", lambda: till, 600 * MILLISECOND, _Listener(self.seen))
        attack = _Attack(random, inside=self.inside)
        self._add(ODD, lambda: _Mallory(attack.volleys(), self._said), 0)
        self._register()

    def _add(self, name: str, factory: Callable[[], Machine], at: int, application: object = None) -> None:
        host = self.world.add(name, factory, application)  # type: ignore[arg-type]
        self.world.schedule.at(at, host.start)

    def _link(self, name: str) -> Settings:
        return Settings(name=name, addresses=(BROKER,), incarnation=_LIFE, heartbeat=1.0, window=1 << 20)

    def _said(self, volley: _Volley) -> None:
        self.seen["messages"] += volley.messages
        self.world.last.append(volley.what)

    def _register(self) -> None:
        """The owner creates the topic, and lets everybody do what they are to do."""
        repositories = (REPOSITORY, "r9") if self.inside else (REPOSITORY,)
        principals = (REPOSITORY, ODD) if self.inside else (REPOSITORY,)
        requests = [
            Registration(
                TOPIC,
                "owner",
                token=1,
                task=TopicTask.CREATE,
                principal="owner",
                repositories=repositories,
                copies=1,
                principals=principals,
            )
        ]
        granted = [("publisher", "shop"), ("subscriber", "till")]
        if self.inside:
            granted += [("publisher", ODD), ("subscriber", ODD)]
        requests += [
            Registration(
                TOPIC,
                "owner",
                token=2,
                task=TopicTask.GRANT,
                principal="owner",
                role=role,  # type: ignore[arg-type]
                name=name,
                holder=name,
            )
            for role, name in granted
        ]
        for at, request in enumerate(requests):
            offered = PublishCalled(request_topic("owner", REPOSITORY), {}, write([request]), 0)
            for happened in (offered, TurnEnded()):
                self._tell("owner", happened, 400 * MILLISECOND + at * 10 * MILLISECOND)
        self._tell("reader", SubscribeRequested(SubscriptionId(1), "news/#", "", eager=True), 300 * MILLISECOND)
        self._tell("till", EventsRequested(), 650 * MILLISECOND)

    def _tell(self, name: str, happened: Input, at: int) -> None:
        self.world.schedule.at(at, lambda: self.world.tell(name, happened))

    def run(self) -> None:
        over = _BEGIN + _VOLLEYS * (_PAUSE + 10 * MILLISECOND) + _CHECKED_AFTER
        for name, inputs in {
            "owner": (PublishCalled(_NEWS, {}, b"still here", 0), TurnEnded()),
            "shop": (ReliablePublishCalled({}, b"still here", 0), TurnEnded(), DurabilityAwaited(1)),
        }.items():
            for happened in inputs:
                self._tell(name, happened, over)
        self.world.run(over - 1)
        before = self.seen.copy()
        self.world.run(over + _END)
        missing = [what for what in ("news", "orders", "assured") if self.seen[what] == before[what]]
        if missing and not self.inside:
            self.world.accuse("starved", f"after all that, nobody got {', '.join(missing)}")
        elif "news" in missing and self.world.hosts[BROKER].starts == 1:  # an insider may order it to leave
            self.world.accuse("starved", "after all that, nobody got news")


def run(seed: int, keep_trace: bool = False) -> Outcome:
    stage = _Stage(seed, keep_trace)
    stage.run()
    world = stage.world
    statistics = {"steps": world.trace.steps, **stage.seen, "insiders": int(stage.inside)}
    return Outcome.of(SCENARIO.name, seed, world.trace, world.anomalies, dict(sorted(statistics.items())))


SCENARIO = Scenario(
    "fuzz", "odd messages, letters and events, made from their definitions, at a broker and a repository", run
)
