"""A simulated application on a client: it publishes and subscribes at random, and notes what it is told."""

from collections.abc import Callable
from enum import Enum

import msgspec

from stentor.machine import SECOND, Effect, Input, StopRequested
from stentor.model.ids import Incarnation, SubscriptionId
from stentor.model.messages import SettlementReport, SettlementRequest, StatusRequest
from stentor.nodes.client import Client, Settings
from stentor.nodes.client_api import (
    AnswerQuery,
    Asked,
    CompleteFlush,
    ConfirmSubscription,
    Connect,
    Deliver,
    DenySubscription,
    Disconnect,
    FlushRequested,
    MoreRequested,
    Moved,
    Refuse,
    SubscribeRequested,
    TurnEnded,
    UnsubscribeRequested,
)
from stentor.simulation.checkers.delivery_oracle import DeliveryOracle, ReceivedEvent, SubscriptionChecker
from stentor.simulation.clients.client_history import ClientHistory, SubscriptionHistory
from stentor.simulation.clients.typed_calls import PublishCalled, PublishManyCalled
from stentor.simulation.clients.workload import TOPICS, draw_attributes, draw_interest
from stentor.simulation.outcome import Anomaly
from stentor.simulation.world import World
from stentor.wire.block import Block

_SIZES = (0, 10, 10, 100, 100, 1000, 4000)
_MOST_SUBSCRIPTIONS = 4
_MOST_AT_ONCE = 40
LARGEST_BURST = _MOST_AT_ONCE * (_SIZES[-1] + 20)  # bytes that it publishes in one go
_SLOW = 2 * SECOND
_SETTLED_WITHIN = (0.5, 5.0, 30.0)  # seconds; the last is longer than anything takes in peace


class ReadPace(Enum):
    """How soon an application asks for more events."""

    KEEN = "at once"
    SLOW = "after a while"
    NONE = "never"


