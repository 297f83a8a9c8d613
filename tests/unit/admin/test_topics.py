"""Which of the repositories of a topic decides what its owner is told."""

import asyncio
from typing import Any

import pytest

from stentor.admin.topics import Registrar
from stentor.model.control import Registration, RegistrationReceipt, TopicTask
from stentor.model.errors import Refusal, Refused

WANTED = Registration("orders", "owner", token=7, task=TopicTask.REMOVE_REPOSITORY, principal="", repositories=("r9",))


class Fabric:
    """Repositories that answer at once, each with a code."""

    name = "owner"

    def __init__(self, **codes: Refusal | None) -> None:
        self.codes, self.asked = codes, list[str]()
        self.registrar: Registrar = Registrar(self)  # type: ignore[arg-type]

    def inbox(self) -> Any:
        return None

    async def publish(self, topic: str, body: bytes) -> None:  # noqa: ARG002
        repository = topic.rpartition("/")[2]
        self.asked.append(repository)
        receipt = RegistrationReceipt("orders", repository, token=7, code=self.codes[repository], reason=repository)
        self.registrar._waiting[7].answers.put_nowait(receipt)

    def tell(self) -> RegistrationReceipt:
        return asyncio.run(self.registrar._tell(list(self.codes), WANTED, lambda *_: True, 1.0))


@pytest.mark.parametrize("code", [Refusal.BUSY, Refusal.UNKNOWN])
def test_the_next_one_is_asked_if_one_is_busy_or_knows_nothing_of_it(code: Refusal) -> None:
    assert Fabric(r1=code, r2=None, r3=None).tell().sender == "r2"


@pytest.mark.parametrize("codes", [(Refusal.BUSY, Refusal.UNKNOWN), (Refusal.UNKNOWN, Refusal.BUSY)])
def test_the_owner_is_told_what_those_say_that_are_not_busy(codes: tuple[Refusal, Refusal]) -> None:
    with pytest.raises(Refused) as refused:
        Fabric(r1=codes[0], r2=codes[1]).tell()
    assert refused.value.code is Refusal.UNKNOWN


def test_the_owner_is_told_that_all_are_busy() -> None:
    with pytest.raises(Refused) as refused:
        Fabric(r1=Refusal.BUSY, r2=Refusal.BUSY).tell()
    assert refused.value.code is Refusal.BUSY


def test_nobody_else_is_asked_if_one_refuses_for_another_reason() -> None:
    fabric = Fabric(r1=Refusal.NOT_AUTHORISED, r2=None)
    with pytest.raises(Refused):
        fabric.tell()
    assert fabric.asked == ["r1"]
