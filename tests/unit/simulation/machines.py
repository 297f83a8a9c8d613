"""Small machines to try the world with."""

from stentor.machine import (
    MILLISECOND,
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
    TimerFired,
)
from stentor.model.ids import LinkId


class Recorder:
    """Notes what it is told and when, and does what `script` says for a type of input."""

    def __init__(self, script: dict[type[Input], list[Effect]] | None = None) -> None:
        self.script = script or {}
        self.told: list[tuple[int, Input]] = []

    def step(self, now: int, happened: Input) -> list[Effect]:
        self.told.append((now, happened))
        return self.script.get(type(happened), [])

    def of(self, kind: type[Input]) -> list[Input]:
        return [happened for _, happened in self.told if type(happened) is kind]


class Echo:
    """Serves, and sends back what it hears."""

    def __init__(self) -> None:
        self.heard = b""

    def step(self, now: int, happened: Input) -> list[Effect]:
        match happened:
            case Started():
                return [Serve()]
            case Received():
                self.heard += happened.data
                return [Send(happened.link, [happened.data])]
        return []


class Caller:
    """Dials an address, sends a number a time, and dials again when the link is lost."""

    def __init__(self, address: str, pause: int = 10 * MILLISECOND) -> None:
        self.address, self.pause = address, pause
        self.links = self.sent = self.losses = 0
        self.heard = b""
        self.link: LinkId | None = None

    def step(self, now: int, happened: Input) -> list[Effect]:
        match happened:
            case Started():
                return self._dial()
            case LinkOpened():
                self.link = happened.link
                return [StartTimer("send", now + self.pause)]
            case LinkLost():
                self.losses += 1
                self.link = None
                return [StartTimer("dial", now + self.pause)]
            case TimerFired("dial"):
                return self._dial()
            case TimerFired("send") if self.link is not None:
                self.sent += 1
                return [Send(self.link, [b"%06d" % self.sent]), StartTimer("send", now + self.pause)]
            case Received():
                self.heard += happened.data
        return []

    def _dial(self) -> list[Effect]:
        self.links += 1
        return [Dial(LinkId(self.links), self.address)]


class Counter:
    """Appends a number as soon as the one before is durable; `durable` is the last of them."""

    def __init__(self) -> None:
        self.recovered = self.durable = 0

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        match happened:
            case Started():
                numbers = [int(record) for record in happened.records.get("numbers", [])]
                assert numbers == list(range(1, len(numbers) + 1)), "no gaps, no repetition, in order"
                self.recovered = self.durable = len(numbers)
                return [self._append()]
            case Appended():
                assert happened.token == self.durable + 1
                self.durable += 1
                return [self._append()]
            case AppendFailed():
                return [Stop(happened.reason)]
        return []

    def _append(self) -> Append:
        return Append("numbers", self.durable + 1, [b"%d" % (self.durable + 1)])
