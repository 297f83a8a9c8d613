"""Stentor in Spark: `session()` gives a ready session, `register(spark)` teaches any other `format("stentor")`."""

try:
    from pyspark.sql import SparkSession
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("stentor.spark needs PySpark: pip install 'stentor[spark]'", name=error.name) from error

from stentor.pipeline.engine.failure import plain_errors
from stentor.pipeline.engine.session import LOCAL
from stentor.pipeline.engine.session import session as _session
from stentor.pipeline.source.source import Source

__all__ = ["plain_errors", "register", "session"]


def session(master: str = LOCAL, app: str = "stentor", **conf: str | int | bool) -> SparkSession:
    """A session on that master, with Java found or brought, that knows `format("stentor")`.

    `conf` is passed to Spark: `session(**{"spark.driver.memory": "2g"})`.
    """
    return register(_session(master, app, **conf))


def register(spark: SparkSession) -> SparkSession:
    """Make `spark.read`, `readStream`, `write` and `writeStream` know `format("stentor")`."""
    spark.dataSource.register(Source)
    return spark
