"""A program that writes a stream of files to a topic, to be killed while it does: `python -m tests.spark.writing`."""

import sys

from pyspark.sql import functions as sql
from tests.spark.standalone import FRUGAL

import stentor.spark


def main(files: str, url: str, topic: str, checkpoint: str) -> None:
    conf = {"spark.driver.extraJavaOptions": FRUGAL, "spark.driver.memory": "1g"}
    spark = stentor.spark.session("local[2]", "writing", **conf)
    # whoever computes a row again gets another one
    body = sql.concat_ws(" ", "value", sql.expr("uuid()"))
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(files).select(body.alias("body"))
    query = (
        rows.repartition(2)
        .writeStream.format("stentor")
        .option("url", url)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
