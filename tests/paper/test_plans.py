"""Paper 003, "Reconfiguring Self-stabilizing Publish/Subscribe Systems", sections 3 and 4: planned reconfigurations.

Tests quote the sentence that they are about, where the paper has one.
"""

import pytest
from tests.paper.planned_scopes import DONE, SOON, UNDONE, mesh, plan, said, stages, stories, story, view
from tests.paper.scope import PaperScope, chain

from stentor.machine import SECOND
from stentor.model.colours.colour import current_colour, new_colour, old_colour
from stentor.model.colours.plan import PlanPhase, PlanStage, Side
from stentor.model.colours.plan_messages import Announce, Go, PlanAnswer, Poll
from stentor.model.colours.wave_messages import Place, Rotate
from stentor.model.colours.wave_timing import ColourSettings
from stentor.protocols.colours.scope_tree import TreeRole

# ---- what it takes


@pytest.mark.req("CO-05")
def test_a_plan_takes_one_message_to_disseminate_it_and_one_to_activate_it() -> None:
    # "Thus, reconfigurations take two recolor messages to become active: one to disseminate the reconfiguration and one
    # to activate it."
    scope = chain()
    before = scope["A"].tree.round
    scope.said.clear()
    assert scope.request("A", plan()) == ""
    scope.deliver()
    assert said(scope, Announce) == said(scope, Rotate) == said(scope, Go) == [("A", "B"), ("B", "C")]
    assert scope.rounds() == {before + 1}
    assert stories(scope) == {DONE}
    assert view(scope).phase is PlanPhase.DONE
    assert (view(scope).brokers, view(scope).prepared, view(scope).in_doubt) == (3, 3, 0)


@pytest.mark.req("CO-05")
def test_a_hundred_changes_take_as_many_messages_as_one() -> None:
    # "the intended changes are sent to R, which collects them in the set R and disseminates them in the next recolor
    # message"
    counts = set()
    for changes in (1, 100):
        scope = mesh()
        scope.said.clear()
        scope.request("A", plan(changes=changes))
        scope.deliver()
        assert view(scope).phase is PlanPhase.DONE
        assert view(scope).changes == changes
        counts.add((len(said(scope, Announce)), len(said(scope, Rotate)), len(said(scope, Go))))
    assert counts == {(3, 3, 3)}


@pytest.mark.req("CO-05")
def test_a_plan_goes_by_the_tree_in_which_everybody_is_told_by_its_parent() -> None:
    # "Recolor messages are routed using C^cur of every broker B that receives a recolor message"
    scope = chain()
    scope.link("A", "C")
    scope.deliver()
    scope.said.clear()
    scope.request("A", plan())
    scope.deliver()
    assert {(sender, to) for sender, to, message in scope.said if isinstance(message, Announce | Poll | Go)} == {
        ("A", "B"),
        ("B", "C"),
    }
    assert stories(scope) == {DONE}


@pytest.mark.req("CO-05")
def test_the_wave_that_activates_a_plan_names_it_and_all_others_name_none() -> None:
    scope = chain()
    scope.said.clear()
    scope.request("A", plan())
    scope.pass_time(2 * scope.timing.period)
    assert [message.plan for _, to, message in scope.said if isinstance(message, Rotate) and to == "C"] == [7, 0, 0]
    assert stories(scope) == {DONE}


# ---- by which topology


@pytest.mark.req("CO-06")
def test_events_are_routed_over_the_topology_that_their_publisher_belonged_to_at_publishing_time() -> None:
    # "Thereby, we ensure that notifications will be routed over the topology, the publishing broker belonged to at
    # publishing time."
    scope = chain()
    scope.work["C"].counts = (1, 0)  # so that the plan does not end
    before = scope["A"].tree.round
    scope.loses = lambda _, to, message: (  # C switches later than the others
        to == "C" and isinstance(message, Rotate | Announce) and scope["B"].announced.stage is PlanStage.SWITCHED
    )
    scope.request("A", plan())
    scope.deliver()
    switched, waiting = scope["B"], scope["C"]
    assert (switched.announced.stage, waiting.announced.stage) == (PlanStage.SWITCHED, PlanStage.ANNOUNCED)
    published_before, published_after = current_colour(before), current_colour(before + 1)
    for broker in (switched, waiting):
        assert broker.announced.side(published_before, broker.tree.round) is Side.BEFORE
        assert broker.announced.side(published_after, broker.tree.round) is Side.AFTER


