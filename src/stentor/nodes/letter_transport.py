"""Letter transport: how machines of reliable delivery speak over a link: through a client, on communication topics."""

from collections.abc import Sequence

from stentor.machine import SECOND, Effect, Input, Report, Started, StartTimer, StopRequested, Timer, TimerFired
from stentor.model.errors import FrameError
from stentor.model.ids import SubscriptionId, publisher_id
from stentor.model.trust.request_topic import requester_of
from stentor.nodes.client import Client, Settings
from stentor.nodes.client_api import (
    Asked,
    BundleWatched,
    ConfirmSubscription,
    Connect,
    Deliver,
    DenySubscription,
    Question,
    RefuseFlow,
    SubscribeRequested,
    TellBundle,
    TurnEnded,
    UnsubscribeRequested,
)
from stentor.nodes.client_link import ClientTimer
from stentor.nodes.trace_publisher import TracePublisher
from stentor.protocols.delivery.besteffort.subscriber import frames
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.transport import (
    EventsReceived,
    LetterReceived,
    LinkUp,
    Listening,
    Publish,
    SendLetter,
    Subscribe,
    Unsubscribe,
    Vouched,
)
from stentor.wire import letter
from stentor.wire.block import Block
from stentor.wire.head import schema_of

_MOST_TRACES = 4096  # that wait until they are told


class TracesDue(Timer, frozen=True, gc=False, tag="traces"):
    """What was traced has waited long enough to be published."""


