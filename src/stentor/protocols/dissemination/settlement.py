"""Settlement: a client is told when every broker that can be reached knows what it asked its broker for.

The broker adds a *mark* to its profile: an entry that nobody else has, so that no summary swallows it. Whatever was
subscribed before the mark is told with it or earlier, so a broker that has the mark among the entries of a unit that
it sees knows all of that, or what covers it. Each such broker sends a receipt, with its neighbours, by the way that
events would take from it. Everybody knows when each broker that was named has answered. Receipts get lost with links,
and neighbours change; so a mark that is not answered by all before long is replaced by another one.

A client that is about to leave a broker asks for more: that what was under way to it has come. Receipts of its mark
leave behind the events that wait on each link, and name the exits that parcels name, so they come after all that was
sent before. A broker that holds events back for a plan answers when they have left.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from stentor.machine import SECOND, StartTimer, Step, Timer
from stentor.model.context import Context
from stentor.model.errors import FrameError, InvalidInput, Refusal
from stentor.model.messages import MARKS, MarkReceipt, SettlementReport, SettlementRequest
from stentor.model.routing_state import ExitNumbers
from stentor.model.scope import ScopePath
from stentor.model.topic import LONGEST_TOPIC
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.neighbours import MessagePort, Neighbours
from stentor.wire.parcel import MOST_HOPS

_LONGEST_WAIT = 60 * SECOND  # as long as somebody waits, marks come and go in the profiles of all brokers
_MOST_WAITING = 10_000  # requests on one link: each takes memory until it is answered
_LONGEST_NAME = LONGEST_TOPIC - 64  # of a broker: a mark is a topic that ends with it
_MOST_NAMED = 1000  # brokers in a report: more do not help anybody, and must fit into a frame
_DRAINED = "d"  # before the number of a mark whose receipts come behind events
_MOST_BEATS = 4  # that a mark is given: a round trip through a network takes less than the first one


class SettlementDue(Timer, frozen=True, gc=False, tag="settlement"):
    """Somebody has waited as long as it wanted for brokers to confirm."""


class _Request(NamedTuple):
    """A client that waits for a report."""

    client: MessagePort
    token: int
    deadline: int
    drained: bool


class Settlement:
    """The marks of one broker, and its answers to those of others. `towards` finds the neighbour that is next on the
    way of events to a unit, "" for none, and the exits that they name then; it is told those that they have named.
    `holds_events` tells whether a plan has events wait here.
    """

    def __init__(
        self,
        context: Context,
        profiles: Profiles,
        neighbours: Neighbours,
        towards: Callable[[str, ExitNumbers], tuple[str, ExitNumbers]],
        holds_events: Callable[[], bool],
        step: Step,
    ) -> None:
        self._context = context
        self._profiles = profiles
        self._neighbours = neighbours
        self._towards = towards
        self._holds_events = holds_events
        self._step = step
        self.boot = 0
        self._number = 0  # counts our marks
        self._mark = ""  # Invariant: it is in our profile, unless it is "".
        self._asking: list[_Request] = []  # those for whom it was set. Invariant: none without a mark.
        self._queued: list[_Request] = []  # those who came later, and are for the next mark
        self._waiting: Counter[MessagePort] = Counter()  # Invariant: how many of both each client has.
        self._receipts: dict[str, tuple[str, ...]] = {}  # brokers that know our mark, and their neighbours
        self._beats = 0  # since the mark was set
        self._patience = 1  # beats that a mark is given
        self._alarm: int | None = None  # when the timer fires. Invariant: not after the first deadline.
        self._is_restless = False  # something is to be looked at, at the end of this step
        self._unanswered: list[str] = []  # marks of others that are answered when nothing is held

    @property
    def is_idle(self) -> bool:
        return not (self._mark or self._queued or self._unanswered or self._profiles.has_marks)

    # ---- clients

    def ask(self, client: MessagePort, asked: SettlementRequest) -> None:
        """A client wants to know when what it asked for so far is known everywhere."""
        if self._waiting[client] >= _MOST_WAITING:
            raise FrameError(Refusal.TOO_MANY, f"{_MOST_WAITING:,} questions of one client wait for the network")
        if len(self._context.name) > _LONGEST_NAME:
            raise FrameError(Refusal.TOPIC, "this broker's name is too long for a mark: it cannot ask the others")
        self._waiting[client] += 1
        deadline = self._step.now + min(int(asked.within * SECOND), _LONGEST_WAIT)
        self._queued.append(_Request(client, asked.token, deadline, asked.drained))
        self._is_restless = True
        if self._alarm is None or deadline < self._alarm:
            self._arm(deadline)

    def forget(self, client: MessagePort) -> None:
        """A client is gone."""
        if self._waiting.pop(client, 0):
            self._asking = [each for each in self._asking if each.client is not client]
            self._queued = [each for each in self._queued if each.client is not client]

    def expire(self) -> None:
        """Tell those whose time is over who is silent; nobody has answered those who wait for the next mark."""
        known, silent = self._take_roll()
        for requests, brokers, names in ((self._asking, known, silent), (self._queued, 1, sorted(self._neighbours))):
            for each in [each for each in requests if each.deadline <= self._step.now]:
                requests.remove(each)
                self._report(each, brokers, names)
        self._alarm = None
        if self._asking or self._queued:
            self._arm(min(each.deadline for each in (*self._asking, *self._queued)))

    def _arm(self, at: int) -> None:
        self._alarm = at
        self._step.emit(StartTimer(SettlementDue(), at))

    def _report(self, request: _Request, brokers: int, silent: Sequence[str] = ()) -> None:
        self._waiting[request.client] -= 1
        if not self._waiting[request.client]:
            del self._waiting[request.client]
        request.client.post(SettlementReport(request.token, brokers, tuple(silent[:_MOST_NAMED])))

    # ---- other brokers

    def hear(self, receipt: MarkReceipt) -> None:
        """A neighbour says, or passes on, that a broker knows a mark."""
        if _owner_of(receipt.mark) != self._context.name:
            self._pass_on(msgspec.structs.replace(receipt, hops=receipt.hops + 1))
        elif receipt.mark == self._mark:
            self._receipts[receipt.broker] = receipt.neighbours
            self._is_restless = True

    def _pass_on(self, receipt: MarkReceipt) -> None:
        """Send a receipt on its way. One that has none is lost: its mark is replaced before long, and answered anew."""
        try:
            _, unit = self._context.view(ScopePath.parse(_owner_of(receipt.mark)))
        except InvalidInput:  # no broker of this network
            return
        neighbour, exits = self._towards(unit, receipt.exits)
        if neighbour and receipt.hops < MOST_HOPS:
            say = self._neighbours.say_behind if _is_drained(receipt.mark) else self._neighbours.say
            say(neighbour, msgspec.structs.replace(receipt, exits=exits))

    # ---- time, and the end of a step

    def beat(self) -> None:
        """Give up a mark that was not answered by all in time: who waited for it waits for the next one."""
        self._beats += 1
        self._is_restless = True
        if self._mark and self._beats > self._patience:
            self._patience = min(2 * self._patience, _MOST_BEATS)
            self._queued = self._asking + self._queued
            self._remove_mark()

    def end_step(self, *, is_told: bool) -> None:
        """Look at what this step brought; `is_told` is whether our profile holds all that our clients want."""
        if self._unanswered and not self._holds_events():
            self._answer(self._unanswered)
            self._unanswered = []
        if not self._is_restless and not self._profiles.has_marks:
            return
        self._is_restless = not is_told
        self._look()
        if self._queued and not self._mark and is_told:
            self._set_mark()
            self._look()
        marks = self._profiles.take_marks()
        if self._holds_events():
            late = [mark for mark in marks if _is_drained(mark)]
            self._unanswered = (self._unanswered + late)[-_MOST_NAMED:]
            marks = [mark for mark in marks if mark not in late]
        self._answer(marks)

    def _answer(self, marks: Iterable[str]) -> None:
        """Say that we know marks of others."""
        neighbours = tuple(sorted(self._neighbours))
        for mark in marks:
            self._pass_on(MarkReceipt(mark=mark, broker=self._context.name, neighbours=neighbours))

    def _look(self) -> None:
        """Conclude if everybody knows our mark."""
        if not self._mark:
            return
        known, silent = self._take_roll()
        if not silent:
            for each in self._asking:
                self._report(each, known)
            self._patience = 1
            self._remove_mark()

    def _set_mark(self) -> None:
        self._asking, self._queued = self._queued, []
        self._number += 1
        kind = _DRAINED if any(each.drained for each in self._asking) else ""
        self._mark = f"{MARKS}{self.boot}/{kind}{self._number}/{self._context.name}"
        self._receipts = {}
        self._beats = 0
        self._profiles.subscribe(self._mark, None)

    def _remove_mark(self) -> None:
        self._profiles.unsubscribe(self._mark, None)
        self._mark = ""
        self._asking = []
        self._receipts = {}

    def _take_roll(self) -> tuple[int, list[str]]:
        """Return how many brokers know our mark, and who does not: named as a neighbour, by us or by one who does."""
        named, silent = {self._context.name}, []
        fresh = list(self._neighbours)
        while fresh:
            broker = fresh.pop()
            if broker not in named:
                named.add(broker)
                fresh += self._receipts.get(broker, ())
                if broker not in self._receipts:
                    silent.append(broker)
        return len(named) - len(silent), sorted(silent)


def _is_drained(mark: str) -> bool:
    """Return whether receipts of a mark come behind events."""
    number = mark.removeprefix(MARKS).partition("/")[2]
    return number.startswith(_DRAINED)


def _owner_of(mark: str) -> str:
    """Return the name of the broker that set a mark; "" if it is none."""
    parts = mark.removeprefix(MARKS).split("/", 2)
    return parts[2] if mark.startswith(MARKS) and len(parts) == 3 else ""
