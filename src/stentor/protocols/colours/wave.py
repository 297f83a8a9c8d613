"""A wave: the root begins a round, parents tell their children, and everybody's answer comes back up.

A wave is taken only from the parent in the new colour, and only if its colour is another than the one we have: so in a
cycle, which damage may leave behind, it ends where it began. It is answered at once, which shows the parent that its
child is alive, and once more when all below have answered or their time is over.
"""

from collections.abc import Iterable

import msgspec

from stentor.model.colours.colour import new_colour
from stentor.model.colours.manifest import ManifestRow, rows_by_unit
from stentor.model.colours.plan import MOST_CHANGES, NO_PLAN, PlanStage, TopologyChange
from stentor.model.colours.wave_messages import Ack, Place, Rotate, ScopeManifest
from stentor.model.scope import LARGEST_UNIT
from stentor.protocols.colours.announced_plan import AnnouncedPlan
from stentor.protocols.colours.manifest_lease import ManifestLease
from stentor.protocols.colours.scope_surroundings import ScopeSurroundings
from stentor.protocols.colours.scope_tree import Claim, ScopeTree, TreeRole


class _Answers:
    """What the brokers below us, and we ourselves, have answered to the wave that runs."""

    __slots__ = ("brokers", "choosers", "confirmed", "free", "height", "requests", "rows", "waiting")

    def __init__(
        self,
        waiting: Iterable[str],
        confirmed: int,
        rows: tuple[ManifestRow, ...],
        requests: tuple[TopologyChange, ...],
        choosers: tuple[str, ...],
        free: tuple[str, str],
    ) -> None:
        self.waiting = set(waiting)  # children that have not answered for all below them
        self.brokers = 1
        self.height = 0
        self.confirmed = confirmed
        self.rows = list(rows)
        self.requests = requests
        self.choosers = choosers
        self.free = free  # a broker with room for a child, and its address; the nearest to the root

    def add(self, ack: Ack) -> None:
        self.brokers += ack.brokers
        self.height = max(self.height, ack.height + 1)
        self.confirmed |= ack.confirmed
        self.rows += ack.rows
        self.requests = (self.requests + ack.requests)[:MOST_CHANGES]
        self.choosers = (self.choosers + ack.choosers)[:LARGEST_UNIT]  # the others have their turn after these
        if not self.free[0]:
            self.free = ack.free, ack.free_address


