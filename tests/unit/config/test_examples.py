"""The examples are right, and `stentor config` says so."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stentor.cli import certs, config
from stentor.config import load

EXAMPLES = Path(__file__).parents[3] / "examples"
NODES = {"single": 1, "three-brokers": 3, "tls": 1, "campus": 9, "ges22": 22, "ges22-connected": 22, "reliable": 2}


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The examples, with the certificates that one of them needs."""
    copy = tmp_path / "examples"
    shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns(".stentor", "certs"))
    made = CliRunner().invoke(certs.app, ["init", str(copy / "certs"), "--host", "broker.example.org"])
    assert made.exit_code == 0, made.output
    return copy


@pytest.mark.parametrize(("name", "nodes"), NODES.items())
def test_examples_are_right(examples: Path, name: str, nodes: int) -> None:
    file = examples / f"{name}.toml"
    assert len(load(file).nodes) == nodes
    checked = CliRunner().invoke(config.app, ["check", str(file)])
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.startswith(f"ok: {file}\n")
    assert checked.stdout.count("broker") >= nodes


def test_no_example_is_forgotten() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.toml")} == NODES.keys()


def test_the_campus_is_what_it_says() -> None:
    campus = load(EXAMPLES / "campus.toml")
    assert {len(node.name.parts) for node in campus.nodes} == {3}
    assert len({node.name.parent for node in campus.nodes}) == 4
    assert len(campus.links) > len(campus.nodes)  # some are to spare
    assert len({node.name.parts[0] for node in campus.nodes}) == 2


def ways(file: str) -> dict[int, list[int]]:
    """For every broker of the 22 the brokers on the shortest way from the publisher, both ends with it."""
    neighbours: dict[int, list[int]] = {}
    for link in load(EXAMPLES / file).links:
        one, other = (int(end.name) for end in link.between)
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    found, edge = {22: [22]}, [22]
    while edge:
        reached = {far: near for near in edge for far in neighbours[near] if far not in found}
        found.update((far, [*found[near], far]) for far, near in reached.items())
        edge = list(reached)
    return found


def test_the_paper_s_network_has_nine_hops() -> None:
    found = ways("ges22.toml")
    assert found.keys() == set(range(1, 23))
    assert len(found[10]) == max(map(len, found.values())) == 9
    assert [broker in found[10] for broker in (1, 8)] == [True, True]  # an event for 10 is stored twice …
    assert [broker in found[7] for broker in (1, 8)] == [True, False]  # … and one for 7 once


def test_the_paper_s_connected_network_has_four_hops() -> None:
    found = ways("ges22-connected.toml")
    assert found.keys() == set(range(1, 23))
    assert [len(found[broker]) for broker in (10, 1, 22)] == [4, 2, 1]
    few, many = (
        {frozenset(link.between) for link in load(EXAMPLES / f"{file}.toml").links}
        for file in ("ges22", "ges22-connected")
    )
    assert few < many


def test_a_wrong_file_is_refused_with_all_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "stentor.toml"
    file.write_text("[[node]]\nname = 'b1'\nlisen = ''\nrole = 'brokr'\n")
    checked = CliRunner().invoke(config.app, ["check", str(file)])
    assert checked.exit_code == 2
    assert checked.stdout == ""
    assert [line.removeprefix(f"{file}:")[:1] for line in checked.stderr.splitlines()] == ["3", "4"]


def test_check_looks_into_certificates(examples: Path) -> None:
    shutil.copy(examples / "certs/ca.key", examples / "certs/node/key.pem")
    checked = CliRunner().invoke(config.app, ["check", str(examples / "tls.toml")])
    assert checked.exit_code == 2
    assert "key.pem: not the key of" in checked.stderr


def test_schema_is_printed_as_json() -> None:
    printed = CliRunner().invoke(config.app, ["schema"])
    assert printed.exit_code == 0
    assert json.loads(printed.stdout)["$defs"]["Node"]["required"] == ["name"]
