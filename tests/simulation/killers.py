"""Which seeds show a mechanism that was broken on purpose.

All seeds are tried one after the other. Of mechanisms that few worlds need, one seed that needs them is tried first: it
costs a run instead of a hundred. When behaviour changes it may show nothing any more, and the others are tried again.
"""

from collections.abc import Iterable

from tests.simulation.test_seeds import OPEN

from stentor.simulation.scenarios import SCENARIOS

_FIRST = {
    "what_was_acknowledged_is_forgotten_by_a_restart": 303,
    "facts_are_not_checked": 470,
    "any_number_of_shortcuts": 145,
    "no_two_way_check": 289,
    "no_duplicate_suppression": 127,
    "no_position_check": 787,
    "a_failed_topic_is_not_opened_again": 18,
    "only_neighbours_are_waited_for": 15,
    "publishers_are_told_the_last_number_of_all": 22,
    "clocks_that_were_set_back_end_a_publisher": 21,
    "any_number_is_traced": 24,
    "lives_are_never_closed": 16,
    "nothing_grows_old": 15,
    "syncs_are_not_compared": 31,
    "no_duplicate_suppression_at_the_subscriber": 56,
    "letters_are_believed_to_be_from_whom_they_name": 4,
    "lost_receipts_are_not_asked_for_again": 7,
    "what_a_full_disk_refused_is_dropped": 8,
    "letters_are_not_checked": 10,
    "who_names_no_filter_gets_everything": 9,
    "masks_are_not_divided": 6,
    "readers_believe_strangers": 7,
    "nothing_is_held": 6,
    "only_those_wait_to_whom_another_neighbour_leads": 12,
    "events_get_the_new_colour": 6,
    "all_colours_have_the_topology_after_the_plan": 6,
    "nobody_waits_for_links": 60,
    "routes_are_not_worked_out_anew": 12,
    "one_broken_link_ends_all": 1,
    "links_are_not_audited": 1,
    "filters_are_not_indexed_anew": 20,
    "digests_are_of_stamps": 23,
    "subscriptions_are_not_filed_again": 18,
    "heartbeats_of_clients_are_not_compared": 25,
    "held_events_are_of_topics_that_nobody_knows": 126,
    "waiting_plans_are_not_checked_when_their_turn_comes": 218,
    "exits_are_chosen_anew_for_each_event": 253,
    "nobody_asks_for_lost_traces": 11,
    "clients_part_before_what_is_under_way_has_come": 12,
}


def find_killer(mutation: str, scenario: str, kinds: Iterable[str], seeds: int) -> int | None:
    """Return a seed that shows an anomaly of one of these kinds; None if nobody noticed in so many."""
    wanted = set(kinds)
    seed: int
    for seed in dict.fromkeys((_FIRST.get(mutation, 0), *range(seeds))):
        if (scenario, seed) in OPEN:
            continue  # it fails by itself
        if wanted & {anomaly.kind for anomaly in SCENARIOS[scenario].run(seed).anomalies}:
            return seed
    return None
