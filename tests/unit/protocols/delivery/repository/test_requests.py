"""What a repository is asked for counts if the topic of the letter names its sender: an id alone can be met by chance,
because owners, operators and readers choose their names. Here somebody has met it.
"""

import pytest
from tests.paper.bundle import TOPIC, PaperBundle

from stentor.model.control import ControlEvent, Registration, RegistrationReceipt, StreamRanges, TopicTask
from stentor.model.ids import publisher_id
from stentor.model.stored.position import Position
from stentor.model.stored.reading import Page, PageRequest, ReaderAck, Stock, StockRequest
from stentor.protocols.delivery.authentication import is_forged
from stentor.protocols.delivery.transport import LetterReceived

pytestmark = pytest.mark.req("RD-31")

OWNER = publisher_id("", "owner")
FAR = (StreamRanges(7, 1, 1 << 40, ()),)
REQUESTS: list[ControlEvent] = [
    *(
        Registration(TOPIC, "owner", 1, task, "", ("r1",), role="subscriber", name="audit")
        for task in TopicTask
        if task not in (TopicTask.SHOW, TopicTask.STATUS)
    ),
    StockRequest(TOPIC, "owner", 1, "audit", "", enrol=True),
    PageRequest(TOPIC, "owner", 1, "", "", Position().held),
    ReaderAck(TOPIC, "owner", "audit", "", FAR),
]


@pytest.mark.parametrize("event", REQUESTS, ids=lambda event: getattr(event, "task", type(event).__name__))
@pytest.mark.parametrize("requester", ["", "mallory:x", "Owner", "owner "])
def test_a_letter_whose_id_fits_and_whose_topic_names_another_is_forged(event: ControlEvent, requester: str) -> None:
    assert is_forged(LetterReceived(OWNER, [event], requester=requester), event)
    assert not is_forged(LetterReceived(OWNER, [event], requester="owner"), event)
    assert is_forged(LetterReceived(OWNER + 1, [event], requester="owner"), event), "the name is of another principal"


def test_a_question_may_be_asked_of_all_repositories_at_once() -> None:
    for task in (TopicTask.SHOW, TopicTask.STATUS):
        event = Registration(TOPIC, "owner", 1, task, "")
        assert not is_forged(LetterReceived(OWNER, [event]), event)
        assert is_forged(LetterReceived(OWNER, [event], requester="mallory:x"), event)
        assert is_forged(LetterReceived(OWNER + 1, [event]), event)


@pytest.mark.parametrize("requester", ["", "mallory:x"])
def test_a_repository_neither_does_nor_answers_what_was_asked_in_the_name_of_another(requester: str) -> None:
    bundle = PaperBundle("r1", "r2")
    registry = bundle.repositories["r1"].registry
    before = registry.digest
    bundle.clear()
    for event in REQUESTS:
        bundle.step("r1", LetterReceived(OWNER, [event], requester=requester))
    assert registry.digest == before
    assert not bundle.told(RegistrationReceipt)
    assert not bundle.told(Stock)
    assert not bundle.told(Page)
    bundle.step("r1", LetterReceived(OWNER, [REQUESTS[0]], requester="owner"))
    assert bundle.told(RegistrationReceipt)
