"""A scope of brokers that run nothing but its waves, over links that a test delivers one message at a time."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from tests.unit.protocols.message_ports import KeepingPort

from stentor.machine import SECOND, StartTimer, Step
from stentor.model.colours.colour import Colour
from stentor.model.colours.legality import illegalities
from stentor.model.colours.manifest import ManifestRow
from stentor.model.colours.plan import TopologyChange, TopologyPlan
from stentor.model.colours.wave_messages import WaveMessage
from stentor.model.colours.wave_timing import ColourSettings, timing_of
from stentor.model.message import Message
from stentor.protocols.colours.scope_colours import ScopeColours, WaveDue
from stentor.protocols.colours.scope_surroundings import ScopeSurroundings
from stentor.protocols.neighbours import Neighbour, Neighbours


class PaperMembers:
    """What a broker knows of the scope's members: its own row, and the manifests that it was shown."""

    def __init__(self, name: str, number: int) -> None:
        self.row = ManifestRow(
            unit=name,
            speaker=name,
            number=number,
            presence=number,
            presence_version=1,
            profile=0,
            profile_version=1,
            profile_maker=name,
            predicates=0,
        )
        self.shown: list[dict[str, ManifestRow]] = []
        self.gone: list[str] = []

    def own_row(self) -> ManifestRow | None:
        return self.row

    def compare(self, rows: Mapping[str, ManifestRow]) -> None:
        self.shown.append(dict(rows))

    def departed(self, rows: Mapping[str, ManifestRow]) -> list[str]:
        return [unit for unit in self.gone if unit in rows]


