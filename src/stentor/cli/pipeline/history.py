"""History: events that jobs look at again, in a fabric, in its lake or in any other Parquet files."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stentor.model.errors import InvalidInput
from stentor.model.topic import check_pattern, matches
from stentor.pipeline.options import read_options
from stentor.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class HistorySource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the events of the past are: in a fabric, a lake or files."""

    topic: str | None
    lake: Path | None
    parquet: str | None
    fabric: dict[str, str]  # options of the data source

    def check(self) -> None:
        """Before Spark is started."""
        if self.lake is not None and self.parquet is not None:
            raise InvalidInput("--lake and --parquet are two places: say one")
        if self.topic is not None:
            check_pattern(self.topic)
        if self.stored:
            if self.fabric:
                raise InvalidInput(f"--{next(iter(self.fabric))} is for a fabric, not for --lake or --parquet")
        elif self.topic is None:
            raise InvalidInput("say where events are: --topic of a fabric, --lake or --parquet")
        else:
            read_options(self._options, streaming=False)
        if self.lake is not None and not self.lake.is_dir():
            raise InvalidInput(f"--lake {self.lake}: there is no such directory")

    @property
    def stored(self) -> bool:
        """In files, not in a fabric."""
        return self.lake is not None or self.parquet is not None

    def load(self, spark: "SparkSession") -> "DataFrame":
        if self.lake is not None:
            return self._lake(spark, Lake(self.lake))
        if self.parquet is not None:
            events = spark.read.parquet(self.parquet)
            missing = {"time", "body"} - set(events.columns)
            if missing:
                raise InvalidInput(f"--parquet {self.parquet}: there is no column {min(missing)!r}")
            return self._only(events)
        return spark.read.format("stentor").options(**self._options, origin="true").load()

    def files(self, lake: Lake) -> list[Path]:
        return [file for topic in self._topics(lake) for file in lake.files(topic)]

    @property
    def _options(self) -> dict[str, str]:
        return {"topic": self.topic or "", **self.fabric}

    def _only(self, events: "DataFrame") -> "DataFrame":
        if self.topic is None:
            return events
        if "topic" not in events.columns:
            raise InvalidInput(f"--topic {self.topic}: there is no column 'topic' in {self.parquet}")
        topics = [row.topic for row in events.select("topic").distinct().collect()]
        return events.where(events.topic.isin([topic for topic in topics if matches(self.topic, topic)]))

    def _lake(self, spark: "SparkSession", lake: Lake) -> "DataFrame":
        from stentor.pipeline.source.columns import ddl_of, schema_of

        topics = self._topics(lake)
        # stated, or Spark would take a topic "7" for a number
        events = spark.read.schema(f"{ddl_of(schema_of((), origin=True))}, day date").parquet(str(lake.path))
        return events.where(events.topic.isin(topics)).drop("day")

    def _topics(self, lake: Lake) -> list[str]:
        lake.check()
        chosen = [topic for topic in lake.topics() if self.topic is None or matches(self.topic, topic)]
        if not chosen:
            raise InvalidInput(f"--topic {self.topic or '#'}: the lake has {', '.join(lake.topics()) or 'no events'}")
        return chosen