@pytest.mark.req("CO-06")
def test_without_a_plan_all_colours_have_the_same_topology() -> None:
    scope = chain()
    colours = current_colour(4), new_colour(4), old_colour(4)
    assert [scope["B"].announced.side(colour, 4) for colour in colours] == [None, None, None]
    scope.request("A", plan())
    scope.deliver()
    assert [scope["B"].announced.side(colour, 4) for colour in colours] == [None, None, None]


# ---- until when it waits


@pytest.mark.req("CO-05")
def test_links_are_opened_only_when_all_brokers_know_of_the_plan() -> None:
    scope = mesh()
    scope.loses = lambda _, to, message: to == "D" and isinstance(message, Announce)
    scope.request("A", plan())
    scope.pass_time(5.0)
    assert view(scope).phase is PlanPhase.ANNOUNCING
    assert [story(scope, name) for name in "ABCD"] == [*3 * [["announced 7"]], []]
    assert view(scope).reason == "D: has not heard of the plan"
    scope.loses = lambda *_: False
    scope.pass_time(1.0)
    assert stories(scope) == {DONE}


@pytest.mark.req("CO-05")
def test_nothing_switches_while_one_broker_is_not_prepared() -> None:
    # "the reconfiguration of the overlay topology can be incorporated by delaying the switch to the new topology …
    # long enough, such that they have been rebuilt completely"
    scope = chain()
    scope.work["C"].lacks = "no link"
    scope.request("A", plan())
    scope.pass_time(5.0)
    assert stories(scope) == {("announced 7", "prepared")}
    assert view(scope).phase is PlanPhase.PREPARING
    assert (view(scope).prepared, view(scope).brokers, view(scope).reason) == (2, 3, "C: no link")
    scope.work["C"].lacks = ""
    scope.pass_time(SOON)
    assert stories(scope) == {DONE}


@pytest.mark.req("CO-05")
def test_nothing_switches_while_one_broker_does_not_answer() -> None:
    scope = mesh()
    scope.loses = lambda sender, _, message: sender == "D" and isinstance(message, PlanAnswer)
    scope.request("A", plan())
    scope.pass_time(5.0)
    assert stages(scope) == {PlanStage.ANNOUNCED}
    scope.cut("A", "D")  # it is gone, and fewer are there than took the last wave
    scope.pass_time(SOON)
    assert stages(scope) == {PlanStage.ANNOUNCED}


@pytest.mark.req("CO-05")
def test_a_broker_that_has_just_come_does_not_make_up_for_one_that_does_not_answer() -> None:
    scope = mesh("E")
    scope.loses = lambda sender, _, message: sender == "D" and isinstance(message, PlanAnswer)
    scope.request("A", plan())
    scope.link("B", "E")
    scope.pass_time(5.0)
    assert scope["E"].tree.parent == "B"
    assert view(scope).brokers == 4  # as many as took the last wave
    assert stages(scope) == {PlanStage.ANNOUNCED}
    scope.loses = lambda *_: False
    scope.pass_time(1.0)
    assert stories(scope) == {DONE}


@pytest.mark.req("CO-05", "CO-12")
def test_nothing_is_finished_before_as_much_arrived_as_was_sent() -> None:
    # "there may still be messages on the network that are colored with c^old. To be able to deliver these messages, the
    # topology for c^old has to be kept long enough."
    scope = chain()
    scope.work["B"].counts = (4, 1)
    scope.work["C"].counts = (0, 2)
    scope.request("A", plan())
    scope.pass_time(5.0)
    assert stages(scope) == {PlanStage.SWITCHED}
    assert view(scope).phase is PlanPhase.DRAINING
    scope.work["C"].counts = (0, 3)
    scope.pass_time(SOON)
    assert stories(scope) == {DONE}
    assert view(scope).in_doubt == 0


