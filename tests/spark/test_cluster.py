"""What runs embedded runs unchanged on a standalone master with two workers, one of which may die."""

from pathlib import Path

import pytest
from tests.spark.counting import ROWS, TASKS
from tests.spark.standalone import PATIENCE, Cluster, until


@pytest.mark.req("SP-09")
def test_a_job_outlives_a_worker(cluster: Cluster, tmp_path: Path) -> None:
    def started() -> dict[str, str]:
        """Which Python daemon, and so which worker, has begun which task and attempt."""
        names = [path.name.split("-") for path in tmp_path.glob("started-*")]
        return {f"{partition}-{attempt}": daemon for _, partition, attempt, daemon in names}

    with cluster.drive("tests.spark.counting", str(tmp_path)) as driver:
        try:
            until(lambda: len(set(started().values())) == 2 or driver.poll() is not None, "a task on each worker")
            cluster.workers[0].kill()
            (tmp_path / "go").touch()
            out, err = driver.communicate(timeout=PATIENCE)
        finally:
            driver.kill()
    assert driver.returncode == 0, err
    rows, distinct, total, place = out.split()
    assert (int(rows), int(distinct), int(total)) == (ROWS, ROWS, ROWS * (ROWS - 1) // 2)
    assert ".zip/" in place, "workers have the package from the driver"
    attempts = [key.split("-") for key in started()]
    assert {int(partition) for partition, _ in attempts} == set(range(TASKS))
    assert any(int(attempt) > 0 for _, attempt in attempts), "a task was lost with its worker, and run again"
    assert len([worker for worker in cluster.workers if worker.alive]) == 1
