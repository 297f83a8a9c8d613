"""`--wait`: commands that are started before their broker is there."""

from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Command, Fabric, in_process
from tests.end_to_end.command import stentor as command
from tests.integration.ports import free_port

from stentor.cli.main import COMMANDS


def test_a_command_that_starts_before_the_broker_waits_for_it(tmp_path: Path) -> None:
    port = free_port()
    url = f"stentor://127.0.0.1:{port}"
    with Command("sub", "t", "--count", "1", "--url", url, "--wait", str(PATIENCE)) as waiting:
        with Fabric("--listen", f"127.0.0.1:{port}", "--http", "", "--data", "data", cwd=tmp_path) as running:
            waiting.line("subscribed to t", err=True)
            done = command("pub", "t", "x", "--url", running.url())
            assert done.returncode == 0, done.stderr
            assert waiting.ended() == 0
        assert waiting.out == ["t  x"]


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_wait_for_nobody_ends(host: str) -> None:
    done = command("pub", "t", "x", "--url", f"stentor://{host}:1", "--wait", "0.2")
    assert done.returncode == 3
    assert f"no broker at stentor://{host}:1 within 0.2 s" in done.stderr


def test_every_command_that_asks_a_broker_can_wait_for_it() -> None:
    """Those of the pipeline wait as long as the options of Spark's sink and source say."""
    topics = [("topic", each) for each in ("create", "grant", "revoke", "show", "peek", "bundle", "delete")]
    repositories = [("repository", each) for each in ("add", "remove", "drain", "status")]
    others = [("link", "add"), ("link", "remove"), ("link", "cost"), ("broker", "add"), ("broker", "remove")]
    single = [(each,) for each in ("pub", "sub", "status", "map", "route", "explain")]
    assert {words[0] for words in (*topics, *repositories, *others, *single)} <= set(COMMANDS)
    for words in (*topics, *repositories, *others, *single):
        assert "--wait" in in_process(*words, "--help").stdout, words
