"""`stentor map`, `route` and `explain` on a network of six brokers in three levels, all of them real processes."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.end_to_end.command import PATIENCE, Command, Fabric, in_process, stentor
from tests.end_to_end.network import until

import stentor as library
from stentor.client.blocking import BlockingEvents

BROKERS = ("north/hall/b1", "north/hall/b2", "north/library/b1", "south/dorm/b1", "south/lab/b1", "south/lab/b2")
CONFIG = """
[fabric]
costs = [1, 2, 5]
log = "error"

[limits]
heartbeat = "2 s"

[[unit]]
name = "north/hall"
connect = "chain"

[[unit]]
name = "south/lab"
connect = "chain"

[[link]]
between = ["north/hall/b1", "north/library/b1"]

[[link]]
between = ["north/library/b1", "south/lab/b1"]

[[link]]
between = ["south/lab/b1", "south/dorm/b1"]

[[channel]]
from = "south/lab"
to = "south/dorm"
where = ["NOT EXISTS secret"]
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    home = tmp_path_factory.mktemp("network")
    nodes = "".join(f'\n[[node]]\nname = "{name}"\nlisten = "127.0.0.1:0"\nhttp = ""\n' for name in BROKERS)
    (home / "stentor.toml").write_text(CONFIG + nodes)
    with Fabric("--config", "stentor.toml", cwd=home) as up:
        until(lambda: whole(chart(up)))
        yield up


def run(network: Fabric, *arguments: str | Path, at: str = "north/library/b1") -> subprocess.CompletedProcess[str]:
    return in_process(*arguments, "--url", network.url(at))


def chart(network: Fabric, at: str = "north/library/b1") -> Any:
    done = run(network, "map", "--json", at=at)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def whole(survey: Any) -> bool:
    """Whether all links are up, and all brokers know how to reach everybody."""
    views = [broker["view"] for broker in survey["brokers"].values()]
    return (
        len(survey["links"]) == 5
        and all(link["state"] == "up" for link in survey["links"])
        and all(view is not None and not view["parted"] for view in views)
        and all(len(view["scopes"][2]["members"]) == 2 for view in views)
        and set(survey["brokers"]) == set(BROKERS)
    )


def test_the_map_for_people(network: Fabric) -> None:
    def shows() -> bool:
        done = stentor("map", "--url", network.url("south/lab/b2"))
        assert done.returncode == 0, done.stderr
        assert "network: 6 brokers, 5 links, 1.0 on a path between its members on average" in done.stdout
        tree, _, table = done.stdout.partition("\nlinks")
        for word in ("north", "south", "hall", "library", "dorm", "lab"):
            assert re.search(rf"── {word}  root \S+, round \d+, legal, bound \d+ s\n", tree), word
        assert tree.count("● b") == 6
        assert "speaks for north/hall, north" in tree
        assert re.search(r"north/library/b1 +south/lab/b1 +2 +\d+ +up ", table)
        assert "all brokers answer, no unit is in parts, and all are in their correct state" in table
        return True

    until(shows)


@pytest.mark.req("UX-04")
@pytest.mark.parametrize("at", BROKERS)
def test_the_map_is_the_same_from_everywhere(network: Fabric, at: str) -> None:
    survey = until(lambda: seen if whole(seen := chart(network, at)) else None)
    assert survey is not None
    assert survey["origin"] == at
    assert survey["network"]["parts"] == [["north", "south"]]
    assert [unit["name"] for unit in survey["network"]["units"]] == ["north", "south"]
    assert {(link["one"], link["other"]): link["level"] for link in survey["links"]} == {
        ("north/hall/b1", "north/hall/b2"): 0,
        ("north/hall/b1", "north/library/b1"): 1,
        ("north/library/b1", "south/lab/b1"): 2,
        ("south/dorm/b1", "south/lab/b1"): 1,
        ("south/lab/b1", "south/lab/b2"): 0,
    }


@pytest.mark.req("CO-11")
def test_the_map_shows_every_scope_in_its_correct_state(network: Fabric) -> None:
    def healthy() -> bool:
        survey = chart(network)
        waiting, scopes = [survey["network"]], {}
        while waiting:
            unit = waiting.pop()
            scopes[unit["name"]] = unit["colours"]
            waiting += unit["units"]
        assert set(scopes) == {"", "north", "south", "north/hall", "north/library", "south/dorm", "south/lab"}
        for name, colours in scopes.items():
            assert (colours["is_legal"], colours["reasons"]) == (True, []), name
            assert (colours["orphans"], colours["silent"]) == ([], []), name
            assert colours["root"].startswith(name)
            assert colours["bound"] > 0
        views = [broker["view"] for broker in survey["brokers"].values()]
        roles = [scope["colours"]["tree"]["role"] for view in views for scope in view["scopes"] if not scope["scope"]]
        assert sorted(roles) == ["member"] * 5 + ["root"]
        return True

    until(healthy)


