"""A simulated publisher: it publishes reliably, and begins again without any memory when it has crashed."""

from collections.abc import Mapping
from random import Random

from stentor.machine import MILLISECOND, SECOND
from stentor.model.attribute import Value
from stentor.model.communication import end_name
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation
from stentor.model.mail import RECIPIENT
from stentor.protocols.delivery.endpoint_api import (
    ConfirmDurable,
    DrawLife,
    DurabilityAwaited,
    LifeDrawn,
    Refuse,
    ReportSteering,
    ReportTrouble,
    ResumePublishing,
    TurnEnded,
)
from stentor.protocols.delivery.publisher.publisher import PublisherSettings, ReliablePublisher, Resumption
from stentor.protocols.delivery.repository.registry import top_of
from stentor.protocols.delivery.steering import life_of
from stentor.protocols.delivery.steering_settings import SteeringSettings
from stentor.protocols.delivery.transport import Publish, SendLetter
from stentor.simulation.clients.typed_calls import ReliablePublishCalled, ReliablePublishManyCalled
from stentor.simulation.clients.workload import draw_attributes
from stentor.simulation.delivery.process import TOPIC, DeliveryWorld, SimProcess
from stentor.wire.block import Block

STEERING = SteeringSettings(
    grace=5 * MILLISECOND,
    second_choice=50 * MILLISECOND,
    first_pause=40 * MILLISECOND,
    longest_pause=400 * MILLISECOND,
    answer=80 * MILLISECOND,
    tries=4,
    left_out=1500 * MILLISECOND,
    complaint=2 * SECOND,
    look_after=200 * MILLISECOND,
    look_longest=SECOND,
)
_SETTINGS = PublisherSettings(
    first_silence=100 * MILLISECOND, longest_silence=500 * MILLISECOND, window_events=64, steering=STEERING
)


_HASTE = 20  # times as fast as the run publishers' clocks go, so that some begin somewhere in the middle of it
_CLOCK_ERRORS = (0, 0, 2 * 86_400 * SECOND, -2 * 86_400 * SECOND)


