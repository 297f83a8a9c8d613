"""`stentor up --in-process`: a large network in one process, for large shapes on a small machine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.command import Fabric, in_process
from tests.end_to_end.command import stentor as command
from tests.end_to_end.network import crosses, network


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    """Thirty brokers in three levels."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "thirty.toml").write_text(network(2, 3, 5, more='[elasticity]\ncheck_every = "1 s"\n'))
    with Fabric("--config", "thirty.toml", "--in-process", "--log", "info", "--json-log", cwd=folder) as running:
        yield running


def test_thirty_brokers_in_one_process(fleet: Fabric) -> None:
    assert fleet.nodes() == []
    assert len([line for line in fleet.out if "stentor://" in line]) == 30
    assert not [line for line in fleet.out if "http" in line], "health is off unless the file says where"
    assert fleet.line("no elasticity with --in-process")


def test_an_event_crosses_a_fleet_of_brokers(fleet: Fabric) -> None:
    assert crosses(fleet.url("u0/u0/u0"), fleet.url("u1/u2/u4"))


def test_each_line_of_the_log_names_its_broker(fleet: Fabric) -> None:
    fleet.line('"event":"linked"', err=True)
    fleet.line('"event":"listening"', err=True, count=30)
    records = [json.loads(line) for line in list(fleet.err)]
    listening = [record["node"] for record in records if record["event"] == "listening"]
    assert len(listening) == len(set(listening)) == 30
    assert all(record["node"] for record in records)


def test_a_fleet_does_not_start_if_one_of_its_brokers_cannot(tmp_path: Path) -> None:
    (tmp_path / "three.toml").write_text(network(3))
    (tmp_path / ".stentor").mkdir()
    (tmp_path / ".stentor" / "u1").write_text("in the way")
    done = command("up", "--config", "three.toml", "--in-process", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot keep data in .stentor/u1" in done.stderr
    assert "Traceback" not in done.stderr


def test_brokers_of_a_fleet_serve_health_where_the_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(network(2).replace('u1"\nlisten', 'u1"\nhttp = "127.0.0.1:0"\nlisten'))
    with Fabric("--config", "two.toml", "--in-process", cwd=tmp_path) as running:
        assert running.http("u1")
        assert "http" not in running.line("u0 .*")[0]
        running.interrupt()
        assert running.ended() == 0
        assert running.out[-1] == "stopped"
        assert running.errors == "" or "Traceback" not in running.errors


def test_a_fleet_refuses_a_wrong_file(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(network(2).replace('connect = "chain"', ""))
    done = in_process("up", "--config", "wrong.toml", "--in-process", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot reach each other" in done.stderr
