"""`stentor broker`: brokers join a running network by knowing one other, and leave it again."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, STENTOR, Command, Fabric, environment, in_process
from tests.end_to_end.network import crosses, link, member, until, view

FOUR = """
[limits]
heartbeat = "0.5 s"

[[node]]
name = "north/b1"
listen = "127.0.0.1:0"

[[node]]
name = "north/b2"
listen = "127.0.0.1:0"

[[node]]
name = "south/b1"
listen = "127.0.0.1:0"

[[node]]
name = "south/b2"
listen = "127.0.0.1:0"

[[unit]]
name = "north"
connect = "chain"
forwarding = "flooding"

[[unit]]
name = "south"
connect = "chain"

[[link]]
between = ["north/b1", "south/b1"]
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    folder = tmp_path_factory.mktemp("brokers")
    (folder / "four.toml").write_text(FOUR)
    with Fabric("--config", "four.toml", "--log", "error", cwd=folder) as running:
        for name in ("north/b1", "north/b2", "south/b1", "south/b2"):
            url = running.url(name)
            until(lambda url=url: whole(url))  # type: ignore[misc]
        yield running


def whole(url: str) -> bool:
    """Whether a broker reaches everybody."""
    scopes = view(url).scopes
    return [sum(member.reachable for member in scope.members) for scope in scopes] == [2, 2]


class Newcomer(Command):
    """`stentor broker add`, when it is up."""

    def __init__(self, name: str, *arguments: str, knowing: str, cwd: Path) -> None:
        super().__init__("broker", "add", name, "--knowing", knowing, *arguments, cwd=cwd)
        self.url = "stentor://" + self.begun(rf'"name":"{re.escape(name)}","listen":"([^"]+)"')[1]


def leave(up: Fabric, name: str, *arguments: str, at: str = "south/b1") -> tuple[int, str]:
    done = in_process("broker", "remove", name, *arguments, "--timeout", str(PATIENCE), "--url", up.url(at))
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def left(up: Fabric, code: int, told: str, name: str, *, at: str = "south/b1") -> None:
    """It is told to leave, and that is answered so, once nobody is suspected any more who is only slow."""

    def answered() -> bool:
        found, said = leave(up, name, at=at)
        assert told in said
        assert found == code
        return True

    until(answered)


def number(url: str, unit: str) -> int:
    found = member(url, unit)
    assert found is not None
    return found.number


def present(url: str, unit: str) -> bool:
    found = member(url, unit)
    return found is not None and found.reachable


def forgotten(url: str, unit: str) -> bool:
    found = member(url, unit)
    return found is not None and not found.members


@pytest.mark.req("GE-17")
def test_a_broker_joins_by_knowing_one_other_and_leaves_for_good(up: Fabric, tmp_path: Path) -> None:
    # it knows a broker of another unit, and is linked with the speaker of its own
    with Newcomer("north/b3", knowing=up.url("south/b2"), cwd=tmp_path) as new:
        until(lambda: present(up.url("north/b2"), "north/b3"))
        given = number(up.url("north/b2"), "north/b3")

        def numbered() -> bool:
            assert given == number(new.url, "north/b3")
            assert given not in {number(new.url, "north/b1"), number(new.url, "north/b2")}
            assert number(new.url, "north") == number(up.url("south/b1"), "north"), "its unit keeps its number"
            return True

        until(numbered)
        assert [each.peer for each in view(new.url).links] == ["north/b1"]
        assert [scope.forwarding for scope in view(new.url).scopes] == ["flooding", "content"], "as its units do"
        assert [scope.colour_settings for scope in view(new.url).scopes] == [
            scope.colour_settings for scope in view(up.url("north/b2")).scopes
        ], "a root with other times would lose those who wait for its waves"
        assert [scope.colour_settings.brokers_max for scope in view(new.url).scopes] == [2, 4]
        assert crosses(new.url, up.url("south/b2"))
        assert crosses(up.url("south/b2"), new.url)
        left(up, 0, "north/b3 left the network\n", "north/b3")
        assert new.ended() == 3, "nobody is to start it again"
    until(lambda: forgotten(up.url("north/b2"), "north/b3"))
    assert crosses(up.url("north/b2"), up.url("south/b2"))

    # it comes back with the number that it had
    with Newcomer("north/b3", knowing=up.url("north/b2"), cwd=tmp_path) as again:
        until(lambda: present(up.url("north/b1"), "north/b3"))
        assert number(up.url("north/b1"), "north/b3") == given
        assert [each.peer for each in view(again.url).links] == ["north/b2"], "whom it knows is in its unit"
        assert crosses(again.url, up.url("south/b1"))


def test_a_broker_that_was_killed_is_forgotten_when_somebody_says_so(up: Fabric, tmp_path: Path) -> None:
    options = ("--link", "south/b2", "--cost", "3", "--number", "40")
    with Newcomer("south/b3", *options, knowing=up.url("north/b1"), cwd=tmp_path) as new:
        until(lambda: present(up.url("south/b1"), "south/b3"))
        assert number(up.url("south/b1"), "south/b3") == 40
        until(lambda: (found := link(new.url, "south/b2")) is not None and found.cost % 3 == 0)
        os.kill(new.process.pid, signal.SIGKILL)
        assert new.ended() == -signal.SIGKILL
    until(lambda: not present(up.url("south/b1"), "south/b3"))
    assert not forgotten(up.url("south/b1"), "south/b3"), "it might come back"
    left(up, 0, "south/b3 was dead already; the network forgets it\n", "south/b3", at="north/b2")
    until(lambda: forgotten(up.url("south/b2"), "south/b3"))
    left(up, 2, "there is no broker 'south/b3'", "south/b3")


