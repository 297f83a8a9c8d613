"""Paper 003, "Reconfiguring Self-stabilizing Publish/Subscribe Systems", sections 3 and 4: trees, waves and leases.

Each test quotes the sentence that it is about.
"""

import msgspec
import pytest
from tests.paper.planned_scopes import plan
from tests.paper.scope import PaperScope, chain

from stentor.machine import SECOND
from stentor.model.colours.colour import current_colour, new_colour, old_colour
from stentor.model.colours.wave_messages import Ack, Crown, Rejoin, RootClaim, Rotate
from stentor.model.colours.wave_timing import ColourSettings
from stentor.protocols.colours.scope_tree import UNRANKED, Claim, Pointers, TreeRole


def star() -> PaperScope:
    """A is the root, and B, C and D are its children."""
    scope = PaperScope("A", "B", "C", "D")
    for leaf in ("B", "C", "D"):
        scope.link("A", leaf)
    scope.settle()
    return scope


@pytest.mark.req("CO-02")
def test_every_broker_maintains_data_structures_for_three_different_colours() -> None:
    # "every broker maintains data structures for three different colors"; "These colors are rotated regularly."
    for number in (0, 1, 2, 17, 2**32 - 1):
        colours = current_colour(number), new_colour(number), old_colour(number)
        assert sorted(colours) == [0, 1, 2]
    assert len(chain()["B"].tree.pointers) == 3


@pytest.mark.req("CO-02")
def test_on_a_timeout_the_root_rotates_and_begins_new_with_the_values_of_current() -> None:
    # "On a timeout, R resets its timer, rotates its colors and subsequently initializes the child broker pointers
    # C^new and the parent broker pointer P^new with the respective values colored with c^cur (which has been c^new
    # before the timeout)."
    scope = chain()
    tree = scope["A"].tree
    before, former = tree.round, tree.pointers[new_colour(tree.round)]
    tree.pointers[new_colour(tree.round)] = Pointers("", (*former.children, "C"))  # a change that was announced
    tree.begin_round()
    assert tree.round == before + 1
    assert tree.pointers[current_colour(tree.round)].children == (*former.children, "C")
    assert tree.pointers[new_colour(tree.round)] == tree.pointers[current_colour(tree.round)]
    assert tree.pointers[old_colour(tree.round)] == former


@pytest.mark.req("CO-03")
def test_recolour_messages_reach_every_broker_once_a_period() -> None:
    # "It is the task of the root broker R to regularly recolor all brokers in the tree."
    scope = chain()
    scope.said.clear()
    before = scope["A"].tree.round
    scope.pass_time(3 * scope.timing.period)
    assert scope.rounds() == {before + 3}
    waves = [(sender, to) for sender, to, _ in scope.take_said(Rotate)]
    assert waves == 3 * [("A", "B"), ("B", "C")]


@pytest.mark.req("CO-03")
def test_the_new_colour_goes_to_children_only_if_they_acknowledged_the_previous_message() -> None:
    # "Then, it disseminates the new color in a recolor message to all child brokers stored in C^cur, if they are still
    # alive as indicated by a flag that was set when the child broker acknowledged the previous REC_msg."
    scope = star()
    scope["A"].tick()
    scope.drop()
    scope.now = scope["A"].wave.heard_at + int(scope.timing.period * SECOND)
    scope.steps["A"].now = scope.now
    scope["A"].tick()  # the next wave begins
    for child in ("B", "C"):  # D's message is lost, and so it does not answer
        scope.hear("A", child, next(each[2] for each in scope.under_way if each[1] == child))  # type: ignore[arg-type]
    for sender, to, message in list(scope.under_way):
        if isinstance(message, Ack):
            scope.hear(sender, to, message)
    scope.drop()
    scope.said.clear()
    scope.now += int(scope.timing.period * SECOND)
    scope.steps["A"].now = scope.now
    scope["A"].tick()
    assert [to for sender, to, _ in scope.take_said(Rotate) if sender == "A"] == ["B", "C"]
    assert "D" not in scope["A"].tree.children


@pytest.mark.req("CO-03")
def test_for_every_broker_but_the_root_a_timeout_is_viewed_as_a_fault_and_it_tries_to_reconnect() -> None:
    # "For every other broker B ≠ R a timeout is viewed as a fault and hence B tries to reconnect to the tree."
    scope = chain()
    scope["B"].tree.disown("C")  # damage: B forgets its child, which nobody tells
    scope.said.clear()
    scope.pass_time(scope.timing.patience + 0.01)
    assert scope["C"].faults == 1
    assert [(sender, to) for sender, to, _ in scope.take_said(Rejoin)] == [("C", "B"), ("B", "A")]
    assert not scope.wrong()


