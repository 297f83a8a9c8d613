"""Paper 003, sections 3 and 4: what becomes of a plan if its root dies, brokers come and go, or operators take it back.

Tests quote the sentence that they are about, where the paper has one.
"""

import pytest
from tests.paper.planned_scopes import DONE, SOON, UNDONE, link, mesh, plan, said, stages, stories, story, view
from tests.paper.scope import PaperScope, chain

from stentor.machine import SECOND
from stentor.model.colours.plan import PlanPhase, PlanStage, TopologyChange
from stentor.model.colours.plan_messages import Announce, Go, PlanAnswer, Poll
from stentor.model.colours.wave_messages import Rotate
from stentor.protocols.colours.planning import MOST_WAITING
from stentor.protocols.colours.scope_tree import TreeRole

# ---- faults


@pytest.mark.req("CO-05", "CO-08")
@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_plan_that_is_announced_survives_its_root_and_is_done_or_undone_everywhere(is_prepared: bool) -> None:
    # "To maintain self-stabilization in case of crashed processes, the root broker R can be implemented in a
    # self-stabilizing fashion using a root group."
    scope = mesh()
    scope.work["D"].lacks = "no link"
    scope.request("A", plan())
    scope.pass_time(SOON)
    scope.isolate("A")
    scope.settle()
    assert scope["B"].tree.role is TreeRole.ROOT
    assert view(scope, "B").phase is PlanPhase.PREPARING
    assert stages(scope, "B", "C", "D") == {PlanStage.ANNOUNCED}
    if is_prepared:
        scope.work["D"].lacks = ""
    scope.pass_time(scope.timing.prepare_within)
    assert {tuple(story(scope, name)) for name in "BCD"} == {DONE if is_prepared else UNDONE}
    assert view(scope, "B").phase is (PlanPhase.DONE if is_prepared else PlanPhase.UNDONE)
    assert not scope.wrong("B", "C", "D")


@pytest.mark.req("CO-05", "CO-08")
def test_a_plan_that_a_new_root_is_asked_for_waits_until_that_knows_everybody() -> None:
    scope = mesh()
    assert scope.hand_over("A") == ""
    scope.deliver()
    (heir,) = [name for name in "BCD" if scope[name].tree.role is TreeRole.ROOT]
    assert scope.request(heir, plan()) == ""
    scope.pass_time(SOON)
    assert stories(scope) == {()}
    scope.pass_time(3 * scope.timing.period)
    assert stories(scope) == {DONE}


@pytest.mark.req("CO-05", "CO-08")
def test_a_plan_that_is_switched_is_finished_by_the_next_root() -> None:
    scope = mesh()
    scope.work["D"].counts = (1, 0)
    scope.request("A", plan())
    scope.pass_time(SOON)
    assert stages(scope) == {PlanStage.SWITCHED}
    scope.isolate("A")
    scope.settle(4 * scope.timing.patience)
    assert scope["B"].tree.role is TreeRole.ROOT
    assert view(scope, "B").phase is PlanPhase.DRAINING
    scope.work["D"].counts = (1, 1)
    scope.pass_time(SOON)
    assert {tuple(story(scope, name)) for name in "BCD"} == {DONE}


@pytest.mark.req("CO-05", "CO-08")
def test_a_root_that_comes_back_with_its_plan_finishes_what_others_have_finished() -> None:
    scope = mesh()
    scope.work["D"].lacks = "no link"
    scope.request("A", plan())
    scope.pass_time(SOON)
    scope.isolate("A")
    scope.settle()
    scope.work["D"].lacks = ""
    scope.pass_time(SOON)
    assert stages(scope, "B", "C", "D") == {PlanStage.FINISHED}
    for other in ("B", "C", "D"):
        scope.link("A", other)
    scope.settle()
    assert {broker.root for broker in scope.brokers.values()} == {"A"}
    assert stories(scope) == {DONE}
    assert view(scope).phase is PlanPhase.DONE