def test_a_status_shows_the_place_of_a_broker_in_its_scopes(network: Fabric) -> None:
    def shows() -> bool:
        done = run(network, "status", at="north/hall/b2")
        assert done.returncode == 0, done.stderr
        assert re.search(r"\nnorth/hall +member +b1 +\d+ +(0 1 2|1 2 0|2 0 1) +b1 +– +1 +\d+ s\n", done.stdout)
        status = json.loads(run(network, "status", "--json", at="north/hall/b2").stdout)
        assert list(status["colours"]) == ["north/hall", "north", ""]
        assert status["colours"]["north/hall"]["tree"]["role"] == "member"
        return True

    until(shows)
    with Command("status", "--watch", "--url", network.url("north/hall/b2")) as watching:
        watching.line(r"^node +north/hall/b2 \(broker\)", count=2)
        watching.interrupt()
        assert watching.ended() == 130


def test_the_map_as_a_picture(network: Fabric, tmp_path: Path) -> None:
    def shows() -> bool:
        done = run(network, "map", "--svg", tmp_path / "map.svg")
        assert done.returncode == 0, done.stderr
        assert f"drawn: {tmp_path / 'map.svg'}" in done.stdout
        picture = (tmp_path / "map.svg").read_text(encoding="utf-8")
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
        for name in BROKERS:
            assert f"{name} at 127.0.0.1:" in picture
        return True

    until(shows)


def test_the_map_as_pixels(network: Fabric, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    done = until(
        lambda: drawn if not (drawn := run(network, "map", "--png", tmp_path / "map.png")).returncode else None
    )
    assert done is not None
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_without_a_renderer_there_is_advice(network: Fabric, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    done = run(network, "map", "--png", tmp_path / "map.png")
    assert done.returncode == 1
    assert done.stderr == "stentor: --png needs a renderer: pip install 'stentor[map]', or use --svg\n"


@pytest.mark.slow  # it takes its time to be sure, as all commands do
def test_network_commands_say_that_no_broker_is_there() -> None:
    done = in_process("map", "--url", "stentor://127.0.0.1:1")
    assert done.returncode == 3
    assert "no broker at stentor://127.0.0.1:1" in done.stderr


def test_a_route_to_a_broker_and_to_a_unit(network: Fabric) -> None:
    way = ["north/hall/b2", "north/hall/b1", "north/library/b1", "south/lab/b1", "south/lab/b2"]

    def to_a_broker() -> bool:
        done = run(network, "route", "north/hall/b2", "south/lab/b2")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert [line.split()[1] for line in lines[1:6]] == way
        assert re.search(r"south +\d+ at level 2 \+ \d+ at level 1 \+ \d+ at level 0 +north/hall/b1", lines[1])
        assert lines[6] == "arrives at south/lab/b2 after 4 hops"
        return True

    def to_a_unit() -> bool:
        done = run(network, "route", "north/hall/b2", "south", "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert answer["arrives"]
        assert [step["broker"] for step in answer["steps"]] == way[:4]
        assert answer["steps"][2]["towards"] == "south"
        return True

    until(to_a_broker)
    until(to_a_unit)


def test_a_route_to_where_it_begins(network: Fabric) -> None:
    until(lambda: "arrives at north after 0 hops" in run(network, "route", "north/hall/b2", "north").stdout)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("route", "north/hal/b1", "south"), "no broker 'north/hal/b1' in this network; did you mean 'north/hall/b1'?"),
        (("route", "north/hall/b1", "sooth"), "no broker or unit 'sooth' in this network; did you mean 'south'?"),
        (("explain", "a", "--from", "south/lab/b3"), "no broker 'south/lab/b3' in this network; did you mean"),
        (("explain", "a/#"), "topic 'a/#' holds a wildcard"),
        (("explain", "a", "-a", "price"), "--attr 'price': write name=value"),
    ],
)
def test_unknown_names_and_wrong_input(network: Fabric, words: tuple[str, ...], error: str) -> None:
    def says() -> bool:
        done = run(network, *words)
        assert error in done.stderr, done
        assert done.returncode == 2
        return True

    until(says)


