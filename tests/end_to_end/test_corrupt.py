"""`stentor corrupt`: brokers of a running network forget, and the network heals itself."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.command import Fabric, in_process, stentor
from tests.end_to_end.network import crosses

EXAMPLE = Path(__file__).parents[2] / "examples" / "three-brokers.toml"
LIBRARY, HALL = "campus/library/b2", "campus/hall/b1"
PATIENCE = 600.0  # seconds: the bound is printed, and this is far beyond it


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example on free ports."""
    made = tmp_path_factory.mktemp("campus") / "campus.toml"
    made.write_text(re.sub(r'"127\.0\.0\.1:\d+"', '"127.0.0.1:0"', EXAMPLE.read_text(encoding="utf-8")))
    return made


@pytest.fixture(scope="module")
def up(file: Path) -> Iterator[Fabric]:
    with Fabric("--config", file, "--chaos", "--log", "error", cwd=file.parent) as running:
        assert crosses(running.url(LIBRARY), running.url(HALL))
        yield running


def test_a_network_that_is_damaged_heals_and_events_flow(up: Fabric) -> None:
    done = stentor("corrupt", "all", "--seed", "7", "--url", up.url(HALL), patience=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^seed 7: damaged rounds, .*, timers of campus/", done.stdout)
    assert re.search(r"in its correct state: it was after \d+ rounds? and [\d.]+ s; the bound is [\d.]+ s", done.stdout)
    assert crosses(up.url(LIBRARY), up.url(HALL), "after/it")
    assert crosses(up.url(HALL), up.url(LIBRARY), "after/it/too")


def test_parts_and_brokers_are_chosen_and_told_as_json(up: Fabric) -> None:
    arguments = ("corrupt", "routes", "timers", "--broker", HALL, "--url", up.url(HALL), "--json")
    done = stentor(*arguments, patience=PATIENCE)
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert (told["damage"]["parts"], told["damage"]["brokers"]) == (["routes", "timers"], [HALL])
    assert told["healing"]["troubles"] == []
    assert 0 <= told["healing"]["seconds"] <= told["healing"]["bound"]


def test_a_network_that_has_too_little_time_has_not_healed(up: Fabric) -> None:
    arguments = ("corrupt", "pointers", "--seed", "1", *(f"--broker={name}" for name in (LIBRARY, HALL)))
    done = stentor(*arguments, "--within", "0.001", "--url", up.url(HALL), patience=PATIENCE)
    assert done.returncode == 1
    assert "the network has not healed in 0.0 s (the bound is " in done.stderr
    assert f"`stentor corrupt pointers --broker {LIBRARY} --broker {HALL} --seed 1`" in done.stderr
    assert stentor("corrupt", "timers", "--url", up.url(HALL), patience=PATIENCE).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("pointer",), "no part 'pointer'; did you mean 'pointers'?"),
        (("all", "--seed", "-1"), "a seed of -1: expected 0 to 4294967295"),
        (("all", "--within", "0"), "--within 0: expected more than 0 seconds"),
        (("all", "--broker", "campus/hall/b2"), "there is no broker 'campus/hall/b2' in this network"),
    ],
)
def test_damage_that_cannot_be_done_is_refused(up: Fabric, arguments: tuple[str, ...], told: str) -> None:
    done = in_process("corrupt", *arguments, "--url", up.url(HALL))
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


def test_without_chaos_nothing_is_damaged_and_people_are_told_how_to_allow_it(file: Path) -> None:
    with Fabric("--listen", "127.0.0.1:0", "--data", "sound", "--log", "error", cwd=file.parent) as running:
        done = in_process("corrupt", "all", "--url", running.url())
    assert done.returncode == 4
    assert "only brokers that were started with --chaos" in done.stderr
    assert "`stentor up --chaos`" in done.stderr
