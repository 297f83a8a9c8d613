"""Reports: what a job found, as a table for people, as Parquet beside the lake, and as events on a system topic."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sql

from stentor.client.fabric import connect
from stentor.model.attribute import Value
from stentor.storage.lake import Lake

PREFIX: Final = "$stentor/"  # of the topics of reports
_CONNECT: Final = 10.0  # seconds until a broker must be there
MOST: Final = 10_000  # rows of a report that are shown and told


def rows_of(report: DataFrame, *order: str) -> list[Row]:
    """A report is small: it has a row for each window and place."""
    return report.orderBy(*order).limit(MOST).collect()


def save(report: DataFrame, lake: Lake, name: str) -> Path:
    """Under LAKE.reports, by day; the days that it is about are written again."""
    folder = lake.path.with_name(lake.path.name + ".reports") / name
    days = report.withColumn("day", sql.to_date("start"))
    days.coalesce(1).write.partitionBy("day").mode("overwrite").option("partitionOverwriteMode", "dynamic").parquet(
        str(folder)
    )
    return folder


def tell(rows: list[Row], name: str, url: str | None, tls: str | None) -> None:
    """Every row is an event on `$stentor/NAME`; its columns are attributes."""

    async def publish() -> None:
        async with connect(url, tls=tls, wait=_CONNECT) as fabric:
            columns: dict[str, list[Value | None]] = {}
            for row in rows:
                for column, value in row.asDict().items():
                    columns.setdefault(column, []).append(_value(value))
            await fabric.publish_many(PREFIX + name, [b""] * len(rows), columns)
            await fabric.flush()

    if rows:
        asyncio.run(publish())


def _value(value: Any) -> Value | None:
    return value.isoformat() if isinstance(value, datetime) else value
