"""Where a subscriber listens, as it moves from unit to unit and falls behind."""

import pytest

from stentor.machine import Effect
from stentor.model.ids import topic_id
from stentor.protocols.delivery.attendance import Attendance
from stentor.protocols.delivery.post import Ignore, Listen


def taken(attendance: Attendance) -> list[Effect]:
    effects, attendance.effects = attendance.effects, []
    return effects


@pytest.mark.req("GE-21")
def test_who_loses_its_link_stops_listening_to_its_unit_before_it_has_another_one() -> None:
    attendance = Attendance("orders", "price > 2", 1000)
    attendance.settle("north")
    here = Listen("$within/north/orders", letters=False, where="price > 2")
    assert taken(attendance) == [Ignore("orders"), here]
    assert attendance.number == topic_id("$within/north/orders")
    attendance.leave()
    assert taken(attendance) == [Ignore("$within/north/orders")]
    attendance.settle("south")
    assert taken(attendance) == [Listen("$within/south/orders", letters=False, where="price > 2")]


def test_where_nothing_is_held_a_lost_link_changes_nothing() -> None:
    attendance = Attendance("orders", "", 1000)
    attendance.settle("")
    attendance.leave()
    assert taken(attendance) == []
    assert attendance.number == topic_id("orders")


@pytest.mark.req("GE-21")
def test_one_that_is_far_behind_listens_in_its_new_unit_once_it_has_caught_up() -> None:
    attendance = Attendance("orders", "", 1000)
    attendance.settle("north")
    taken(attendance)
    attendance.fall_behind()
    attendance.leave()
    attendance.settle("south")
    assert taken(attendance) == [Ignore("$within/north/orders")]
    attendance.catch_up(0, 0, 1)
    assert taken(attendance) == [Listen("$within/south/orders", letters=False)]
