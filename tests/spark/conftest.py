"""One Spark session for all tests of a run: it takes longer to start than most of them take."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.stage import Stage
from tests.spark.standalone import FRUGAL, ROOT, Cluster

import stentor.spark

_ours: list[SparkSession] = []  # the session of this worker, once a test has asked for it


@pytest.fixture(autouse=True)
def no_other_session() -> Iterator[None]:
    """Whoever starts a session without this module's settings leaves it to all tests that come after it."""
    yield
    found = SparkSession.getActiveSession()
    assert found is None or found in _ours, "this test starts a session of its own: it must use the fixture `spark`"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("XDG_CACHE_HOME", str(folder / "cache"))
    conf = {
        "spark.driver.extraJavaOptions": FRUGAL,
        "spark.sql.adaptive.enabled": "false",  # makes a job of every exchange, which costs more than it gains here
        "spark.driver.memory": "1g",
        "spark.executorEnv.PYTHONPATH": str(ROOT),  # functions of tests are found by their module's name
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    spark = stentor.spark.session("local[2]", "tests", **conf)
    _ours.append(spark)
    yield spark
    _ours.clear()
    spark.stop()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Shared by tests that leave its processes alone."""
    with Stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture(scope="session")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(daemons: Cluster) -> Cluster:
    """A standalone master with two workers that live when the test begins."""
    daemons.fill()
    return daemons
