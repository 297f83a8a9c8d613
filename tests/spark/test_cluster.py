"""What runs embedded runs unchanged on a standalone master with two workers, one of which dies in mid-job."""

import asyncio
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.driver import TASKS
from tests.spark.stage import Stage, everything
from tests.spark.standalone import PATIENCE, Cluster, until

import stentor
from stentor.admin.topics import Registrar

EVENTS, BATCH = 1000, 600
PLAYED = 300
WANTED = {"everything": "", "few": "n > 6"}


def _started(folder: Path) -> dict[str, str]:
    """Which Python daemon, and so which worker, has begun which task and attempt."""
    names = [path.name.split("-") for path in folder.glob("started-*")]
    return {f"{partition}-{attempt}": daemon for _, partition, attempt, daemon in names}


def _kill_one(cluster: Cluster, driver: subprocess.Popen[str], folder: Path) -> None:
    """A worker dies while each of them is at a task of this act."""
    until(lambda: len(set(_started(folder).values())) == 2 or driver.poll() is not None, "a task on each worker")
    cluster.workers[0].kill()
    (folder / "go").touch()


def _check_marks(folder: Path) -> None:
    attempts = [key.split("-") for key in _started(folder)]
    assert {int(partition) for partition, _ in attempts} == set(range(TASKS))
    assert any(int(attempt) > 0 for _, attempt in attempts), "a task was lost with its worker, and run again"
    places = {path.read_text() for path in folder.glob("started-*")}
    assert all(".zip/" in place for place in places), "workers have the package from the driver"


async def _play(url: str, topic: str) -> None:
    """One publishes, two read, and all of them end in good order."""
    async with stentor.connect(url, wait=PATIENCE) as fabric:
        async with Registrar(fabric) as registrar:
            for name in WANTED:
                await registrar.grant(topic, "subscriber", name)
        readers = [fabric.subscribe(topic, where, name=name) for name, where in WANTED.items()]
        async with readers[0] as all_of_it, readers[1] as few, fabric.publisher(topic, name="shop") as shop:
            for start in range(0, PLAYED, 30):
                await shop.send_many([b"x"] * 30, {"n": [number % 10 for number in range(start, start + 30)]})
            await shop.flush()
            for events, count in ((all_of_it, PLAYED), (few, PLAYED * 3 // 10)):
                seen = 0
                async for _ in events:
                    seen += 1
                    if seen == count:
                        break
                await events.sync()


@pytest.mark.slow  # a master, two workers, a driver and all their Pythons keep two processors busy for minutes
@pytest.mark.req("SP-01", "SP-05", "SP-09")
def test_a_copy_is_whole_and_an_audit_right_though_a_worker_dies_in_each(
    cluster: Cluster, stage: Stage, tmp_path: Path
) -> None:
    orders, copy = stage.topic("cluster/orders"), stage.topic("cluster/copy", publisher="spark")
    played, changed = stage.topic("audited/real", subscriber="everything"), "audited/changed"
    bodies = [b"%d" % number for number in range(EVENTS)]
    stage.publish(orders, bodies)
    asyncio.run(_play(stage.url_of_all, played))
    copying, auditing = tmp_path / "copying", tmp_path / "auditing"
    copying.mkdir()
    auditing.mkdir()
    acts = (
        [str(copying), stage.url_of_all, orders, copy, str(BATCH)],
        [str(auditing), stage.url_of_all, played, changed, str(PLAYED)],
    )
    with cluster.drive("tests.spark.performing", *map(json.dumps, acts)) as driver:
        try:
            for folder in (copying, auditing):
                _kill_one(cluster, driver, folder)
                if folder is copying:
                    cluster.fill()
            out, err = driver.communicate(timeout=PATIENCE)
        finally:
            driver.kill()
    assert driver.returncode == 0, err
    _check_marks(copying)
    _check_marks(auditing)
    assert Counter(everything(stage, copy, EVENTS)) == Counter(bodies), "no gap, and nothing twice"
    batches = list((copying / "checkpoint" / "commits").glob("[0-9]*"))
    assert len(batches) == -(-EVENTS // BATCH), "the stream went on with the worker that was left"
    outcome = json.loads(out)
    findings = set(map(tuple, outcome["findings"]))
    assert outcome["sums"] == {"everything": [PLAYED, PLAYED], "few": [PLAYED * 3 // 10, PLAYED * 3 // 10]}
    assert {each for each in findings if each[0] != "unproven"} == {("violation", "duplicate", changed, "few")}
    assert ("unproven", "untold", changed, "everything") in findings
    assert {topic for _, _, topic, _ in findings} == {changed}
