"""`stentor reconfigure`, `link` and `broker remove` on real brokers, while clients publish and nothing may be lost."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.command import Command, Fabric, stentor
from tests.end_to_end.network import kill, until
from tests.end_to_end.numbered_load import Load

BROKERS = ("hall/b1", "hall/b2", "hall/b3", "hall/b4", "lab/b1", "lab/b2")
CHAIN = (("hall/b1", "hall/b2"), ("hall/b2", "hall/b3"), ("hall/b3", "hall/b4"), ("lab/b1", "lab/b2"))
BORDER = ("hall/b1", "lab/b1")


def write(path: Path, *links: tuple[str, str], cost: float | None = None, brokers: tuple[str, ...] = BROKERS) -> Path:
    """Write a file with brokers and these links; the last one has the cost."""
    text = '[fabric]\nlog = "error"\n\n[colours]\ndelta_max = "50 ms"\n'
    text += "".join(f'\n[[node]]\nname = "{name}"\nlisten = "127.0.0.1:0"\nhttp = ""\n' for name in brokers)
    for near, far in links:
        price = f"cost = {cost}\n" if cost is not None and (near, far) == links[-1] else ""
        text += f'\n[[link]]\nbetween = ["{near}", "{far}"]\n{price}'
    path.write_text(text)
    return path


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Fabric]:
    write(tmp_path / "stentor.toml", *CHAIN, BORDER)
    with Fabric("--config", "stentor.toml", cwd=tmp_path) as up:
        until(lambda: is_legal(up))
        yield up


def is_legal(up: Fabric) -> bool:
    """Whether every scope has one root that reaches all of its brokers."""
    done = stentor("map", "--json", "--url", up.url("hall/b1"))
    if done.returncode:
        return False
    found = json.loads(done.stdout)
    scopes = [found["network"], *found["network"]["units"]]
    return len(found["brokers"]) == len(BROKERS) and all(
        scope["colours"] is not None and scope["colours"]["is_legal"] and not scope["colours"]["silent"]
        for scope in scopes
    )


@pytest.mark.req("CO-05", "CO-06", "CO-09", "CO-12", "CO-13")
def test_a_network_is_rebuilt_under_load_without_losing_an_event(network: Fabric, tmp_path: Path) -> None:
    ring = write(tmp_path / "ring.toml", CHAIN[0], CHAIN[2], CHAIN[3], BORDER, ("hall/b1", "hall/b4"))
    far = write(tmp_path / "far.toml", *CHAIN, ("hall/b4", "lab/b2"), cost=3)
    load = Load(network, ("hall/b1", "hall/b4", "lab/b2"), ("hall/b2", "hall/b3", "lab/b1"))
    printed = asyncio.run(
        load.run(
            ("reconfigure", str(ring)),
            ("reconfigure", str(ring)),
            ("reconfigure", str(far)),
            ("link", "cost", "hall/b1", "hall/b2", "7"),
            ("link", "add", "hall/b1", "hall/b3"),
            ("link", "remove", "hall/b2", "hall/b3"),
            ("reconfigure", "--status"),
        )
    )
    load.check()
    assert "done in" in printed[0]
    assert printed[1] == "the network is as the file says\n"
    assert "done in" in printed[-1]


@pytest.mark.req("CO-15")
def test_a_broker_with_clients_leaves_without_losing_an_event(network: Fabric) -> None:
    load = Load(network, ("hall/b1", "lab/b2"), ("hall/b4", "hall/b3"))
    (printed,) = asyncio.run(load.run(("broker", "remove", "hall/b4", "--timeout", "30")))
    load.check()
    assert "hall/b4 left the network" in printed


@pytest.mark.req("CO-08", "CO-09", "CO-13", "CO-15")
def test_brokers_join_and_leave_under_load_as_files_say_the_root_among_them(network: Fabric, tmp_path: Path) -> None:
    grown = write(
        tmp_path / "grown.toml",
        *CHAIN,
        BORDER,
        ("hall/b5", "hall/b4"),
        ("hall/b5", "hall/b1"),
        ("lab/b3", "hall/b5"),
        ("lab/b3", "lab/b2"),
        brokers=(*BROKERS, "hall/b5", "lab/b3"),
    )
    rootless = write(
        tmp_path / "rootless.toml",
        *CHAIN[1:],
        ("hall/b5", "hall/b4"),
        ("lab/b3", "hall/b5"),
        ("lab/b3", "lab/b2"),
        brokers=("hall/b2", "hall/b3", "hall/b4", "hall/b5", "lab/b1", "lab/b2", "lab/b3"),
    )
    load = Load(network, ("hall/b3", "lab/b2"), ("hall/b1", "hall/b4", "lab/b1"))
    printed = asyncio.run(
        load.run(
            ("reconfigure", str(grown), "--dry-run"),
            ("reconfigure", str(grown)),
            ("reconfigure", str(grown)),
            ("reconfigure", str(rootless)),
            ("reconfigure", str(rootless)),
        )
    )
    load.check()
    assert "+ hall/b5 joins by hall/b4\n+ lab/b3 joins by lab/b2\n" in printed[0]
    assert "+ lab/b3 - hall/b5, cost 2" in printed[0]
    assert "lab/b3 has joined by lab/b2\n" in printed[1]
    assert printed[1].count("done in") == 2
    assert printed[2] == printed[4] == "the network is as the file says\n"
    assert "hall/b1 left the network\n" in printed[3]


@pytest.mark.req("CO-09")
def test_a_broker_that_nobody_here_starts_is_waited_for_with_the_command_that_starts_it(
    network: Fabric, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    wanted = write(
        elsewhere / "wanted.toml",
        *CHAIN,
        BORDER,
        ("lab/b3", "lab/b1"),
        ("lab/b3", "lab/b2"),
        brokers=(*BROKERS, "lab/b3"),
    )
    with Command("reconfigure", str(wanted), "--url", network.url("hall/b1"), cwd=tmp_path) as waiting:
        command = waiting.begun(r"^ +stentor (broker add .+)")[1].split()
        with Command(*command, cwd=tmp_path) as started:
            started.begun(r'"name":"lab/b3"')
            assert waiting.ended() == 0
            done = stentor("reconfigure", str(wanted), "--url", network.url("hall/b1"))
            assert done.stdout == "the network is as the file says\n"


def root_of(up: Fabric, unit: str) -> tuple[str, list[str]]:
    """The root of a unit, and its root group, as the map shows them."""
    done = stentor("map", "--json", "--url", up.url("lab/b1"))
    assert done.returncode == 0, done.stderr
    (found,) = [each["colours"] for each in json.loads(done.stdout)["network"]["units"] if each["name"] == unit]
    assert found["is_legal"], found["reasons"]
    return found["root"], found["roots"]


@pytest.mark.req("CO-08", "CO-09")
def test_a_file_changes_a_root_group_under_load_and_brokers_remember_it(network: Fabric, tmp_path: Path) -> None:
    until(lambda: root_of(network, "hall") == ("hall/b1", []))
    group = ["hall/b3", "hall/b2"]
    wanted = write(tmp_path / "roots.toml", *CHAIN, BORDER)
    wanted.write_text(f'{wanted.read_text()}\n[[unit]]\nname = "hall"\nroots = {json.dumps(group)}\n')
    load = Load(network, ("hall/b1", "lab/b2"), ("hall/b2", "hall/b4", "lab/b1"))
    printed = asyncio.run(load.run(("reconfigure", str(wanted), "--dry-run"), ("reconfigure", str(wanted))))
    load.check()
    assert "~ root group: hall/b3, hall/b2" in printed[0]
    until(lambda: root_of(network, "hall") == ("hall/b3", group))
    done = stentor("reconfigure", str(wanted), "--url", network.url("hall/b1"))
    assert done.stdout == "the network is as the file says\n"
    for name in ("hall/b3", "hall/b1"):
        kill(network, tmp_path, name)
    until(lambda: root_of(network, "hall") == ("hall/b3", group))


@pytest.mark.req("CO-09")
def test_what_no_plan_can_do_is_refused_and_changes_nothing(network: Fabric, tmp_path: Path) -> None:
    def reconfigure(text: str, *options: str) -> str:
        path = tmp_path / "wanted.toml"
        path.write_text(text)
        done = stentor("reconfigure", str(path), *options, "--url", network.url("hall/b1"))
        assert done.returncode != 0, done.stdout
        return done.stderr

    whole = write(tmp_path / "stentor-too.toml", *CHAIN, BORDER).read_text()
    assert "changes how events are forwarded" in reconfigure(
        whole.replace("[fabric]", '[fabric]\nforwarding = "flooding"')
    )
    assert "cannot reach each other" in reconfigure(
        whole.replace('between = ["hall/b2", "hall/b3"]', 'between = ["hall/b2", "lab/b2"]')
    )
    for command in (
        ("link", "remove", "hall/b1", "lab/b1"),
        ("link", "add", "hall/b1", "hall/b2"),
        ("link", "remove", "hall/b1", "hall/b3"),
        ("link", "add", "hall/b1", "hall/b1"),
        ("reconfigure",),
    ):
        done = stentor(*command, "--url", network.url("hall/b1"))
        assert done.returncode != 0, (command, done.stdout)
    done = stentor("reconfigure", "--status", "--url", network.url("hall/b1"))
    assert done.stdout == "no root knows of a plan\n"
    done = stentor("reconfigure", "--abort", "--url", network.url("hall/b1"))
    assert done.stdout == "no plan is under way\n"
