"""[elasticity]: `stentor up` starts brokers by load, lets them go again, and purges those that do not answer."""

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, gone
from tests.end_to_end.network import crosses, member, process, until, view

import stentor

TWO = """
[limits]
heartbeat = "0.5 s"

[[node]]
name = "c/b1"
listen = "127.0.0.1:0"

[[node]]
name = "c/b2"
listen = "127.0.0.1:0"

[[unit]]
name = "c"
connect = "chain"

[elasticity]
"""


def up(folder: Path, elasticity: str) -> Fabric:
    (folder / "two.toml").write_text(TWO + elasticity)
    return Fabric("--config", "two.toml", "--log", "error", cwd=folder)


@pytest.mark.req("GE-17")
def test_a_broker_is_started_for_many_clients_and_leaves_when_they_have_gone(tmp_path: Path) -> None:
    with up(tmp_path, 'clients_per_broker = 2\nmost_brokers = 3\ncheck_every = "1 s"\n') as running:
        until(lambda: len(view(running.url("c/b1")).scopes[0].members) == 2)
        with ExitStack() as clients:
            for place in range(7):
                clients.enter_context(stentor.blocking.connect(running.url(f"c/b{1 + place % 2}"), wait=PATIENCE))
            url = running.line(r"c has more than 2 clients per broker: started c/auto-1\s+(stentor://\S+)")[1]
            until(lambda: {each.peer for each in view(url).links if each.state == "up"} == {"c/b1", "c/b2"})
            until(lambda: len({each.number for each in view(url).scopes[0].members}) == 3)
            assert crosses(url, running.url("c/b2"))
            assert crosses(running.url("c/b1"), url)
            # it is kept as those of the file are
            os.kill(process(tmp_path, "c/auto-1"), signal.SIGKILL)
            running.line("node c/auto-1 is back")
            until(lambda: len([each for each in view(url).links if each.state == "up"]) == 2)
            assert not [line for line in running.out if "auto-2" in line], "three may be, and no more"
        running.line("c has few clients: c/auto-1 is not needed any more")
        running.line("node c/auto-1 left the network")
        until(lambda: (found := member(running.url("c/b1"), "c/auto-1")) is not None and not found.members)
        assert crosses(running.url("c/b1"), running.url("c/b2"))
        until(lambda: len(running.nodes()) == 2)
        running.interrupt()
        assert running.ended() == 0


def test_a_broker_that_does_not_answer_is_purged(tmp_path: Path) -> None:
    with up(tmp_path, 'purge_slow = true\ncheck_every = "2 s"\n') as running:
        until(lambda: len(view(running.url("c/b1")).scopes[0].members) == 2)
        hung = process(tmp_path, "c/b2")
        os.kill(hung, signal.SIGSTOP)
        running.line("node c/b2 did not answer: it is purged")
        assert gone(hung)
        until(lambda: (found := member(running.url("c/b1"), "c/b2")) is not None and not found.members)
        until(lambda: len(running.nodes()) == 1)
        assert crosses(running.url("c/b1"), running.url("c/b1"))
        assert not [line for line in running.out if "starting it again" in line]
        running.interrupt()
        assert running.ended() == 0
