"""Mechanisms that matter in a moment which no seed is sure to meet: broken on purpose, each fails the test of its rule.

Those that seeds show are in `tests/simulation/*_mutations.py`. docs/protocols/counterexamples.md tells of all of them
what goes wrong without it.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import count

import pytest
from tests.paper import test_colours, test_plans
from tests.unit.nodes.network import test_lost_links
from tests.unit.protocols.colours import test_manifest_lease
from tests.unit.protocols.dissemination import test_relay

from stentor.machine import Buffer
from stentor.model.colours.manifest import ManifestRow
from stentor.model.colours.plan import PlanPhase
from stentor.model.colours.plan_messages import Go, PlanAnswer
from stentor.protocols.colours import wave
from stentor.protocols.colours.manifest_lease import ManifestLease
from stentor.protocols.colours.planning import Planning, _RunningPlan
from stentor.protocols.colours.wave import Wave
from stentor.protocols.connection.outbox import OutboundRun, Outbox
from stentor.protocols.dissemination.mask_plans import MaskPlans
from stentor.protocols.dissemination.relay import Relay
from stentor.wire.parcel import read_ways


def waves_are_taken_whatever_their_colour(patch: pytest.MonkeyPatch) -> None:
    others = count()
    patch.setattr(wave, "new_colour", lambda _: next(others))


def flags_of_children_are_never_cleared(patch: pytest.MonkeyPatch) -> None:
    original = Wave._pass_on

    def forgiving(self: Wave, rows: tuple[ManifestRow, ...] | None, *, is_told: bool = True) -> None:
        alive = set(self._alive)
        original(self, rows, is_told=is_told)
        self._alive |= alive

    patch.setattr(Wave, "_pass_on", forgiving)


def plans_end_without_draining(patch: pytest.MonkeyPatch) -> None:
    def hasty(self: Planning, running: _RunningPlan, found: PlanAnswer, is_whole: bool) -> None:
        if is_whole and found.switched == found.brokers:
            self._poll.go(Go(self._around.scope, running.plan.number))
            self._end(running, PlanPhase.DONE, 0)

    patch.setattr(Planning, "_judge_draining", hasty)


def one_count_is_enough(patch: pytest.MonkeyPatch) -> None:
    original = Planning._judge_draining

    def trusting(self: Planning, running: _RunningPlan, found: PlanAnswer, is_whole: bool) -> None:
        running.last_sums = found.sent, found.arrived
        original(self, running, found, is_whole)

    patch.setattr(Planning, "_judge_draining", trusting)


def inner_colours_are_missing_in_transit(patch: pytest.MonkeyPatch) -> None:
    def outer_alone(self: Relay[Outbox], _: int, ways: bytes) -> MaskPlans[Outbox]:
        return self._plans_of(read_ways(ways).colours[: self._context.depth])

    patch.setattr(Relay, "_plans_for", outer_alone)


def numbers_are_given_again_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ManifestLease, "_rest", lambda *_: None)


def what_was_sent_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    release, take = Outbox.release, Outbox.take_waiting
    sent: dict[Outbox, list[OutboundRun]] = defaultdict(list)

    def remembering(self: Outbox) -> list[Buffer]:
        sent[self] += self.fresh
        return release(self)

    def all_of_it(self: Outbox) -> list[tuple[bytes, int]]:
        return [(bytes(run[0]), run[1]) for run in sent[self]] + take(self)

    patch.setattr(Outbox, "release", remembering)
    patch.setattr(Outbox, "take_waiting", all_of_it)


BROKEN: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = [
    (
        waves_are_taken_whatever_their_colour,
        test_colours.test_a_recolour_message_is_taken_only_if_its_colour_is_another_one,
    ),
    (
        flags_of_children_are_never_cleared,
        test_colours.test_the_new_colour_goes_to_children_only_if_they_acknowledged_the_previous_message,
    ),
    (plans_end_without_draining, test_plans.test_nothing_is_finished_before_as_much_arrived_as_was_sent),
    (one_count_is_enough, test_plans.test_nothing_is_finished_before_two_polls_in_a_row_have_found_the_same),
    (
        inner_colours_are_missing_in_transit,
        test_relay.test_below_the_level_of_a_link_a_parcel_gets_the_colours_of_whoever_takes_it_in,
    ),
    (numbers_are_given_again_at_once, test_manifest_lease.test_a_number_that_was_given_back_rests_for_three_rounds),
    (what_was_sent_is_sent_again, test_lost_links.test_what_was_sent_over_a_lost_link_is_in_doubt_and_not_sent_again),
]


@pytest.mark.req("CO-03", "CO-04", "CO-06", "CO-12")
@pytest.mark.parametrize(("mutate", "rule"), BROKEN, ids=[mutate.__name__ for mutate, _ in BROKEN])
def test_a_broken_mechanism_fails_the_test_of_its_rule(
    mutate: Callable[[pytest.MonkeyPatch], None], rule: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule()
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        rule()