@pytest.mark.req("CO-05")
@pytest.mark.parametrize("stage", [PlanStage.ANNOUNCED, PlanStage.SWITCHED])
def test_a_broker_that_joins_while_a_plan_is_under_way_learns_of_it(stage: PlanStage) -> None:
    scope = PaperScope("A", "B", "C")
    scope.link("A", "B")
    scope.settle()
    if stage is PlanStage.ANNOUNCED:
        scope.work["A"].lacks = "no link"
    else:
        scope.work["A"].counts = (1, 0)
    scope.request("A", plan())
    scope.pass_time(SOON)
    assert stages(scope, "A", "B") == {stage}
    scope.link("B", "C")
    scope.pass_time(SOON)
    assert stages(scope) == {stage}
    scope.work["A"].lacks = ""
    scope.work["A"].counts = (1, 1)
    scope.pass_time(SOON)
    assert stages(scope) == {PlanStage.FINISHED}
    assert [story(scope, name)[-1] for name in "ABC"] == 3 * ["finished"]
    assert not scope.wrong()


@pytest.mark.req("CO-05")
def test_a_broker_that_loses_its_parent_and_rejoins_goes_on_with_the_plan() -> None:
    scope = mesh()
    scope.work["D"].lacks = "no link"
    scope.request("A", plan())
    scope.pass_time(SOON)
    scope.cut("A", "D")
    scope.pass_time(scope.timing.rejoining)
    assert scope["D"].tree.role is TreeRole.MEMBER
    scope.work["D"].lacks = ""
    scope.pass_time(SOON)
    assert stories(scope) == {DONE}


@pytest.mark.req("CO-05", "CO-08")
def test_a_new_root_carries_a_plan_out_when_all_have_come_to_it_and_not_alone() -> None:
    scope = mesh()
    scope.work["D"].lacks = "no link"
    scope.request("A", plan())
    scope.pass_time(SOON)
    scope.isolate("A")
    scope.pass_time(2 * scope.timing.patience - 0.001)
    scope.now = scope["B"]._orphaned_at + int(2 * scope.timing.patience * SECOND)
    scope._do("B", scope["B"].on_due)  # it is crowned
    scope._do("B", scope["B"].on_due)  # its next timer fires before anybody's answer
    scope.pass_time(SOON)
    assert stages(scope, "B", "C", "D") == {PlanStage.ANNOUNCED}
    scope.work["D"].lacks = ""
    scope.pass_time(scope.timing.prepare_within)
    assert {tuple(story(scope, name)) for name in "BCD"} == {DONE}


@pytest.mark.req("CO-05")
@pytest.mark.parametrize("counts", [(0, 0), (1, 0)])
def test_a_broker_that_misses_the_wave_that_switches_is_told_or_finishes_later(counts: tuple[int, int]) -> None:
    scope = mesh()
    scope.work["B"].counts = counts
    scope.loses = lambda _, to, message: to == "D" and isinstance(message, Rotate)
    scope.request("A", plan())
    scope.deliver()
    scope.cut("A", "D")
    scope.loses = lambda *_: False
    scope.link("A", "D")
    scope.pass_time(SOON)
    scope.work["B"].counts = (1, 1)
    scope.pass_time(2 * scope.timing.period)
    assert stories(scope) == {DONE}


@pytest.mark.req("CO-01", "CO-05")
def test_a_plan_that_the_root_knows_nothing_of_ends_with_the_next_wave() -> None:
    scope = chain()
    scope.hear("B", "C", Announce(scope="", plan=plan(), stage=PlanStage.ANNOUNCED, round=0))
    scope.hear("A", "B", Announce(scope="", plan=plan(8), stage=PlanStage.SWITCHED, round=scope["A"].tree.round))
    scope.drop()
    scope.pass_time(scope.timing.period)
    assert (story(scope, "C"), story(scope, "B")) == (
        ["announced 7", "withdrawn"],
        ["announced 8", "prepared", "switched", "finished"],
    )
    assert stages(scope) == {PlanStage.FINISHED}


# ---- who may say what