@pytest.mark.req("CO-03")
def test_nobody_waits_longer_than_the_period_and_the_height_of_the_tree_times_the_longest_delay() -> None:
    # "a timeout ξ' = ξ + h · δ_max is necessary on every broker B distinct from R"
    timing = PaperScope("A", settings=ColourSettings(period=2.0, delay_max=0.1, height=5)).timing
    assert (timing.crossing, timing.patience) == (0.5, 2.5)


@pytest.mark.req("CO-04")
def test_a_broker_answers_rotates_and_forwards_the_message_to_its_children() -> None:
    # "When B receives a recolor message, it resets its timer, replies with an acknowledge message, rotates its colors,
    # initializes its pointers like R, and forwards the message to its child brokers."
    scope = chain()
    scope["A"].tick()
    scope.deliver()
    scope.said.clear()
    tree = scope["B"].tree
    before = tree.round
    rotate = Rotate(scope="", round=before + 1, root="A", rank=UNRANKED, depth=1, manifest=scope["B"].lease.digest)
    scope.hear("A", "B", rotate)
    assert tree.round == before + 1
    assert scope["B"].wave.heard_at == scope.now
    said = [(to, type(message)) for sender, to, message in scope.said if sender == "B"]
    assert said == [("C", Rotate), ("A", Ack)]


@pytest.mark.req("CO-04")
def test_a_recolour_message_is_taken_from_the_parent_in_new_alone() -> None:
    # "The broker accepts the recolor message only if it has been sent by the broker P^new points to …"
    scope = chain()
    scope.link("A", "C")
    scope.deliver()
    assert scope["C"].tree.parent == "B"
    before = scope["C"].tree.round
    rotate = Rotate(scope="", round=before + 1, root="A", rank=UNRANKED, depth=1, manifest=0)
    scope.hear("A", "C", rotate)
    assert scope["C"].tree.round == before
    scope.hear("B", "C", msgspec.structs.replace(rotate, depth=2))
    assert scope["C"].tree.round == before + 1


@pytest.mark.req("CO-04")
def test_a_recolour_message_is_taken_only_if_its_colour_is_another_one() -> None:
    # "… and if the new color m.c stored in the message is different from the color stored in c^new. This test is needed
    # to detect cycles that may result from faults."
    scope = chain()
    tree = scope["B"].tree
    before = tree.round
    for same in (before, before + 3, before + 6):
        scope.hear("A", "B", Rotate(scope="", round=same, root="A", rank=UNRANKED, depth=1, manifest=0))
    assert tree.round == before


@pytest.mark.req("CO-01", "CO-04")
def test_a_message_ends_in_a_cycle_and_the_cycle_does_within_the_bound() -> None:
    scope = PaperScope("A", "B", "C", "D")
    for one, other in (("A", "B"), ("B", "C"), ("C", "D"), ("B", "D")):
        scope.link(one, other)
    scope.settle()
    ring = {"B": "D", "C": "B", "D": "C"}  # each is the parent of the next one
    for name, parent in ring.items():
        tree = scope[name].tree
        tree.role = TreeRole.MEMBER
        tree.claim = Claim(UNRANKED, "A")
        tree.depth = 1
        tree.round = 7
        tree.pointers = 3 * [Pointers(parent, tuple(child for child, above in ring.items() if above == name))]
    scope["A"].tree.pointers = 3 * [Pointers()]
    scope.said.clear()
    scope.hear("D", "B", Rotate(scope="", round=8, root="A", rank=UNRANKED, depth=1, manifest=0))
    scope.deliver()
    assert len(scope.take_said(Rotate)) <= len(ring)
    scope.settle()
    assert not scope.wrong()


@pytest.mark.req("CO-03")
def test_who_rejoins_gets_a_parent_with_less_than_b_children() -> None:
    # "One is to look for an arbitrary broker that has less than b child brokers down the tree and use it as a new
    # parent for a requesting broker. … the degree of the broker topology can be maintained."
    settings = ColourSettings(delay_max=0.05, height=4, degree=2)
    scope = PaperScope("A", "B", "C", "D", "E", settings=settings)
    for leaf in ("B", "C", "D", "E"):
        scope.link("A", leaf)
    scope.link("B", "D")
    scope.link("C", "E")
    scope.settle()
    scope.settle()
    assert not scope.wrong()
    assert max(len(broker.tree.children) for broker in scope.brokers.values()) <= 2


