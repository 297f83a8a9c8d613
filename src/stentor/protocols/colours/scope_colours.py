"""The colours of one scope at one broker: its tree, its waves, its place and its plans, and the time that drives them.

All waits end by the clock, and the clock is looked at often: besides the timer of this module, every heartbeat looks
too, and starts the timer again. So a timer that damage took away, or set to the end of days, holds nothing up for long.
"""

from stentor.machine import SECOND, StartTimer, Timer
from stentor.model.colours.plan import TopologyPlan
from stentor.model.colours.plan_messages import Announce, Go, PlanAnswer, Poll
from stentor.model.colours.wave_messages import (
    Ack,
    Crown,
    Place,
    Rejoin,
    RootClaim,
    Rotate,
    ScopeManifest,
    WaveMessage,
)
from stentor.model.colours.wave_timing import WaveTiming
from stentor.model.errors import FrameError, Refusal
from stentor.protocols.colours.announced_plan import AnnouncedPlan, PlanWork
from stentor.protocols.colours.manifest_lease import ManifestLease, Members
from stentor.protocols.colours.plan_poll import PlanPoll
from stentor.protocols.colours.planning import Planning
from stentor.protocols.colours.rejoining import Rejoining
from stentor.protocols.colours.scope_surroundings import ScopeSurroundings
from stentor.protocols.colours.scope_tree import UNRANKED, ScopeTree, TreeRole
from stentor.protocols.colours.wave import Wave


class WaveDue(Timer, frozen=True, gc=False, tag="wave due"):
    """Something in the colours of the scope of a level waits for the clock."""

    level: int


