"""Memory: an idle broker stays under 80 MB, ten thousand idle clients under 1 GiB."""

import resource
import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.end_to_end.command import PATIENCE, Fabric, resident
from tests.skipping import lacks

import stentor
from stentor.model.ids import Incarnation
from stentor.model.messages import Hello
from stentor.wire.frame import PREAMBLE, encode

MANY = 10_000
_PER_ADDRESS = 5_000  # so that ephemeral ports never run out


@contextmanager
def files(count: int) -> Iterator[None]:
    """So many open files, or the test cannot be done here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        lacks(f"this machine lets a process have {hard} open files, {count} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_idle_broker_stays_small(running: Fabric) -> None:
    (node,) = running.nodes()
    with stentor.blocking.connect(running.url(), wait=PATIENCE) as client:
        client.flush()
    assert resident(node) < 80 << 20


def test_ten_thousand_idle_clients(tmp_path: Path) -> None:
    with (
        files(MANY + 500),
        Fabric("--listen", "127.0.0.1:0", "--data", tmp_path / "data", cwd=tmp_path) as running,
        ExitStack() as links,
    ):
        (node,) = running.nodes()
        port = int(running.url().rpartition(":")[2])
        alone = resident(node)
        crowd = [greeted(links, port, number) for number in range(MANY)]
        await_welcomes(crowd)
        with stentor.blocking.connect(running.url(), wait=PATIENCE) as client, client.subscribe("t") as events:
            assert client.status().clients == MANY + 2, "the repository is one"
            client.publish("t", b"and it still works")
            for event in events:
                assert event.body == b"and it still works"
                break
        together = resident(node)
        assert together < 1 << 30, f"{together >> 20} MiB, {(together - alone) // MANY} bytes a client"


def greeted(links: ExitStack, port: int, number: int) -> socket.socket:
    link = links.enter_context(socket.socket())
    link.bind((f"127.0.0.{2 + number // _PER_ADDRESS}", 0))
    link.connect(("127.0.0.1", port))
    link.sendall(
        PREAMBLE + encode(Hello(name=f"idle {number}", incarnation=Incarnation(1), window=64 << 10, heartbeat=3600.0))
    )
    return link


def await_welcomes(crowd: list[socket.socket]) -> None:
    said = dict.fromkeys(crowd, b"")
    with selectors.DefaultSelector() as selector:
        for link in crowd:
            selector.register(link, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(PATIENCE)
            assert ready, f"{len(selector.get_map())} clients were not welcomed"
            for key, _ in ready:
                peer = key.fileobj
                assert isinstance(peer, socket.socket)
                part = peer.recv(4096)
                said[peer] += part  # the broker's first bytes may come before its welcome
                assert part, said[peer]
                if b"welcome" in said[peer]:
                    selector.unregister(peer)
