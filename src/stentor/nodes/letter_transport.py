"""Letter transport: how machines of reliable delivery speak over a link: through a client, on communication topics."""

from collections.abc import Sequence

from stentor.machine import SECOND, Effect, Input, Started, StartTimer, Step, StopRequested, Timer, TimerFired
from stentor.model.communication import bundle_of
from stentor.model.control import ControlEvent, RepositoryNak, Retransmission
from stentor.model.errors import FrameError
from stentor.model.ids import SubscriptionId, publisher_id
from stentor.model.reports.trace import TRACE
from stentor.model.trust.access_messages import AccessFacts, AccessReceipt
from stentor.model.trust.request_topic import requester_of
from stentor.nodes.client import Client, Settings
from stentor.nodes.client_api import (
    AnswerQuery,
    Asked,
    BundleWatched,
    CompleteFlush,
    ConfirmSubscription,
    Connect,
    Deliver,
    DenySubscription,
    Disconnect,
    Refuse,
    RefuseFlow,
    SubscribeRequested,
    TellBundle,
    TurnEnded,
    UnsubscribeRequested,
)
from stentor.nodes.client_link import ClientTimer
from stentor.nodes.trace_publisher import TracePublisher
from stentor.protocols.delivery.trace_buffer import TraceBuffer
from stentor.protocols.delivery.transport import (
    AccessShared,
    EventsReceived,
    Greeted,
    LetterReceived,
    LinkDown,
    LinkUp,
    Listening,
    NameRefused,
    Publish,
    SendLetter,
    ShareAccess,
    Subscribe,
    Unsubscribe,
    Vouched,
)
from stentor.wire import letter

_MOST_TRACES = 4096  # that wait until they are told


class TracesDue(Timer, frozen=True, gc=False, tag="traces"):
    """What was traced has waited long enough to be published."""