@pytest.mark.req("CO-03")
def test_who_has_no_neighbour_with_room_is_sent_to_a_broker_that_has_some() -> None:
    # "There are many ways to find a new parent broker for B depending on the topology requirements."
    scope = PaperScope("A", "B", "C", "D", settings=ColourSettings(delay_max=0.05, height=4, degree=2))
    for leaf in ("B", "C", "D"):
        scope.link("A", leaf)
    scope.settle()
    assert scope.dialled[-1] in [("D", "at B"), ("D", "at C")]
    scope.link("D", scope.dialled[-1][1].removeprefix("at "))
    scope.settle()
    assert not scope.wrong()
    assert len(scope["A"].tree.children) == 2


@pytest.mark.req("CO-03")
def test_a_broker_is_never_placed_below_itself() -> None:
    scope = chain()
    scope.said.clear()
    scope.cut("A", "B")  # B asks C, which is below it
    scope.pass_time(scope.timing.rejoining)
    assert scope["C"].tree.parent == "B"
    assert scope["B"].tree.role is TreeRole.ORPHAN


@pytest.mark.req("CO-11")
def test_the_state_is_correct_if_pointers_agree_in_old_and_current_and_no_tree_is_partitioned() -> None:
    # "The broker overlay is in a correct state if the parent and child broker relation between every broker in the
    # system is consistent for the data structures colored with the values of c^old and c^cur at R and the tree … is not
    # partitioned. The value of C^new and P^new is treated differently."
    scope = chain()
    assert not scope.wrong()
    root, tree = scope["A"].tree, scope["C"].tree
    for colour in (old_colour(root.round), current_colour(root.round)):
        kept = tree.pointers[colour]
        tree.pointers[colour] = Pointers("A", ())
        assert scope.wrong()
        tree.pointers[colour] = kept
    tree.pointers[new_colour(root.round)] = Pointers("A", ())
    assert not scope.wrong()


@pytest.mark.req("CO-08")
def test_if_the_root_dies_the_next_of_its_group_takes_over() -> None:
    # "To maintain self-stabilization in case of crashed processes, the root broker R can be implemented in a
    # self-stabilizing fashion using a root group."
    scope = PaperScope("A", "B", "C", "D", roots=("D", "C"))
    for one, other in (("A", "B"), ("B", "C"), ("C", "D"), ("D", "A"), ("A", "C")):
        scope.link(one, other)
    scope.settle()
    assert scope["D"].tree.role is TreeRole.ROOT
    scope.isolate("D")
    scope.settle()
    assert scope["C"].tree.role is TreeRole.ROOT
    assert not scope.wrong("A", "B", "C")
    scope.link("C", "D")
    scope.settle()
    assert scope["D"].tree.role is TreeRole.ROOT
    assert not scope.wrong()


@pytest.mark.req("CO-08")
def test_a_root_that_is_about_to_leave_hands_over_first_and_nobody_waits_for_a_timeout() -> None:
    scope = PaperScope("A", "B", "C", "D", roots=("A", "C"))
    for one, other in (("A", "B"), ("B", "C"), ("C", "D"), ("D", "A"), ("A", "C")):
        scope.link(one, other)
    scope.settle()
    assert scope.hand_over("A") == ""
    scope.deliver()
    assert scope["C"].tree.role is TreeRole.ROOT, "the next of its group"
    assert scope["A"].tree.role is TreeRole.MEMBER
    scope.pass_time(2 * scope.timing.period)
    assert {broker.root for broker in scope.brokers.values()} == {"C"}
    assert not scope.wrong()
    assert sum(broker.faults for broker in scope.brokers.values()) == 0
    scope.isolate("A")
    scope.pass_time(scope.timing.period)
    assert not scope.wrong("B", "C", "D")
    assert scope["C"].tree.role is TreeRole.ROOT


@pytest.mark.req("CO-08")
def test_a_root_that_knows_nobody_but_its_heir_is_placed_below_it() -> None:
    scope = chain()
    assert scope.hand_over("A") == ""
    scope.deliver()
    assert (scope["A"].tree.role, scope["A"].tree.parent) == (TreeRole.MEMBER, "B")
    scope.pass_time(2 * scope.timing.period)
    assert {broker.root for broker in scope.brokers.values()} == {"B"}


