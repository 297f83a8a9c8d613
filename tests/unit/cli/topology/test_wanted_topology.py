"""What has to change so that a running network is as a file says, and in which order."""

from collections.abc import Sequence

import msgspec
import pytest
from tests.unit.cli.network.networks import Pair, paper_network

from stentor.admin.survey import Survey
from stentor.cli.topology.newcomers import Newcomer
from stentor.cli.topology.wanted_topology import ScopeChanges, differences
from stentor.config import Config, parse
from stentor.model.colours.plan import TopologyChange
from stentor.model.errors import InvalidInput, Unreachable

ROW = ["x/a", "x/b", "x/c"]
ROW_LINKS = [("x/a", "x/b"), ("x/b", "x/c")]
# Two units of two clusters; costs of links are 1, 2 and 5, by their levels.
CAMPUS = ["n/x/a", "n/x/b", "n/y/a", "n/y/b", "s/x/a", "s/x/b"]
CAMPUS_LINKS = [
    ("n/x/a", "n/x/b"),
    ("n/y/a", "n/y/b"),
    ("s/x/a", "s/x/b"),
    ("n/x/a", "n/y/a"),
    ("n/x/a", "s/x/a"),
]


def wanted(names: Sequence[str], links: Sequence[Pair], **keys: str) -> Config:
    """A file with these brokers and links; `keys` are more lines for links, by both ends joined with "_"."""
    lines = ["[fabric]", "costs = [1, 2, 5]"]
    for name in names:
        lines += ["[[node]]", f"name = '{name}'"]
    for one, other in links:
        lines += ["[[link]]", f"between = ['{one}', '{other}']", keys.get(f"{one}_{other}".replace("/", ""), "")]
    return parse("\n".join(lines))


def address(names: Sequence[str], name: str) -> str:
    return f"127.0.0.1:{7420 + names.index(name)}"


def plans(config: Config, survey: Survey) -> list[ScopeChanges]:
    """What changes by plans, if brokers neither join nor leave."""
    found = differences(config, survey)
    assert (found.joining, found.leaving) == ([], [])
    return found.plans


def in_words(steps: list[ScopeChanges]) -> list[tuple[str, int, list[str]]]:
    """Return steps with their changes as people would write them."""
    signs = {(True, False): "+", (False, True): "-", (False, False): "~"}
    return [
        (
            step.scope,
            step.level,
            [f"{signs[each.comes, each.goes]} {each.near} {each.far}" for each in step.changes],
        )
        for step in steps
    ]


def with_costs(survey: Survey, pair: Pair, cost: float, base: float) -> Survey:
    """The same survey, in which one link is slow: it costs more than if it were quick."""
    links = tuple(
        msgspec.structs.replace(link, cost=cost, base=base) if {link.one, link.other} == set(pair) else link
        for link in survey.links
    )
    return msgspec.structs.replace(survey, links=links)


@pytest.mark.req("CO-09")
def test_a_network_that_is_as_the_file_says_needs_no_change() -> None:
    assert plans(wanted(ROW, ROW_LINKS), paper_network(ROW, ROW_LINKS)) == []
    assert plans(wanted(CAMPUS, CAMPUS_LINKS), paper_network(CAMPUS, CAMPUS_LINKS)) == []


@pytest.mark.req("CO-09")
def test_it_does_not_matter_which_end_of_a_link_the_file_names_first() -> None:
    turned = [(other, one) for one, other in ROW_LINKS]
    assert plans(wanted(ROW, turned), paper_network(ROW, ROW_LINKS)) == []


@pytest.mark.req("CO-09")
def test_a_link_that_is_only_in_the_file_comes() -> None:
    (step,) = plans(wanted(ROW, [*ROW_LINKS, ("x/c", "x/a")]), paper_network(ROW, ROW_LINKS))
    assert step == ScopeChanges(
        "x", 0, (TopologyChange(near="x/c", far="x/a", before=0, after=1000, address=address(ROW, "x/a")),)
    )


