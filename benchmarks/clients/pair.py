"""A pair: two processes with the same client library, one publisher and one subscriber, at one broker."""

import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import msgspec
import numpy as np

from benchmarks.clients.driver import Published, Received
from benchmarks.clients.worker import Task
from benchmarks.trial import Figures

WITHIN = 180.0  # seconds after which a worker is held to hang


class WorkerError(Exception):
    """A client ended with an error; its last lines say which."""


def measure(driver: str, port: int, size: int, seconds: float) -> Figures:
    """Throughput one way, then round trips."""
    return _throughput(driver, port, size, seconds) | _round_trips(driver, port, size, seconds)


def _throughput(driver: str, port: int, size: int, seconds: float) -> Figures:
    task = Task(driver, "subscribe", port, "bench/clients", size, seconds)
    with _worker(task) as subscriber:
        subscriber.line()
        with _worker(msgspec.structs.replace(task, role="publish")) as publisher:
            published = msgspec.json.decode(publisher.line(), type=Published)
        received = msgspec.json.decode(subscriber.line(), type=Received)
    return {
        "published": published.sent / (published.ended - published.began) * 1e9,
        "rate": received.received / (received.last - published.began) * 1e9,
        "lost": 1 - received.received / published.sent,
    }


def _round_trips(driver: str, port: int, size: int, seconds: float) -> Figures:
    task = Task(driver, "echo", port, size=size, count=int(500 * seconds))
    with _worker(task) as echo:
        echo.line()
        with _worker(msgspec.structs.replace(task, role="ping")) as ping:
            taken = msgspec.json.decode(ping.line(), type=list[int])
        echo.line()
    p50, p99 = np.percentile(taken[len(taken) // 10 :], (50, 99)) / 1e3  # the first ones warm up
    return {"p50": float(p50), "p99": float(p99)}


@contextmanager
def _worker(task: Task) -> Iterator["_Worker"]:
    command = [sys.executable, "-m", "benchmarks.clients.worker", msgspec.json.encode(task).decode()]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        # a worker that hangs ends by force, and whoever reads from it sees the end of its output
        alarm = threading.Timer(WITHIN, process.kill)
        alarm.start()
        try:
            yield _Worker(process, errors)
        finally:
            alarm.cancel()
            process.kill()
            process.communicate()


class _Worker:
    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        self._process, self._errors = process, errors

    def line(self) -> bytes:
        """The next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            raise WorkerError(lines[-1] if lines else "it ended without a word")
        return line
