"""A worker: one side of a pair of clients, in a process of its own; says `ready`, then its outcome, on stdout."""

import os
import sys
import threading
import time

import msgspec

from benchmarks.clients import DRIVERS
from benchmarks.clients.driver import Received, Tally


class Task(msgspec.Struct, frozen=True):
    """What a worker is told, as JSON on its command line."""

    driver: str
    role: str  # publish, subscribe, echo or ping
    port: int
    topic: str = ""
    size: int = 256
    seconds: float = 2.0
    count: int = 1000


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _ready() -> None:
    _say(b"ready")


def _watch(tally: Tally) -> None:
    """END may be lost like any other message: then what has come so far is the outcome."""
    while not tally.idle():
        time.sleep(0.2)
    _say(msgspec.json.encode(Received(tally.received, tally.last)))
    os._exit(0)


def work(task: Task) -> object:
    driver = DRIVERS[task.driver].load()(task.port)
    body = b"x" * task.size
    match task.role:
        case "publish":
            return driver.publish(task.topic, body, task.seconds)
        case "subscribe":
            tally = Tally()
            threading.Thread(target=_watch, args=(tally,), daemon=True).start()
            driver.subscribe(task.topic, tally, _ready)
            return Received(tally.received, tally.last)
        case "echo":
            return driver.echo(_ready)
        case "ping":
            return driver.ping(body, task.count)
    raise ValueError(f"no such role: {task.role}")


if __name__ == "__main__":
    _say(msgspec.json.encode(work(msgspec.json.decode(sys.argv[1], type=Task))))