class ScopeColours:
    """`roots` is the scope's root group, by rank; brokers that are not in it come after all who are, by name."""

    def __init__(
        self,
        around: ScopeSurroundings,
        name: str,
        roots: tuple[str, ...],
        timing: WaveTiming,
        members: Members,
        work: PlanWork,
    ) -> None:
        self.scope = around.scope
        self.timing = timing
        self._around = around
        self._step = around.step
        self._roots = roots
        self._turn = _turn(name, roots)  # in which it takes over if there is no root
        self._period_ns = int(timing.period * SECOND)
        self._patience_ns = int(timing.patience * SECOND)
        self.tree = ScopeTree(name, _rank(name, roots), timing.height, timing.degree)
        self.lease = ManifestLease(members)
        delay_ns = int(timing.delay_max * SECOND)
        self.announced = AnnouncedPlan(work)
        self.wave = Wave(around, self.tree, self.lease, self.announced, delay_ns)
        self._poll = PlanPoll(around, self.tree, self.announced, delay_ns)
        self.planning = Planning(around, self.wave, self.announced, self._poll, timing)
        self.rejoining = Rejoining(around, self.tree, self.wave, int(timing.rejoining * SECOND))
        self._orphaned_at = 0  # when we lost our parent
        self._waves_outranked = 0  # that came in a row from a root that is behind us in the root group
        self._armed_at = -1  # when the timer fires
        self.faults = 0  # how often a wave did not come in time, or something was found that cannot be

    # ---- links

    def link_up(self, name: str) -> None:
        """A broker of the scope is a neighbour now."""
        self.rejoining.claim_to(name)
        self._arm()

    def link_down(self, name: str) -> None:
        """A broker of the scope is no neighbour any more."""
        tree = self.tree
        self.rejoining.forget(name)
        if name == tree.parent and tree.role is TreeRole.MEMBER:
            self._part()
        if name in tree.children:
            self._disown(name)
        self.tick()

    def _disown(self, name: str) -> None:
        self.tree.disown(name)
        self.wave.forget(name)
        self._poll.forget(name)

    # ---- messages

    def hear(self, name: str, message: WaveMessage) -> None:
        self._clamp()
        match message:
            case Rotate() if self.rejoining.awaits(name) and name != self.tree.parent:
                pass  # it is about to be our parent: a refusal would come after it has taken us
            case Rotate():
                self.wave.on_rotate(name, message)
                self._waves_outranked = self._waves_outranked + 1 if self._outranks_root else 0
            case Ack():
                self.wave.on_ack(name, message)
                if not message.is_taken:
                    self._poll.forget(name)
            case ScopeManifest():
                self.wave.on_manifest(name, message)
            case RootClaim():
                self.rejoining.on_claim(name, message)
            case Rejoin():
                self.rejoining.on_rejoin(name, message)
            case Place():
                self.rejoining.on_place(name, message)
            case Crown():
                self._on_crown(name)
            case PlanAnswer():
                self._poll.on_answer(name, message)
            case Announce() | Poll() | Go():
                self._hear_of_plan(name, message)
            case _:
                raise FrameError(Refusal.PROTOCOL, f"the message {message.tag!r} is none of a wave")
        if self.tree.role is TreeRole.ROOT:
            self.planning.tick()
        elif self._waves_outranked > self._turn and self._outranks_root and not self.announced.is_open:
            # Those before us in the group had their wave, and the root has no plan to end.
            self._waves_outranked = 0
            self._around.say(self.tree.parent, Ack(scope=self.scope, round=self.tree.round, is_taken=False))
            self._part()
            self._take_over()
        self._arm()

    def _hear_of_plan(self, name: str, message: Announce | Poll | Go) -> None:
        """The parent speaks of a plan: it is alive, and the next wave comes when the plan is over."""
        if self.tree.role is not TreeRole.MEMBER or name != self.tree.parent:
            if isinstance(message, Poll) and not self.rejoining.awaits(name):
                self.rejoining.turn_down(name)
            return
        self.wave.heard_at = self._step.now
        match message:
            case Announce():
                self._poll.announce(message)
            case Poll():
                self._poll.poll(message)
            case Go():
                self._poll.go(message)

    def request(self, plan: TopologyPlan) -> str:
        """Carry out a plan, as the root of the scope; return why not, "" if it is taken."""
        if self.tree.role is not TreeRole.ROOT:
            return f"the root of {self.scope or 'the network'} is {self.root or 'not known yet'}: ask there"
        refusal = self.planning.request(plan)
        self.tick()
        return refusal

    # ---- the root leaves

    def hand_over(self) -> str:
        """Let a child be the root in our place, if we are it; return why not, "" if that is so."""
        if self.tree.role is not TreeRole.ROOT or not self._has_neighbours():
            return ""
        if self.planning.is_busy:
            return f"a plan of {self.scope or 'the network'} is under way"
        if not self.tree.children:
            return f"nobody is in the tree of {self.scope or 'the network'} yet but this broker"
        heir = min(self.tree.children, key=lambda name: (_rank(name, self._roots), name))
        self._around.say(heir, Crown(self.scope))
        self._disown(heir)
        self.tree.resign()
        self._orphaned_at = self._step.now
        self._turn = len(self._roots) + 1  # whoever leaves is the last to be the root again
        self.rejoining.claim_to_all()
        self.tick()
        return ""

    def _on_crown(self, name: str) -> None:
        if self.tree.role is TreeRole.MEMBER and name == self.tree.parent:
            self._part()  # those below forget the root that they had, which may have had more right
            self._take_over()

    # ---- time

    def beat(self) -> None:
        """Twice a heartbeat: tell neighbours below whom we are, and look at the clock whether or not a timer did."""
        self.rejoining.claim_to_all()
        self._armed_at = -1
        self.tick()

    def on_due(self) -> None:
        """The timer has fired."""
        self._armed_at = -1
        self.tick()

    def tick(self) -> None:
        self._clamp()
        now, tree = self._step.now, self.tree
        self.wave.look()
        self._poll.look()
        if tree.role is TreeRole.ROOT:
            self.planning.tick()
        else:
            self.planning.resign()
        match tree.role:
            case TreeRole.ROOT if self._is_wave_due() and self._has_neighbours():
                self.wave.begin()
            case TreeRole.MEMBER if now - self.wave.heard_at > self._patience_ns:
                self.faults += 1
                self._part()
            case TreeRole.ORPHAN if now - self._orphaned_at >= (1 + self._turn) * self._patience_ns:
                self._take_over()
        self.seek_place()
        self._arm()

    def seek_place(self) -> None:
        """Ask for a better place in the tree, if a neighbour knows one, or if a plan takes our parent's link away."""
        if self.rejoining.is_due:
            self.rejoining.seek()

    def _take_over(self) -> None:
        self.tree.crown()
        self._step.report("info", "root of a scope", scope=self.scope)
        self.rejoining.claim_to_all()

    @property
    def _outranks_root(self) -> bool:
        """Whether a plan has put us before our root in the root group. Whoever has handed over does not come back."""
        is_candidate = self.tree.role is TreeRole.MEMBER and self._turn < len(self._roots)
        return is_candidate and self._turn < self.tree.claim.rank <= UNRANKED

    def _is_wave_due(self) -> bool:
        return self._step.now - self.wave.heard_at >= self._period_ns and not self.planning.is_busy

    def _part(self) -> None:
        self.tree.part()
        self._orphaned_at = self._step.now
        self.rejoining.claim_to_all()

    def _has_neighbours(self) -> bool:
        return any(True for _ in self._around.inside())

    def _arm(self) -> None:
        if self.tree.role is TreeRole.ROOT and not self._has_neighbours() and self.planning.next_at is None:
            return
        at = max(self._next_at(), self._step.now)
        if at != self._armed_at:
            self._armed_at = at
            self._step.emit(StartTimer(WaveDue(self._around.level), at))

    def _next_at(self) -> int:
        """Return when the clock is to be looked at again."""
        match self.tree.role:
            case TreeRole.ROOT:
                due_at = self.planning.next_at
                at = self.wave.heard_at + self._period_ns if due_at is None else due_at
            case TreeRole.MEMBER:
                at = self.wave.heard_at + self._patience_ns + 1
            case TreeRole.ORPHAN:
                at = self._orphaned_at + (1 + self._turn) * self._patience_ns
        if self.wave.is_running:
            at = min(at, self.wave.deadline_at)
        if self._poll.is_running:
            at = min(at, self._poll.deadline_at)
        asked_until = self.rejoining.asked_until
        return at if asked_until is None else min(at, asked_until)

    # ---- damage

    def _clamp(self) -> None:
        """Take out what cannot be: of the tree, and times that lie further ahead or back than anything waits for."""
        now = self._step.now
        self._follow_root_group()
        names = {neighbour.name for neighbour in self._around.inside()}
        was_orphan = self.tree.role is TreeRole.ORPHAN
        if self.tree.clamp(names):
            self.faults += 1
            if self.tree.role is TreeRole.ORPHAN and not was_orphan:
                self._orphaned_at = now
        self.wave.heard_at = min(self.wave.heard_at, now)
        latest = now + 2 * int(self.timing.crossing * SECOND)
        self.wave.deadline_at = min(self.wave.deadline_at, latest)
        self._poll.deadline_at = min(self._poll.deadline_at, latest)
        self._orphaned_at = min(self._orphaned_at, now)
        self.rejoining.clamp()
        self.announced.clamp()

    def _follow_root_group(self) -> None:
        """Take the rank that a plan has given us."""
        roots = self.announced.root_group
        if roots is None or roots == self._roots:
            return
        self._roots = roots
        self._turn = _turn(self.tree.name, roots)
        self.tree.promote(_rank(self.tree.name, roots))
        self.rejoining.claim_to_all()

    @property
    def root(self) -> str:
        """Below whom we are; "" if nobody knows."""
        return self.tree.claim.root

    @property
    def roots(self) -> tuple[str, ...]:
        """The root group, by rank."""
        return self._roots


def _turn(name: str, roots: tuple[str, ...]) -> int:
    """Return in which turn a broker takes over if there is no root."""
    return roots.index(name) if name in roots else len(roots)


def _rank(name: str, roots: tuple[str, ...]) -> int:
    """Return the rank of a broker in a root group."""
    return roots.index(name) if name in roots else UNRANKED
