"""Repositories that serve a unit, with real processes: clients roam between units while such a repository is killed."""

import os
import signal
from pathlib import Path

import pytest
from tests.end_to_end.command import Fabric
from tests.end_to_end.network import process, until
from tests.end_to_end.test_reliable_topics import status, tell
from tests.end_to_end.troupe import TOPIC, Client, Troupe

UNITS = """
[fabric]
log = "error"

[[node]]
name = "north/b1"
listen = "127.0.0.1:0"

[[node]]
name = "south/b2"
listen = "127.0.0.1:0"

[[unit]]
name = ""
connect = "chain"

[[repository]]
name = "r1"
broker = "north/b1"

[[repository]]
name = "r2"
broker = "south/b2"

[[repository]]
name = "n1"
unit = "north"
"""
NORTH, SOUTH = "north/b1", "south/b2"


def is_steered(url: str, client: str, *repositories: str) -> bool:
    """Whether one of these steers a client."""
    reports = status(url)
    topics = [reports[name][TOPIC] for name in repositories if TOPIC in reports.get(name, {})]
    return any(client in topic["steers"] for topic in topics)  # type: ignore[operator]


@pytest.mark.req("GE-11", "GE-12", "GE-14")
def test_a_subscriber_roams_between_units_while_the_finer_repository_dies(tmp_path: Path) -> None:
    (tmp_path / "units.toml").write_text(UNITS)
    publisher = Client(tmp_path, "p1", rate=100)
    roaming, picky = Client(tmp_path, "s1"), Client(tmp_path, "s2", where="dep_delay > 1e9", wants=lambda _: False)
    with (
        Fabric("--config", "units.toml", cwd=tmp_path) as running,
        Troupe([publisher], [roaming, picky]) as cast,
    ):
        north, south = running.url(NORTH), running.url(SOUTH)
        tell(north, "topic", "create", TOPIC, "--reliable", "--repositories", "r1,r2,n1")
        tell(north, "topic", "grant", TOPIC, "--publisher", "p1", "--subscriber", "s1", "--subscriber", "s2")
        publisher.start(south)
        picky.start(north)
        roaming.start(north)
        until(lambda: is_steered(north, "s1", "n1"), "served by its unit's repository")
        cast.flows(50)
        os.kill(process(tmp_path, "repositories/n1"), signal.SIGKILL)
        roaming.order(f"move {south}")
        until(lambda: is_steered(north, "s1", "r1", "r2"), "served by one that serves everyone")
        cast.flows(50)
        roaming.order(f"move {north}")
        until(lambda: is_steered(north, "s1", "n1"), "served by its unit's repository again")
        cast.flows(50)
        verdicts = cast.finish()
        assert verdicts["s1"].expected == verdicts["s1"].delivered >= 150
        assert verdicts["s2"].delivered == 0