@pytest.mark.req("CO-12")
def test_nothing_is_finished_before_two_polls_in_a_row_have_found_the_same() -> None:
    # An event that was sent after its sender had answered, and came before its receiver did, makes up for one that is
    # still under way. Then a later poll finds other sums.
    scope = chain()
    scope.work["B"].counts_first.extend([(1, 1), (2, 2), (3, 2), (3, 2), (3, 3)])
    scope.work["B"].counts = (3, 3)
    scope.said.clear()
    scope.request("A", plan())
    scope.pass_time(SOON)
    kinds = [type(message) for sender, _, message in scope.said if sender == "A"]
    assert kinds[kinds.index(Rotate) :] == [Rotate, *6 * [Poll], Go]
    assert not scope.work["B"].counts_first
    assert view(scope).in_doubt == 0


@pytest.mark.req("CO-05")
def test_no_other_wave_begins_while_a_plan_is_under_way_and_nobody_takes_the_silence_for_a_fault() -> None:
    scope = chain()
    scope.work["C"].lacks = "no link"
    before = scope["A"].tree.round
    scope.request("A", plan())
    scope.said.clear()
    scope.pass_time(8 * scope.timing.patience)
    assert not said(scope, Rotate)
    assert scope.rounds() == {before}
    assert [scope[name].tree.role for name in "ABC"] == [TreeRole.ROOT, TreeRole.MEMBER, TreeRole.MEMBER]
    assert [scope[name].faults for name in "ABC"] == [0, 0, 0]
    assert not scope.wrong()
    scope.work["C"].lacks = ""
    scope.pass_time(SOON + 2 * scope.timing.period)
    assert scope.rounds() == {before + 3}


# ---- deadlines


@pytest.mark.req("CO-05")
def test_the_deadline_undoes_a_plan_that_is_not_switched() -> None:
    # "The presumption is that reconfigurations can be delayed a bounded time before becoming active"
    scope = chain()
    before = scope["A"].tree.round
    scope.work["C"].lacks = "no link"
    scope.request("A", plan())
    scope.pass_time(scope.timing.prepare_within - 1)
    assert view(scope).phase is PlanPhase.PREPARING
    assert scope.rounds() == {before}
    scope.pass_time(1.5)
    assert stories(scope) == {UNDONE}
    assert view(scope).phase is PlanPhase.UNDONE
    assert view(scope).reason == "C: no link"


@pytest.mark.req("CO-05")
def test_the_deadline_undoes_a_plan_that_one_broker_never_hears_of() -> None:
    scope = mesh()
    scope.loses = lambda _, to, message: to == "D" and isinstance(message, Announce)
    scope.request("A", plan())
    scope.pass_time(scope.timing.prepare_within + 1)
    assert view(scope).phase is PlanPhase.UNDONE
    assert [story(scope, name) for name in "ABCD"] == [*3 * [["announced 7", "withdrawn"]], []]


@pytest.mark.req("CO-12")
def test_the_deadline_ends_the_wait_for_what_is_under_way_and_tells_how_much_is_in_doubt() -> None:
    scope = chain()
    scope.work["B"].counts = (9, 4)
    scope.request("A", plan())
    scope.pass_time(scope.timing.drain_within - 1)
    assert stages(scope) == {PlanStage.SWITCHED}
    scope.pass_time(1.5)
    assert stories(scope) == {DONE}
    assert view(scope).phase is PlanPhase.DONE
    assert view(scope).in_doubt == 5
    assert view(scope).reason == "the deadline ended the wait for what was under way"


@pytest.mark.req("CO-01", "CO-05")
def test_times_that_damage_has_put_ahead_do_not_hold_a_plan_up() -> None:
    scope = chain()
    scope.work["C"].lacks = "no link"
    scope.request("A", plan())
    scope.pass_time(SOON)
    running = scope["A"].planning._running
    assert running is not None
    running.next_at = running.phase_at = running.began_at = scope.now + 10**6 * SECOND
    scope["A"].beat()
    scope.work["C"].lacks = ""
    scope.pass_time(2.0)
    assert stories(scope) == {DONE}


# ---- whoever is below a link that goes


