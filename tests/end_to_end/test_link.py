"""`stentor link`: links of a running network come, go and change their costs, and brokers remember it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, in_process
from tests.end_to_end.network import crosses, kill, link, until, view

FIVE = """
[limits]
heartbeat = "0.5 s"

[[node]]
name = "north/b1"
listen = "127.0.0.1:0"

[[node]]
name = "north/b2"
listen = "127.0.0.1:0"

[[node]]
name = "north/b3"
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

[[unit]]
name = "south"
connect = "chain"

[[link]]
between = ["north/b1", "south/b1"]
"""


class Five(Fabric):
    """Five brokers, and the folder where they keep what they know."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "five.toml").write_text(FIVE)
        super().__init__("--config", "five.toml", "--log", "error", cwd=folder)

    def linked(self, one: str, other: str) -> bool:
        found = link(self.url(one), other)
        return found is not None and found.state == "up"

    def whole(self) -> bool:
        """Whether everybody knows that everybody can be reached."""
        views = [view(self.url(name)) for name in ("north/b1", "north/b2", "north/b3", "south/b1", "south/b2")]
        return all(
            [len(scope.members) for scope in each.scopes] == [3 if each.node.startswith("north") else 2, 2]
            and all(member.reachable for scope in each.scopes for member in scope.members)
            for each in views
        )

    def restart(self, name: str) -> None:
        kill(self, self.folder, name)
        until(self.whole)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Five]:
    with Five(tmp_path_factory.mktemp("links")) as running:
        until(running.whole)
        yield running


def order(up: Five, *arguments: str, at: str = "north/b2") -> tuple[int, str]:
    """Say it to some broker; the exit code and what was said."""
    patient = ("--timeout", str(PATIENCE)) if arguments[0] == "add" and "--timeout" not in arguments else ()
    done = in_process("link", *arguments, *patient, "--url", up.url(at))
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def says(up: Five, code: int, told: str, *arguments: str) -> None:
    """It is answered so, once nobody is suspected any more who is only slow."""

    def answered() -> bool:
        found, said = order(up, *arguments)
        assert told in said
        assert found == code
        return True

    until(answered)


@pytest.mark.req("GE-17")
def test_a_link_is_added_priced_and_removed_and_each_survives_a_restart(up: Five) -> None:
    # the two ends are in different units, and the broker that is asked is neither
    assert order(up, "add", "south/b2", "north/b3", "--cost", "7") == (
        0,
        "south/b2 and north/b3 are linked, cost 7\n",
    )

    def priced() -> bool:
        found = link(up.url("north/b3"), "south/b2")
        assert found is not None
        assert (found.state, found.level) == ("up", 1)
        assert found.cost % 7 == 0, "dearer only by whole steps, while it is slow"
        return True

    until(priced)
    up.restart("south/b2")
    until(lambda: up.linked("north/b3", "south/b2"))
    up.restart("north/b3")
    until(lambda: up.linked("south/b2", "north/b3"))

    # said at the end that does not dial
    told = "the link of north/b3 and south/b2 costs 11\n"
    until(lambda: order(up, "cost", "north/b3", "south/b2", "11") == (0, told))
    for one, other in (("south/b2", "north/b3"), ("north/b3", "south/b2")):
        until(lambda one=one, other=other: (found := link(up.url(one), other)) is not None and found.cost % 11 == 0)  # type: ignore[misc]
    up.restart("south/b2")
    until(lambda: (found := link(up.url("north/b3"), "south/b2")) is not None and found.cost % 11 == 0)

    told = "north/b3 and south/b2 are no longer linked\n"
    until(lambda: order(up, "remove", "north/b3", "south/b2") == (0, told))
    until(lambda: link(up.url("north/b3"), "south/b2") is None)
    up.restart("south/b2")
    until(lambda: up.linked("south/b1", "south/b2"))
    assert link(up.url("south/b2"), "north/b3") is None
    assert crosses(up.url("south/b2"), up.url("north/b3"))


def test_a_link_that_holds_the_network_together_is_removed_only_by_force(up: Five) -> None:
    says(up, 4, "the network would be in two parts: --force removes it anyway", "remove", "south/b1", "north/b1")
    until(lambda: up.linked("north/b1", "south/b1"))
    until(lambda: order(up, "remove", "south/b1", "north/b1", "--force")[0] == 0)
    until(lambda: link(up.url("north/b1"), "south/b1") is None)
    until(lambda: not view(up.url("north/b2")).scopes[1].members[1].reachable)
    # nobody in the north knows where the south is any more, but for whoever says it
    says(up, 3, "nobody knows where south/b1 is", "add", "north/b1", "south/b1")
    address = up.url("south/b1").removeprefix("stentor://")
    assert order(up, "add", "north/b1", address) == (0, "north/b1 and south/b1 are linked\n")
    assert crosses(up.url("north/b2"), up.url("south/b2"))


@pytest.mark.slow  # whether anybody is there takes some seconds to find out, each time
def test_a_broker_keeps_trying_until_it_is_told_not_to(up: Five) -> None:
    with socket.socket() as silent:  # bound, but nobody listens there
        silent.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{silent.getsockname()[1]}"
        code, told = order(up, "add", "north/b2", nowhere, "--at-once", "--timeout", "0.5")
        assert code == 1
        assert f"north/b2 has no link to {nowhere} after 0.5 s, and keeps trying" in told
        assert [each.state for each in view(up.url("north/b2")).links if each.address == nowhere] == ["down"]
        up.restart("north/b2")
        assert [each.state for each in view(up.url("north/b2")).links if each.address == nowhere] == ["down"]
        until(lambda: order(up, "remove", "north/b2", nowhere)[0] == 0)
        assert nowhere not in [each.address for each in view(up.url("north/b2")).links]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("add", "north/b1", "north/b9"), 2, "there is no broker 'north/b9'; did you mean 'north/b"),
        (("add", "north/b1", "east/b1"), 2, "there is no unit 'east', so no broker 'east/b1'; known are north, south"),
        (("add", "north/b1", "north/x/b1"), 2, "its brokers have names of 2 parts"),
        (("add", "north/b1", "south/b1"), 4, "there is a link to south/b1 already"),
        (("add", "north/b1", "north/b1"), 4, "north/b1 cannot be linked with itself"),
        (("add", "north/b1", "north/b3", "--cost", "0"), 2, "a cost of 0: expected more than 0"),
        (("add", "north/b1", "b?"), 2, "is not a scope path"),
        (("cost", "north/b1", "north/b3", "5"), 4, "there is no link to 'north/b3'"),
        (("cost", "north/b1", "north/b2", "-1"), 2, ""),
        (("cost", "north/b1", "north/b2", "9999999"), 2, "at most 1,000,000"),
        (("remove", "north/b1", "south/b2"), 4, "there is no link to 'south/b2'"),
    ],
)
def test_links_that_cannot_be_made_are_refused(up: Five, arguments: tuple[str, ...], code: int, told: str) -> None:
    says(up, code, told, *arguments)


@pytest.mark.slow  # it takes its time to be sure, as all commands do
def test_link_commands_say_that_no_broker_is_there() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        done = in_process("link", "add", "a", "b", "--url", f"127.0.0.1:{silent.getsockname()[1]}")
    assert (done.returncode, "no broker at" in done.stderr) == (3, True)
