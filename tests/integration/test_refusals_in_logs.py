"""A node that refuses thousands of peers writes a few lines about it."""

import io
from pathlib import Path

import pytest
from tests.integration.house import node, run, until
from tests.integration.peer import Peer

from stentor.model.messages import Ping
from stentor.runtime.log import logger
from stentor.runtime.log_summary import EXAMPLES


def test_many_refused_peers_make_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(logger, "stream", written)
    monkeypatch.setattr(logger, "threshold", 0)

    async def main() -> None:
        async with node(tmp_path) as broker:
            for _ in range(100):
                async with await Peer.dial(broker.port) as peer:
                    await peer.send(b"GET / HTTP/1.1\r\n\r\n")
                    await peer.ended()
            for number in range(50):
                async with await Peer.dial(broker.port) as peer:
                    await peer.hello(f"c{number}")
                    await peer.send(Ping(1), b"\xff" * 100)
                    await peer.ended()
            await until(lambda: not broker.broker.status(0).links)

    run(main())
    lines = [line for line in written.getvalue().splitlines() if "peer refused" in line]
    assert EXAMPLES < len(lines) < 30
    assert sum(int(line.split("more=")[1].split()[0]) for line in lines if "more=" in line) > 100