class Wave:
    """The waves of one scope, as they pass one broker."""

    def __init__(
        self,
        around: ScopeSurroundings,
        tree: ScopeTree,
        lease: ManifestLease,
        announced: AnnouncedPlan,
        delay_ns: int,
    ) -> None:
        self._around = around
        self._tree = tree
        self._lease = lease
        self._announced = announced
        self._delay_ns = delay_ns
        self._answers: _Answers | None = None  # None if no wave runs
        self._alive: set[str] = set()  # children that answered this round's wave, or came after it
        self._digest = 0  # of the manifest that the wave names
        self._plan = NO_PLAN  # that is under way
        self._is_switched = False  # whether that is in force
        self._finished = NO_PLAN  # the last one before it
        self._compared = -1  # the last round in which what we know was held against the manifest
        self.heard_at = 0  # when the last wave began here
        self.deadline_at = 0  # when answers are waited for no longer
        self.brokers = 1  # in the tree below us, and we, when the last wave ended
        self.height = 0  # of that tree
        self.requests: tuple[TopologyChange, ...] = ()  # at the root: what brokers would have changed
        self.choosers: tuple[str, ...] = ()  # at the root: brokers that would choose other exits
        self.free = ("", "")  # a broker in that tree with room for one more child, and its address
        self.rounds_as_root = 0  # waves that have ended since we became the root
        self.refused = 0  # waves that were not taken
        self.unanswered = 0  # children that were left out since they did not answer

    @property
    def is_running(self) -> bool:
        return self._answers is not None

    # ---- down

    def begin(self, *, is_switch: bool = False) -> None:
        """Begin a round, at the root. As a switch, it puts the plan that is announced into force."""
        self._lease.clamp()
        self._tree.begin_round()
        announced = self._announced
        is_switched = is_switch or announced.stage is PlanStage.SWITCHED
        plan = announced.number if announced.is_open else NO_PLAN
        if announced.recalled is not None and not announced.is_open:  # nobody drops it before we have taken it up
            plan = announced.recalled.number
        self._hear_of_plan(plan, announced.finished, is_switched=is_switched)
        self._digest = self._lease.digest
        self._pass_on(tuple(self._lease.rows.values()) if self._lease.has_changed else None)

    def on_rotate(self, name: str, rotate: Rotate) -> None:
        tree = self._tree
        claim = Claim(rotate.rank, rotate.root)
        is_parent = tree.role is TreeRole.MEMBER and name == tree.parent
        is_of_less_right = claim > tree.claim and claim.root != tree.claim.root  # the same root may have lost its rank
        if not is_parent or not 1 <= rotate.depth <= tree.height or is_of_less_right:
            self.refused += 1
            if not is_parent:
                self._around.say(name, Ack(scope=self._around.scope, round=rotate.round, is_taken=False))
            return
        if new_colour(rotate.round) == new_colour(tree.round):  # it has been here, or went round in a circle
            self.refused += 1
            self._around.say(
                name, Ack(scope=self._around.scope, round=rotate.round, is_complete=True, brokers=1, confirmed=0)
            )
            return
        tree.rotate(rotate.round)
        self._announced.conclude(rotate.plan, rotate.finished, rotate.orders)
        self._hear_of_plan(rotate.plan, rotate.finished, is_switched=rotate.is_switched)
        tree.claim = claim
        tree.depth = rotate.depth
        self._digest = rotate.manifest
        self._lease.clamp()
        if rotate.rows is not None:
            self._lease.take(rotate.rows, rotate.manifest)
        lacks = self._lease.digest != rotate.manifest
        self._pass_on(rotate.rows, is_told=not lacks)

    def _hear_of_plan(self, plan: int, finished: int, *, is_switched: bool) -> None:
        """Let this broker know how far plans are, and remember it for those below."""
        self._plan = plan
        self._is_switched = is_switched
        self._finished = finished
        self._announced.on_rotation(self._tree.round, plan, finished, is_switched=is_switched)

    def place(self, place: Place) -> Place:
        """Return what a broker is told that becomes our child: where it is, and what it has missed."""
        tree = self._tree
        self.adopt(place.broker)
        switched = self._announced.switched
        return msgspec.structs.replace(place, round=tree.round, depth=tree.depth + 1, switched=switched)

    def on_placed(self, place: Place) -> None:
        """We have a parent, whose round is ours now: let those below us know."""
        announced = self._announced
        announced.on_placed(self._tree.round, place.switched)
        self._plan = announced.number if announced.is_open else NO_PLAN
        self._is_switched = announced.switched != NO_PLAN
        self._finished = announced.finished
        self.rounds_as_root = 0
        self._digest = self._lease.digest
        self._pass_on(None)

    def _pass_on(self, rows: tuple[ManifestRow, ...] | None, *, is_told: bool = True) -> None:
        """Tell the living children of the round, answer the parent, and let what we know be held to the manifest."""
        tree, now = self._tree, self._around.step.now
        self.heard_at = now
        for child in tree.children:
            if child not in self._alive:
                self.unanswered += 1
                tree.disown(child)
        self._alive = set()
        if is_told:
            self._compare()
        confirmed, own = self._lease.own_answer()
        free = (tree.name, self._around.address) if tree.has_room else ("", "")
        requests, choosers = self._announced.requests(), self._announced.choosers(tree.name)
        self._answers = _Answers(tree.children, confirmed, own, requests, choosers, free)
        self.deadline_at = now + 2 * (tree.height - tree.depth) * self._delay_ns
        for child in tree.children:
            self._around.say(
                child,
                Rotate(
                    scope=self._around.scope,
                    round=tree.round,
                    root=tree.claim.root,
                    rank=tree.claim.rank,
                    depth=tree.depth + 1,
                    manifest=self._digest,
                    rows=rows,
                    plan=self._plan,
                    is_switched=self._is_switched,
                    finished=self._finished,
                    orders=self._announced.orders,
                ),
            )
        if tree.role is TreeRole.MEMBER and (tree.children or not is_told):
            self._around.say(tree.parent, Ack(scope=self._around.scope, round=tree.round, lacks_manifest=not is_told))
        self.look()

    def on_manifest(self, name: str, manifest: ScopeManifest) -> None:
        """The parent tells the manifest that we lacked."""
        tree = self._tree
        if name == tree.parent and manifest.round == tree.round and self._lease.take(manifest.rows, self._digest):
            self._compare()
            for child in tree.children:  # they lack it, too: we had none to tell them
                self._around.say(child, manifest)

    def _compare(self) -> None:
        if self._compared != self._tree.round:
            self._compared = self._tree.round
            self._lease.compare()

    # ---- up

    def on_ack(self, name: str, ack: Ack) -> None:
        tree = self._tree
        if name not in tree.children:
            return
        if not ack.is_taken:
            tree.disown(name)
            self.forget(name)
            return
        if ack.round != tree.round:
            return
        self._alive.add(name)
        if ack.lacks_manifest and self._lease.digest == self._digest:
            self._around.say(name, ScopeManifest(self._around.scope, tree.round, tuple(self._lease.rows.values())))
        answers = self._answers
        if answers is not None and ack.is_complete and name in answers.waiting:
            answers.waiting.remove(name)
            answers.add(ack)
            self.look()

    def adopt(self, child: str) -> None:
        """A broker is placed below us: it counts as alive until its first wave ends."""
        self._tree.adopt(child)
        self._alive.add(child)

    def forget(self, child: str) -> None:
        """A child is gone: nobody waits for its answer."""
        self._alive.discard(child)
        if self._answers is not None:
            self._answers.waiting.discard(child)
            self.look()

    def look(self) -> None:
        """End the wave if everybody below us has answered, or had the time to."""
        answers, tree = self._answers, self._tree
        if answers is None or (answers.waiting and self._around.step.now < self.deadline_at):
            return
        self._answers = None
        self.brokers = answers.brokers
        self.height = answers.height
        self.free = answers.free
        rows = tuple(rows_by_unit(answers.rows).values())[:LARGEST_UNIT]
        if tree.role is TreeRole.ROOT:
            self.rounds_as_root += 1
            self._lease.renew(answers.confirmed, rows)
            self.requests = answers.requests
            self.choosers = answers.choosers
        elif tree.role is TreeRole.MEMBER:
            self._around.say(
                tree.parent,
                Ack(
                    scope=self._around.scope,
                    round=tree.round,
                    is_complete=True,
                    lacks_manifest=self._lease.digest != self._digest,
                    brokers=answers.brokers,
                    height=min(answers.height, tree.height),
                    confirmed=answers.confirmed,
                    rows=rows,
                    requests=answers.requests,
                    choosers=answers.choosers,
                    free=answers.free[0],
                    free_address=answers.free[1],
                ),
            )