@pytest.mark.req("CO-03", "CO-13")
def test_a_broker_gets_another_parent_before_a_plan_takes_the_link_to_its_own_away() -> None:
    scope = mesh()
    before = scope.rounds()
    scope.going = {frozenset("AC")}
    scope.said.clear()
    scope.seek_place("C")
    scope.deliver()
    assert scope["C"].tree.parent in ("B", "D")
    assert scope["A"].tree.children == ("B", "D")
    assert scope.rounds() == before  # nobody takes it for a fault, and no wave was needed
    assert not said(scope, Rotate)
    assert scope.wrong() == []
    scope.cut("A", "C")
    assert scope["C"].tree.role is TreeRole.MEMBER


@pytest.mark.req("CO-03", "CO-13")
def test_two_brokers_whose_links_go_are_not_placed_below_each_other() -> None:
    scope = PaperScope("A", "B", "C", "D", "E", roots=("A",))
    for one, other in ("AB", "AC", "BD", "CE"):
        scope.link(one, other)
        scope.settle()
    for one, other in ("BE", "CD"):
        scope.link(one, other)
    scope.settle()
    assert (scope["D"].tree.parent, scope["E"].tree.parent) == ("B", "C")
    scope.going = {frozenset("AB"), frozenset("AC")}
    scope.seek_place("B")  # by E, which is below C
    scope.seek_place("C")  # by D, which is below B
    scope.deliver()
    assert sorted((scope["B"].tree.parent, scope["C"].tree.parent)) in (["A", "D"], ["A", "E"])
    assert scope.wrong() == []


@pytest.mark.req("CO-03")
def test_a_broker_whose_link_goes_stays_where_it_is_rather_than_beyond_the_height() -> None:
    scope = PaperScope("A", "B", "C", "D", "E", settings=ColourSettings(delay_max=0.05, height=3, degree=3))
    for one, other in ("AB", "BC", "CD", "AE"):
        scope.link(one, other)
        scope.settle()
    scope.link("E", "B")
    scope.settle()
    scope.going = {frozenset("AB")}
    scope.seek_place("B")
    scope.deliver()
    assert scope["B"].tree.parent == "A"  # below E, D would be the fourth
    assert "B" not in scope["E"].tree.children
    assert scope.wrong() == []


@pytest.mark.req("CO-05", "CO-12")
def test_a_broker_that_got_another_parent_during_a_poll_is_not_counted_twice() -> None:
    scope = mesh()
    scope.work["B"].lacks = "no link"
    scope.request("A", plan())
    scope.pass_time(SOON)
    poll = next(message for _, to, message in reversed(scope.said) if to == "C" and isinstance(message, Poll))
    scope.said.clear()
    scope.hear("A", "C", poll)
    (answer,) = [message for sender, _, message in scope.said if sender == "C" and isinstance(message, PlanAnswer)]
    assert (answer.brokers, answer.silent) == (1, 1)  # so the root asks once more


@pytest.mark.req("CO-05")
def test_nobody_waits_for_the_answer_of_a_broker_that_got_another_parent() -> None:
    scope = mesh()
    scope.loses = lambda sender, _, message: sender == "C" and isinstance(message, PlanAnswer)
    scope.request("A", plan())
    scope.deliver()
    assert scope["A"]._poll.is_running
    scope.going = {frozenset("AC")}
    scope.seek_place("C")
    scope.deliver()
    assert view(scope).brokers == 3  # the poll is over: C is asked in the next one, by its new parent


@pytest.mark.req("CO-03")
def test_a_neighbour_that_takes_itself_for_the_parent_is_told_that_it_is_not() -> None:
    # An answer that came too late has left a child behind that is none; until the next wave, which a plan puts off, the
    # neighbour would wait for what that child has to say.
    scope = mesh()
    scope["B"].tree.adopt("C")
    scope.request("A", plan())
    scope.deliver()
    assert scope["B"].tree.children == ()
    scope.pass_time(SOON)
    assert stories(scope) == {DONE}


@pytest.mark.req("CO-03")
def test_a_place_that_is_wanted_no_more_is_turned_down() -> None:
    scope = mesh()
    place = Place(scope="", broker="C", parent="B", root="A", rank=0, round=scope["C"].tree.round, depth=2)
    scope["B"].tree.adopt("C")
    scope.hear("B", "C", place)
    scope.deliver()
    assert scope["C"].tree.parent == "A"
    assert scope["B"].tree.children == ()
