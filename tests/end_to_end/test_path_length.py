"""[elasticity] path_length: real brokers add links until paths are as short as they should be."""

from pathlib import Path

import pytest
from tests.end_to_end.command import Fabric, stentor
from tests.end_to_end.network import crosses, network, until, view

SHORT = '[limits]\nheartbeat = "0.5 s"\n\n[elasticity]\npath_length = 1.8\n'


@pytest.mark.req("GE-22")
def test_a_chain_of_brokers_gets_links_until_its_paths_are_short(tmp_path: Path) -> None:
    (tmp_path / "chain.toml").write_text(network(6, more=SHORT))
    with Fabric("--config", "chain.toml", "--log", "error", cwd=tmp_path) as running:
        ends = [running.url(f"u{place}") for place in range(6)]

        def is_short() -> bool:
            scopes = [view(url).scopes[0] for url in ends]
            return all(len(each.members) == 6 and 1 <= each.path_length <= 1.8 for each in scopes)

        until(is_short)
        done = stentor("map", "--url", ends[0])
        assert "links, 1." in done.stdout.splitlines()[0], done.stdout
        assert sum(each.state == "up" for url in ends for each in view(url).links) // 2 <= 8, "no more than it takes"
        assert crosses(ends[0], ends[5])
