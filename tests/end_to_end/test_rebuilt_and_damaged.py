"""Networks of real processes that are rebuilt by random plans, damaged, lose a root in mid-plan and a busy broker.

While plans run, nothing is lost, doubled or out of order. What is damaged or killed may lose events while it heals, and
nothing from the moment when the network says that it has.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from tests.end_to_end.command import Command, Fabric, stentor
from tests.end_to_end.network import kill, until
from tests.end_to_end.numbered_load import Load

Link = tuple[str, str]
PATIENCE = 600.0  # seconds: bounds are printed, and this is far beyond them


@dataclass(frozen=True)
class Play:
    """How large a network is, and what befalls it."""

    clusters: tuple[int, ...]
    plans: int
    corruptions: int
    clients: int  # of the broker that leaves
    pause: float  # seconds between what publishers say


SMALL = Play(clusters=(3, 3), plans=3, corruptions=2, clients=3, pause=0.01)
LARGE = Play(clusters=(7, 7, 8), plans=20, corruptions=10, clients=50, pause=0.1)


class Topology:
    """Clusters that are rings, joined in a ring with two links from each to the next."""

    def __init__(self, clusters: tuple[int, ...], seed: int) -> None:
        self._random = Random(seed)
        self._units = [[f"u{unit}/b{number}" for number in range(size)] for unit, size in enumerate(clusters)]
        self.brokers = [name for unit in self._units for name in unit]
        self.links: set[Link] = set()
        for place, unit in enumerate(self._units):
            self.links |= {_pair(one, unit[(number + 1) % len(unit)]) for number, one in enumerate(unit)}
            other = self._units[(place + 1) % len(self._units)]
            self.links |= {_pair(unit[0], other[1]), _pair(unit[2], other[0])}

    def write(self, path: Path) -> Path:
        lines = ["[fabric]", 'log = "error"', "[colours]", 'delta_max = "100 ms"']
        for name in self.brokers:
            lines += ["[[node]]", f'name = "{name}"', 'listen = "127.0.0.1:0"', 'http = ""']
        for one, other in sorted(self.links):
            lines += ["[[link]]", f'between = ["{one}", "{other}"]']
        path.write_text("\n".join(lines))
        return path

    def change(self) -> None:
        """Add and remove some links at random; everybody can still be reached, inside each unit, too."""
        before = set(self.links)
        while self.links == before:
            for _ in range(self._random.choice((1, 2, 4))):
                link = _pair(*self._random.sample(self.brokers, 2))
                if self._random.random() < 0.5:
                    link = self._random.choice(sorted(self.links))
                changed = self.links ^ {link}
                if self._is_whole(changed):
                    self.links = changed

    def remove(self, broker: str) -> None:
        self.brokers.remove(broker)
        self.links = {link for link in self.links if broker not in link}

    def _is_whole(self, links: set[Link]) -> bool:
        units = [[name for name in unit if name in self.brokers] for unit in self._units]
        between = {_pair(one.split("/")[0], other.split("/")[0]) for one, other in links}
        return _joined(sorted({name.split("/")[0] for name in self.brokers}), between) and all(
            _joined(unit, links) for unit in units
        )


def _pair(one: str, other: str) -> Link:
    return min(one, other), max(one, other)


def _joined(names: list[str], links: set[Link]) -> bool:
    """Whether links among these names join all of them."""
    reached, fresh = {names[0]}, [names[0]]
    while fresh:
        near = fresh.pop()
        for name in names:
            if name not in reached and _pair(near, name) in links:
                reached.add(name)
                fresh.append(name)
    return len(reached) == len(names)


class Rebuilt:
    """A network that runs, and what is done to it."""

    def __init__(self, play: Play, up: Fabric, topology: Topology, folder: Path) -> None:
        self._play = play
        self._up = up
        self._topology = topology
        self._folder = folder

    def is_legal(self) -> bool:
        """Whether every scope has one root that reaches all of its brokers."""
        done = stentor("map", "--json", "--url", self._up.url(self._topology.brokers[0]))
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        for scope in (found["network"], *found["network"]["units"]):
            assert scope["colours"] is not None
            assert (scope["colours"]["is_legal"], scope["colours"]["silent"]) == (True, []), scope["colours"]
        return True

    def load(self, subscribers: list[str] | None = None) -> Load:
        brokers = self._topology.brokers
        return Load(self._up, brokers[1::5], subscribers or brokers[::4], self._play.pause)

    def flows(self) -> None:
        """Nothing is lost while nothing happens."""
        until(self.is_legal)
        load = self.load()
        asyncio.run(load.run())
        load.check()

    def rebuild(self) -> None:
        commands = []
        for number in range(self._play.plans):
            self._topology.change()
            commands.append(("reconfigure", str(self._topology.write(self._folder / f"plan{number}.toml"))))
        load = self.load()
        printed = asyncio.run(load.run(*commands))
        load.check()
        assert all("done in" in each for each in printed)

    def damage(self) -> None:
        for seed in range(self._play.corruptions):
            url = self._up.url(self._topology.brokers[-1])
            done = stentor("corrupt", "--seed", str(seed), "--url", url, patience=PATIENCE)
            assert done.returncode == 0, (done.stdout, done.stderr)
            self.flows()

    def kill_root(self) -> None:
        """A root dies in mid-plan: the plan is done or undone as a whole, and the same file again makes it whole."""
        self._topology.change()
        file, url = self._topology.write(self._folder / "killed.toml"), self._up.url(self._topology.brokers[-1])
        with Command("reconfigure", str(file), "--url", url) as planning:
            planning.line("root u")
            for root in sorted({name.split("/")[0] for name in self._topology.brokers}):
                kill(self._up, self._folder, f"{root}/b0")
            planning.ended(PATIENCE)
        until(self.is_legal)
        done = stentor("reconfigure", str(file), "--url", url, patience=PATIENCE)
        assert done.returncode == 0, (done.stdout, done.stderr)
        done = stentor("reconfigure", str(file), "--url", url, patience=PATIENCE)
        assert done.stdout == "the network is as the file says\n", (done.stdout, done.stderr)
        self.flows()

    def let_go(self) -> None:
        """A broker with clients leaves, and none of them misses anything."""
        leaving = self._topology.brokers[2]
        load = self.load([leaving] * self._play.clients)
        (printed,) = asyncio.run(load.run(("broker", "remove", leaving, "--timeout", "60")))
        load.check()
        assert f"{leaving} left the network" in printed
        self._topology.remove(leaving)
        self.flows()


@pytest.fixture(params=[SMALL, pytest.param(LARGE, marks=pytest.mark.slow)], ids=["small", "large"])
def rebuilt(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rebuilt]:
    play: Play = request.param
    topology = Topology(play.clusters, seed=1)
    topology.write(tmp_path / "stentor.toml")
    with Fabric("--config", "stentor.toml", "--chaos", cwd=tmp_path) as up:
        made = Rebuilt(play, up, topology, tmp_path)
        until(made.is_legal)
        yield made


@pytest.mark.req("CO-01", "CO-05", "CO-08", "CO-12", "CO-15")
def test_a_network_that_is_rebuilt_damaged_and_beheaded_delivers_everything(rebuilt: Rebuilt) -> None:
    rebuilt.flows()
    rebuilt.rebuild()
    rebuilt.damage()
    rebuilt.kill_root()
    rebuilt.rebuild()
    rebuilt.let_go()
