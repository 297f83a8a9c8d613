"""Letter transport: what happens to its link is told in the order in which it happened."""

from stentor.machine import Step
from stentor.model.ids import Incarnation
from stentor.nodes.client import Settings
from stentor.nodes.client_api import Connect, Disconnect
from stentor.nodes.letter_transport import LetterTransport
from stentor.protocols.delivery.transport import Greeted, LinkDown, LinkUp


def test_a_link_that_is_lost_right_after_its_welcome_is_told_as_up_and_then_as_down() -> None:
    step = Step()
    transport = LetterTransport(Settings(name="shop", addresses=("here:1",), incarnation=Incarnation(1)), step)
    told = transport._sort([Connect("b1", "alice"), Disconnect("the broker stops")])
    assert told == [Greeted("b1", "alice"), LinkUp("alice", "b1"), LinkDown("the broker stops")]
    assert not [effect for effect in step.end() if isinstance(effect, Connect | Disconnect)], (
        "whoever tells it emits it"
    )
