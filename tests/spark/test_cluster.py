"""What runs embedded runs unchanged on a standalone master with two workers, one of which dies in mid-job."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.driver import TASKS
from tests.spark.stage import Stage, everything
from tests.spark.standalone import PATIENCE, Cluster, until

import stentor
from stentor.registration import Registrar

EVENTS, BATCH = 1000, 600
PLAYED = 300
WANTED = {"everything": "", "few": "n > 6"}


def _started(folder: Path) -> dict[str, str]:
    """Which Python daemon, and so which worker, has begun which task and attempt."""
    names = [path.name.split("-") for path in folder.glob("started-*")]
    return {f"{partition}-{attempt}": daemon for _, partition, attempt, daemon in names}


def _drive(cluster: Cluster, module: str, folder: Path, *arguments: str) -> str:
    """Run a driver, kill a worker while each of them is at a task; what the driver says."""
    with cluster.drive(module, str(folder), *arguments) as driver:
        try:
            until(lambda: len(set(_started(folder).values())) == 2 or driver.poll() is not None, "a task on each")
            cluster.workers[0].kill()
            (folder / "go").touch()
            out, err = driver.communicate(timeout=PATIENCE)
        finally:
            driver.kill()
    assert driver.returncode == 0, err
    attempts = [key.split("-") for key in _started(folder)]
    assert {int(partition) for partition, _ in attempts} == set(range(TASKS))
    assert any(int(attempt) > 0 for _, attempt in attempts), "a task was lost with its worker, and run again"
    assert len([worker for worker in cluster.workers if worker.alive]) == 1
    return out


@pytest.mark.req("SP-01", "SP-09")
def test_a_topic_is_copied_once_though_a_worker_dies(cluster: Cluster, stage: Stage, tmp_path: Path) -> None:
    topic, copy = stage.topic("cluster/orders"), stage.topic("cluster/copy", publisher="spark")
    bodies = [b"%d" % number for number in range(EVENTS)]
    stage.publish(topic, bodies)
    _drive(cluster, "tests.spark.copying", tmp_path, stage.url_of_all, topic, copy, str(BATCH))
    assert Counter(everything(stage, copy, EVENTS)) == Counter(bodies), "no gap, and nothing twice"
    batches = list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    assert len(batches) == -(-EVENTS // BATCH), "the stream went on with the worker that was left"
    places = {path.read_text() for path in tmp_path.glob("started-*")}
    assert all(".zip/" in place for place in places), "workers have the package from the driver"


async def _play(url: str, topic: str) -> None:
    """One publishes, two read, and all of them end in good order."""
    async with stentor.connect(url, timeout=PATIENCE) as fabric:
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


@pytest.mark.req("SP-05", "SP-09")
def test_a_real_run_is_proven_and_what_is_planted_is_found_though_a_worker_dies(
    cluster: Cluster, stage: Stage, tmp_path: Path
) -> None:
    topic, changed = stage.topic("audited/real", subscriber="everything"), "audited/changed"
    asyncio.run(_play(stage.url_of_all, topic))
    out = _drive(cluster, "tests.spark.auditing", tmp_path, stage.url_of_all, topic, changed, str(PLAYED))
    outcome = json.loads(out)
    findings = set(map(tuple, outcome["findings"]))
    assert outcome["sums"] == {"everything": [PLAYED, PLAYED], "few": [PLAYED * 3 // 10, PLAYED * 3 // 10]}
    assert {each for each in findings if each[0] != "unproven"} == {("violation", "duplicate", changed, "few")}
    assert ("unproven", "untold", changed, "everything") in findings
    assert {topic for _, _, topic, _ in findings} == {changed}
