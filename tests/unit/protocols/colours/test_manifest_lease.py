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
