"""One size of what grows: what it costs, as a process of its own finds out."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.backlog import resident
from benchmarks.growth.machines import Bundle
from benchmarks.growth.point import Point
from benchmarks.growth.topics import topics
from stentor.model.control import TopicTask

_PUBLISHERS = 10
_MINUTE = 60.0


def lives(folder: Path, size: int) -> Point:
    """Publishers that begin anew all the time; one subscriber has all of it, and nothing is kept."""
    before = resident(os.getpid())
    bundle = Bundle(folder, ("r1", "r2"))
    bundle.owner(TopicTask.CREATE)
    bundle.pass_time(10)
    publishers = [f"shop{number}" for number in range(_PUBLISHERS)]
    for name in publishers:
        bundle.owner(TopicTask.GRANT, name=name)
    bundle.owner(TopicTask.GRANT, role="subscriber", name="billing")
    bundle.recover("subscriber", "billing", 1, "r1")
    bundle.settle()
    begin = time.process_time()
    for life in range(1, size // _PUBLISHERS + 1):
        for name in publishers:
            bundle.recover("publisher", name, life, "r1")
        bundle.settle()
        for name in publishers:
            bundle.publish(name, life, 1, 3)
        bundle.settle()
        bundle.acknowledge()
        bundle.settle()
        bundle.pass_time(1)
    taken = time.process_time() - begin
    bundle.pass_time(2 * _MINUTE)
    idle = bundle.pass_time(_MINUTE)
    held = sum(len(bundle.machine(name).log.streams) for name in ("r1", "r2"))
    memory = resident(os.getpid()) - before
    bundle.close("r1")
    begin = time.perf_counter()
    bundle.open("r1")
    return Point("lives", size, idle / 2, memory, time.perf_counter() - begin, 1000 * taken / size, held)


def subscribers(folder: Path, size: int) -> Point:
    """Named subscribers of one topic, all steered and done with all of it."""
    before = resident(os.getpid())
    bundle = Bundle(folder, ("r1", "r2"))
    bundle.owner(TopicTask.CREATE)
    bundle.pass_time(10)
    bundle.owner(TopicTask.GRANT, name="shop")
    begin = time.process_time()
    for number in range(size):
        name = f"reader{number}"
        bundle.owner(TopicTask.GRANT, role="subscriber", name=name)
        bundle.recover("subscriber", name, 1, "r1")
        bundle.settle()
        if number % 100 == 0:
            bundle.pass_time(1)
    taken = time.process_time() - begin
    bundle.recover("publisher", "shop", 1, "r1")
    bundle.publish("shop", 1, 1, 10)
    bundle.settle()
    bundle.acknowledge()
    bundle.settle()
    bundle.pass_time(_MINUTE)
    idle = bundle.pass_time(_MINUTE)
    memory = resident(os.getpid()) - before
    bundle.close("r1")
    begin = time.perf_counter()
    bundle.open("r1")
    return Point("subscribers", size, idle / 2, memory, time.perf_counter() - begin, 1000 * taken / size, 1)


KINDS: dict[str, Callable[[Path, int], Point]] = {"lives": lives, "topics": topics, "subscribers": subscribers}


def run(kind: str, place: Path | None, size: int) -> Point:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        return KINDS[kind](Path(folder), size)
