"""The session is ready as it is, and says clearly why it cannot be."""

import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import stentor.spark
from stentor.model.errors import InvalidInput, Unreachable
from stentor.pipeline.engine.session import pack

pytestmark = pytest.mark.req("SP-09")


def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The Python that runs this, and whether it has our matching code."""
    from stentor.model.filter import Filter

    wanted = str(Filter("n > 1"))
    for batch in batches:
        names = [sys.executable] * batch.num_rows
        yield pa.record_batch({"python": names, "filter": [wanted] * batch.num_rows})


def test_workers_run_this_python_with_this_package(spark: SparkSession) -> None:
    rows = spark.range(4).mapInArrow(where, "python string, filter string").distinct().collect()
    assert [(row.python, row.filter) for row in rows] == [(sys.executable, "n > 1")]


def test_it_is_small_quiet_and_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.sparkContext.uiWebUrl is None


def test_there_is_one_session(spark: SparkSession) -> None:
    before = dict(os.environ)
    assert stentor.spark.session("local[2]") is spark
    assert dict(os.environ) == before


@pytest.mark.parametrize("master", ["", "local[0]", "local[x]", "mesos://a:1", "spark:/a:1", "127.0.0.1:7077"])
def test_a_master_that_is_none_is_refused(master: str) -> None:
    with pytest.raises(InvalidInput, match="master"):
        stentor.spark.session(master)


def test_a_master_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
        stentor.spark.session(f"spark://127.0.0.1:{port}")
    with pytest.raises(InvalidInput, match="host:port"):
        stentor.spark.session("spark://nobody")


def test_the_package_can_be_imported_from_what_workers_are_sent(tmp_path: Path) -> None:
    archive = pack(tmp_path)
    with zipfile.ZipFile(archive) as file:
        assert not [name for name in file.namelist() if "__pycache__" in name]
    # written so that the grammar, which is no module, must be read
    code = "import stentor; print(stentor.__file__, stentor.Filter(' a = 1 AND (b LIKE \"x%\")'))"
    environment = os.environ | {"PYTHONPATH": str(archive)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split(" ", 1) == [str(archive / "stentor" / "__init__.py"), "a = 1 AND b LIKE 'x%'\n"]


def test_without_pyspark_one_is_told_what_to_install() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import stentor.spark"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install 'stentor[spark]'" in done.stderr