@pytest.mark.req("CO-08")
def test_nothing_is_handed_over_by_who_is_no_root_alone_or_has_a_plan_under_way() -> None:
    scope = chain()
    assert scope.hand_over("B") == ""
    assert PaperScope("A").hand_over("A") == ""
    scope.work["C"].lacks = "no link"
    scope.request("A", plan())
    scope.deliver()
    assert scope.hand_over("A") == "a plan of the network is under way"
    scope.hear("C", "B", Crown(""))  # from a child
    assert {broker.root for broker in scope.brokers.values()} == {"A"}


@pytest.mark.req("CO-08")
def test_a_root_group_that_a_plan_has_changed_has_its_first_broker_as_the_root() -> None:
    scope = PaperScope("A", "B", "C", "D", roots=("A",))
    for one, other in (("A", "B"), ("B", "C"), ("C", "D")):
        scope.link(one, other)
    scope.settle()
    assert scope["A"].tree.role is TreeRole.ROOT
    for work in scope.work.values():
        work.root_group = ("D", "B")
    scope.pass_time(2 * scope.timing.period)
    assert {broker.root for broker in scope.brokers.values()} == {"D"}
    assert not scope.wrong()
    assert sum(broker.faults for broker in scope.brokers.values()) == 0, "nobody waits for a timeout"
    scope.isolate("D")
    scope.settle()
    assert scope["B"].tree.role is TreeRole.ROOT


@pytest.mark.req("CO-10")
def test_two_brokers_that_wish_for_one_number_get_one_each_from_the_root() -> None:
    scope = chain()
    scope.members["C"].row = msgspec.structs.replace(scope.members["C"].row, number=1)
    scope.pass_time(3 * scope.timing.period)
    for members in scope.members.values():
        assert {unit: row.number for unit, row in members.shown[-1].items()} == {"A": 0, "B": 1, "C": 2}


@pytest.mark.req("CO-08")
def test_two_roots_that_hear_of_each_other_become_one_tree() -> None:
    scope = PaperScope("A", "B", "C", "D")
    scope.link("A", "B")
    scope.link("C", "D")
    scope.settle()
    assert scope["C"].tree.role is TreeRole.ROOT
    scope.link("B", "D")
    scope.settle()
    assert not scope.wrong()
    assert {broker.root for broker in scope.brokers.values()} == {"A"}


@pytest.mark.req("CO-07")
def test_what_owners_say_of_themselves_reaches_everybody_within_two_rounds() -> None:
    # "clients regularly refresh their subscriptions and brokers use a second chance algorithm to remove stale entries
    # from their routing tables"
    scope = chain()
    members = scope.members["C"]
    members.row = msgspec.structs.replace(members.row, presence=99, presence_version=2)
    scope.pass_time(2 * scope.timing.period)
    assert [scope.members[name].shown[-1]["C"].presence for name in "ABC"] == [99, 99, 99]


@pytest.mark.req("CO-07")
def test_a_wave_that_changes_nothing_costs_a_small_message_and_its_answer_for_each_edge() -> None:
    scope = star()
    scope.said.clear()
    scope.pass_time(scope.timing.period)
    messages = [message for _, _, message in scope.said]
    assert sorted(type(message).__name__ for message in messages) == ["Ack"] * 3 + ["Rotate"] * 3
    assert max(len(msgspec.msgpack.encode(message)) for message in messages) <= 256


@pytest.mark.req("CO-07")
def test_a_damaged_manifest_is_replaced_with_the_next_wave() -> None:
    scope = chain()
    scope["B"].lease.rows.pop("A")
    scope["B"].lease.digest = 1
    scope.pass_time(scope.timing.period)
    assert scope["B"].lease.rows == scope["C"].lease.rows == scope["A"].lease.rows


@pytest.mark.req("CO-17")
def test_a_round_at_the_end_of_its_range_begins_again_with_another_colour() -> None:
    scope = chain()
    for broker in scope.brokers.values():
        broker.tree.round = 2**32 - 1
        broker.tree.pointers = 3 * [broker.tree.pointers[0]]
    scope.pass_time(3 * scope.timing.period)
    assert len(scope.rounds()) == 1
    assert max(scope.rounds()) < 10
    assert not scope.wrong()


@pytest.mark.req("CO-01")
def test_a_claim_of_a_root_that_is_not_there_moves_nobody() -> None:
    scope = chain()
    scope.hear("B", "A", RootClaim(scope="", root="0", rank=UNRANKED, depth=1))
    scope.deliver()
    scope.settle()
    assert {broker.root for broker in scope.brokers.values()} == {"A"}
    assert not scope.wrong()
