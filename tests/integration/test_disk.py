"""A node's disk: boots are counted over every kind of end, and a disk that fails stops the node with a reason."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.integration.house import Node, node, run

import stentor
from stentor.cli.running.process import Assignment
from stentor.model.limits import Limits
from stentor.runtime.disk import NodeStorage


def told(home: Path) -> bytes:
    """What the supervisor tells a node's process."""
    assignment = Assignment(
        name="test/b1",
        listen="127.0.0.1:0",
        http=None,
        storage=str(home),
        certificates=None,
        limits=Limits(),
        log="info",
        supervised=True,
    )
    return msgspec.json.encode(assignment) + b"\n"


@contextmanager
def process(home: Path, largest_file: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A node as a process of its own, on a disk that takes files of so many bytes."""
    child = subprocess.Popen(
        [sys.executable, "-m", "stentor.cli.running.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if largest_file is not None:  # before it is told what to do, so before it writes anything
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (largest_file, largest_file))
    assert child.stdin is not None
    try:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(told(home))
            child.stdin.flush()
        yield child
    finally:
        child.kill()
        with child:
            pass


def test_boots_are_counted_over_stops_and_crashes(tmp_path: Path) -> None:
    async def main() -> None:
        for boot in range(1, 6):
            broker = await Node.start(tmp_path)
            async with stentor.connect(broker.url) as fabric:
                assert (await fabric.status()).boot == boot
            await (broker.crash() if boot % 2 else broker.stop())

    run(main())


def test_boots_are_counted_over_kill_9(tmp_path: Path) -> None:
    for boot in (1, 2):
        with process(tmp_path / "node") as child:
            assert child.stdout is not None
            address = msgspec.json.decode(child.stdout.readline())["listen"]
            with stentor.blocking.connect(f"stentor://{address}", wait=60) as fabric:
                assert fabric.status().boot == boot
            os.kill(child.pid, signal.SIGKILL)
            assert child.wait(60) == -signal.SIGKILL


def test_a_log_torn_by_a_crash_is_mended(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(3):
            async with node(tmp_path):
                pass
        log = tmp_path / "boot.log"
        whole = log.read_bytes()
        for cut in range(len(whole) - 1, len(whole) - 17, -3):  # in the middle of its last record
            log.write_bytes(whole[:cut])
            async with node(tmp_path) as broker:
                assert broker.status().boot == 3

    run(main())


def test_a_log_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "boot.log").write_bytes(b"this is no log of ours, but somebody's letter")

    async def main() -> None:
        with pytest.raises(stentor.StentorError, match="'boot' does not begin like one"):
            await Node.start(tmp_path)

    run(main())
    assert (tmp_path / "boot.log").read_bytes().startswith(b"this is"), "and it is left as it was"


def test_two_nodes_on_one_directory_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            with pytest.raises(stentor.ConfigError, match=f"in use by a running node .process {os.getpid()}.*stop it"):
                NodeStorage(tmp_path)
            async with stentor.connect(broker.url) as fabric:
                await fabric.flush()  # the first one is none the worse for it
        async with node(tmp_path) as broker:  # and free again
            assert broker.status().boot == 2

    run(main())


@pytest.mark.parametrize("place", ["file/below", "file"])
def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(stentor.ConfigError, match=f"cannot keep data in .*{place}: "):
        NodeStorage(tmp_path / place)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that nobody may write to")
def test_a_directory_that_cannot_be_written_is_named() -> None:
    with pytest.raises(stentor.ConfigError, match=r"cannot keep data in /proc/self/task: "):
        NodeStorage(Path("/proc/self/task"))


@pytest.mark.parametrize(
    "largest_file",
    [
        (0),
        7,  # the lock fits, the head of a log does not
        12,  # a head, and part of a record
    ],
)
def test_a_full_disk_stops_the_node_with_a_reason(tmp_path: Path, largest_file: int) -> None:
    home = tmp_path / "node"
    with process(home, largest_file) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read() == b"", "it never says that it is ready"
        said = child.stderr.read().decode()
        assert child.wait(60) in (1, 2)
    assert "Traceback" not in said
    assert "File too large" in said
    assert "boot" in said or str(home) in said
    with process(home) as child:  # with room again, it starts
        assert child.stdout is not None
        assert msgspec.json.decode(child.stdout.readline())["name"] == "test/b1"


def test_a_node_process_ends_when_its_supervisor_does(tmp_path: Path) -> None:
    with process(tmp_path / "node") as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline()
        child.stdin.close()
        assert child.wait(60) == 0
        child.stdin = None  # so that nobody flushes it once more
