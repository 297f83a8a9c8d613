"""Held at the border: which publishers a repository refuses for good, and which are to ask again."""

import pytest
from tests.paper.bundle import TOPIC, PaperBundle

from stentor.model.control import Denial, RecoveryResponse, TopicTask
from stentor.model.errors import Refusal

pytestmark = pytest.mark.req("RD-01")


def refusals(bundle: PaperBundle) -> list[Refusal]:
    """A publisher in the south asks r1, which serves everyone."""
    bundle.clear()
    bundle.recover("publisher", "shop", "r1", node="south/b1")
    return [denial.code for denial in bundle.told(Denial)]


def test_a_member_that_was_never_heard_may_be_the_storage_of_a_publishers_unit() -> None:
    bundle = PaperBundle("r1", "south", create=False, units={"south": "south"})
    bundle.kill("south")
    bundle.owner("r1", TopicTask.CREATE, repositories=("r1", "south"), copies=1, hold=True)
    bundle.owner("r1", TopicTask.GRANT, role="publisher", name="shop")
    bundle.pass_time(60_000)
    assert refusals(bundle) == [Refusal.BUSY]
    bundle.start("south")
    bundle.pass_time(10_000)
    assert bundle.repositories["r1"].registry.units == {"r1": "", "south": "south"}, TOPIC
    bundle.clear()
    bundle.recover("publisher", "shop", "south", node="south/b1")
    assert [response.within for response in bundle.told(RecoveryResponse)] == ["south"]


def test_a_publisher_is_refused_for_good_when_all_members_have_said_that_none_serves_its_unit() -> None:
    bundle = PaperBundle("r1", "r2", hold=True)
    assert refusals(bundle) == [Refusal.NOT_AUTHORISED]