@pytest.mark.req("CO-09")
def test_a_link_that_comes_has_the_address_and_the_cost_of_the_file() -> None:
    config = wanted(ROW, [*ROW_LINKS, ("x/c", "x/a")], xc_xa="cost = 0.25\naddress = 'proxy:9'")
    (step,) = plans(config, paper_network(ROW, ROW_LINKS))
    assert step.changes == (TopologyChange(near="x/c", far="x/a", before=0, after=250, address="proxy:9"),)


@pytest.mark.req("CO-09")
def test_a_link_that_is_only_in_the_network_goes() -> None:
    (step,) = plans(wanted(ROW, ROW_LINKS), paper_network(ROW, [*ROW_LINKS, ("x/c", "x/a")]))
    (change,) = step.changes
    assert change.goes
    assert ({change.near, change.far}, change.before) == ({"x/a", "x/c"}, 1000)
    assert change.address == address(ROW, change.far)


@pytest.mark.req("CO-09")
def test_a_link_whose_cost_is_another_in_the_file_is_repriced() -> None:
    config = wanted(ROW, ROW_LINKS, xb_xc="cost = 3.5")
    (step,) = plans(config, paper_network(ROW, ROW_LINKS))
    assert step.changes == (
        TopologyChange(near="x/b", far="x/c", before=1000, after=3500, address=address(ROW, "x/c")),
    )


@pytest.mark.req("CO-09")
def test_a_link_that_is_dearer_only_while_it_is_slow_stays_as_it_is() -> None:
    slow = with_costs(paper_network(ROW, ROW_LINKS), ("x/a", "x/b"), cost=4.0, base=1.0)
    assert plans(wanted(ROW, ROW_LINKS), slow) == []
    dear = with_costs(paper_network(ROW, ROW_LINKS), ("x/a", "x/b"), cost=4.0, base=2.0)
    (step,) = plans(wanted(ROW, ROW_LINKS), dear)
    assert [(each.before, each.after) for each in step.changes] == [(2000, 1000)]


@pytest.mark.req("CO-09")
def test_a_link_that_is_suspected_is_not_there() -> None:
    survey = paper_network(ROW, ROW_LINKS, suspected=[("x/b", "x/c")])
    assert in_words(plans(wanted(ROW, ROW_LINKS), survey)) == [("x", 0, ["+ x/b x/c"])]


@pytest.mark.req("CO-09")
def test_all_changes_of_one_scope_are_one_plan() -> None:
    links = [("x/a", "x/c"), ("x/a", "x/b")]  # x/c moves from x/b to x/a
    config = wanted(ROW, links, xa_xb="cost = 9")
    assert in_words(plans(config, paper_network(ROW, ROW_LINKS))) == [("x", 0, ["+ x/a x/c", "~ x/a x/b", "- x/b x/c"])]


@pytest.mark.req("CO-09")
def test_what_comes_is_there_in_inner_scopes_before_outer_ones_need_it() -> None:
    fewer = [("n/x/a", "s/x/a")]
    survey = paper_network(CAMPUS, [*fewer, ("n/y/a", "n/y/b")])
    assert in_words(plans(wanted(CAMPUS, CAMPUS_LINKS), survey)) == [
        ("n/x", 0, ["+ n/x/a n/x/b"]),
        ("s/x", 0, ["+ s/x/a s/x/b"]),
        ("n", 1, ["+ n/x/a n/y/a"]),
    ]


@pytest.mark.req("CO-09")
def test_what_goes_goes_from_outer_scopes_first() -> None:
    more = [("n/x/b", "n/x/c"), ("n/x/c", "n/y/b"), ("n/y/b", "s/x/b"), ("n/x/c", "n/x/a")]
    names = [*CAMPUS, "n/x/c"]
    kept = [*CAMPUS_LINKS, more[0]]
    steps = plans(wanted(names, kept), paper_network(names, [*CAMPUS_LINKS, *more]))
    assert [(step.scope, step.level) for step in steps] == [("", 2), ("n", 1), ("n/x", 0)]
    assert all(change.goes for step in steps for change in step.changes)