class SimApplication:
    """Its machine is built by `factory` at every start of its host; from `rest` on it does nothing by itself. It roams
    between its `homes`, addresses of brokers, if there are any.
    """

    def __init__(
        self,
        world: World,
        host: str,
        settings: Settings,
        oracle: DeliveryOracle,
        new_incarnation: Callable[[], int],
        rest: int,
        homes: tuple[str, ...] = (),
    ) -> None:
        self.host = host
        self.name = settings.name
        self.lives: list[ClientHistory] = []
        self.gone: list[SubscriptionHistory] = []  # subscriptions that were ended, and those of former lives
        self._world = world
        self._settings = settings
        self._oracle = oracle
        self._new_incarnation = new_incarnation
        self._rest = rest
        self._homes = homes
        self.moves = 0
        self.on_settled: Callable[[SimApplication, list[SubscriptionHistory], SettlementReport], None] = lambda *_: None
        # what is to be known everywhere, by the number of the question
        self.settling: dict[int, list[SubscriptionHistory]] = {}
        self._random = world.stream(f"{host}/application")
        self._appetite = self._random.choices(list(ReadPace), (6, 3, 1))[0]
        self._pace = 0.2 + self._random.random()  # mean seconds between actions
        self._count = 0  # of everything that needs a number
        self._actions: dict[Callable[[ClientHistory], None], int] = {
            self._publish: 60,
            self._publish_many: 8,
            self._subscribe: 12,
            self._unsubscribe: 8,
            self._flush: 6,
            self._ask_status: 4,
            self._settle: 20,
            self._leave: 2,
            self._move: 8 if homes else 0,
        }

    @property
    def life(self) -> ClientHistory:
        return self.lives[-1]

    @property
    def client(self) -> Client:
        machine = self._world.hosts[self.host].machine
        assert isinstance(machine, Client)
        return machine

    def factory(self) -> Client:
        incarnation = self._new_incarnation()
        life = ClientHistory(f"{self.host}.{len(self.lives) + 1}", incarnation)
        self.lives.append(life)
        self._later(life, 0, lambda: self._begin(life))
        return Client(msgspec.structs.replace(self._settings, incarnation=Incarnation(incarnation)))

    def died(self) -> None:
        life = self.life
        self.close_books()
        life.unlink(self._world.now)
        life.ended = True
        self.settling.clear()
        self.gone += life.subscriptions.values()
        life.subscriptions = {}

    def close_books(self) -> None:
        """Nothing more will come: count what the client knows was missed, and would tell with the next events."""
        for subscription, history in self.life.subscriptions.items():
            history.missed += self._untold(subscription)

    def wake_up(self) -> None:
        """From now on it wants everything, and wants it now."""
        self._appetite = ReadPace.KEEN
        for subscription in self.life.subscriptions:
            self._say(MoreRequested(subscription))

    def subscribe_and_settle(self) -> None:
        """Subscribe once more, if it has not too many, and when all of them are known everywhere."""
        self._subscribe(self.life)
        self._settle_within(self.life, _SETTLED_WITHIN[-1])

    def has_missed(self, history: SubscriptionHistory) -> bool:
        """Whether events of a subscription in force were dropped because it was too slow."""
        return bool(history.missed) or any(
            self._untold(each) for each, own in self.life.subscriptions.items() if own is history
        )

    def publish_everywhere(self) -> None:
        """One event on every topic."""
        for topic in TOPICS:
            self._offer(self.life, topic, size=10)
        self._say(TurnEnded())

    def publish_one(self) -> None:
        """One event on one topic, if there is room for it."""
        if self.client.room:
            self._offer(self.life, self._random.choice(TOPICS), size=10)
            self._say(TurnEnded())

    def move_to(self, address: str) -> None:
        self.moves += 1
        self._say(Moved((address,)))

    # ---- what it is told

    def told(self, effect: Effect) -> None:
        life, now = self.life, self._world.now
        match effect:
            case Deliver():
                self._take(life, effect)
            case Connect():
                life.linked.begin(now)
                life.node = effect.node
            case Disconnect():
                life.unlink(now)
            case ConfirmSubscription() if effect.subscription in life.subscriptions:
                life.subscriptions[effect.subscription].confirmed.begin(now)
            case CompleteFlush():
                self.settling.pop(effect.token, None)  # the link is gone, and with it who was asked
            case AnswerQuery(answer=SettlementReport() as report):
                self.on_settled(self, self.settling.pop(report.token), report)
            case DenySubscription():
                self._complain("denied", f"subscription {effect.subscription}: {effect.reason}")
            case Refuse():
                life.unlink(now)
                life.halted = effect.code

    def _take(self, life: ClientHistory, delivered: Deliver) -> None:
        client = self.client
        history = life.subscriptions.get(delivered.subscription)
        if history is None:
            self._complain("unasked", f"events of subscription {delivered.subscription}, which was withdrawn")
            return
        history.missed += delivered.missed
        for block in delivered.blocks:
            for arrival in _arrivals(block, client.topics[block.topic]):
                self._oracle.deliver(history.reader, arrival)
        if self._appetite is not ReadPace.NONE:
            pause = 0 if self._appetite is ReadPace.KEEN else int(self._random.expovariate(1.0) * _SLOW)
            self._later(life, pause, lambda: self._say(MoreRequested(delivered.subscription)))

    # ---- what it does

    def _begin(self, life: ClientHistory) -> None:
        for _ in range(self._random.randrange(3)):
            self._subscribe(life)
        self._plan(life)

    def _plan(self, life: ClientHistory) -> None:
        pause = int(self._random.expovariate(1.0) * self._pace * SECOND)
        if self._world.now + pause < self._rest:
            self._later(life, pause, lambda: self._act(life))

    def _act(self, life: ClientHistory) -> None:
        if life.active:
            self._random.choices(list(self._actions), list(self._actions.values()))[0](life)
            self._plan(life)

    def _publish(self, life: ClientHistory) -> None:
        if not self.client.room:
            return
        for _ in range(self._random.choice((1, 1, 2, 5))):
            self._offer(life, self._random.choice(TOPICS), self._random.choice(_SIZES))
        self._say(TurnEnded())

    def _offer(self, life: ClientHistory, topic: str, size: int) -> None:
        attributes, body = draw_attributes(self._random), self._new_body(life, size)
        self._oracle.publish(life.name, topic, attributes, body, self._world.now)
        self._say(PublishCalled(topic, attributes, body, self._world.now))

    def _publish_many(self, life: ClientHistory) -> None:
        if not self.client.room:
            return
        topic = self._random.choice(TOPICS)
        numbers = [self._random.choice((None, 1, 4, 9)) for _ in range(self._random.randint(1, _MOST_AT_ONCE))]
        size = self._random.choice(_SIZES)
        bodies = [self._new_body(life, size) for _ in numbers]
        for number, body in zip(numbers, bodies, strict=True):
            attributes = {} if number is None else {"n": number}
            self._oracle.publish(life.name, topic, attributes, body, self._world.now)
        self._say(PublishManyCalled(topic, {"n": numbers}, bodies, self._world.now))
        self._say(TurnEnded())

    def _subscribe(self, life: ClientHistory) -> None:
        if len(life.subscriptions) >= _MOST_SUBSCRIPTIONS:
            return
        interest = draw_interest(self._random)
        subscription = SubscriptionId(self._number())
        reader = SubscriptionChecker(
            f"{life.name}/{subscription} {interest.pattern!r} {interest.where!r}", interest.wants
        )
        life.subscriptions[subscription] = SubscriptionHistory(reader, patient=self._appetite is not ReadPace.KEEN)
        self._say(SubscribeRequested(subscription, interest.pattern, interest.where))
        if self._appetite is not ReadPace.NONE:
            self._say(MoreRequested(subscription))

    def _unsubscribe(self, life: ClientHistory) -> None:
        if life.subscriptions:
            subscription = self._random.choice(list(life.subscriptions))
            history = life.subscriptions.pop(subscription)
            history.missed += self._untold(subscription)
            history.confirmed.end(self._world.now)
            self.gone.append(history)
            self._say(UnsubscribeRequested(subscription))

    def _flush(self, life: ClientHistory) -> None:  # noqa: ARG002
        self._say(FlushRequested(self._number()))

    def _ask_status(self, life: ClientHistory) -> None:  # noqa: ARG002
        self._say(Asked(StatusRequest(self._number())))

    def _settle(self, life: ClientHistory) -> None:
        self._settle_within(life, self._random.choice(_SETTLED_WITHIN))

    def _settle_within(self, life: ClientHistory, seconds: float) -> None:
        token = self._number()
        self.settling[token] = list(life.subscriptions.values())
        self._say(Asked(SettlementRequest(token, seconds)))

    def _leave(self, life: ClientHistory) -> None:
        """Stop in good order, and come back as a new process."""
        life.leaving = True
        life.unlink(self._world.now)
        self._say(StopRequested())
        host = self._world.hosts[self.host]
        self._later(life, SECOND, lambda: host.crash(power=False))
        self._world.restart(host, 2 * SECOND)

    def _move(self, life: ClientHistory) -> None:  # noqa: ARG002
        self.moves += 1
        self._say(Moved(tuple(self._random.sample(self._homes, min(2, len(self._homes))))))

    # ---- small things

    def _untold(self, subscription: SubscriptionId) -> int:
        known = self.client.subscriber.subscriptions.get(subscription)
        return 0 if known is None else known.missed

    def _say(self, happened: Input) -> None:
        self._world.hosts[self.host].handle(happened)

    def _later(self, life: ClientHistory, pause: int, action: Callable[[], None]) -> None:
        """In this life, and when the process runs."""
        host = self._world.hosts[self.host]
        self._world.schedule.after(pause, lambda: None if life.ended else host.soon(action))

    def _complain(self, kind: str, detail: str) -> None:
        self._world.anomalies.append(Anomaly(kind, f"{self.life.name}: {detail}"))

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _new_body(self, life: ClientHistory, size: int) -> bytes:
        return f"{life.name}:{self._number()}|".encode() + self._random.randbytes(size)


def _arrivals(block: Block, topic: str) -> list[ReceivedEvent]:
    return [
        ReceivedEvent(topic, attributes, body, block.publisher, block.incarnation, block.catenation + offset)
        for attributes, body, offset in zip(block.rows(), block.bodies(), block.offsets(), strict=True)
    ]
