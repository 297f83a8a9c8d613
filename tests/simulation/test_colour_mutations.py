"""Break what heals a network on purpose, and the scenario `colours` must see that it does not heal."""

from collections.abc import Callable, Mapping

import pytest
from tests.simulation.killers import find_killer

from stentor.model.colours.wave_messages import RootClaim, Rotate
from stentor.model.ids import fingerprint
from stentor.model.messages import Presence
from stentor.model.routing_state import RoutingTables
from stentor.nodes.network.colouring import Colouring, ScopeMembers
from stentor.nodes.network.profile_feed import ProfileFeed
from stentor.protocols.colours.announced_plan import AnnouncedPlan
from stentor.protocols.colours.manifest_lease import ManifestLease
from stentor.protocols.colours.rejoining import Rejoining
from stentor.protocols.colours.scope_colours import ScopeColours
from stentor.protocols.colours.scope_tree import ScopeTree
from stentor.protocols.colours.wave import Wave
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.mask_plans import NextHop
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.profile_audit import ProfileAudit
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.overlay.gateways import Gateways

Mutate = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 60


def silence_is_no_fault(patch: pytest.MonkeyPatch) -> None:
    original = ScopeColours.__init__

    def patient(self: ScopeColours, *args: object) -> None:
        original(self, *args)  # type: ignore[arg-type]
        self._patience_ns = 1 << 62

    patch.setattr(ScopeColours, "__init__", patient)


def pointers_are_not_clamped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScopeTree, "clamp", lambda *_: False)


def times_are_not_clamped(patch: pytest.MonkeyPatch) -> None:
    def careless(self: ScopeColours) -> None:
        self.tree.clamp({neighbour.name for neighbour in self._around.inside()})

    patch.setattr(ScopeColours, "_clamp", careless)


def roots_do_not_merge(patch: pytest.MonkeyPatch) -> None:
    original = Rejoining.on_claim

    def deaf(self: Rejoining, name: str, said: RootClaim) -> None:
        if self._tree.role.value != "root":
            original(self, name, said)

    patch.setattr(Rejoining, "on_claim", deaf)


def children_that_refuse_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScopeTree, "disown", lambda *_: None)


def digests_are_of_stamps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Presence, "digest", property(lambda self: fingerprint("presence", repr(self.stamp))))


def the_manifest_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScopeMembers, "compare", lambda *_: None)


def the_manifest_is_not_from_owners(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ManifestLease, "own_answer", lambda _: (0, ()))


def copies_with_the_right_stamp_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScopeMembers, "_drop", lambda *_: None)


def ways_are_not_worked_out_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gateways, "rebuild", lambda _: False)


def profiles_are_not_audited(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProfileAudit, "run", lambda *_: None)


def what_clients_want_is_not_summed_up_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProfileFeed, "renew", lambda _: False)


def nothing_follows_from_a_round(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Colouring, "end_step", lambda _: None)


def waves_are_not_passed_on(patch: pytest.MonkeyPatch) -> None:
    def selfish(self: Wave, name: str, rotate: Rotate) -> None:
        if name == self._tree.parent:
            self.heard_at = self._around.step.now

    patch.setattr(Wave, "on_rotate", selfish)


def waves_are_taken_from_anybody(patch: pytest.MonkeyPatch) -> None:
    original = Wave.on_rotate

    def trusting(self: Wave, name: str, rotate: Rotate) -> None:
        tree, parent = self._tree, self._tree.parent
        tree.pointers = [each._replace(parent=name) for each in tree.pointers]
        original(self, name, rotate)
        tree.pointers = [each._replace(parent=parent) for each in tree.pointers]

    patch.setattr(Wave, "on_rotate", trusting)


def plans_that_nobody_ordered_do_not_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AnnouncedPlan, "on_rotation", lambda *_, **__: None)


def whom_events_wait_for_is_not_worked_out_anew(patch: pytest.MonkeyPatch) -> None:
    original = Relay.adopt

    def careless(
        self: Relay[Outbox], tables: RoutingTables[InterestIndex], neighbours: Mapping[str, NextHop[Outbox]]
    ) -> None:
        held = self.held.by_level
        original(self, tables, neighbours)
        self.held.by_level = held if any(held) else tables.held

    patch.setattr(Relay, "adopt", careless)


MUTATIONS: list[tuple[Mutate, set[str]]] = [
    (silence_is_no_fault, {"illegal"}),
    (pointers_are_not_clamped, {"illegal", "raised", "invalid-state"}),
    (times_are_not_clamped, {"illegal"}),
    (roots_do_not_merge, {"illegal"}),
    (children_that_refuse_stay, {"illegal"}),
    (digests_are_of_stamps, {"presence", "members", "cache", "way"}),
    (the_manifest_is_not_compared, {"presence", "members", "profile", "count"}),
    (the_manifest_is_not_from_owners, {"presence", "members", "profile", "count"}),
    (copies_with_the_right_stamp_stay, {"presence", "profile", "cache"}),
    (ways_are_not_worked_out_anew, {"cache", "way"}),
    (profiles_are_not_audited, {"index", "profile"}),
    (what_clients_want_is_not_summed_up_anew, {"index", "profile", "count"}),
    (nothing_follows_from_a_round, {"cache", "way", "index", "profile"}),
    (plans_that_nobody_ordered_do_not_end, {"plan"}),
    (whom_events_wait_for_is_not_worked_out_anew, {"held"}),
    (waves_are_not_passed_on, {"illegal", "presence", "profile", "count"}),
    (waves_are_taken_from_anybody, {"illegal"}),
]


@pytest.mark.req("CO-01")
@pytest.mark.parametrize(("mutate", "kinds"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
def test_a_network_that_does_not_heal_is_seen(mutate: Mutate, kinds: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    assert find_killer(mutate.__name__, "colours", kinds, MOST_SEEDS) is not None, "nobody noticed"
