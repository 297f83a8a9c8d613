"""How far a job is, while it runs."""

import threading
import uuid
from collections.abc import Callable
from typing import Final, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

Result = TypeVar("Result")
_PAUSE: Final = 0.25  # seconds between two looks


def watch(spark: SparkSession, action: Callable[[], Result], tell: Callable[[int, int], None]) -> Result:
    """What the action returns; meanwhile `tell` is told how many tasks are done, and of how many that are known of.

    Whoever interrupts this has its jobs cancelled.
    """
    context, group = spark.sparkContext, uuid.uuid4().hex
    results: list[Result] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            context.setJobGroup(group, group, interruptOnCancel=True)
            results.append(action())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    thread = InheritableThread(target=run, daemon=True)
    thread.start()
    try:
        while not ended.wait(_PAUSE):
            tell(*_count(spark, group))
    except BaseException:
        context.cancelJobGroup(group)
        raise
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _count(spark: SparkSession, group: str) -> tuple[int, int]:
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
