"""Break what makes a plan lose nothing on purpose, and scenarios with plans must see that something is lost."""

from collections.abc import Callable, Iterator

import pytest
from tests.simulation.killers import find_killer

from stentor.model.colours.colour import Colour, new_colour
from stentor.model.colours.plan import PlanPhase, PlanStage, Side, TopologyPlan
from stentor.nodes.arrival import Arrival
from stentor.nodes.client_link import ClientLink
from stentor.nodes.network.colouring import Colouring
from stentor.nodes.network.link_cost import DETOUR_COST, TreeLinkCost
from stentor.nodes.network.plans.plan_work import ScopePlanWork
from stentor.nodes.network.route_computation import RouteComputation
from stentor.protocols.colours.announced_plan import AnnouncedPlan
from stentor.protocols.colours.planning import Planning, _RunningPlan
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.overlay.exits import ExitChoices, ExitTable
from stentor.wire.parcel import Masks

Mutate = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 60
LOST = {"lost-write", "nonmonotonic-poll"}  # what overtakes others makes subscribers leave these out
MEANING = {"wrong-colour"}


def nothing_is_held(patch: pytest.MonkeyPatch) -> None:
    def no_masks(self: RouteComputation, _: tuple[int, ...]) -> Iterator[Masks]:
        return iter([{}] * (self._context.depth + 1))

    patch.setattr(RouteComputation, "_held", no_masks)


def parcels_go_by_our_own_colours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Relay, "_plans_for", lambda self, *_: self._plans)


def events_get_the_new_colour(patch: pytest.MonkeyPatch) -> None:
    fresh = property(lambda self: tuple(new_colour(colours.tree.round) for colours in self.scopes))
    patch.setattr(Colouring, "current", fresh)


def all_colours_have_the_topology_after_the_plan(patch: pytest.MonkeyPatch) -> None:
    original = AnnouncedPlan.side

    def hasty(self: AnnouncedPlan, colour: Colour, round_number: int) -> Side | None:
        return None if original(self, colour, round_number) is None else Side.AFTER

    patch.setattr(AnnouncedPlan, "side", hasty)


def the_old_colour_is_forgotten_with_the_switch(patch: pytest.MonkeyPatch) -> None:
    original = AnnouncedPlan.side

    def forgetful(self: AnnouncedPlan, colour: Colour, round_number: int) -> Side | None:
        if self.plan is not None and self.stage is not PlanStage.ANNOUNCED:
            return Side.AFTER
        return original(self, colour, round_number)

    patch.setattr(AnnouncedPlan, "side", forgetful)


def links_are_closed_with_the_switch(patch: pytest.MonkeyPatch) -> None:
    original = ScopePlanWork.switch

    def hasty(self: ScopePlanWork) -> None:
        original(self)
        for change in self._own_changes():
            if change.goes:
                self._links.close_link(change)

    patch.setattr(ScopePlanWork, "switch", hasty)


def nobody_waits_for_links(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScopePlanWork, "complaint", lambda _: "")


def links_of_a_tree_cost_what_others_do(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TreeLinkCost, "now", property(lambda self: max(DETOUR_COST, self.base)))


def held_events_are_of_topics_that_nobody_knows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Forwarder, "keep_definitions", lambda *_: None)


def exits_are_chosen_anew_for_each_event(patch: pytest.MonkeyPatch) -> None:
    def nearest(_: ExitChoices, table: ExitTable, key: tuple[int, str, frozenset[str]], **__: bool) -> str:
        return table.nearest(*key[1:])

    patch.setattr(ExitChoices, "choose", nearest)


def only_those_wait_to_whom_another_neighbour_leads(patch: pytest.MonkeyPatch) -> None:
    original = RouteComputation._held

    def narrow(self: RouteComputation, current: tuple[int, ...]) -> Iterator[Masks]:
        now = tuple(self._colouring.sides[level][colour] for level, colour in enumerate(current))
        former = tuple(None if side is None else Side.BEFORE for side in now)
        hop, hop_before = self._graph_of(now).cache.hop, self._graph_of(former).cache.hop
        for held in original(self, current):
            others = {level: self._others(level) for level in held}
            turned = {
                level: {1 << number for unit, number in members.items() if hop(unit) != hop_before(unit)}
                for level, members in others.items()
            }
            yield {level: mask & sum(turned[level]) for level, mask in held.items()}

    patch.setattr(RouteComputation, "_held", narrow)


def clients_part_before_what_is_under_way_has_come(patch: pytest.MonkeyPatch) -> None:
    original = ClientLink._on_received_there

    def hasty(self: ClientLink, arrival: Arrival, data: bytes) -> None:
        original(self, arrival, data)
        self._on_drained()

    patch.setattr(ClientLink, "_on_received_there", hasty)


def waiting_plans_are_not_checked_when_their_turn_comes(patch: pytest.MonkeyPatch) -> None:
    def start(self: Planning, plan: TopologyPlan, now: int) -> None:
        self._running = _RunningPlan(plan, PlanPhase.ANNOUNCING, now)
        self._poll.announce(self._poll.word_of(plan))

    patch.setattr(Planning, "_start", start)


MUTATIONS: list[tuple[Mutate, str, set[str]]] = [
    (nothing_is_held, "plans", LOST),
    (only_those_wait_to_whom_another_neighbour_leads, "plans", LOST),
    (parcels_go_by_our_own_colours, "plans", MEANING),
    (events_get_the_new_colour, "plans", LOST),
    (all_colours_have_the_topology_after_the_plan, "plans", LOST),
    (the_old_colour_is_forgotten_with_the_switch, "plans", MEANING),
    (links_are_closed_with_the_switch, "plans", LOST),
    (nobody_waits_for_links, "plans", LOST | {"plan"}),
    (links_of_a_tree_cost_what_others_do, "plans", {"off-tree"}),
    (exits_are_chosen_anew_for_each_event, "plans", {"moved-exit"}),
    (clients_part_before_what_is_under_way_has_come, "plans", LOST),
    (held_events_are_of_topics_that_nobody_knows, "rebuilding", {"raised"}),
    (waiting_plans_are_not_checked_when_their_turn_comes, "rebuilding", {"restless"}),
]


@pytest.mark.req("CO-06", "CO-12")
@pytest.mark.parametrize(("mutate", "scenario", "kinds"), MUTATIONS, ids=[each[0].__name__ for each in MUTATIONS])
def test_a_plan_that_loses_something_is_seen(
    mutate: Mutate, scenario: str, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert find_killer(mutate.__name__, scenario, kinds, MOST_SEEDS) is not None, "nobody noticed"
