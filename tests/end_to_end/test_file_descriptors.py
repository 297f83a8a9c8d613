"""A fabric whose processes may open few files: it says what it cannot do, goes on, and always starts again."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric
from tests.end_to_end.network import until

from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.model.errors import Refusal, Refused

_FILES = 200  # of which a repository inside a broker has half: 17 ledgers, one of them for traces
_TOPICS = 40


def up(folder: Path, *launcher: str) -> Fabric:
    return Fabric("--listen", "127.0.0.1:0", "--data", folder / "data", cwd=folder, launcher=launcher)


def limited(files: int) -> Sequence[str]:
    """A shell that takes away all but so many files, for good, and becomes the command."""
    return ("sh", "-c", f'ulimit -n {files}; exec "$@"', "sh")


def check(refused: Refused, code: Refusal) -> None:
    assert refused.code is code, refused
    assert "ulimit -n" in refused.reason


async def create(url: str, topics: Sequence[str]) -> list[str]:
    """Return those that were created; the others were refused because there are too many."""
    created = []
    async with connect(url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
        for topic in topics:
            try:
                await registrar.create(topic)
            except Refused as refused:
                check(refused, Refusal.TOO_MANY)
            else:
                created.append(topic)
    return created


async def served(url: str, topics: Sequence[str]) -> list[str]:
    """Return the topics on which an event is stored now; the others are answered BUSY, with the reason."""
    found = []
    async with connect(url, wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
        for topic in topics:
            try:
                await registrar.grant(topic, "publisher", "shop")
            except Refused as refused:
                check(refused, Refusal.BUSY)
                continue
            async with fabric.publisher(topic, name="shop") as shop:
                await shop.send(b"1")
                await shop.flush()
            found.append(topic)
    return found


@pytest.mark.slow
def test_more_topics_than_files_can_be_open_are_refused_and_nothing_ends(tmp_path: Path) -> None:
    topics = [f"t{number:02}" for number in range(_TOPICS)]
    with up(tmp_path, *limited(_FILES)) as running:
        created = asyncio.run(create(running.url(), topics))
        assert 0 < len(created) < _TOPICS
        assert asyncio.run(served(running.url(), created[-2:])) == created[-2:]
        assert len(running.nodes()) == 1
    with up(tmp_path, *limited(_FILES)) as running:  # the last ones wait until others have fallen asleep
        until(lambda: asyncio.run(served(running.url(), created[-2:])) == created[-2:], "a topic that waits")


@pytest.mark.slow  # the small one is in tests/integration/test_topic_budgets.py
def test_a_repository_with_more_ledgers_than_files_starts_and_serves_what_it_can(tmp_path: Path) -> None:
    topics = [f"t{number:02}" for number in range(_TOPICS)]
    with up(tmp_path) as running:
        assert asyncio.run(create(running.url(), topics)) == topics
    with up(tmp_path, *limited(_FILES)) as running:
        running.line("topics are not served", err=True)
        some = asyncio.run(served(running.url(), [topics[0], topics[-1]]))
        assert some == [topics[0]]
    with up(tmp_path) as running:
        assert asyncio.run(served(running.url(), [topics[0], topics[-1]])) == [topics[0], topics[-1]]
