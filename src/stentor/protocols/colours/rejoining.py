"""Rejoining: whoever has no parent in the tree of a scope, or knows of a root with more right, asks to be placed.

It asks a neighbour, which passes the request up to the root, and the root's answer comes back by the same brokers. Only
a root answers. So nobody is ever placed below itself: a request that goes up from somebody below us ends at us. And
nobody leaves a tree for a root that somebody merely speaks of: the root itself has to answer first.
"""

import msgspec

from stentor.model.colours.wave_messages import Ack, Place, Rejoin, RootClaim
from stentor.protocols.colours.scope_surroundings import ScopeSurroundings
from stentor.protocols.colours.scope_tree import NO_CLAIM, Claim, ScopeTree, TreeRole
from stentor.protocols.colours.wave import Wave


class Rejoining:
    """What one broker says and hears about its place in the tree of one scope."""

    def __init__(self, around: ScopeSurroundings, tree: ScopeTree, wave: Wave, answer_ns: int) -> None:
        """`answer_ns` is how long the answer to a request takes, at most."""
        self._around = around
        self._tree = tree
        self._wave = wave
        self._answer_ns = answer_ns
        self._claims: dict[str, tuple[Claim, int]] = {}  # what neighbours said last: below whom, and how deep
        self._asked = ""  # the neighbour whose answer we wait for
        self._asked_at = 0
        self._tried: set[str] = set()  # neighbours that were asked and did not answer, since all have had their turn
        self.rejoined = 0  # how often we were placed

    # ---- claims

    def claim_to(self, name: str) -> None:
        """Tell a neighbour below whom we are."""
        tree = self._tree
        rank, root = tree.claim
        self._around.say(name, RootClaim(scope=self._around.scope, root=root, rank=rank, depth=tree.depth))

    def claim_to_all(self) -> None:
        for neighbour in self._around.inside():
            self.claim_to(neighbour.name)

    def on_claim(self, name: str, said: RootClaim) -> None:
        claim = Claim(said.rank, said.root) if said.root else NO_CLAIM
        self._claims[name] = claim, said.depth
        tree = self._tree
        if name == tree.parent and claim == NO_CLAIM != tree.claim:
            tree.claim = NO_CLAIM  # its root is gone, so ours is: whoever becomes it may be of less right
            self.claim_to_all()
        if claim < tree.claim and claim < self._hoped:
            self.seek()

    @property
    def _hoped(self) -> Claim:
        """The claim of whoever we have asked: only one of more right is worth asking instead."""
        return self._claims[self._asked][0] if self._asked in self._claims else NO_CLAIM

    def awaits(self, name: str) -> bool:
        """Return whether a neighbour has been asked to have us placed, and has not answered."""
        return bool(name) and name == self._asked

    def clamp(self) -> None:
        """Wait neither for nobody's answer nor for one of the future."""
        if not self._around.knows(self._asked):
            self._asked = ""
        self._asked_at = min(self._asked_at, self._around.step.now)

    def forget(self, name: str) -> None:
        """A neighbour is gone."""
        self._claims.pop(name, None)
        self._tried.discard(name)
        if self._asked == name:
            self._asked = ""

    # ---- asking

    @property
    def is_due(self) -> bool:
        """Whether a neighbour is to be asked now: one knows a root of more right, and nobody's answer is awaited."""
        until = self.asked_until
        if until is not None and self._around.step.now < until:
            return False
        return until is not None or any(claim < self._tree.claim for claim, _ in self._claims.values())

    @property
    def asked_until(self) -> int | None:
        """How long the answer of a neighbour is awaited; None if none is."""
        return self._asked_at + self._answer_ns if self._asked else None

    def seek(self) -> None:
        """Ask the neighbour that knows the root of most right, and of those the nearest to it, to have us placed."""
        if self._asked:
            self._tried.add(self._asked)
            self._asked = ""
        better = [
            (claim, depth, name)
            for name, (claim, depth) in self._claims.items()
            if claim < self._tree.claim and self._around.knows(name) and name not in self._tree.children
        ]
        fresh = [each for each in better if each[2] not in self._tried]
        if not fresh:  # all had their turn: begin again
            self._tried.clear()
            fresh = better
        if fresh:
            self._ask(min(fresh)[2])

    def _ask(self, name: str) -> None:
        self._asked = name
        self._asked_at = self._around.step.now
        self._around.say(name, Rejoin(scope=self._around.scope, broker=self._tree.name))

    # ---- passing on, and answering

    def on_rejoin(self, name: str, rejoin: Rejoin) -> None:
        tree = self._tree
        is_first = not rejoin.trail
        if rejoin.broker == tree.name or tree.name in rejoin.trail or len(rejoin.trail) >= tree.height:
            return  # it came round in a circle
        if (name != rejoin.broker) if is_first else (name not in tree.children or name != rejoin.trail[-1]):
            return  # in somebody else's name, or not by the way that the answer has to go
        has_room = tree.has_room if is_first else rejoin.has_room
        if tree.role is TreeRole.ROOT:
            asked = rejoin.trail[0] if rejoin.trail else tree.name
            parent, address = (asked, "") if has_room else self._wave.free
            self._answer(
                name,
                Place(
                    scope=self._around.scope,
                    broker=rejoin.broker,
                    parent=parent,
                    address=address,
                    root=tree.name,
                    rank=tree.claim.rank,
                    trail=rejoin.trail,
                ),
            )
        elif tree.role is TreeRole.MEMBER:
            trail = (*rejoin.trail, tree.name)
            self._around.say(tree.parent, msgspec.structs.replace(rejoin, has_room=has_room, trail=trail))

    def on_place(self, name: str, place: Place) -> None:
        tree = self._tree
        if place.broker == tree.name:
            self._take_place(name, place)
        elif name == tree.parent and place.trail[-1:] == (tree.name,):
            self._answer(place.broker, msgspec.structs.replace(place, trail=place.trail[:-1]))

    def _answer(self, asker: str, place: Place) -> None:
        """Send an answer one step further towards the broker that it is for."""
        tree = self._tree
        if place.trail:
            if place.trail[-1] in tree.children:
                self._around.say(place.trail[-1], place)
            return
        if not self._around.knows(asker):
            return
        if place.parent == tree.name:
            if not tree.has_room or place.broker == tree.parent:
                return
            place = self._wave.place(place)
        self._around.say(asker, place)

    def _go_to(self, place: Place) -> None:
        """The neighbour that we asked has no room, and the root knows somebody who has."""
        if self._around.knows(place.parent) and place.parent not in self._tried:
            self._ask(place.parent)
        elif place.address and not self._around.knows(place.parent) and place.parent != self._tree.name:
            self._around.dial(place.address)

    def _take_place(self, name: str, place: Place) -> None:
        tree = self._tree
        claim = Claim(place.rank, place.root)
        if name != self._asked or claim >= tree.claim or claim.root == tree.name:
            return
        self._asked = ""
        if place.parent != name or not 1 <= place.depth <= tree.height:
            self._tried.add(name)
            self._go_to(place)
            return
        self._tried.clear()
        if tree.role is TreeRole.MEMBER and tree.parent != name:  # it need not wait for our answer to its next wave
            self._around.say(tree.parent, Ack(scope=self._around.scope, round=tree.round, is_taken=False))
        tree.place(name, claim, place.round, place.depth)
        self.rejoined += 1
        self._wave.forget(name)
        self._wave.on_placed(place)
        self.claim_to_all()