@pytest.mark.req("CO-04", "CO-05")
def test_nobody_hears_of_a_plan_from_anybody_but_its_parent() -> None:
    # "The broker accepts the recolor message only if it has been sent by the broker P^new points to"
    scope = chain()
    scope.link("A", "C")
    scope.settle()
    assert scope["C"].tree.parent == "B"
    announce = Announce(scope="", plan=plan(), stage=PlanStage.ANNOUNCED, round=0)
    for sender, to in (("A", "C"), ("C", "B"), ("B", "A")):
        scope.hear(sender, to, announce)
    assert stories(scope) == {()}
    scope.work["C"].counts = (1, 0)
    scope.request("A", plan())
    scope.pass_time(SOON)
    assert stages(scope) == {PlanStage.SWITCHED}
    scope.said.clear()
    for sender, to in (("A", "C"), ("C", "B"), ("B", "A")):
        scope.hear(sender, to, Go("", 7))
        scope.hear(sender, to, Poll(scope="", plan=7, turn=99, is_known=True))
    assert stages(scope) == {PlanStage.SWITCHED}
    assert not said(scope, PlanAnswer)
    assert not said(scope, Go)


@pytest.mark.req("CO-05")
def test_answers_of_strangers_and_to_other_polls_do_not_count() -> None:
    scope = chain()
    scope.work["C"].lacks = "no link"
    scope.loses = lambda sender, _, message: sender == "B" and isinstance(message, PlanAnswer)
    scope.request("A", plan())
    scope.deliver()
    (turn,) = {message.turn for _, _, message in scope.said if isinstance(message, Poll)}
    for sender, number, which in (("C", 7, turn), ("B", 8, turn), ("B", 7, turn + 1)):
        answer = PlanAnswer(scope="", plan=number, turn=which, brokers=2, known=2, prepared=2)
        scope.hear(sender, "A", answer)
    assert view(scope).phase is PlanPhase.ANNOUNCING
    scope.hear("B", "A", PlanAnswer(scope="", plan=7, turn=turn, brokers=2, known=2, prepared=2))
    assert view(scope).phase is PlanPhase.PREPARING


@pytest.mark.req("CO-05")
def test_only_the_root_takes_a_plan_and_others_say_who_that_is() -> None:
    scope = chain()
    assert scope.request("C", plan()) == "the root of the network is A: ask there"
    scope.pass_time(SOON)
    assert stories(scope) == {()}


# ---- several plans


@pytest.mark.req("CO-05")
def test_what_brokers_would_have_changed_becomes_a_plan_of_the_root() -> None:
    # "When a reconfiguration should be implemented, the intended changes are sent to R, which collects them"
    scope = chain()
    scope.work["B"].wishes = scope.work["C"].wishes = (link("x1"),)
    scope.work["A"].wishes = (link("x2"),)
    scope.work["A"].counts = (1, 0)  # so that there is time to look at it
    scope.pass_time(scope.timing.period + SOON)
    running = scope["C"].announced.plan
    assert running is not None
    assert set(running.changes) == {link("x1"), link("x2")}
    assert len(running.changes) == 2  # what two brokers want is changed once
    assert stages(scope) == {PlanStage.SWITCHED}
    for work in scope.work.values():
        work.wishes = ()
    scope.work["A"].counts = (1, 1)
    scope.pass_time(5 * scope.timing.period)
    assert [each.phase for each in scope["A"].planning.views()] == [PlanPhase.DONE]


@pytest.mark.req("CO-05")
def test_what_cannot_be_changed_is_left_out_of_what_brokers_ask_for() -> None:
    scope = chain()
    scope.work["A"].refused = "x2"
    scope.work["B"].wishes = (link("x1"), link("x2"))
    scope.work["A"].counts = (1, 0)
    scope.pass_time(scope.timing.period + SOON)
    running = scope["C"].announced.plan
    assert running is not None
    assert running.changes == (link("x1"),)