class PaperWork:
    """What a plan makes a broker do, as a test sees it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.wishes: tuple[TopologyChange, ...] = ()
        self.refused = ""  # to whom no link can come
        self.root_group: tuple[str, ...] | None = None
        self.lacks = ""  # what is still missing before the plan can be switched
        self.counts = (0, 0)  # parcels of the old colour: sent, arrived
        self.counts_first: deque[tuple[int, int]] = deque()  # what the next polls find, one after the other

    def announce(self, plan: TopologyPlan) -> None:
        self.done.append(f"announced {plan.number}")

    def prepare(self) -> None:
        self.done.append("prepared")

    def refusal(self, plan: TopologyPlan) -> str:
        return "no" if any(change.far == self.refused for change in plan.changes) else ""

    def complaint(self) -> str:
        return self.lacks

    def under_way(self, colour: Colour) -> tuple[int, int]:  # noqa: ARG002
        return self.counts_first.popleft() if self.counts_first else self.counts

    def switch(self) -> None:
        self.done.append("switched")

    def finish(self) -> None:
        self.done.append("finished")

    def withdraw(self) -> None:
        self.done.append("withdrawn")

    def requests(self) -> tuple[TopologyChange, ...]:
        return self.wishes

    def has_nearer_exits(self) -> bool:
        """There are no units here."""
        return False

    def rotate(self) -> None:
        """Nothing is hidden here."""

    def keep_to(self, plan: TopologyPlan | None) -> None:
        """Nothing is damaged here."""

    def conclude(self, plan: TopologyPlan, *, is_finished: bool) -> None:
        self.done.append(f"{'finished' if is_finished else 'undone'} {plan.number} at last")


class PaperScope:
    """Brokers by name, and what is under way between them. Time passes only if a test lets it."""

    def __init__(self, *names: str, settings: ColourSettings | None = None, roots: tuple[str, ...] = ()) -> None:
        settings = settings or ColourSettings(delay_max=0.05, height=4, degree=3, roots=roots)
        self.timing = timing_of(settings)
        self.now = SECOND
        self.steps: dict[str, Step] = {}
        self.members: dict[str, PaperMembers] = {}
        self.work: dict[str, PaperWork] = {}
        self.brokers: dict[str, ScopeColours] = {}
        self.under_way: deque[tuple[str, str, Message]] = deque()  # from whom, to whom
        self.said: list[tuple[str, str, Message]] = []
        self.timers: dict[str, int] = {}
        self.dialled: list[tuple[str, str]] = []  # by whom, and where
        self.loses: Callable[[str, str, Message], bool] = lambda *_: False  # whether links lose what is said
        self._neighbours: dict[str, Neighbours] = {}
        self.going: set[frozenset[str]] = set()  # links that a plan is about to take away
        for number, name in enumerate(names):
            self._add(name, number, settings.roots)

    def _add(self, name: str, number: int, roots: tuple[str, ...]) -> None:
        step = self.steps[name] = Step()
        step.now = self.now
        self.members[name] = PaperMembers(name, number)
        neighbours = self._neighbours[name] = Neighbours()
        around = ScopeSurroundings(
            "", 0, f"at {name}", neighbours, partial(self._is_going, name), partial(self._dial, name), step
        )
        self.work[name] = PaperWork()
        self.brokers[name] = ScopeColours(around, name, roots, self.timing, self.members[name], self.work[name])

    def _is_going(self, name: str, neighbour: str) -> bool:
        return frozenset((name, neighbour)) in self.going

    def _dial(self, name: str, address: str) -> None:
        self.dialled.append((name, address))

    def __getitem__(self, name: str) -> ScopeColours:
        return self.brokers[name]

    # ---- links

    def link(self, one: str, other: str) -> None:
        for near, far in ((one, other), (other, one)):
            port = KeepingPort(far, partial(self._send, near))
            self._neighbours[near][far] = Neighbour(far, 0, far, 1000, port)
        for near, far in ((one, other), (other, one)):
            self._do(near, partial(self.brokers[near].link_up, far))

    def cut(self, one: str, other: str) -> None:
        """A link is lost, with what is under way on it."""
        self.under_way = deque(each for each in self.under_way if {each[0], each[1]} != {one, other})
        for near, far in ((one, other), (other, one)):
            del self._neighbours[near][far]
            self._do(near, partial(self.brokers[near].link_down, far))

    def isolate(self, name: str) -> None:
        """A broker is gone."""
        for other in list(self._neighbours[name]):
            self.cut(name, other)

    def _send(self, sender: str, to: str, message: Message) -> None:
        if not self.loses(sender, to, message):
            self.under_way.append((sender, to, message))
        self.said.append((sender, to, message))

    def _do(self, name: str, action: Callable[[], None]) -> None:
        step = self.steps[name]
        step.now = self.now
        action()
        for effect in step.end():
            if isinstance(effect, StartTimer) and isinstance(effect.timer, WaveDue):
                self.timers[name] = effect.at

    # ---- what happens

    def request(self, name: str, plan: TopologyPlan) -> str:
        """An operator asks a broker for a plan; return why it does not take it, "" if it does."""
        return self._ask(name, lambda: self.brokers[name].request(plan))

    def abort(self, name: str, number: int) -> str:
        """An operator asks a broker to take a plan back; return why it does not, "" if it does."""
        return self._ask(name, lambda: self.brokers[name].planning.abort(number))

    def hand_over(self, name: str) -> str:
        """An operator asks a broker to be the root no more; return why it is, "" if it is not."""
        return self._ask(name, self.brokers[name].hand_over)

    def seek_place(self, name: str) -> None:
        """A broker looks whether there is a better place for it, as it does when it has heard of a plan."""
        self._do(name, self.brokers[name].seek_place)

    def _ask(self, name: str, question: Callable[[], str]) -> str:
        answers: list[str] = []
        self._do(name, lambda: answers.append(question()))
        return answers[0]

    def deliver(self) -> None:
        """Everything that is under way arrives, and whatever is said to it."""
        while self.under_way:
            sender, to, message = self.under_way.popleft()
            self.hear(sender, to, message)  # type: ignore[arg-type]

    def hear(self, sender: str, to: str, message: WaveMessage) -> None:
        """A broker receives a message, whoever really sent it."""
        self._do(to, lambda: self.brokers[to].hear(sender, message))

    def drop(self) -> None:
        """Everything that is under way is lost."""
        self.under_way.clear()

    def pass_time(self, seconds: float) -> None:
        """Timers fire when they are due, and messages arrive at once."""
        until = self.now + int(seconds * SECOND)
        self.deliver()
        while self.timers and min(self.timers.values()) <= until:
            name = min(self.timers, key=lambda each: self.timers[each])
            self.now = max(self.now, self.timers.pop(name))
            self._do(name, self.brokers[name].on_due)
            self.deliver()
        self.now = until

    def settle(self, seconds: float | None = None) -> None:
        self.pass_time(self.timing.bound(1) if seconds is None else seconds)

    def wrong(self, *names: str) -> list[str]:
        """What is wrong with the tree of these brokers, or of all."""
        return illegalities({name: self.brokers[name].tree.view() for name in names or self.brokers})

    def rounds(self) -> set[int]:
        return {broker.tree.round for broker in self.brokers.values()}

    def take_said(self, kind: type[Message]) -> list[tuple[str, str, Message]]:
        """Return who said such a message to whom since the last time."""
        found = [each for each in self.said if isinstance(each[2], kind)]
        self.said.clear()
        return found


def chain() -> PaperScope:
    """A is the root, B its child and C the child of B."""
    scope = PaperScope("A", "B", "C")
    scope.link("A", "B")
    scope.deliver()
    scope.link("B", "C")
    scope.settle()
    return scope