class SimPublisher(SimProcess):
    """Publishes a fixed number of events in all its lives, a few at a time."""

    asks_for_members = True

    def __init__(self, world: DeliveryWorld, name: str, events: int, pause: int, seat: str = "") -> None:
        super().__init__(world, end_name("publisher", name, TOPIC), name, seat)
        self._signature = (seat or name).encode()  # in all bodies, which are different
        self.short = name
        self.revoked = False  # its owner wants it to be
        self.left = events  # to publish
        self.wrong_clocks: Random | None = None  # draws a wrong clock for each event, if it is given
        self.publisher: ReliablePublisher | None = None
        self.ended = False  # it may not publish any more
        self.sent: list[tuple[Block, int]] = []  # in all its lives, and to the topic of which version
        self._pause = pause  # between turns, on average
        self._said = self._asked = 0
        self._incarnation = Incarnation(0)
        self._behind = 0  # nanoseconds by which its clock is set back in this life
        self._highest = 0  # of its lives that were steered: repositories need not have heard of others
        self._checked = 0  # up to here it was promised that all is stored
        self._tokens: dict[int, int] = {}  # what is waited for, and how many were said before
        self._acts |= {
            Publish: self._publish,
            SendLetter: self._post,
            ConfirmDurable: self._assure,
            ReportSteering: self._attach,
            ReportTrouble: lambda _: None,
            DrawLife: self._draw,
            Refuse: self._refuse,
            ResumePublishing: lambda _: None,
        }

    @property
    def wants_events(self) -> bool:
        return False

    @property
    def done(self) -> bool:
        """Nothing is on its way."""
        publisher = self.publisher
        return self.ended or (publisher is not None and not self.left and not publisher.unacked.events)

    def start(self) -> None:
        if self.alive or self.ended:
            return
        self._behind = self.world.random.randrange(self.world.now) if self._is_set_back() else 0
        self._incarnation = incarnation = self.world.begin_life(self.name, self._behind)
        resumption = self._resumption(incarnation)
        self.publisher = ReliablePublisher(TOPIC, self.short, incarnation, _SETTINGS, resumption)
        self.publisher.traces = self.traces
        self._tokens.clear()
        self._checked = self.publisher.unacked.upto
        self.begin(self.publisher)
        self.wander()
        self.connect()
        self.later(self.world.random.randrange(self._pause), self._turn)

    def _is_set_back(self) -> bool:
        return self.world.are_clocks_set_back and self.life > 0 and self.world.random.random() < 0.5

    def _resumption(self, life: Incarnation) -> Resumption | None:  # noqa: ARG002
        return None

    def crash(self, why: str = "crash") -> None:
        super().crash(why)
        self.publisher = None

    def _turn(self) -> None:
        """The application's turn: a few events at once."""
        random = self.world.random
        if self.publisher is None or self.ended or not self.left:
            return
        if self.publisher.room:
            count = min(random.choice((1, 1, 1, 2, 3, 6)), self.left)
            if random.random() < 0.2:
                self._say_many(count)
            else:
                for _ in range(count):
                    self._say()
            self.left -= count
            self.handle(TurnEnded())
        if self.alive and random.random() < 0.3:
            self._asked += 1
            token = self._asked
            self._tokens[token] = self._said
            self.handle(DurabilityAwaited(token, random.choice((0, 0, 1, 2))))
        self.later(random.randrange(1, 2 * self._pause), self._turn)

    def _body(self) -> bytes:
        self._said += 1
        return b"%s/%d" % (self._signature, self._said) + b"." * self.world.random.choice((0, 0, 0, 7, 90))

    @property
    def _time(self) -> int:
        error = self.wrong_clocks.choice(_CLOCK_ERRORS) if self.wrong_clocks is not None else 0
        return _HASTE * self.world.now + error

    def _say(self) -> None:
        body, attributes = self._body(), draw_attributes(self.world.random)
        if self.world.recipients:
            attributes[RECIPIENT] = self.world.random.choice(self.world.recipients)
        self._compose(body, attributes)
        self.handle(ReliablePublishCalled(attributes, body, self._time))

    def _say_many(self, count: int) -> None:
        bodies = [self._body() for _ in range(count)]
        columns: dict[str, list[Value]] = {"n": [self.world.random.randrange(10) for _ in bodies]}
        if self.world.recipients:
            columns[RECIPIENT] = [self.world.random.choice(self.world.recipients) for _ in bodies]
        for body, *row in zip(bodies, *columns.values(), strict=True):
            self._compose(body, dict(zip(columns, row, strict=True)))
        self.handle(ReliablePublishManyCalled(columns, bodies, self._time))

    def _compose(self, body: bytes, attributes: Mapping[str, Value]) -> None:
        self.world.history.entrusted[body] = attributes

    def observe(self) -> None:
        """Nothing counts as stored that no repository has said is stored."""
        publisher = self.publisher
        if publisher is None:
            return
        for number in range(self._checked + 1, publisher.unacked.upto + 1):
            key = self.id, publisher.incarnation, number
            if key not in self.world.history.promises:
                self.accuse("stored-by-nobody", f"{self.short} believes that {key} is stored")
        self._checked = publisher.unacked.upto

    # ---- effects

    def _post(self, post: SendLetter) -> None:
        for block in post.blocks:
            self.world.history.send(block, top_of(self.node))
        self.world.office.post(self, post)

    def _publish(self, publish: Publish) -> None:
        assert self.publisher is not None
        self.world.seen["published"] += publish.block.count
        self.sent.append((publish.block, self.publisher.version))
        self.world.history.publish(publish.block)
        self.world.history.send(publish.block, top_of(self.node))
        self.world.office.publish(self, publish.block, publish.to)

    def _assure(self, assure: ConfirmDurable) -> None:
        if assure.token not in self._tokens:
            self.accuse("assured-twice", f"{self.short}: {assure}")
        elif assure.code is None:
            self._assured(self._tokens[assure.token])
        self._tokens.pop(assure.token, None)

    def _assured(self, said: int) -> None:
        """So many are stored, of all that were ever said."""

    def _draw(self, draw: DrawLife) -> None:  # noqa: ARG002
        self.world.seen["life-drawn"] += 1
        self.later(0, self._life_drawn)

    @property
    def _drawn_life(self) -> int:
        """What its clock says that a life would be that began now."""
        return 1 + (self.world.now - self._behind) // MILLISECOND

    def _life_drawn(self) -> None:
        self.handle(LifeDrawn(self._drawn_life))
        if self.publisher is not None and (life := life_of(self.publisher.steering.attempt)) != self._incarnation:
            self._incarnation = self.world.renew_life(self.name, life)

    def _attach(self, attach: ReportSteering) -> None:  # noqa: ARG002
        self._highest = max(self._highest, self._incarnation)

    def _refuse(self, refuse: Refuse) -> None:
        self.world.seen["forbidden"] += 1
        is_past = self._drawn_life > self._highest
        if refuse.code is Refusal.FENCED and self._behind and is_past:  # so that it cannot know that it was behind
            self.crash("fenced by its own clock")
            self.world.after(self._pause, self.start)
            return
        is_fenced = refuse.code is Refusal.FENCED and not self.world.is_newest(self.name, self._incarnation)
        self.world.seen["fenced"] += is_fenced
        if not self.revoked and not is_fenced:
            self.accuse("refused", f"{self.short}: {refuse.reason}")
        self.note(f"forbidden: {refuse.reason}")
        self.ended = True
