"""Which of the repositories of a topic decides what its owner is told."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.integration.house import PATIENCE, node, run

from stentor.admin.topics import Registrar
from stentor.client.fabric import Fabric, connect
from stentor.model.communication import inbox_of, repository_name
from stentor.model.control import Registration, RegistrationReceipt, TopicTask
from stentor.model.errors import Refusal, Refused
from stentor.model.trust.request_topic import requests_pattern
from stentor.wire.letter import read, write

pytestmark = pytest.mark.req("RD-01")


async def answer(fabric: Fabric, name: str, code: Refusal | None, asked: list[str], ready: asyncio.Event) -> None:
    """Answer whoever asks a repository with a code; it knows nothing else."""
    async with fabric.subscribe(requests_pattern(name)) as requests:
        await requests.settled()
        ready.set()
        async for event in requests:
            (question,) = read(event.body).events
            assert isinstance(question, Registration)
            asked.append(name)
            receipt = RegistrationReceipt(question.topic, name, token=question.token, code=code, reason=name)
            await fabric.publish(inbox_of(question.sender), write([receipt]))


def told(home: Path, **codes: Refusal | None) -> tuple[str, Refusal | None, list[str]]:
    """Return whose answer counts, which it is, and who was asked, of repositories that answer with these codes."""

    async def main() -> tuple[str, Refusal | None, list[str]]:
        asked: list[str] = []
        async with node(home) as broker, AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            answering = []
            for name, code in codes.items():
                fabric = await stack.enter_async_context(connect(broker.url, wait=PATIENCE, name=repository_name(name)))
                ready = asyncio.Event()
                answering.append(tasks.create_task(answer(fabric, name, code, asked, ready)))
                await ready.wait()
            owner = await stack.enter_async_context(connect(broker.url, wait=PATIENCE))
            registrar = await stack.enter_async_context(Registrar(owner))
            wanted = registrar._registration("orders", TopicTask.REMOVE_REPOSITORY, repositories=("r9",))
            try:
                receipt = await registrar._tell(list(codes), wanted, lambda *_: True, PATIENCE)
                return receipt.sender, receipt.code, asked
            except Refused as refused:
                return refused.reason, refused.code, asked
            finally:
                for each in answering:
                    each.cancel()

    return run(main())


@pytest.mark.parametrize("code", [Refusal.BUSY, Refusal.UNKNOWN])
def test_the_next_one_is_asked_if_one_is_busy_or_knows_nothing_of_it(tmp_path: Path, code: Refusal) -> None:
    assert told(tmp_path, r1=code, r2=None, r3=None) == ("r2", None, ["r1", "r2"])


@pytest.mark.parametrize("codes", [(Refusal.BUSY, Refusal.UNKNOWN), (Refusal.UNKNOWN, Refusal.BUSY)])
def test_the_owner_is_told_what_those_say_that_are_not_busy(tmp_path: Path, codes: tuple[Refusal, Refusal]) -> None:
    assert told(tmp_path, r1=codes[0], r2=codes[1])[1] is Refusal.UNKNOWN


def test_the_owner_is_told_that_all_are_busy(tmp_path: Path) -> None:
    assert told(tmp_path, r1=Refusal.BUSY, r2=Refusal.BUSY)[1] is Refusal.BUSY


def test_nobody_else_is_asked_if_one_refuses_for_another_reason(tmp_path: Path) -> None:
    assert told(tmp_path, r1=Refusal.NOT_AUTHORISED, r2=None) == ("r1", Refusal.NOT_AUTHORISED, ["r1"])
