"""What people see in a terminal of 80 columns: no heading is cut, and no line is longer."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, in_process

import stentor

_CAMPUS = Path(__file__).resolve().parents[2] / "examples" / "campus.toml"
_NAME = "the-billing-department-of-the-north"
_REPOSITORIES = """
[[repository]]
name = "r1"
broker = "north/library/b1"
[[repository]]
name = "r2"
broker = "south/lab/b1"
"""
TABLES = {  # commands, and the headings of their tables
    "map": ["from", "to", "level", "cost", "state", "round trip", "events →", "events ←"],
    "status": [
        "client",
        "address",
        "in",
        "out",
        "queued",
        "dropped",
        "idle",
        "pattern",
        "where",
        "accepted",
        "rejected",
        "scope",
        "role",
        "root",
        "round",
        "parent",
        "children",
        "brokers",
    ],
    "repository status": ["topic", "state", "next", "subscribers", "others", "disk"],  # others if there is room
    "route north/library/b1 south/dorm/b2": ["broker", "address", "sees", "distance", "goes to"],
    "explain flights/jfk --attr carrier=UA": [],
    "plan --clients 1e9 --samples 2": ["level", "unit", "how many", "in one unit", "links", "clustering coefficient"],
    "config check campus.toml": ["node", "role", "listen", "http", "tls", "storage"],
}


@pytest.fixture(scope="module")
def campus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The campus of the examples, on ports of its own, in use."""
    folder = tmp_path_factory.mktemp("campus")
    text = re.sub(r'(\[\[node\]\]\nname = "[^"]+")', r'\1\nlisten = "127.0.0.1:0"\nhttp = ""', _CAMPUS.read_text())
    (folder / "campus.toml").write_text(text + _REPOSITORIES)
    with Fabric("--config", "campus.toml", "--in-process", cwd=folder) as running:
        url = running.url("north/library/b1")
        for words in (
            ["create", "orders", "--reliable", "--repositories", "r1,r2", "--timeout", str(PATIENCE)],
            ["grant", "orders", "--publisher", "shop"],
            ["grant", "orders", "--subscriber", _NAME],
        ):
            done = in_process("topic", *words, "--url", url)
            assert done.returncode == 0, done.stderr
        with (
            stentor.blocking.connect(url, name="a-client-with-quite-a-long-name", wait=PATIENCE) as fabric,
            fabric.subscribe("flights/#", "carrier = 'UA' AND dep_delay > 60 AND origin = 'JFK' AND dest <> 'LAX'"),
            fabric.subscribe("orders", name=_NAME),
            fabric.publisher("orders", name="shop") as shop,
        ):
            shop.send_many([b"x"] * 12_345)
            shop.flush()
            fabric.publish_many("flights/jfk", [b"x"] * 12_345)
            fabric.flush()
            yield folder, url


@pytest.mark.req("UX-04")
@pytest.mark.parametrize("command", TABLES)
def test_tables_fit_80_columns(campus: tuple[Path, str], command: str) -> None:
    folder, url = campus
    done = in_process(*command.split(), cwd=folder, env={"COLUMNS": "80", "STENTOR_URL": url})
    assert done.returncode == 0, done.stderr
    assert "…" not in done.stdout
    lines = done.stdout.splitlines()
    sentences = "!"  # of what is wrong are for whoever has to paste them: the terminal breaks these lines
    assert [line for line in lines if len(line) > 80 and not line.startswith(sentences)] == []
    words = set(re.split(r"[\s┃│]+", done.stdout))
    assert [each for heading in TABLES[command] for each in heading.split() if each not in words] == []


def test_names_are_not_cut_either(campus: tuple[Path, str]) -> None:
    folder, url = campus
    for command in ("status", "repository status"):
        shown = in_process(*command.split(), cwd=folder, env={"COLUMNS": "80", "STENTOR_URL": url}).stdout
        assert all(part in shown for part in re.split("(?<=-)", _NAME)), shown
    shown = in_process("map", env={"COLUMNS": "80", "STENTOR_URL": url}).stdout
    assert "north/library/b1" in shown, "there is room if headings are broken first"
