"""Cached tables: tables that are computed once, and whose plans are forgotten.

Spark looks through the whole plan of a table whenever a step is added to it, also through what it has persisted. A job
of many steps takes longer to be planned than to run, unless its tables have new plans from where they are cached.
"""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

_DATASET: Final = "org.apache.spark.sql.classic.Dataset"


class CachedTables:
    """The tables that a job has cached, until it is done with them. What is lost with an executor is computed again."""

    def __init__(self) -> None:
        self._held: list[DataFrame] = []

    def hold(self, table: DataFrame) -> DataFrame:
        self._held.append(table.persist())
        plan: Any = getattr(table, "_jdf", None)
        if plan is None:  # Spark Connect has its plans elsewhere
            return table
        spark: SparkSession = table.sparkSession
        begin = getattr(spark._jvm, _DATASET).ofRows
        return DataFrame(begin(spark._jsparkSession, plan.queryExecution().withCachedData()), spark)

    def forget(self) -> None:
        for table in self._held:
            table.unpersist()
        self._held.clear()
