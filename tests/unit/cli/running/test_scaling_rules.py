"""When brokers are started, leave and are purged: decided from what checks saw, and from nothing else."""

import pytest

from stentor.cli.running.balance import Move
from stentor.cli.running.scaling_rules import Action, History, Leave, Purge, Rules, Seen, Start, decide

RULES = Rules(clients_per_broker=10, most_brokers=3, purge_slow=True)


def check(
    *loads: int | None, rules: Rules = RULES, history: History | None = None, started: int = 0
) -> tuple[History, list[Action]]:
    """One check of the cluster c, whose last brokers were started by load."""
    first = len(loads) - started
    seen = [Seen(f"c/b{place}", load, place >= first) for place, load in enumerate(loads)]
    return decide(rules, history or History(), {"c": seen})


def checks(times: int, *loads: int | None, rules: Rules = RULES, started: int = 0) -> list[Action]:
    """What all of some equal checks make of it."""
    history, actions = History(), []
    for _ in range(times):
        history, more = check(*loads, rules=rules, history=history, started=started)
        actions += more
    return actions


@pytest.mark.req("GE-17")
def test_another_broker_is_started_when_there_are_too_many_clients_on_average() -> None:
    assert check(11)[1] == [Start("c")]
    assert check(10)[1] == []
    assert Start("c") not in check(15, 5)[1], "it is the average that counts"
    assert check(19, 2)[1] == [Start("c"), Move("c/b0", "c/b1", 4)]
    assert check(99, 99, 99)[1] == [], "there are as many as there may be"
    assert check(99, None)[1] == [Start("c")], "who does not answer counts for nothing"
    assert check(99, None, None)[1] == []


def test_clusters_are_looked_at_one_by_one() -> None:
    seen = {"c": [Seen("c/b1", 50)], "d": [Seen("d/b1", 1)], "e": [Seen("e/b1", 20)], "f": []}
    assert decide(RULES, History(), seen)[1] == [Start("c"), Start("e")]


def test_a_broker_that_was_started_leaves_after_six_calm_checks() -> None:
    assert checks(5, 4, 0, started=1) == []
    assert checks(6, 4, 0, started=1) == [Leave("c/b1")]
    assert checks(6, 4, 0, 0, started=2) == [Leave("c/b2")], "one at a time"
    assert checks(12, 4, 0, 0, started=2) == [Leave("c/b2"), Leave("c/b2")]
    assert checks(20, 4, 0) == [], "those of the file stay"
    assert checks(20, 9, 1, started=1) == [], "and one that is needed"


@pytest.mark.req("GE-17")
def test_clients_are_asked_to_move_to_a_broker_that_was_started_for_them() -> None:
    assert check(16, 14, 0, started=1)[1] == [Move("c/b0", "c/b2", 3), Move("c/b1", "c/b2", 2)]
    assert check(10, 10, 0, started=1)[1] == [], "those who have room keep theirs"


def test_the_last_clients_of_a_broker_that_is_not_needed_move_before_it_leaves() -> None:
    assert checks(6, 4, 1, started=1) == [Move("c/b1", "c/b0", 1)]
    history = History()
    for loads in [(4, 1)] * 6 + [(5, 0)]:
        history, actions = check(*loads, history=history, started=1)
    assert actions == [Leave("c/b1")]


def test_a_busy_check_begins_the_calm_anew() -> None:
    history = History()
    for loads in ((4, 0), (4, 0), (4, 0), (4, 0), (4, 0), (14, 0), (4, 0)):
        history, actions = check(*loads, history=history, started=1)
        assert Leave("c/b1") not in actions
    assert history.calm == {"c": 1}


def test_a_broker_that_misses_three_checks_in_a_row_is_purged() -> None:
    assert checks(2, 1, None) == []
    assert checks(3, 1, None) == [Purge("c/b1")]
    history, _ = check(1, None)
    history, _ = check(1, None, history=history)
    history, actions = check(1, 0, history=history)
    assert (actions, history.missed) == ([], {}), "an answer makes up for all"


def test_the_last_one_that_answers_stays_and_so_do_all_where_nobody_does() -> None:
    assert checks(9, None) == []
    assert checks(9, None, None) == []
    assert checks(3, None, None, 1) == [Purge("c/b0"), Purge("c/b1")]


def test_nobody_is_purged_unless_that_is_wanted() -> None:
    gentle = Rules(clients_per_broker=10, most_brokers=3, purge_slow=False)
    assert checks(9, 1, None, rules=gentle) == []


def test_who_is_purged_makes_room_for_another() -> None:
    history, _ = check(99, 99, None)
    history, _ = check(99, 99, None, history=history)
    assert check(99, 99, None, history=history)[1] == [Purge("c/b2"), Start("c")]


def test_who_is_being_started_again_counts_but_is_not_slow() -> None:
    away = Seen("c/b3", None, away=True)
    seen = {"c": [Seen("c/b1", 99), Seen("c/b2", 99), away]}
    history = History()
    for _ in range(9):
        history, actions = decide(RULES, history, seen)
        assert actions == [], "it will be the third"
