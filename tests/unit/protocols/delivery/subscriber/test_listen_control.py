"""Where a subscriber listens, as it moves from unit to unit and falls behind."""

import pytest

from stentor.machine import Effect, Step
from stentor.model.ids import topic_id
from stentor.protocols.delivery.subscriber.listen_control import ListenControl
from stentor.protocols.delivery.transport import Subscribe, Unsubscribe


class Bench(ListenControl):
    """A listen control whose steps the test makes."""

    def __init__(self, where: str) -> None:
        self.clock = Step()
        super().__init__(self.clock, "orders", where, 1000)


def taken(listening: Bench) -> list[Effect]:
    return listening.clock.end()


@pytest.mark.req("GE-21")
def test_who_loses_its_link_stops_listening_to_its_unit_before_it_has_another_one() -> None:
    listening = Bench("price > 2")
    listening.enter_unit("north")
    here = Subscribe("$within/north/orders", letters=False, where="price > 2")
    assert taken(listening) == [Unsubscribe("orders"), here]
    assert listening.number == topic_id("$within/north/orders")
    listening.leave()
    assert taken(listening) == [Unsubscribe("$within/north/orders")]
    listening.enter_unit("south")
    assert taken(listening) == [Subscribe("$within/south/orders", letters=False, where="price > 2")]


def test_where_nothing_is_held_a_lost_link_changes_nothing() -> None:
    listening = Bench("")
    listening.enter_unit("")
    listening.leave()
    assert taken(listening) == []
    assert listening.number == topic_id("orders")


@pytest.mark.req("GE-21")
def test_one_that_is_far_behind_listens_in_its_new_unit_once_it_has_caught_up() -> None:
    listening = Bench("")
    listening.enter_unit("north")
    taken(listening)
    listening.fall_behind()
    listening.leave()
    listening.enter_unit("south")
    assert taken(listening) == [Unsubscribe("$within/north/orders")]
    listening.catch_up(0, 0, 1)
    assert taken(listening) == [Subscribe("$within/south/orders", letters=False)]
