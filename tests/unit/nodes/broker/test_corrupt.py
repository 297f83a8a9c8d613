"""The order to damage a broker's memory: whom a broker obeys, and what becomes of it."""

import itertools
from typing import Any

import pytest

from stentor.machine import Append, Appended, Effect, Input, LinkOpened, Received, Scramble, Send, Started
from stentor.model.colours.memory_part import LAST_SEED, MemoryPart
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation, LinkId
from stentor.model.limits import Limits
from stentor.model.messages import AdminReceipt, AdminRequest, AdminTask, Hello
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import NetworkSettings
from stentor.wire import frame
from stentor.wire.frame import PREAMBLE

OPERATOR: dict[str, Any] = {"principal": "node", "scopes": ("scope/",)}
STRANGER: dict[str, Any] = {"principal": "alice", "node": False, "scopes": ()}


class Office:
    """A broker that gets orders."""

    def __init__(self, *, chaos: bool = True) -> None:
        self.broker = Broker(ScopePath.parse("campus/b1"), Limits(), "test", NetworkSettings(chaos=chaos))
        self._links = itertools.count(1)
        for effect in self.broker.step(0, Started()):
            if isinstance(effect, Append):
                self.broker.step(0, Appended(effect.log, effect.token))

    def order(self, parts: str, seed: int = 7, proved: dict[str, Any] = OPERATOR) -> tuple[AdminReceipt, list[Effect]]:
        """Return what the broker answers, and what else it wants to be done."""
        link = LinkId(next(self._links))
        hello = Hello(name=f"client-{link}", incarnation=Incarnation(1), window=1 << 20)
        self._tell(LinkOpened(link, address="127.0.0.1:1", **proved))
        self._tell(Received(link, PREAMBLE + frame.encode(hello)))
        request = AdminRequest(token=5, task=AdminTask.CORRUPT, name=parts, count=seed)
        effects = self._tell(Received(link, frame.encode(request)))
        answers = [frame.decode(bytes(data)) for each in effects if isinstance(each, Send) for data in each.data]
        (receipt,) = [each for each in answers if isinstance(each, AdminReceipt)]
        return receipt, [each for each in effects if not isinstance(each, Send)]

    def _tell(self, happened: Input) -> list[Effect]:
        return self.broker.step(0, happened)


def test_a_broker_that_was_started_for_it_has_its_memory_damaged() -> None:
    receipt, effects = Office().order("rounds credit", seed=42)
    assert receipt == AdminReceipt(5)
    assert Scramble((MemoryPart.ROUNDS, MemoryPart.CREDIT), 42) in effects


def test_it_is_done_once_and_not_written_down() -> None:
    _, effects = Office().order("all")
    assert not [each for each in effects if isinstance(each, Append)]


def test_other_brokers_refuse_and_say_how_to_start_one_that_does_not() -> None:
    receipt, effects = Office(chaos=False).order("all")
    assert receipt.code is Refusal.PROTOCOL
    assert "`stentor up --chaos`" in receipt.reason
    assert effects == []


def test_strangers_are_refused_whether_or_not_the_broker_was_started_for_it() -> None:
    for chaos in (True, False):
        receipt, effects = Office(chaos=chaos).order("all", proved=STRANGER)
        assert receipt.code is Refusal.UNAUTHENTICATED
        assert effects == []


@pytest.mark.parametrize(
    ("parts", "seed", "told"),
    [
        ("rounds pointer", 7, "a broker's memory has no part 'pointer'; did you mean 'pointers'?"),
        ("", 7, "no part of a broker's memory is named"),
        ("all", LAST_SEED + 1, f"a seed of {LAST_SEED + 1}: expected 0 to {LAST_SEED}"),
    ],
)
def test_an_order_that_cannot_be_carried_out_is_refused(parts: str, seed: int, told: str) -> None:
    receipt, effects = Office().order(parts, seed)
    assert receipt.code is Refusal.PROTOCOL
    assert told in receipt.reason
    assert effects == []
