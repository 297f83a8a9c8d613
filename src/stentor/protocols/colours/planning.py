"""Planning, at the root of a scope: one plan after the other is announced, prepared, switched, drained and finished.

A plan is switched when all brokers are prepared, and finished when all have switched and nothing is under way by the
topology before it: two polls in a row have found the same sums, and as much arrived as was sent. One poll could be
fooled by what was sent after one broker had answered and came before another did. Every wait has an end: before the
switch the plan is undone, after it what is in doubt is counted and told.
"""

from collections import deque

from stentor.machine import MILLISECOND, SECOND
from stentor.model.colours.plan import PHASE_TRANSITIONS, PlanPhase, PlanStage, PlanView, TopologyChange, TopologyPlan
from stentor.model.colours.plan_messages import Go, PlanAnswer, Poll
from stentor.model.colours.wave_timing import WaveTiming
from stentor.model.ids import fingerprint
from stentor.protocols.colours.announced_plan import AnnouncedPlan
from stentor.protocols.colours.plan_poll import PlanPoll
from stentor.protocols.colours.scope_surroundings import ScopeSurroundings
from stentor.protocols.colours.wave import Wave

_MOST_REMEMBERED = 32  # plans that have ended
MOST_WAITING = 64
_FIRST_PAUSE_NS = 5 * MILLISECOND  # from one poll to the next
_LONGEST_PAUSE_NS = 250 * MILLISECOND
_LAST_TURN = 2**32 - 1
_UNDER_WAY = (PlanPhase.ANNOUNCING, PlanPhase.PREPARING, PlanPhase.SWITCHING, PlanPhase.DRAINING)
_ROUNDS_TO_GATHER = 2  # after which a new root knows who is in the scope: the first wave comes before they rejoin


class _RunningPlan:
    """A plan that the root carries out."""

    __slots__ = (
        "began_at",
        "brokers",
        "last_sums",
        "next_at",
        "pause_ns",
        "phase",
        "phase_at",
        "plan",
        "prepared",
        "reason",
        "switched_at",
    )

    def __init__(self, plan: TopologyPlan, phase: PlanPhase, now: int) -> None:
        self.plan = plan
        self.phase = phase
        self.began_at = now
        self.phase_at = now  # when its phase began
        self.switched_at = now if phase is PlanPhase.DRAINING else None  # when events began to be held, if they are
        self.next_at = now  # when the next poll is due
        self.pause_ns = _FIRST_PAUSE_NS
        self.last_sums: tuple[int, int] | None = None  # what the last poll found, if all had answered
        self.brokers = self.prepared = 0
        self.reason = ""

    def clamp(self, now: int) -> None:
        """Take out what cannot be: times that lie ahead would hold the plan up."""
        self.began_at = min(self.began_at, now)
        self.phase_at = min(self.phase_at, now)
        self.switched_at = None if self.switched_at is None else min(self.switched_at, now)
        self.next_at = min(self.next_at, now + _LONGEST_PAUSE_NS)
        self.pause_ns = min(max(self.pause_ns, _FIRST_PAUSE_NS), _LONGEST_PAUSE_NS)

    def enter(self, phase: PlanPhase, now: int) -> None:
        assert phase in PHASE_TRANSITIONS[self.phase], f"a plan that is {self.phase.value} cannot be {phase.value}"
        self.phase = phase
        self.phase_at = self.next_at = now
        if phase is PlanPhase.SWITCHING:
            self.switched_at = now
        self.pause_ns = _FIRST_PAUSE_NS
        self.last_sums = None
        self.reason = ""

    def view(self, now: int, in_doubt: int = 0) -> PlanView:
        return PlanView(
            number=self.plan.number,
            phase=self.phase,
            changes=self.plan.size,
            brokers=self.brokers,
            prepared=self.prepared,
            in_doubt=in_doubt,
            seconds=(now - self.began_at) / SECOND,
            held=0.0 if self.switched_at is None else (now - self.switched_at) / SECOND,
            reason=self.reason,
        )


