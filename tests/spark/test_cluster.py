"""What runs embedded runs unchanged on a standalone master with two workers, one of which may die."""

from collections import Counter
from pathlib import Path

import pytest
from tests.spark.copying import TASKS
from tests.spark.stage import Stage, everything
from tests.spark.standalone import PATIENCE, Cluster, until

EVENTS, BATCH = 1000, 600


@pytest.mark.req("SP-01", "SP-09")
@pytest.mark.slow
def test_a_topic_is_copied_once_though_a_worker_dies(cluster: Cluster, stage: Stage, tmp_path: Path) -> None:
    topic, copy = stage.topic("cluster/orders"), stage.topic("cluster/copy", publisher="spark")
    bodies = [b"%d" % number for number in range(EVENTS)]
    stage.publish(topic, bodies)

    def started() -> dict[str, str]:
        """Which Python daemon, and so which worker, has begun which task and attempt."""
        names = [path.name.split("-") for path in tmp_path.glob("started-*")]
        return {f"{partition}-{attempt}": daemon for _, partition, attempt, daemon in names}

    arguments = (str(tmp_path), stage.url_of_all, topic, copy, str(BATCH))
    with cluster.drive("tests.spark.copying", *arguments) as driver:
        try:
            until(lambda: len(set(started().values())) == 2 or driver.poll() is not None, "a task on each worker")
            cluster.workers[0].kill()
            (tmp_path / "go").touch()
            _, err = driver.communicate(timeout=PATIENCE)
        finally:
            driver.kill()
    assert driver.returncode == 0, err
    assert Counter(everything(stage, copy, EVENTS)) == Counter(bodies), "no gap, and nothing twice"
    attempts = [key.split("-") for key in started()]
    assert {int(partition) for partition, _ in attempts} == set(range(TASKS))
    assert any(int(attempt) > 0 for _, attempt in attempts), "a task was lost with its worker, and run again"
    assert len([worker for worker in cluster.workers if worker.alive]) == 1
    batches = list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    assert len(batches) == -(-EVENTS // BATCH), "the stream went on with the worker that was left"
    places = {path.read_text() for path in tmp_path.glob("started-*")}
    assert all(".zip/" in place for place in places), "workers have the package from the driver"
