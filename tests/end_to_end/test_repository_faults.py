"""What befalls one repository of three while events flow: it hangs, its disk is full, its power or database goes."""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.end_to_end.network import until
from tests.end_to_end.troupe import REPOSITORIES, TOPIC, Client, Network, Troupe
from tests.postgresql import Database
from tests.skipping import lacks, system_tool

from stentor.cli.demo.evidence import Kept
from stentor.cli.demo.stage import stored

_SHUTDOWN, _WITHOUT_FLUSHING_THE_LOG = 0x8004587D, 2  # ext4's ioctl, as a power cut would be


@contextmanager
def performance(folder: Path, network: Network, copies: int) -> Iterator[Troupe]:
    """A publisher and a subscriber; at the end all was right, also in the files of the repositories."""
    with network, Troupe([Client(folder, "p1", rate=100)], [Client(folder, "s1")]) as cast:
        network.create(["p1"], ["s1"], copies)
        for client in cast.clients:
            client.start(network.url())
        cast.flows(50)
        yield cast
        until(lambda: network.complete() == set(REPOSITORIES), "repositories are complete")
        cast.finish()
        network.stop()
        (publisher,) = cast.publishers
        lacking = {name: publisher.publication.acknowledged - there for name, there in network.stored().items()}
        assert not any(lacking.values()), lacking


def mount(*arguments: str | Path) -> None:
    done = subprocess.run([system_tool("mount"), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        lacks(f"nothing can be mounted here: {done.stderr.strip()}")


def unmount(path: Path) -> None:
    until(
        lambda: subprocess.run([system_tool("umount"), path], capture_output=True, check=False).returncode == 0,
        "unmounted",
    )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where something may be mounted."""
    path = tmp_path / "disk"
    path.mkdir()
    yield path
    while path.is_mount():
        unmount(path)


@pytest.mark.req("RD-16", "RD-19")
def test_clients_leave_a_repository_that_hangs(tmp_path: Path) -> None:
    network = Network(tmp_path)
    with performance(tmp_path, network, copies=2) as cast:
        for client in ("p1", "s1"):
            hang(network, cast, client)


def hang(network: Network, cast: Troupe, client: str) -> None:
    """Stop the repository that steers a client, without ending it, until another one does."""

    def steering() -> list[str]:
        return [name for name, report in network.reports().items() if client in report.steers]

    until(lambda: len(steering()) == 1, "steered by one")
    process = network.process(steering()[0])
    os.kill(process, signal.SIGSTOP)
    try:
        goal = cast.subscribers[0].got + 100
        cast.flows(100)
        until(lambda: cast.subscribers[0].got > goal, "delivered by another one")
        until(lambda: steering() != [], "steered by another one")
    finally:
        os.kill(process, signal.SIGCONT)
    until(lambda: network.complete() == set(REPOSITORIES), "all are complete again")


@pytest.mark.req("RD-14")
def test_a_repository_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(tmp_path: Path, place: Path) -> None:
    mount("-t", "tmpfs", "-o", "size=4m", "stentor", place)
    network = Network(tmp_path, {"r2": f"sqlite:{place / 'ledgers'}"})
    with performance(tmp_path, network, copies=2) as cast:
        filler = place / "filler"
        fill(filler)
        network.fabric.line("r2 nothing is stored or acknowledged", err=True)
        until(lambda: network.reports()["r2"].trouble, "it says so")
        cast.flows(100)
        with supervision_suspended(network):
            safe = stored_on_all(cast.publishers[0])
            network.kill("r2")
            shutil.copytree(place / "ledgers", tmp_path / "copy")
        assert safe <= stored(f"sqlite:{tmp_path / 'copy'}", "r2", TOPIC)
        cast.flows(100)
        filler.unlink()


@pytest.mark.req("RD-14", "RD-23")
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("segments", marks=pytest.mark.slow)])
def test_what_was_acknowledged_is_there_after_a_power_cut(tmp_path: Path, place: Path, kind: str) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run([system_tool("mkfs.ext4"), "-q", "-F", image], capture_output=True, text=True, check=True)
    mount("-o", "loop", image, place)
    network = Network(tmp_path, {"r2": f"{kind}:{place / 'ledgers'}"})
    with performance(tmp_path, network, copies=3) as cast:
        for _ in range(2):
            with supervision_suspended(network):  # or it would be started without its disk
                safe = stored_on_all(cast.publishers[0])
                cut_power(place)
                network.kill("r2")
                unmount(place)
                mount("-o", "loop", image, place)
                there = network.stored_at("r2")
            assert len(safe) > 40
            assert safe <= there, f"{len(safe - there)} of {len(safe)} acknowledged events are gone"
            until(lambda: network.complete() == set(REPOSITORIES), "it is complete again")
            cast.flows(100)


def fill(path: Path) -> None:
    """Take all the space there is."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


@contextmanager
def supervision_suspended(network: Network) -> Iterator[None]:
    """Nobody is started again meanwhile."""
    os.kill(network.fabric.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(network.fabric.process.pid, signal.SIGCONT)


def stored_on_all(publisher: Client) -> set[tuple[int, int]]:
    """What the publisher has been told is on all three."""
    facts = publisher.evidence.read()
    upto = {fact.life: fact.number for fact in facts if isinstance(fact, Kept) and fact.copies == len(REPOSITORIES)}
    return {(life, number) for life, last in upto.items() for number in range(1, last + 1)}


def cut_power(path: Path) -> None:
    """Nothing that is not on the disk yet gets there."""
    directory = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(directory, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSHING_THE_LOG))
    except OSError as error:
        lacks(f"the power of this file system cannot be cut: {error}")
    finally:
        os.close(directory)


@pytest.mark.req("RD-14", "RD-23")
def test_a_database_that_is_restarted_is_waited_for(tmp_path: Path, own_database: Database) -> None:
    network = Network(tmp_path, {"r1": own_database.url})
    with performance(tmp_path, network, copies=3) as cast:
        for _ in range(2):
            own_database.kill()
            own_database.start()
            cast.flows(100)
