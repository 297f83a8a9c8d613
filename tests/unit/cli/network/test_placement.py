"""Where a new broker belongs, and what falls apart without one."""

import pytest

from stentor.cli.network.placement import free_number, numbers_for, parted_without
from stentor.model.errors import InvalidInput
from stentor.model.reports.view import GatewayView, MemberView, NetworkView, ScopeView
from stentor.model.scope import ScopePath


def member(unit: str, number: int = 0, *, reachable: bool = True, members: int = 1, to: str = "") -> MemberView:
    """`to` is units that it is linked with, such as "b2 c*2" for one link and two."""
    words = [word.partition("*") for word in to.split()]
    gateways = tuple(GatewayView(other, 0, int(links or 1), 1.0) for other, _, links in words)
    return MemberView(unit, number, unit, f"{unit}:1", members, reachable, "", (), gateways, 0, 0)


def view(node: str, *scopes: tuple[str, list[MemberView]]) -> NetworkView:
    around = tuple(ScopeView(name, level, "content", tuple(each)) for level, (name, each) in enumerate(scopes))
    return NetworkView(node, f"{node}:1", 0, 0, (), around, (), (), 0, 0, 0, 0, 0, 0)


def test_units_that_are_there_keep_their_numbers() -> None:
    top = [member("n", 7, members=2), member("s", 9)]
    far = view("s/x/b1", ("s/x", [member("s/x/b1")]), ("s", [member("s/x")]), ("", top))
    near = view("n/x/b1", ("n/x", [member("n/x/b1", 3)]), ("n", [member("n/x", 5), member("n/y", 6)]), ("", top))
    assert numbers_for(ScopePath.parse("n/x/b2"), [far, near])[:2] == (7, 5)
    assert numbers_for(ScopePath.parse("n/x/b2"), [far, near])[2] != 3
    assert numbers_for(ScopePath.parse("n/x/b2"), [far, near], 11) == (7, 5, 11)
    new = numbers_for(ScopePath.parse("n/z/b1"), [far, near])
    assert new[0] == 7
    assert new[1] not in (5, 6)
    assert numbers_for(ScopePath.parse("east/z/b1"), [far])[0] not in (7, 9)
    with pytest.raises(InvalidInput, match="n/x/b1 is taken by the broker at n/x/b1:1"):
        numbers_for(ScopePath.parse("n/x/b1"), [far, near])


def test_the_sixty_fifth_member_is_refused() -> None:
    full = view("b0", ("", [member(f"b{n}", n) for n in range(64)]))
    with pytest.raises(InvalidInput, match="the network has 64 members already: put c into another unit"):
        numbers_for(ScopePath.parse("c"), [full])
    members = [member(f"b{n}", n) for n in range(63)]
    assert numbers_for(ScopePath.parse("c"), [view("b0", ("", members))]) == (63,)


def test_a_number_stays_while_it_can() -> None:
    own = free_number("b", view("a", ("", [member("a", 64)])))
    assert free_number("b", view("a", ("", [member("a", own)]))) == (own + 1) % 64
    # dead, or left: it is still its number, unless another has it now
    assert free_number("b", view("a", ("", [member("a", 1), member("b", 50, reachable=False)]))) == 50
    assert free_number("b", view("a", ("", [member("a", 1), member("b", 50, reachable=False, members=0)]))) == 50
    assert free_number("b", view("a", ("", [member("a", 50), member("b", 50, reachable=False)]))) == own
    # what others had stays theirs while there are others
    left = member("c", own, reachable=False, members=0)
    assert free_number("b", view("a", ("", [member("a", 64), left]))) == (own + 1) % 64
    crowd = [member(f"x{n}", n) for n in range(64) if n != own]
    assert free_number("b", view("a", ("", [*crowd, left]))) == own


def test_a_number_that_is_asked_for() -> None:
    seen = view("a", ("", [member("a", 1)]))
    assert free_number("b", seen, wanted=2) == 2
    for wanted, told in ((1, "the number 1 is taken by a"), (64, "expected 0 to 63"), (-1, "expected 0 to 63")):
        with pytest.raises(InvalidInput, match=told):
            free_number("b", seen, wanted=wanted)


def test_a_broker_in_the_middle_of_a_chain_is_needed() -> None:
    chain = [member("a", to="b"), member("b", to="a c"), member("c", to="b")]
    assert parted_without(view("b", ("", chain))) == "without b, the network would be in 2 parts: a and c"
    assert parted_without(view("a", ("", chain))) == ""
    ring = [member("a", to="b c"), member("b", to="a c"), member("c", to="b a")]
    assert parted_without(view("b", ("", ring))) == ""
    dead = [member("a", to="b"), member("b", to="a c"), member("c", to="b", reachable=False)]
    assert parted_without(view("b", ("", dead))) == "", "who is gone already needs nobody"


def test_a_broker_with_the_only_link_out_of_its_unit_is_needed() -> None:
    inside = [member("n/a", to="n/b s"), member("n/b", to="n/a")]
    outside = [member("n", to="s", members=2), member("s", to="n")]
    told = "without n/a, the network would be in 2 parts: n and s"
    assert parted_without(view("n/a", ("n", inside), ("", outside))) == told
    assert parted_without(view("n/b", ("n", inside), ("", outside))) == ""
    twice = [member("n", to="s*2", members=2), member("s", to="n*2")]
    both = [member("n/a", to="n/b s"), member("n/b", to="n/a s")]
    assert parted_without(view("n/a", ("n", both), ("", twice))) == ""
    alone = [member("n/a", to="n/b s*2"), member("n/b", to="n/a")]
    assert parted_without(view("n/a", ("n", alone), ("", twice))) == told


def test_a_unit_that_goes_with_its_last_broker() -> None:
    middle = [member("e", to="n"), member("n", to="e s"), member("s", to="n")]
    told = "without n/a, the network would be in 2 parts: e and s"
    assert parted_without(view("n/a", ("n", [member("n/a", to="e s")]), ("", middle))) == told
    end = [member("e", to="n s"), member("n", to="e"), member("s", to="e")]
    assert parted_without(view("n/a", ("n", [member("n/a", to="e")]), ("", end))) == ""
