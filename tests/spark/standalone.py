"""A real Spark cluster on this machine: a standalone master and workers, each a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pyspark

from stentor.pipeline.engine import java

Found = TypeVar("Found")
PATIENCE = 300.0  # seconds; JVMs that start together on a busy machine take their time
ROOT = Path(__file__).resolve().parents[2]
# JVMs that live for seconds: compiling well costs more than it gains
FRUGAL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_DEPLOY = "org.apache.spark.deploy"


def until(look: Callable[[], Found | None], what: str) -> Found:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise TimeoutError(what)


class Daemon:
    """A master or worker, its children with it."""

    def __init__(self, folder: Path, *command: str) -> None:
        folder.mkdir(parents=True)
        self._log = folder / "log"
        environment = os.environ | {
            "JAVA_HOME": str(java.home()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": FRUGAL,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [_CLASS, *command], stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def heard(self, pattern: str) -> re.Match[str]:
        """Wait until it has said this."""

        def look() -> re.Match[str] | None:
            text = self._log.read_text(errors="replace")
            assert self.alive, text
            return re.search(pattern, text)

        return until(look, f"never said {pattern}: {self._log.read_text(errors='replace')}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Cluster:
    """A master and workers of one core each; a test may kill workers, the next one finds them there again."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._wanted = workers
        self._started = 0
        self.workers: list[Daemon] = []
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self._master = Daemon(folder / "master", f"{_DEPLOY}.master.Master", *arguments)
        self.master = self._master.heard(r"Starting Spark master at (spark://\S+)")[1]

    def fill(self) -> None:
        """As many workers as there should be."""
        self.workers = [worker for worker in self.workers if worker.alive]
        fresh = [self._worker() for _ in range(self._wanted - len(self.workers))]
        for worker in fresh:
            worker.heard("Successfully registered with master")
        self.workers += fresh

    def _worker(self) -> Daemon:
        self._started += 1
        folder = self._folder / f"worker-{self._started}"
        arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        arguments += ["--work-dir", str(folder / "work"), self.master]
        return Daemon(folder, f"{_DEPLOY}.worker.Worker", *arguments)

    def drive(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        """Run this module as a driver, with the master as its first argument: a process has one session at most."""
        return subprocess.Popen(
            [sys.executable, "-m", module, self.master, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def close(self) -> None:
        for daemon in (*self.workers, self._master):
            daemon.kill()