class LetterTransport:
    """The part of a node that speaks for its machines: a client whose deliveries they are told, and which says what
    they want to be said.

    Whatever is to be done it emits into the node's step. Its methods return what the machines must be told then.
    """

    def __init__(self, settings: Settings, step: Step, topic: str = "") -> None:
        """`topic` is that of the events which are published as they are."""
        self._topic = topic
        self._name = settings.name
        self._step = step
        self._traceable = not topic.startswith("$")  # who reads traces must not bring about new ones
        self.traces = TraceBuffer(self._traceable)  # what our machines trace
        self._traces = TracePublisher(settings.name, settings.incarnation)
        self._telling = False  # whether a timer is set for that
        self._concluded = False  # whether we have said that nothing more will be traced
        self._has_answered = False  # traces that a repository asked for have not left yet
        self._since = 0  # how far clocks on walls are ahead of ours
        self.client = Client(settings)
        self._letters: set[SubscriptionId] = set()
        self._heard: dict[str, SubscriptionId] = {}  # by pattern
        self._asked: dict[SubscriptionId, str] = {}  # patterns that machines asked for
        self._numbers = 0
        self._waiting: dict[SubscriptionId, None] = {}  # subscriptions that are not in force on this link
        self._pending: list[Effect] = []  # of the client, which leave with what is said next
        self._shared: dict[int, tuple[str, int]] = {}  # told to the broker: of which topic, and the token there
        self._shares = 0
        self._principal = self._node = ""
        self.linked = False

    def listen(self, pattern: str, where: str = "", letters: bool = True) -> SubscriptionId:
        """Hear what is said on a topic: letters, or events as they are."""
        self._numbers += 1
        subscription = SubscriptionId(self._numbers)
        if letters:
            self._letters.add(subscription)
        self._heard[pattern] = subscription
        self._waiting[subscription] = None
        self._tell_client(SubscribeRequested(subscription, pattern, where, eager=True))
        return subscription

    def hears(self, pattern: str) -> bool:
        return pattern in self._heard

    def ignore(self, pattern: str) -> None:
        """Hear no more of it; nothing if it is not heard."""
        subscription = self._heard.pop(pattern, None)
        if subscription is None:
            return
        self._letters.discard(subscription)
        self._asked.pop(subscription, None)
        self._waiting.pop(subscription, None)
        self._tell_client(UnsubscribeRequested(subscription))

    def watch_bundle(self, topic: str) -> None:
        """Hear which repositories manage a topic."""
        self._tell_client(BundleWatched(topic))

    def share(self, share: ShareAccess) -> None:
        """Tell the broker who may do what on a topic; an AccessShared follows, unless the link is lost before."""
        self._shares += 1
        self._shared[self._shares] = share.topic, share.token
        self._tell_client(Asked(AccessFacts(topic=share.topic, facts=share.facts, token=self._shares)))

    def forget_shares(self, topic: str) -> None:
        """Nobody waits any more for what was shared about a topic."""
        self._shared = {number: share for number, share in self._shared.items() if share[0] != topic}

    def _tell_client(self, happened: Input) -> None:
        self._pending += self.client.step(self._step.now, happened)

    def wall(self) -> int:
        """Return what clocks on walls say now, in nanoseconds since 1970."""
        return self._since + self._step.now

    def is_mine(self, happened: Input) -> bool:
        """Whether an input is about the link."""
        return not isinstance(happened, TimerFired) or isinstance(happened.timer, ClientTimer | TracesDue)

    def handle(self, happened: Input) -> list[Input]:
        """Something happened to the link, or one of its timers fired: return what machines should know."""
        if isinstance(happened, Started | TimerFired) and happened.wall:
            self._since = self.traces.offset = happened.wall - self._step.now
        if isinstance(happened, TimerFired) and isinstance(happened.timer, TracesDue):
            self._telling = False
            if self.traces.is_due(self._step.now):
                self._tell()
            happened = TurnEnded()
        elif isinstance(happened, StopRequested) and not self._concluded:
            self._tell_last()
        told = self._sort(self.client.step(self._step.now, happened))
        if self._has_answered:
            self._has_answered = False
            told += self._sort(self.client.step(self._step.now, TurnEnded()))
        return told

    def conclude(self) -> list[Input]:
        """Tell what was traced, and that this was all; the link stays until somebody wants us to stop."""
        self._tell_last()
        return self._sort(self.client.step(self._step.now, TurnEnded()))

    def _tell(self) -> None:
        """Publish what was traced, as one batch."""
        if self.traces.rows and self.linked:
            sender = publisher_id(self._principal, self._name)
            now = self._step.now
            self._traces.send(now, self._since, sender, self.traces.take(now), self.client.publisher)

    def _tell_last(self) -> None:
        self._concluded = True
        if self.traces.rows or self.traces.told:
            self.traces.conclude(self._step.now)
            self._tell()

    @property
    def untold(self) -> bool:
        """Whether something was traced, and nothing will make us tell it yet."""
        return bool(self.traces.rows) and not self._telling

    @property
    def has_waiting(self) -> bool:
        """Whether something leaves with the next `send`, whatever that is about."""
        return bool(self._pending) or self.untold

    def _sort(self, effects: list[Effect]) -> list[Input]:
        """Emit what the client wants to be done; return what that means to machines."""
        told: list[Input] = []
        for effect in effects:
            match effect:
                case Deliver():
                    told += self._open(effect)
                    continue
                case Connect():
                    told.append(self._greet(effect))
                    told += self._open_if_heard()
                    continue
                case Disconnect():
                    self.linked = False  # what is traced from now on waits behind what the next link gets again
                    told.append(LinkDown(effect.reason))
                    continue
                case Refuse():
                    told.append(NameRefused(effect.code, effect.reason))
                    continue
                case ConfirmSubscription() | DenySubscription():
                    self._waiting.pop(effect.subscription, None)
                    if isinstance(effect, ConfirmSubscription) and effect.subscription in self._asked:
                        told.append(Listening(self._asked[effect.subscription]))
                    told += self._open_if_heard()
                case RefuseFlow():  # repositories tell us why
                    self._step.report("debug", "publishing refused", reason=effect.reason)
                    continue
                case TellBundle():
                    told.append(Vouched(effect.topic, effect.members, effect.ended))
                    continue
                case CompleteFlush() if effect.token in self._shared:
                    del self._shared[effect.token]  # all is told again on the next link
                    continue
                case AnswerQuery(answer=AccessReceipt() as receipt):
                    if share := self._shared.pop(receipt.token, None):
                        told.append(AccessShared(*share))
                    continue
            self._step.emit(effect)
        return told

    def _greet(self, connect: Connect) -> Greeted:
        """A broker has let us in: what was heard is asked for, and in force one by one."""
        self._principal = connect.principal
        self._node = connect.node
        self.linked = False
        self.traces.switch(self.client.traces and self._traceable, self.client.sums)
        if self.traces.on:
            self._traces.send_again(self.client.publisher)
        self._waiting = dict.fromkeys(self.client.subscriber.subscriptions)
        return Greeted(connect.node, connect.principal)

    def _open_if_heard(self) -> list[Input]:
        """A link is of use once everything on it is heard."""
        if self._waiting or self.linked:
            return []
        self.linked = True
        return [LinkUp(self._principal, self._node)]

    def _open(self, deliver: Deliver) -> list[Input]:
        """Return the letters, or the events as they are, that were delivered."""
        if deliver.subscription not in self._letters:
            return [EventsReceived(deliver.blocks)]
        inputs: list[Input] = []
        for block in deliver.blocks:
            for body in block.bodies():
                try:
                    found = letter.read(body)
                except FrameError as error:
                    self._step.report("warning", "a letter that cannot be read", reason=str(error))
                else:
                    requester = requester_of(self.client.topics[block.topic])
                    events = self._answer(found.events)
                    if events or not found.events:
                        inputs.append(LetterReceived(block.publisher, events, found.blocks, requester))
        return inputs

    def _answer(self, events: Sequence[ControlEvent]) -> Sequence[ControlEvent]:
        """Send traces again that a repository misses; return what was said to machines."""
        naks = [each for each in events if isinstance(each, RepositoryNak) and each.topic.startswith(f"{TRACE}/")]
        if not naks:
            return events
        for nak in naks:
            for blocks in letter.split(self._traces.answer(self._step.now, nak)):
                again = letter.write((Retransmission(nak.topic, self._name),), blocks)
                self.client.publish(bundle_of(nak.topic), {}, again, 0)
                self._has_answered = True
        return [each for each in events if each not in naks]

    def send(self, effects: Sequence[Effect] = ()) -> list[Input]:
        """Put on the link what machines want to be said, and emit the rest of their effects. Nothing is emitted before
        all of it can be said, but for the timer of traces.
        """
        self._trace()
        if not effects and not self._pending:
            return []
        for effect in effects:
            if isinstance(effect, Subscribe):
                self._asked[self.listen(effect.to, effect.where, effect.letters)] = effect.to
            elif isinstance(effect, Unsubscribe):
                self.ignore(effect.to)
        said = bool(self._pending)
        pending, self._pending = self._pending, []
        rest: list[Effect] = []
        for effect in effects:
            match effect:
                case SendLetter():
                    for blocks in letter.split(effect.blocks) if effect.blocks else ((),):
                        self.client.publish(effect.to, {}, letter.write(effect.events, blocks), 0)
                    said = True
                case Publish():
                    self.client.publisher.forward(effect.to or self._topic, effect.block)
                    said = True
                case Subscribe() | Unsubscribe() | ShareAccess():
                    pass  # done above, or below
                case _:
                    rest.append(effect)
        for effect in rest:
            self._step.emit(effect)
        told = self._sort([*pending, *self.client.step(self._step.now, TurnEnded())]) if said else []
        for effect in effects:
            if isinstance(effect, ShareAccess):
                self.share(effect)
        return told

    def _trace(self) -> None:
        """See to it that what was traced is told soon."""
        if len(self.traces.rows) >= _MOST_TRACES:
            self._tell()
        if self.untold:
            self._telling = True
            self._step.emit(StartTimer(TracesDue(), self._step.now + SECOND))
