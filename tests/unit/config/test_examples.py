"""The examples are right, and `stentor config` says so."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stentor.cli import certs, config
from stentor.config import load

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The examples, with the certificates that one of them needs."""
    copy = tmp_path / "examples"
    shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns(".stentor", "certs"))
    made = CliRunner().invoke(certs.app, ["init", str(copy / "certs"), "--host", "broker.example.org"])
    assert made.exit_code == 0, made.output
    return copy


@pytest.mark.parametrize(("name", "nodes"), [("single", 1), ("three-brokers", 3), ("tls", 1)])
def test_examples_are_right(examples: Path, name: str, nodes: int) -> None:
    file = examples / f"{name}.toml"
    assert len(load(file).nodes) == nodes
    checked = CliRunner().invoke(config.app, ["check", str(file)])
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.startswith(f"ok: {file}\n")
    assert checked.stdout.count("broker") >= nodes


def test_no_example_is_forgotten() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.toml")} == {"single", "three-brokers", "tls"}


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