@pytest.mark.req("CO-09")
def test_all_that_comes_is_there_before_anything_goes() -> None:
    replaced = [pair for pair in CAMPUS_LINKS if pair != ("n/x/a", "s/x/a")] + [("n/y/b", "s/x/b")]
    survey = paper_network(CAMPUS, [*CAMPUS_LINKS, ("n/x/b", "n/y/b")])
    assert in_words(plans(wanted(CAMPUS, replaced), survey)) == [
        ("", 2, ["+ n/y/b s/x/b"]),
        ("", 2, ["- n/x/a s/x/a"]),
        ("n", 1, ["- n/x/b n/y/b"]),
    ]


@pytest.mark.req("CO-09")
def test_brokers_that_do_not_run_join_by_one_link_and_plans_bring_the_others() -> None:
    names = [*ROW, "x/d", "x/e", "y/a", "y/b"]
    links = [("x/e", "x/d"), ("x/d", "x/b"), ("x/d", "x/c"), *ROW_LINKS, ("y/b", "x/a"), ("y/b", "y/a"), ("y/a", "x/a")]
    found = differences(wanted(names, links), paper_network(ROW, ROW_LINKS))
    assert found.joining == [
        Newcomer("x/d", "x/b"),
        Newcomer("x/e", "x/d"),
        Newcomer("y/a", "x/a"),
        Newcomer("y/b", "y/a"),  # its unit is there by now, so it does not join from outside
    ]
    assert in_words(found.plans) == [("x", 0, ["+ x/d x/c"]), ("", 1, ["+ y/b x/a"])]
    assert found.plans[1].changes[0].after == 2000


@pytest.mark.req("CO-09")
def test_a_broker_that_finds_nobody_in_its_unit_to_join_by_is_refused() -> None:
    names, links = [*ROW, "y/a", "x/d"], [*ROW_LINKS, ("y/a", "x/a"), ("x/d", "y/a")]
    survey = paper_network([*ROW, "y/a"], [*ROW_LINKS, ("y/a", "x/a")])
    config = msgspec.structs.replace(wanted([*names], [*links, ("x/d", "x/a")]))
    config = msgspec.structs.replace(config, links=config.links[:-1])  # a file like this is refused when it is read
    with pytest.raises(InvalidInput, match="x/d does not run, and has no link in the file to a broker of x by which"):
        differences(config, survey)


@pytest.mark.req("CO-09")
def test_a_broker_that_is_known_and_silent_is_named() -> None:
    with pytest.raises(Unreachable, match="x/c is known, and does not answer: start it again"):
        differences(wanted(ROW, ROW_LINKS), paper_network(ROW, ROW_LINKS, silent=["x/c"]))


@pytest.mark.req("CO-09", "CO-15")
def test_brokers_that_are_not_in_the_file_leave_with_their_links() -> None:
    found = differences(wanted(ROW[:2], ROW_LINKS[:1]), paper_network(ROW, ROW_LINKS))
    assert (found.joining, found.plans, found.leaving) == ([], [], ["x/c"])


@pytest.mark.req("CO-09")
def test_what_is_no_topology_is_named_and_refused() -> None:
    survey = paper_network(ROW, ROW_LINKS)
    flooding = wanted(ROW, ROW_LINKS)
    flooding = msgspec.structs.replace(flooding, fabric=msgspec.structs.replace(flooding.fabric, forwarding="flooding"))
    with pytest.raises(InvalidInput, match="changes how events are forwarded in"):
        differences(flooding, survey)
    deep = ["x/h/a", "x/h/b"]
    with pytest.raises(InvalidInput, match="x/h/a has 3 parts, and brokers here have 2"):
        differences(wanted(deep, [("x/h/a", "x/h/b")]), survey)


@pytest.mark.req("CO-08", "CO-09")
def test_a_file_that_changes_a_root_group_is_a_plan() -> None:
    survey = paper_network(ROW, ROW_LINKS)
    text = "\n".join(
        ["[fabric]", "costs = [1, 2, 5]", *(f"[[node]]\nname = '{name}'" for name in ROW)]
        + [f"[[link]]\nbetween = ['{one}', '{other}']" for one, other in ROW_LINKS]
        + ["[[unit]]\nname = 'x'\nroots = ['x/c']"]
    )
    found = differences(parse(text), survey)
    assert [(plan.scope, plan.changes, plan.roots) for plan in found.plans] == [("x", (), ("x/c",))]
