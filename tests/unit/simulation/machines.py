"""Small machines to try the world with."""

from stentor.machine import (
    MILLISECOND,
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
    Send,
    Serve,
    Started,
    StartTimer,
    Stop,
    Timer,
    TimerFired,
)
from stentor.model.ids import LinkId


class Alarm(Timer, frozen=True, gc=False, tag="alarm"):
    """A timer that only has a name."""

    name: str


class Recorder:
    """Notes what it is told and when; answers a kind of input with effects."""

    def __init__(self, **answers: list[Effect]) -> None:
        self.answers = answers
        self.told: list[tuple[int, Input]] = []

    def step(self, now: int, happened: Input) -> list[Effect]:
        self.told.append((now, happened))
        return self.answers.get(type(happened).__name__, [])

    @property
    def inputs(self) -> list[Input]:
        return [happened for _, happened in self.told]


class Echo:
    """Serves, and sends back what it hears."""

    def __init__(self) -> None:
        self.heard = b""
        self.opened = 0

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        match happened:
            case Started():
                return [Serve()]
            case LinkOpened():
                self.opened += 1
            case Received():
                self.heard += happened.data
                return [Send(happened.link, [happened.data])]
        return []


class Caller:
    """Dials an address, sends numbers, and dials again when the link is lost."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.links = self.sent = 0
        self.losses: list[str] = []
        self.heard = b""
        self.link: LinkId | None = None

    def step(self, now: int, happened: Input) -> list[Effect]:
        match happened:
            case Started() | TimerFired(Alarm("dial")):
                self.links += 1
                return [Dial(LinkId(self.links), self.address)]
            case LinkOpened():
                self.link = happened.link
                return [StartTimer(Alarm("send"), now)]
            case LinkLost():
                self.losses.append(happened.reason)
                self.link = None
                return [StartTimer(Alarm("dial"), now + SECOND // 10)]
            case TimerFired(Alarm("send")) if self.link is not None:
                self.sent += 1
                return [Send(self.link, [b"%06d" % self.sent]), StartTimer(Alarm("send"), now + 10 * MILLISECOND)]
            case Received():
                self.heard += happened.data
        return []


class Counter:
    """Appends the next number as soon as the one before is durable."""

    def __init__(self) -> None:
        self.durable = 0

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        match happened:
            case Started():
                numbers = [int(record) for record in happened.records.get("numbers", [])]
                assert numbers == list(range(1, len(numbers) + 1)), "no gaps, no repetition, in order"
                self.durable = len(numbers)
            case Appended():
                self.durable = happened.token
            case AppendFailed():
                return [Stop(happened.reason)]
        following = self.durable + 1
        return [Append("numbers", following, [b"%d" % following])]
