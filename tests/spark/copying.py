"""A driver: copies a topic to another one as a stream; no task of its first batch ends before the test says so."""

import sys

from tests.spark.driver import TASKS, held, session


def main(master: str, folder: str, url: str, topic: str, to: str, batch: str) -> None:
    spark = session(master, "copying")
    reader = spark.readStream.format("stentor").option("url", url).option("topic", topic)
    reader = reader.option("from", "beginning").option("maxEventsPerTrigger", batch).option("partitions", TASKS)
    events = reader.load()
    writer = events.mapInArrow(held(folder), events.schema).writeStream.format("stentor").option("url", url)
    writer = writer.option("topic", to).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
