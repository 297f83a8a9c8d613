"""The manifest as one broker holds it, and how the root makes the next one."""

import msgspec
import pytest
from tests.paper.scope import PaperMembers

from stentor.model.colours.manifest import ManifestRow, digest_of_rows, rows_by_unit
from stentor.protocols.colours import manifest_lease
from stentor.protocols.colours.manifest_lease import ManifestLease


def row(unit: str, number: int = 0, **more: object) -> ManifestRow:
    return msgspec.structs.replace(PaperMembers(unit, number).row, **more)


def lease(*rows: ManifestRow) -> tuple[ManifestLease, PaperMembers]:
    members = PaperMembers("a", 0)
    made = ManifestLease(members)
    made.renew(0, rows)
    return made, members


def test_a_manifest_is_taken_only_with_its_own_digest() -> None:
    made, _ = lease()
    rows = (row("a"), row("b", 1))
    assert not made.take(rows, 5)
    assert made.rows == {}
    assert made.take(rows, digest_of_rows({each.unit: each for each in rows}))
    assert list(made.rows) == ["a", "b"]
    made.validate()


def test_an_owner_confirms_its_row_or_sends_the_one_that_shall_be_there() -> None:
    made, members = lease(row("a"), row("b", 1))
    assert made.own_answer() == (1, ())
    members.row = row("a", presence=7)
    assert made.own_answer() == (0, (members.row,))


def test_nothing_has_changed_if_everybody_stands_by_its_row() -> None:
    made, _ = lease(row("a"), row("b", 1))
    made.renew(0b11, ())
    assert not made.has_changed
    made.renew(0b01, (row("b", 1, profile=9),))
    assert made.has_changed
    assert made.rows["b"].profile == 9


def test_a_member_that_is_silent_keeps_its_row_as_long_as_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_lease, "_LEASE_ROUNDS", 3)
    made, _ = lease(row("a"), row("b", 1))
    for _ in range(3):
        made.renew(0b01, ())
    assert "b" in made.rows
    made.renew(0b11, ())  # it is heard again
    for _ in range(3):
        made.renew(0b01, ())
    assert "b" in made.rows
    made.renew(0b01, ())
    assert "b" not in made.rows


def test_a_member_that_has_left_for_good_loses_its_row_at_once() -> None:
    made, members = lease(row("a"), row("b", 1))
    members.gone = ["b"]
    made.renew(0b01, ())
    assert list(made.rows) == ["a"]


def test_rows_beyond_what_a_scope_can_hold_are_those_that_were_silent_for_longest() -> None:
    made, _ = lease(*(row(f"m{number}", number) for number in range(64)))
    made.renew((1 << 64) - 1 & ~0b10, (row("new", 1),))
    assert len(made.rows) == 64
    assert "new" in made.rows
    assert "m1" not in made.rows


def test_of_two_rows_of_one_unit_the_first_speaker_by_name_wins() -> None:
    rows = row("u", speaker="u/b"), row("u", speaker="u/a")
    assert rows_by_unit(rows)["u"].speaker == "u/a"


def numbers(made: ManifestLease) -> dict[str, int]:
    return {unit: each.number for unit, each in sorted(made.rows.items())}


@pytest.mark.req("CO-10")
def test_of_two_members_that_wish_for_one_number_the_newcomer_gets_another_one() -> None:
    made, _ = lease(row("b", 5))
    made.renew(0, (row("a", 5), row("b", 5)))
    assert numbers(made) == {"a": 0, "b": 5}
    made.renew(0, (row("a", 5), row("b", 5)))
    assert numbers(made) == {"a": 0, "b": 5}, "it keeps what it got, though it began again with its wish"
    made.validate()


@pytest.mark.req("CO-10")
def test_a_number_that_was_given_back_rests_for_three_rounds() -> None:
    made, members = lease(row("a"), row("b", 1))
    members.gone = ["b"]
    made.renew(0b01, ())
    assert numbers(made) == {"a": 0}
    for round_number in range(3):
        made.renew(0b01, (row("c", 1),) if round_number == 0 else ())
        assert numbers(made)["c"] == 2, "events that mean b may still be under way"
    made.renew(0b101, (row("d", 1),))
    assert numbers(made) == {"a": 0, "c": 2, "d": 1}


def test_a_member_that_comes_back_gets_its_own_number_at_once() -> None:
    made, members = lease(row("a"), row("b", 1))
    members.gone = ["b"]
    made.renew(0b01, ())
    members.gone = []
    made.renew(0b01, (row("b", 1),))
    assert numbers(made) == {"a": 0, "b": 1}


def test_a_newcomer_of_a_full_scope_has_no_row_until_a_number_is_free() -> None:
    everybody = tuple(row(f"m{number:02}", number) for number in range(64))
    made, members = lease(*everybody)
    members.gone = ["m07"]
    made.renew((1 << 64) - 1 ^ 1 << 7, ())
    for _ in range(3):
        made.renew((1 << 64) - 1 ^ 1 << 7, (row("new", 3),))
        assert "new" not in made.rows
    made.renew((1 << 64) - 1 ^ 1 << 7, (row("new", 3),))
    assert numbers(made)["new"] == 7


def test_rests_that_damage_has_made_endless_end() -> None:
    made, _ = lease(row("a"))
    made._resting = {1: ("x", 10**9)}
    for _ in range(3):
        made.renew(0b1, ())
    made.renew(0b1, (row("b", 1),))
    assert numbers(made)["b"] == 1