class Planning:
    """What one broker does for the plans of a scope as long as it is the scope's root."""

    def __init__(
        self,
        around: ScopeSurroundings,
        wave: Wave,
        announced: AnnouncedPlan,
        poll: PlanPoll,
        timing: WaveTiming,
    ) -> None:
        self._around = around
        self._wave = wave
        self._announced = announced
        self._poll = poll
        self._prepare_ns = int(timing.prepare_within * SECOND)
        self._drain_ns = int(timing.drain_within * SECOND)
        self._turn = 0
        self._running: _RunningPlan | None = None
        self._waiting: deque[TopologyPlan] = deque()
        self._ended: dict[int, PlanView] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a plan is under way: then no other wave begins."""
        return self._running is not None

    @property
    def next_at(self) -> int | None:
        """When something is to be done; None if that depends on others only."""
        running = self._running
        if running is None and (not self._waiting or self._is_gathering):
            return None
        if self._wave.is_running:
            return self._wave.deadline_at
        if running is None:
            return self._around.step.now
        return self._poll.deadline_at if self._poll.is_running else running.next_at

    @property
    def _is_gathering(self) -> bool:
        """Whether we may not know yet who is in the scope."""
        return any(self._around.inside()) and 0 <= self._wave.rounds_as_root < _ROUNDS_TO_GATHER

    # ---- requests

    def request(self, plan: TopologyPlan) -> str:
        """Take up a plan; return why not, "" if it is taken. The same plan again is no second one."""
        if plan.number in self._ended or self._is_known(plan.number):
            return ""
        if len(self._waiting) >= MOST_WAITING:
            return f"{len(self._waiting)} plans of this scope wait already"
        refusal = self._announced.refusal(plan)
        if not refusal:
            self._waiting.append(plan)
        return refusal

    def _is_known(self, number: int) -> bool:
        running = self._running
        return (running is not None and running.plan.number == number) or any(
            plan.number == number for plan in self._waiting
        )

    def abort(self, number: int) -> str:
        """Undo a plan that is not switched yet; return why not, "" if it is undone."""
        running = self._running
        if running is not None and running.plan.number == number:
            if running.phase not in (PlanPhase.ANNOUNCING, PlanPhase.PREPARING):
                return "the plan is switched already"
            self._undo(running, "an operator took it back")
            return ""
        waiting = [plan for plan in self._waiting if plan.number != number]
        if len(waiting) == len(self._waiting):
            return "there is no such plan"
        self._waiting = deque(waiting)
        return ""

    # ---- time

    def tick(self) -> None:
        """Do what is due, at the root."""
        now = self._around.step.now
        if self._running is None:
            self._begin(now)
        if self._running is not None and self._running.phase not in _UNDER_WAY:
            self._running = None  # damage: whatever was announced is taken up again
        running = self._running
        if running is None:
            return
        running.clamp(now)
        if running.phase is PlanPhase.SWITCHING:
            self._switching(running, now)
            return
        if self._poll.result is not None:
            result, self._poll.result = self._poll.result, None
            if (result.plan, result.turn) == (running.plan.number, self._turn):
                self._judge(running, result)
        if self._running is running and not self._poll.is_running and now >= running.next_at:
            self._ask(running)

    def resign(self) -> None:
        """This broker is the root no more: whoever is goes on with what was announced."""
        self._running = None
        self._waiting.clear()

    def _begin(self, now: int) -> None:
        """Go on with a plan that a former root has announced, or begin the next one."""
        announced = self._announced
        if self._is_gathering:
            return
        if any(self._around.inside()):  # alone we could only undo it
            announced.take_up_recalled()
        if announced.is_open and announced.plan is not None:
            is_switched = announced.stage is PlanStage.SWITCHED
            phase = PlanPhase.DRAINING if is_switched else PlanPhase.ANNOUNCING
            self._running = _RunningPlan(announced.plan, phase, now)
            return
        if self._wave.is_running:
            return
        if not self._waiting:
            self._take_up(self._wave.requests, self._wave.choosers, now)
        self._wave.requests = ()
        self._wave.choosers = ()
        if self._waiting:
            self._start(self._waiting.popleft(), now)

    def _start(self, plan: TopologyPlan, now: int) -> None:
        """Announce a plan, unless those that went before it have made it one that cannot be carried out."""
        running = self._running = _RunningPlan(plan, PlanPhase.WAITING, now)
        running.reason = self._announced.refusal(plan)
        if running.reason:
            self._end(running, PlanPhase.UNDONE, 0)
            return
        running.enter(PlanPhase.ANNOUNCING, now)
        self._poll.announce(self._poll.word_of(plan))

    def _take_up(self, requests: tuple[TopologyChange, ...], choosers: tuple[str, ...], now: int) -> None:
        """Make one plan of what brokers ask for; what cannot be, as somebody asks who is behind, is left out."""
        asked = {(change.near, change.far) for change in requests if change.is_return}
        ends: dict[tuple[str, ...], TopologyChange] = {}  # both ends of a link may ask for it
        for change in requests:
            if change.is_return and (change.far, change.near) not in asked:
                continue  # both ends must have asked: before that, one of them speaks of the link already
            pair = (change.near, change.far)
            ends.setdefault(pair if change.is_measured else tuple(sorted(pair)), change)
        changes = tuple(ends.values())
        number = fingerprint("plan", f"{self._around.scope} {now} {changes} {choosers}") or 1
        asked_for = TopologyPlan(number, changes, choosers=choosers)
        if asked_for.size and self.request(asked_for):
            sound = self._sound_part(asked_for)
            if sound.size:
                self.request(sound)

    def _sound_part(self, plan: TopologyPlan) -> TopologyPlan:
        """Return what of a plan can be carried out by itself."""
        refusal, number = self._announced.refusal, plan.number
        changes = tuple(each for each in plan.changes if not refusal(TopologyPlan(number, (each,))))
        choosers = tuple(each for each in plan.choosers if not refusal(TopologyPlan(number, (), choosers=(each,))))
        return TopologyPlan(number, changes, choosers=choosers)

    def _ask(self, running: _RunningPlan) -> None:
        self._turn = self._turn + 1 if 0 <= self._turn < _LAST_TURN else 0
        self._poll.result = None
        is_known = running.phase is not PlanPhase.ANNOUNCING
        self._poll.poll(Poll(scope=self._around.scope, plan=running.plan.number, turn=self._turn, is_known=is_known))
        running.next_at = self._around.step.now + running.pause_ns
        running.pause_ns = min(2 * running.pause_ns, _LONGEST_PAUSE_NS)
        if self._poll.result is not None:  # we are alone
            self.tick()

    def _judge(self, running: _RunningPlan, found: PlanAnswer) -> None:
        now = self._around.step.now
        running.brokers = found.brokers
        running.prepared = found.prepared
        is_whole = not found.silent and found.brokers >= self._wave.brokers
        if running.phase is PlanPhase.DRAINING:
            self._judge_draining(running, found, is_whole)
        elif now - running.began_at > self._prepare_ns:
            self._undo(running, found.complaint or "not all brokers answered")
        elif is_whole and running.phase is PlanPhase.ANNOUNCING and found.known == found.brokers:
            running.enter(PlanPhase.PREPARING, now)
        elif is_whole and running.phase is PlanPhase.PREPARING and found.prepared == found.brokers:
            running.enter(PlanPhase.SWITCHING, now)
            self._wave.begin(is_switch=True)
        else:
            running.reason = found.complaint

    def _switching(self, running: _RunningPlan, now: int) -> None:
        if not self._wave.is_running:
            running.enter(PlanPhase.DRAINING, now)
            self._ask(running)

    def _judge_draining(self, running: _RunningPlan, found: PlanAnswer, is_whole: bool) -> None:
        sums = (found.sent, found.arrived)
        is_still = is_whole and found.switched == found.brokers and sums == running.last_sums
        has_drained = is_still and found.sent == found.arrived
        if not has_drained and self._around.step.now - running.phase_at <= self._drain_ns:
            running.last_sums = sums if is_whole and found.switched == found.brokers else None
            if running.last_sums is not None and found.sent == found.arrived:
                running.next_at = self._around.step.now
            return
        if not has_drained:
            running.reason = "the deadline ended the wait for what was under way"
        in_doubt = 0 if has_drained else abs(found.sent - found.arrived)
        self._poll.go(Go(self._around.scope, running.plan.number))
        self._end(running, PlanPhase.DONE, in_doubt)

    def _undo(self, running: _RunningPlan, reason: str) -> None:
        running.reason = reason
        self._poll.announce(self._poll.word_of(running.plan, withdrawn=True))
        self._end(running, PlanPhase.UNDONE, 0)

    def _end(self, running: _RunningPlan, phase: PlanPhase, in_doubt: int) -> None:
        if self._running is not running:  # a link that it closed was the last of ours, and so it has ended
            return
        now, reason = self._around.step.now, running.reason
        running.enter(phase, now)
        running.reason = reason
        self._ended[running.plan.number] = running.view(now, in_doubt)
        while len(self._ended) > _MOST_REMEMBERED:
            del self._ended[next(iter(self._ended))]
        self._running = None
        self._around.step.report(
            "info" if phase is PlanPhase.DONE else "warning",
            f"plan {phase.value}",
            scope=self._around.scope,
            changes=running.plan.size,
            reason=running.reason,
        )

    # ---- for those who ask

    def views(self) -> tuple[PlanView, ...]:
        """Return all plans that this broker knows of as the root, the oldest first."""
        now, running = self._around.step.now, self._running
        waiting = [PlanView(number=plan.number, phase=PlanPhase.WAITING, changes=plan.size) for plan in self._waiting]
        return (*self._ended.values(), *(() if running is None else (running.view(now),)), *waiting)