def test_a_broker_may_join_as_the_first_of_a_new_unit(up: Fabric, tmp_path: Path) -> None:
    with Newcomer("east/b1", knowing=up.url("south/b2"), cwd=tmp_path) as first:
        until(lambda: present(up.url("north/b2"), "east"))
        given = number(up.url("north/b2"), "east")
        until(lambda: given not in {number(first.url, "north"), number(first.url, "south")})
        assert [each.peer for each in view(first.url).links] == ["south/b2"]
        with Newcomer("east/b2", knowing=up.url("north/b1"), cwd=tmp_path) as second:
            assert [each.peer for each in view(second.url).links] == ["east/b1"]
            until(lambda: number(second.url, "east") == number(first.url, "east"))
            assert crosses(second.url, up.url("north/b2"))
            parts = "without east/b1, the network would be in 2 parts: east and north, south; --force"
            left(up, 4, parts, "east/b1", at="north/b1")
            left(up, 0, "east/b2 left the network", "east/b2", at="north/b1")
        os.kill(first.process.pid, signal.SIGKILL)
        first.ended()
    until(lambda: not present(up.url("south/b1"), "east"))
    left(up, 0, "east was dead already, with all that was in it; the network forgets it\n", "east/b1")
    until(lambda: forgotten(up.url("north/b2"), "east"))


def test_a_unit_goes_with_its_last_broker(up: Fabric, tmp_path: Path) -> None:
    with Newcomer("west/b1", knowing=up.url("north/b2"), cwd=tmp_path) as only:
        until(lambda: present(up.url("south/b1"), "west"))
        left(up, 0, "west/b1 left the network\n", "west/b1")
        assert only.ended() == 3
    until(lambda: forgotten(up.url("south/b1"), "west"))
    left(up, 2, "there is no unit 'west', so no broker 'west/b1'", "west/b1")


def test_a_broker_that_holds_the_network_together_stays(up: Fabric) -> None:
    parts = "without south/b1, the network would be in 2 parts: north and south; --force removes it anyway"
    left(up, 4, parts, "south/b1", at="north/b2")
    until(lambda: present(up.url("south/b2"), "south/b1"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("north/b1",), "north/b1 is taken by the broker at 127.0.0.1:"),
        (("north/hall/b1",), "its brokers have names of 2 parts"),
        (("b1",), "its brokers have names of 2 parts"),
        (("north/b?",), "is not a scope path"),
        (("north/b8", "--link", "north/b9"), "there is no broker 'north/b9'; did you mean"),
        (("north/b8", "--link", "west/b9"), "there is no unit 'west'"),
        (("north/b8", "--link", "south/b1"), "none of these brokers is in north: members of a unit must reach each"),
        (("north/b8", "--number", "64"), "a number of 64: expected 0 to 63"),
        (("north/b8", "--number", "0"), "the number 0 is taken by north/b1"),
        (("north/b8", "--cost", "0"), "a cost of 0"),
        (("north/b8", "--listen", "0.0.0.0:0"), "can be reached by other machines and has no TLS"),
        (("north/b8", "--log", "loud"), "--log loud"),
    ],
)
def test_a_broker_that_cannot_join_is_refused_before_it_is_started(
    up: Fabric, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    def refused() -> bool:
        done = in_process("broker", "add", *arguments, "--knowing", up.url("south/b2"), cwd=tmp_path)
        assert told in done.stderr
        assert done.returncode == 2
        return True

    until(refused)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow  # it takes its time to be sure, as all commands do
def test_a_broker_that_reaches_no_other_one_does_not_join(tmp_path: Path) -> None:
    done = in_process("broker", "add", "a/b", "--knowing", "127.0.0.1:1", cwd=tmp_path)
    assert (done.returncode, "no broker at" in done.stderr) == (3, True)


def test_a_second_broker_beside_a_local_one(tmp_path: Path) -> None:
    with (
        Fabric("--listen", "127.0.0.1:0", "--data", "data", cwd=tmp_path) as running,
        Newcomer("second", knowing=running.url(), cwd=tmp_path) as new,
    ):
        assert crosses(running.url(), new.url)
        assert crosses(new.url, running.url())
        new.interrupt()
        assert new.ended() == 0
        until(lambda: not present(running.url(), "second"))
        until(lambda: in_process("broker", "remove", "local", "--url", running.url()).returncode == 0)
        running.line("node local left the network")


def test_a_place_that_is_taken_by_another_process(up: Fabric, tmp_path: Path) -> None:
    with Newcomer("south/b4", knowing=up.url("south/b1"), cwd=tmp_path) as new:
        until(lambda: present(up.url("south/b1"), "south/b4"))
        done = subprocess.run(
            [STENTOR, "broker", "add", "south/b4", "--knowing", new.url, "--data", "other"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.returncode == 2
        assert "south/b4 is taken by the broker at" in done.stderr
