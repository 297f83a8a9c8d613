"""A Spark session that works as it is: with Java, quiet, and with this package on every worker."""

import atexit
import os
import re
import shutil
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import stentor
from stentor.model.errors import InvalidInput, Unreachable
from stentor.pipeline.engine import java

LOCAL: Final = "local[*]"
_OPTIONS: Final = "spark.driver.extraJavaOptions"
_PACKAGE: Final = Path(stentor.__file__).parent
_QUIET: Final = Path(__file__).with_name("log4j2.properties")
_ANSWER: Final = 5.0  # seconds that a master may take to accept a connection


def session(master: str = LOCAL, app: str = "stentor", **conf: str | int | bool) -> SparkSession:
    """The running session, or a new one on that master; `conf` is passed to Spark, `**{"spark.driver.memory": "2g"}`.

    Workers of a cluster are sent this package; Python and what the package needs must be there already, and
    PYSPARK_PYTHON say where if it is not where it is here.
    """
    local = _is_local(master)
    if not local:
        _reach(master)
    settings = (_local(master) if local else {}) | _everywhere() | {key: _text(value) for key, value in conf.items()}
    settings[_OPTIONS] = f"-Dlog4j2.configurationFile={_QUIET.as_uri()} {conf.get(_OPTIONS, '')}".strip()
    builder = SparkSession.builder.master(master).appName(app)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _environment(local):
        try:
            spark = builder.getOrCreate()
        except PySparkException as error:
            raise InvalidInput(f"Spark does not start on {master!r}: {error}") from error
    if not local:
        _ship(spark)
    return spark


def _is_local(master: str) -> bool:
    if re.fullmatch(r"local(\[(\*|[1-9]\d*)(, *[1-9]\d*)?\])?", master):
        return True
    if re.fullmatch(r"(spark|k8s)://.+|yarn|local-cluster\[.+\]", master):
        return False
    raise InvalidInput(f"master {master!r}: write local[*], local[4], spark://host:port, yarn or k8s://…")


def _local(master: str) -> dict[str, str]:
    cores = re.search(r"\d+", master)
    count = int(cores[0]) if cores else (os.cpu_count() or 1) if "*" in master else 1
    return {
        "spark.sql.shuffle.partitions": str(max(2, count)),  # Spark's 200 are for a cluster
        "spark.driver.host": "127.0.0.1",
    }


def _everywhere() -> dict[str, str]:
    return {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",  # a day of the lake is the same day everywhere
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reach(master: str) -> None:
    """Spark itself would try for a minute, and then not say what is wrong."""
    if not master.startswith("spark://"):
        return
    reasons = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            raise InvalidInput(f"master {master!r}: write spark://host:port")
        try:
            socket.create_connection((host, int(port)), timeout=_ANSWER).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{place}: {error}")
        else:
            return
    raise Unreachable(f"no Spark master there: {', '.join(reasons)}")


@contextmanager
def _environment(local: bool) -> Iterator[None]:
    """What Spark reads once, while it starts; a program's other children shall not see it."""
    wanted = {"JAVA_HOME": str(java.home())}
    if local:
        wanted |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    elif "PYSPARK_PYTHON" not in os.environ:
        wanted["PYSPARK_PYTHON"] = sys.executable
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _ship(spark: SparkSession) -> None:
    archive = _archive()
    if archive.name not in (name.rpartition("/")[2] for name in spark.sparkContext.listFiles):
        spark.sparkContext.addPyFile(str(archive))


@cache
def _archive() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="stentor-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # not before: executors fetch it when they start
    return pack(folder)


def pack(folder: Path) -> Path:
    """This package as one file that Python can import from."""
    archive = folder / f"stentor-{stentor.__version__}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(_PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, Path("stentor") / path.relative_to(_PACKAGE))
    return archive
