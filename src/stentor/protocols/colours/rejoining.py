"""Rejoining: whoever has no parent in the tree of a scope, or knows of a root with more right, asks to be placed; so
does whoever has a parent to which a plan is about to take the link away.

It asks a neighbour, which passes the request up to the root, and the root's answer comes back by the same brokers. Only
a root answers. So nobody is ever placed below itself: a request that goes up from somebody below us ends at us, and of
two that could be placed below each other the root refuses the second. And nobody leaves a tree for a root that somebody
merely speaks of: the root itself has to answer first.
"""

import msgspec

from stentor.model.colours.wave_messages import Ack, Place, Rejoin, RootClaim, Trail
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
        self._given: dict[str, Trail] = {}  # at the root: the places of this round, by broker, from below to above
        self._given_in = -1  # that round
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
        if self._is_better(claim) and claim < self._hoped:
            self.seek()

    @property
    def _has_to_move(self) -> bool:
        """Whether a plan is about to take the link to our parent away."""
        return self._tree.role is TreeRole.MEMBER and self._around.is_going(self._tree.parent)

    def _is_better(self, claim: Claim) -> bool:
        """Return whether a place below a root is better than the one that we have."""
        return claim < self._tree.claim or (claim == self._tree.claim and self._has_to_move)

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
        """Whether a neighbour is to be asked now: one knows a better place, and nobody's answer is awaited."""
        until = self.asked_until
        if until is not None and self._around.step.now < until:
            return False
        return until is not None or any(self._is_better(claim) for claim, _ in self._claims.values())

    @property
    def asked_until(self) -> int | None:
        """How long the answer of a neighbour is awaited; None if none is."""
        return self._asked_at + self._answer_ns if self._asked else None

    def seek(self) -> None:
        """Ask the neighbour that knows the root of most right, and of those the nearest to it, to have us placed; one
        whose link goes only if there is no other.
        """
        if self._asked:
            self._tried.add(self._asked)
            self._asked = ""
        better = [
            (claim, self._around.is_going(name), depth, name)
            for name, (claim, depth) in self._claims.items()
            if self._is_better(claim) and self._around.knows(name) and name not in self._tree.children
        ]
        if self._has_to_move:
            better = [each for each in better if not each[1]]
        fresh = [each for each in better if each[3] not in self._tried]
        if not fresh:  # all had their turn: begin again
            self._tried.clear()
            fresh = better
        if fresh:
            self._ask(min(fresh)[3])

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
            parent, address = self._find_place(rejoin, has_room=has_room)
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

    def _find_place(self, rejoin: Rejoin, *, has_room: bool) -> tuple[str, str]:
        """Return who shall be a broker's parent, and where it listens if that is not the neighbour that was asked; ""
        if the broker would be placed below itself.
        """
        if self._given_in != self._tree.round:  # all that was given before was taken by now, or never will be
            self._given_in = self._tree.round
            self._given.clear()
        if self._is_below(rejoin.broker, rejoin.trail):
            return "", ""
        if not has_room:
            return self._wave.free
        self._given[rejoin.broker] = rejoin.trail
        return (rejoin.trail[0] if rejoin.trail else self._tree.name), ""

    def _is_below(self, broker: str, trail: Trail) -> bool:
        """Return whether the way up from where a trail begins leads by a broker, once all places are taken that were
        given in this round.
        """
        names = iter(trail)
        for _ in range(len(self._given) + 1):
            for name in names:
                if name == broker:
                    return True
                if name in self._given:
                    names = iter(self._given[name])
                    break
            else:
                return False
        return True

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
        if self._around.knows(place.parent):
            if place.parent not in self._tried and not self._around.is_going(place.parent):
                self._ask(place.parent)
        elif place.address and place.parent != self._tree.name and not self._has_to_move:
            self._around.dial(place.address)

    def _take_place(self, name: str, place: Place) -> None:
        tree = self._tree
        claim = Claim(place.rank, place.root)
        is_wanted = name == self._asked and self._is_better(claim) and claim.root != tree.name
        if name == self._asked:
            self._asked = ""
        if is_wanted and place.parent != name:
            self._tried.add(name)
            self._go_to(place)
        elif is_wanted and self._fits(place, is_move=claim == tree.claim):
            self._settle_below(name, claim, place)
        elif place.parent == name != tree.parent:
            self._tried.add(name)
            self.turn_down(name)

    def _fits(self, place: Place, *, is_move: bool) -> bool:
        """Return whether a place is within the height. Whoever moves has to be there with all who are below it, and in
        the same round: else one of both has missed a wave.
        """
        if not is_move:
            return 1 <= place.depth <= self._tree.height
        return place.round == self._tree.round and 1 <= place.depth <= self._tree.height - self._wave.height

    def _settle_below(self, name: str, claim: Claim, place: Place) -> None:
        """Let a neighbour be our parent."""
        tree = self._tree
        is_move = claim == tree.claim
        self._tried.clear()
        if tree.role is TreeRole.MEMBER and tree.parent != name:
            self.turn_down(tree.parent)
        tree.place(name, claim, place.round, place.depth)
        self.rejoined += 1
        self._wave.forget(name)
        if is_move:
            self._wave.heard_at = self._around.step.now
        else:
            self._wave.on_placed(place)
        self.claim_to_all()

    def turn_down(self, name: str) -> None:
        """Tell a neighbour that we are not its child: it need not wait for our answers."""
        self._around.say(name, Ack(scope=self._around.scope, round=self._tree.round, is_taken=False))