class LetterTransport:
    """A client whose deliveries become inputs of other machines, and whose publications are their effects."""

    def __init__(self, settings: Settings, topic: str = "") -> None:
        """`topic` is that of the events which are published as they are."""
        self._topic, self._name = topic, settings.name
        self._traceable = not topic.startswith("$")  # who reads traces must not bring about new ones
        self.traces = TraceBuffer(self._traceable)  # what our machines trace
        self._traces = TracePublisher(settings.name, settings.incarnation)
        self._telling = False  # whether a timer is set for that
        self._concluded = False  # whether we have said that nothing more will be traced
        self._since = 0  # how far clocks on walls are ahead of ours
        self.client = Client(settings)
        self._letters: set[SubscriptionId] = set()
        self._heard: dict[str, SubscriptionId] = {}  # by pattern
        self._asked: dict[SubscriptionId, str] = {}  # patterns that machines asked for
        self._numbers = 0
        self._waiting: dict[SubscriptionId, None] = {}  # subscriptions that are not in force on this link
        self._pending: list[Effect] = []
        self._principal = self._node = ""
        self.linked = False

    def listen(self, now: int, pattern: str, where: str = "", letters: bool = True) -> SubscriptionId:
        """Hear what is said on a topic: letters, or events as they are."""
        self._numbers += 1
        subscription = SubscriptionId(self._numbers)
        if letters:
            self._letters.add(subscription)
        self._heard[pattern] = subscription
        self._waiting[subscription] = None
        self._pending += self.client.step(now, SubscribeRequested(subscription, pattern, where, eager=True))
        return subscription

    def hears(self, pattern: str) -> bool:
        return pattern in self._heard

    def ignore(self, now: int, pattern: str) -> None:
        """Hear no more of it; nothing if it is not heard."""
        subscription = self._heard.pop(pattern, None)
        if subscription is None:
            return
        self._letters.discard(subscription)
        self._asked.pop(subscription, None)
        self._waiting.pop(subscription, None)
        self._pending += self.client.step(now, UnsubscribeRequested(subscription))

    def watch_bundle(self, now: int, topic: str) -> None:
        """Hear which repositories manage a topic."""
        self._pending += self.client.step(now, BundleWatched(topic))

    def ask(self, now: int, question: Question) -> None:
        """Ask the broker something; without a link there is no answer."""
        self._pending += self.client.step(now, Asked(question))

    def wall(self, now: int) -> int:
        """Return what clocks on walls say at this time, in nanoseconds since 1970."""
        return self._since + now

    def is_mine(self, happened: Input) -> bool:
        """Whether an input is about the link."""
        return not isinstance(happened, TimerFired) or isinstance(happened.timer, ClientTimer | TracesDue)

    def step(self, now: int, happened: Input) -> tuple[list[Effect], list[Input]]:
        """What is to be done, and what other machines should know."""
        if isinstance(happened, Started | TimerFired) and happened.wall:
            self._since = self.traces.offset = happened.wall - now
        if isinstance(happened, TimerFired) and isinstance(happened.timer, TracesDue):
            self._telling = False
            if self.traces.is_due(now):
                self._tell(now)
            happened = TurnEnded()
        elif isinstance(happened, StopRequested) and not self._concluded:
            self._tell_last(now)
        return self._sort(self.client.step(now, happened))

    def conclude(self, now: int) -> tuple[list[Effect], list[Input]]:
        """Tell what was traced, and that this was all; the link stays until somebody wants us to stop."""
        self._tell_last(now)
        return self._sort(self.client.step(now, TurnEnded()))

    def _tell(self, now: int) -> None:
        """Publish what was traced, as one batch."""
        if self.traces.rows and self.linked:
            sender = publisher_id(self._principal, self._name)
            self._traces.send(now, self._since, sender, self.traces.take(now), self.client.publisher)

    def _tell_last(self, now: int) -> None:
        self._concluded = True
        if self.traces.rows or self.traces.told:
            self.traces.conclude(now)
            self._tell(now)

    @property
    def untold(self) -> bool:
        """Whether something was traced, and nothing will make us tell it yet."""
        return bool(self.traces.rows) and not self._telling

    @property
    def has_waiting(self) -> bool:
        """Whether something leaves with the next `send`, whatever that is about."""
        return bool(self._pending) or self.untold

    def _trace(self, now: int) -> list[Effect]:
        """See to it that what was traced is told soon."""
        if len(self.traces.rows) >= _MOST_TRACES:
            self._tell(now)
        if not self.untold:
            return []
        self._telling = True
        return [StartTimer(TracesDue(), now + SECOND)]

    def _sort(self, effects: list[Effect]) -> tuple[list[Effect], list[Input]]:
        done: list[Effect] = []
        told: list[Input] = []
        for effect in effects:
            match effect:
                case Deliver():
                    told += self._open(effect, done)
                case Connect():
                    self._principal = effect.principal
                    self._node = effect.node
                    self.linked = False
                    self.traces.switch(self.client.traces and self._traceable, self.client.sums)
                    if self.traces.on:
                        self._traces.send_again(self.client.publisher)
                    self._waiting = dict.fromkeys(self.client.subscriber.subscriptions)
                    done.append(effect)
                    told += self._open_if_heard()
                case ConfirmSubscription() | DenySubscription():
                    self._waiting.pop(effect.subscription, None)
                    done.append(effect)
                    if isinstance(effect, ConfirmSubscription) and effect.subscription in self._asked:
                        told.append(Listening(self._asked[effect.subscription]))
                    told += self._open_if_heard()
                case RefuseFlow():  # repositories tell us why
                    done.append(Report("debug", "publishing refused", {"reason": effect.reason}))
                case TellBundle():
                    told.append(Vouched(effect.topic, effect.members, effect.ended))
                case _:
                    done.append(effect)
        return done, told

    def _open_if_heard(self) -> list[Input]:
        """A link is of use once everything on it is heard."""
        if self._waiting or self.linked:
            return []
        self.linked = True
        return [LinkUp(self._principal, self._node)]

    def _open(self, deliver: Deliver, done: list[Effect]) -> list[Input]:
        inputs: list[Input] = []
        letters = deliver.subscription in self._letters
        blocks: list[Block] = []
        for data in deliver.data:
            for frame in frames(data):
                schema = self.client.schemas[schema_of(frame)]
                block = Block(frame, schema)
                if not letters:
                    blocks.append(block)
                    continue
                for body in block.bodies():
                    try:
                        found = letter.read(body)
                    except FrameError as error:
                        done.append(Report("warning", "a letter that cannot be read", {"reason": str(error)}))
                    else:
                        requester = requester_of(self.client.topics[block.topic])
                        inputs.append(LetterReceived(block.publisher, found.events, found.blocks, requester))
        if blocks:
            inputs.append(EventsReceived(blocks))
        return inputs

    def send(self, now: int, effects: Sequence[Effect]) -> tuple[list[Effect], list[Input]]:
        """Put on the link what machines want to be said; the rest of their effects is handed back."""
        rest = self._trace(now)
        for effect in effects:
            if isinstance(effect, Subscribe):
                self._asked[self.listen(now, effect.to, effect.where, effect.letters)] = effect.to
            elif isinstance(effect, Unsubscribe):
                self.ignore(now, effect.to)
        said = bool(self._pending)
        pending, self._pending = self._pending, []
        for effect in effects:
            if isinstance(effect, SendLetter):
                for blocks in letter.split(effect.blocks) if effect.blocks else ((),):
                    self.client.publish(effect.to, {}, letter.write(effect.events, blocks), 0)
                said = True
            elif isinstance(effect, Publish):
                self.client.publisher.forward(effect.to or self._topic, effect.block)
                said = True
            elif not isinstance(effect, Subscribe | Unsubscribe):
                rest.append(effect)
        if not said:
            return rest, []
        done, told = self._sort([*pending, *self.client.step(now, TurnEnded())])
        return [*rest, *done], told
