"""Plans that cannot be carried out are refused before anybody hears of them, and say why."""

import pytest

from stentor.model.colours.plan import TopologyChange, TopologyPlan
from stentor.model.context import Context
from stentor.model.ids import link_number
from stentor.model.messages import Gateway, Presence
from stentor.model.scope import ScopePath
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph
from stentor.protocols.overlay.plan_check import plan_refusal


def graph() -> ConnectivityGraph:
    """What x/a knows: the cluster x is the row x/a, x/b, x/c; two links lead from x to y, and one from y to z."""
    made = ConnectivityGraph(Context(ScopePath.parse("x/a")))
    inner, outer, far = ("x/a x/b", "x/b x/c"), ("x/b y/a", "x/b y/b"), ("y/b z/a",)
    links: dict[str, dict[str, tuple[str, ...]]] = {
        "x/a": {"x/b": inner[:1]},
        "x/b": {"x/a": inner[:1], "x/c": inner[1:], "y": outer},
        "x/c": {"x/b": inner[1:]},
        "x": {"y": outer},
        "y": {"x": outer, "z": far},
        "z": {"y": far},
    }
    for unit, others in links.items():
        gateways = tuple(
            Gateway(other, link_number(*pair.split()), 1000) for other, pairs in others.items() for pair in pairs
        )
        made.take(Presence(unit=unit, version=1, speaker=unit, number=0, gateways=gateways))
    made.take(Presence(unit="x/gone", version=2, speaker="x/gone", number=4, left=True))
    made.take(Presence(unit="x/far", version=1, speaker="x/far", number=5))  # nobody has a link to it
    return made


def refusal(*changes: TopologyChange, level: int = 0) -> str:
    return plan_refusal(graph(), level, TopologyPlan(7, changes))


def change(near: str, far: str, before: int = 0, after: int = 1000, address: str = "there") -> TopologyChange:
    return TopologyChange(near=near, far=far, before=before, after=after, address=address)


@pytest.mark.req("CO-05")
def test_links_may_come_go_and_cost_something_else() -> None:
    assert refusal(change("x/a", "x/c")) == ""
    assert refusal(change("x/a", "x/b", 1000, 300)) == ""
    assert refusal(change("x/a", "x/c"), change("x/b", "x/c", 1000, 0)) == ""  # one is replaced by another
    assert refusal(change("x/b", "y/b", 1000, 0), level=1) == ""  # there is a second one
    assert refusal(change("x/a", "z/b"), change("z/a", "y/b", 1000, 0), level=1) == ""


@pytest.mark.req("CO-05")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ((), "the plan changes nothing"),
        ((change("x/a", "x/c"), change("x/c", "x/a")), "the plan changes the link between x/a and x/c twice"),
        ((change("x/a", "y/b"),), "the link from x/a to y/b is none between members of x"),
        ((change("x/a", "x/a"),), "the link from x/a to x/a is none between members of x"),
        ((change("y/a", "y/b"),), "the link from y/a to y/b is not inside x"),
        ((change("x/a", "x/b", 500, 500),), "the link from x/a to x/b would stay as it is"),
        ((change("x/a", "x/c", address=""),), "the link from x/a to x/c is to come, and nobody says where x/c listens"),
        ((change("x/a", "x/gone"),), "x/gone is not in x, as far as is known here"),
        ((change("x/far", "x/a"),), "x/far is not in x, as far as is known here"),
        ((change("x/a", "x/never"),), "x/never is not in x, as far as is known here"),
        ((change("x/a", "x/b"),), "the link from x/a to x/b is there already"),
        ((change("x/a", "x/c", 1000, 0),), "the link from x/a to x/c is not there"),
        ((change("x/a", "x/c", 1000, 2000),), "the link from x/a to x/c is not there"),
        ((change("x/b", "x/c", 1000, 0),), "without these links x/c could not be reached"),
        ((change("x/a", "x/b", 1000, 0),), "without these links x/b, x/c could not be reached"),
    ],
)
def test_a_plan_for_a_cluster_is_refused_with_a_reason(changes: tuple[TopologyChange, ...], reason: str) -> None:
    assert refusal(*changes) == reason


@pytest.mark.req("CO-05")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ((change("x/a", "x/c"),), "the link from x/a to x/c is none between members of the network"),
        ((change("x/a", "u/b"),), "u/b is not in the network, as far as is known here"),
        ((change("y/b", "z/a", 1000, 0),), "without these links z could not be reached"),
        ((change("x/b", "y/a"),), "the link from x/b to y/a is there already"),
        ((change("x/a", "y/a", 1000, 0),), "the link from x/a to y/a is not there"),
        (
            (change("x/b", "y/a", 1000, 0), change("x/b", "y/b", 1000, 0)),
            "without these links y, z could not be reached",
        ),
    ],
)
def test_a_plan_for_the_network_is_refused_with_a_reason(changes: tuple[TopologyChange, ...], reason: str) -> None:
    assert refusal(*changes, level=1) == reason


@pytest.mark.req("CO-05")
def test_names_that_are_none_are_refused_and_not_followed() -> None:
    assert refusal(change("x/a", "x")) != ""
    assert refusal(change("x/a/b", "x/a/c")) == "the link from x/a/b to x/a/c is none between members of x"
    assert refusal(change("x//a", "x/b")) != ""


@pytest.mark.req("CO-05")
def test_those_that_cannot_be_reached_before_the_plan_do_not_hold_it_up() -> None:
    assert refusal(change("x/a", "x/b", 1000, 2000)) == ""  # nobody reaches x/far either way


@pytest.mark.req("CO-08")
@pytest.mark.parametrize(
    ("roots", "level", "reason"),
    [
        (("x/b",), 0, "x/far cannot be reached: it has to know the root group of x, or be gone for good"),
        (("x/b", "x/b"), 1, "names a broker twice"),
        (("x",), 1, "x cannot be a root of the network"),
        (("w/a",), 1, "w/a cannot be a root of the network: it is not there"),
        (("y/a", "x/b"), 1, ""),
        ((), 1, ""),
    ],
)
def test_a_root_group_names_brokers_that_are_there_and_all_have_to_hear_of_it(
    roots: tuple[str, ...], level: int, reason: str
) -> None:
    found = plan_refusal(graph(), level, TopologyPlan(7, (), roots=roots))
    assert reason in found
    assert bool(found) == bool(reason)