def explained(network: Fabric, *arguments: str) -> tuple[set[str], list[dict[str, Any]]]:
    """The clients that would get an event, and all brokers on its way."""
    done = run(network, "explain", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    stations, waiting = [], [json.loads(done.stdout)]
    while waiting:
        station = waiting.pop()
        stations.append(station)
        assert station["explanation"] is not None, f"{station['broker']} did not answer in time"
        waiting += [leg["station"] for leg in station["onward"] if leg["station"] is not None]
    return {client for each in stations for client in each["explanation"]["clients"]}, stations


def test_where_an_event_would_go_is_where_it_goes(network: Fabric) -> None:
    with (
        library.blocking.connect(network.url("south/dorm/b1"), name="sleeper", wait=PATIENCE) as sleeper,
        library.blocking.connect(network.url("north/hall/b2"), name="clerk", wait=PATIENCE) as clerk,
        library.blocking.connect(network.url("north/library/b1"), name="author", wait=PATIENCE) as author,
        sleeper.subscribe("news/#", where="price > 3.0") as dreams,
        clerk.subscribe("news/#") as papers,
    ):
        event = ("news/today", "-a", "price=4.5")
        secret = (*event, "-a", "secret=true")

        def known() -> bool:
            clients, stations = explained(network, *event)
            assert clients == {"sleeper", "clerk"}
            by_name = {station["broker"]: station for station in stations}
            assert set(by_name) == set(BROKERS) - {"south/lab/b2"}, "where nobody wants it, it does not go"
            assert by_name["south/lab/b1"]["explanation"]["matched"] == ["south/lab", "south"]
            assert {name: by_name[name]["matchings"] for name in ("south/dorm/b1", "north/hall/b2")} == {
                "south/dorm/b1": 3,
                "north/hall/b2": 3,
            }
            return True

        def shown() -> bool:
            said = run(network, "explain", *secret).stdout
            assert "→ south/dorm/b1  the channel to it lets no such event pass" in said
            assert "1 client, 4 brokers, 3 hops; at most 3 matchings on the way to any client" in said
            return True

        until(known)
        until(lambda: explained(network, "news/today", "-a", "price=1.5")[0] == {"clerk"})
        until(lambda: explained(network, *secret)[0] == {"clerk"})
        until(lambda: explained(network, *event, "--from", "south/dorm/b1")[0] == {"sleeper", "clerk"})
        until(shown)
        dreamt, read = Reading(dreams), Reading(papers)

        def arrived(turn: int) -> bool:
            author.publish("news/today", b"hidden %d" % turn, price=4.5, secret=True)
            author.publish("news/today", b"dear %d" % turn, price=4.5)
            author.flush()
            return dreamt.saw(b"dear %d" % turn) and read.saw(b"hidden %d" % turn, b"dear %d" % turn)

        turns = itertools.count()
        until(lambda: arrived(next(turns)))  # who is suspected for a moment gets nothing
        assert all(body.startswith(b"dear") for body in dreamt.bodies)

    def counted() -> bool:
        return bool(chart(network)["brokers"]["south/dorm/b1"]["view"]["most_matchings"] == 3)

    until(counted, "as many matchings for real as were foretold")
    until(lambda: "nobody wants it" in run(network, "explain", "elsewhere").stdout)


class Reading:
    """What came for a subscription."""

    def __init__(self, events: BlockingEvents) -> None:
        self.bodies: list[bytes] = []
        self._events = events

    def saw(self, *last: bytes) -> bool:
        """Whether the last to come are these; they have a second for it."""
        for batch in self._events.batches(timeout=1.0):
            self.bodies += batch.bodies
            if tuple(self.bodies[-len(last) :]) == last:
                return True
        return False


@pytest.mark.req("GE-05")
def test_a_broker_that_no_longer_speaks_parts_the_network(network: Fabric, tmp_path: Path) -> None:
    def parted() -> bool:
        shown = run(network, "map", "--svg", tmp_path / "map.svg").stdout
        assert "! the network is in 2 parts that do not reach each other: north | south" in shown
        assert re.search(r"○ b1  (suspected|unreachable)", shown)
        # how many it had is told only if more than one had been told of: a member more is no news to those outside
        assert re.search(
            r"! nobody answers in south/lab(, which had \d+ members that reached each other)?$", shown, re.MULTILINE
        )
        assert re.search(r"! south/lab/b1 is (suspected|unreachable): no broker at", shown)
        assert "the network is in 2 parts" in (tmp_path / "map.svg").read_text(encoding="utf-8")
        return True

    def explains() -> bool:
        assert "wanted by south, which cannot be reached" in run(network, "explain", "late/news").stdout
        done = run(network, "explain", "late/news", "--from", "south/lab/b1")
        assert done.returncode == 3
        assert "south/lab/b1 does not answer" in done.stderr
        return True

    with (
        library.blocking.connect(network.url("south/dorm/b1"), wait=PATIENCE) as sleeper,
        sleeper.subscribe("late/#"),
    ):
        until(lambda: explained(network, "late/news")[0])
        pid = network.node_at(int(network.url("south/lab/b1").rpartition(":")[2]))
        os.kill(pid, signal.SIGSTOP)  # a process that ends is started again
        try:
            ends = "ends at north/hall/b2: north/hall/b2 cannot reach south"
            until(lambda: ends in run(network, "route", "north/hall/b2", "south/dorm/b1").stdout)
            until(parted)
            until(explains)
        finally:
            os.kill(pid, signal.SIGCONT)
        until(lambda: whole(chart(network)))