@pytest.mark.req("CO-08")
def test_whoever_is_first_in_a_new_root_group_takes_over_when_the_plan_of_the_root_is_over() -> None:
    scope = chain()
    assert scope.request("A", plan()) == ""
    scope.work["A"].counts = (1, 0)  # something is under way, so the plan does not end
    for work in scope.work.values():
        work.root_group = ("C",)
    scope.pass_time(SOON)
    assert stages(scope) == {PlanStage.SWITCHED}
    assert {broker.root for broker in scope.brokers.values()} == {"A"}
    scope.work["A"].counts = (1, 1)
    scope.pass_time(4 * scope.timing.period)
    assert {broker.root for broker in scope.brokers.values()} == {"C"}


@pytest.mark.req("CO-13")
def test_a_link_that_is_there_again_is_brought_when_both_its_ends_ask_for_it() -> None:
    scope = chain()
    there, back = (
        TopologyChange(near=near, far=far, before=0, after=1000, is_return=True) for near, far in ("BC", "CB")
    )
    scope.work["B"].wishes = (there,)
    scope.pass_time(2 * scope.timing.period)
    assert stories(scope) == {()}, "C still speaks of the link: nobody could tell what the plan brings"
    scope.work["C"].wishes = (back,)
    scope.work["A"].counts = (1, 0)
    scope.pass_time(scope.timing.period + SOON)
    running = scope["A"].announced.plan
    assert running is not None
    assert len(running.changes) == 1


@pytest.mark.req("CO-05")
def test_the_same_plan_twice_is_one() -> None:
    scope = chain()
    scope.work["C"].lacks = "no link"
    scope.said.clear()
    assert scope.request("A", plan()) == scope.request("A", plan()) == ""
    scope.pass_time(SOON)
    assert scope.request("A", plan()) == ""
    scope.work["C"].lacks = ""
    scope.pass_time(SOON)
    assert scope.request("A", plan()) == ""
    scope.pass_time(SOON)
    assert len(scope["A"].planning.views()) == 1
    assert said(scope, Announce) == [("A", "B"), ("B", "C")]
    assert stories(scope) == {DONE}
    assert all(work.done.count("switched") == 1 for work in scope.work.values())


@pytest.mark.req("CO-05")
def test_a_second_plan_waits_for_the_first() -> None:
    scope = chain()
    scope.work["C"].lacks = "no link"
    scope.request("A", plan(7))
    scope.request("A", plan(8))
    scope.pass_time(2.0)
    assert [each.phase for each in scope["A"].planning.views()] == [PlanPhase.PREPARING, PlanPhase.WAITING]
    assert stories(scope) == {("announced 7", "prepared")}
    scope.work["C"].lacks = ""
    scope.pass_time(SOON)
    assert [each.phase for each in scope["A"].planning.views()] == 2 * [PlanPhase.DONE]
    for work in scope.work.values():
        assert work.done.index("finished") < work.done.index("announced 8")
        assert work.done[-1] == "finished"


@pytest.mark.req("CO-05")
def test_as_many_plans_wait_as_there_is_room_for() -> None:
    scope = chain()
    scope.work["C"].lacks = "no link"
    assert {scope.request("A", plan(number)) for number in range(1, MOST_WAITING + 2)} == {""}
    assert scope.request("A", plan(999)) == f"{MOST_WAITING} plans of this scope wait already"


# ---- taking a plan back


@pytest.mark.req("CO-05")
def test_a_plan_that_is_not_switched_can_be_taken_back() -> None:
    scope = chain()
    before = scope["A"].tree.round
    scope.work["C"].lacks = "no link"
    scope.request("A", plan())
    scope.pass_time(SOON)
    assert scope.abort("A", 7) == ""
    scope.deliver()
    assert stories(scope) == {UNDONE}
    assert (view(scope).phase, view(scope).reason) == (PlanPhase.UNDONE, "an operator took it back")
    assert scope.rounds() == {before}
    scope.work["C"].lacks = ""
    scope.pass_time(3.0)
    assert stories(scope) == {UNDONE}


@pytest.mark.req("CO-05")
def test_a_plan_that_is_switched_cannot_be_taken_back() -> None:
    scope = chain()
    scope.work["C"].counts = (1, 0)
    scope.request("A", plan())
    scope.pass_time(SOON)
    assert scope.abort("A", 7) == "the plan is switched already"
    withdrawal = Announce(scope="", plan=plan(), stage=PlanStage.ANNOUNCED, round=0, withdrawn=True)
    scope.hear("A", "B", withdrawal)
    scope.deliver()
    assert stages(scope) == {PlanStage.SWITCHED}


