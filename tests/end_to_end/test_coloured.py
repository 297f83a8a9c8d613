"""A file that says `forwarding = "coloured"`: real brokers in a mesh whose events go by the tree, as commands show."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, stentor
from tests.end_to_end.network import until

import stentor as library

BROKERS = ("b1", "b2", "b3", "b4")
CONFIG = """
[fabric]
log = "error"
forwarding = "coloured"

[colours]
delta_max = "50 ms"

[[unit]]
name = ""
connect = "mesh"
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    home = tmp_path_factory.mktemp("network")
    nodes = "".join(f'\n[[node]]\nname = "{name}"\nlisten = "127.0.0.1:0"\nhttp = ""\n' for name in BROKERS)
    (home / "stentor.toml").write_text(CONFIG + nodes)
    with Fabric("--config", "stentor.toml", cwd=home) as up:
        until(lambda: is_on_tree(chart(up)))
        yield up


def chart(up: Fabric) -> Any:
    done = stentor("map", "--json", "--url", up.url("b1"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def explain(up: Fabric) -> str:
    return stentor("explain", "t", "--url", up.url("b2")).stdout


def is_on_tree(found: Any) -> bool:
    """Whether all brokers are in a correct tree, and its links are those that cost least."""
    colours = found["network"]["colours"]
    cheap = [link for link in found["links"] if link["cost"] < 0.01]
    whole = len(found["brokers"]) == len(BROKERS) and len(found["links"]) == 6
    return whole and colours["is_legal"] and not colours["silent"] and not colours["detours"] and len(cheap) == 3


@pytest.mark.req("CO-06", "SC-02")
def test_events_of_a_mesh_take_the_links_of_the_tree_alone(network: Fabric) -> None:
    with (
        library.blocking.connect(network.url("b4"), wait=PATIENCE) as reader,
        library.blocking.connect(network.url("b2"), wait=PATIENCE) as writer,
        reader.subscribe("t") as events,
    ):
        until(lambda: "on the tree of the network" in explain(network))
        writer.publish("t", b"hello")
        assert next(events).body == b"hello"
        explained = explain(network)
    assert "off the tree" not in explained
    shown = stentor("map", "--url", network.url("b1")).stdout
    assert "coloured" in shown
    assert "detours" not in shown