@pytest.mark.req("CO-05")
def test_a_plan_that_waits_is_taken_back_alone_and_one_that_is_not_there_is_not() -> None:
    scope = chain()
    scope.work["C"].lacks = "no link"
    for number in (7, 8, 9):
        scope.request("A", plan(number))
    assert scope.abort("A", 8) == ""
    assert scope.abort("A", 8) == "there is no such plan"
    scope.work["C"].lacks = ""
    scope.pass_time(SOON)
    assert [(each.number, each.phase) for each in scope["A"].planning.views()] == [
        (7, PlanPhase.DONE),
        (9, PlanPhase.DONE),
    ]
    assert scope.abort("A", 7) == "there is no such plan"


@pytest.mark.req("CO-05")
def test_a_plan_that_closes_the_only_link_of_its_root_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = chain()

    def close() -> None:
        scope["A"].wave.brokers = 1  # nobody else took the last wave, so the root alone is enough
        scope.now += SECOND  # the next poll is due
        scope.cut("A", "B")

    monkeypatch.setattr(scope.work["A"], "finish", close)
    scope.request("A", plan())
    scope.deliver()
    assert view(scope).phase is PlanPhase.DONE


# ---- damage


@pytest.mark.req("CO-01")
@pytest.mark.parametrize("phase", PlanPhase)
def test_a_plan_ends_everywhere_whatever_its_root_takes_it_for(phase: PlanPhase) -> None:
    # "A pub/sub system is called self-stabilizing, if started in an arbitrary state, it eventually begins to satisfy
    # its specified behavior provided that no faults occur for a sufficient long time."
    for work in (DONE, UNDONE):
        scope = mesh()
        scope.work["D"].lacks = "no link" if work is UNDONE else ""
        scope.work["D"].counts = (1, 0)
        scope.request("A", plan())
        scope.pass_time(SOON)
        running = scope["A"].planning._running
        assert running is not None
        running.phase = phase
        running.pause_ns = running.began_at = running.next_at = 1 << 62
        scope["A"].planning._turn = 1 << 62
        scope.pass_time(2 * (scope.timing.prepare_within + scope.timing.drain_within))
        assert stages(scope) == {PlanStage.FINISHED}
        assert not scope["A"].planning.is_busy
        assert not scope.wrong()


@pytest.mark.req("CO-01")
@pytest.mark.parametrize("stage", PlanStage)
def test_a_stage_without_a_plan_is_none(stage: PlanStage) -> None:
    scope = mesh()
    scope["B"].announced.stage = stage
    scope.settle()
    scope["B"].announced.validate()
    assert stages(scope) == {PlanStage.FINISHED}


@pytest.mark.req("CO-01")
@pytest.mark.parametrize("stage", [PlanStage.ANNOUNCED, PlanStage.SWITCHED])
@pytest.mark.parametrize("name", "AD")
def test_a_plan_that_nobody_has_ordered_ends(name: str, stage: PlanStage) -> None:
    scope = mesh()
    announced = scope[name].announced
    announced.plan, announced.stage = plan(), stage
    scope[name].wave.rounds_as_root = -(1 << 62)
    scope.pass_time(2 * scope.timing.patience + scope.timing.prepare_within)
    assert stages(scope) == {PlanStage.FINISHED}
    assert not scope["A"].planning.is_busy
    assert not scope.wrong()


@pytest.mark.req("CO-01")
def test_a_root_that_is_alone_ends_a_plan_that_nobody_has_ordered() -> None:
    scope = PaperScope("A")
    scope.settle()
    scope["A"].announced.plan, scope["A"].announced.stage = plan(), PlanStage.SWITCHED
    for _ in range(8):
        scope["A"].beat()  # no wave of it is due, since there is nobody to hear it
        scope.pass_time(scope.timing.patience)
    assert stages(scope, "A") == {PlanStage.FINISHED}
