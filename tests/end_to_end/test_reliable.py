"""Reliable delivery with real processes: whoever is killed, what was acknowledged comes to everyone, once, in order."""

import random
import time
from pathlib import Path

import pytest
from tests.end_to_end.network import until
from tests.end_to_end.troupe import BROKERS, REPOSITORIES, Client, Network, Troupe

_CALM = 0.5  # of the waves are followed by some events that are stored before the next one


def troupe(folder: Path) -> Troupe:
    publishers = [Client(folder, name, rate=100) for name in ("p1", "p2")]
    everything = Client(folder, "s1")
    late = Client(
        folder, "s2", where="dep_delay > 15", wants=lambda flight: flight.delay is not None and flight.delay > 15
    )
    return Troupe(publishers, [everything, late])


class Executioner:
    """Kills, and has what it killed started again, elsewhere if it is a client."""

    def __init__(self, network: Network, cast: Troupe, dice: random.Random) -> None:
        self._network, self._cast, self._dice = network, cast, dice
        self._clients = {client.name: client for client in cast.clients}
        self.killed: list[tuple[float, list[str]]] = []

    def wave(self) -> None:
        """Any three at once, but never all repositories: one of them runs, whether it has caught up or not."""
        everyone = [*BROKERS, *REPOSITORIES, *self._clients]
        victims = self._dice.sample(everyone, 3)
        while set(REPOSITORIES) <= set(victims):
            victims = self._dice.sample(everyone, 3)
        until(lambda: all(self._network.process(name) for name in (*BROKERS, *REPOSITORIES)), "nodes are started again")
        self._kill(victims)
        if self._dice.random() < _CALM:
            self._cast.flows(20)

    def _kill(self, names: list[str]) -> None:
        self.killed.append((time.time(), names))
        for name in names:
            if name in self._clients:
                self._clients[name].kill()
            else:
                self._network.kill(name)
        for name in names:
            if name in self._clients:
                self._clients[name].start(self._network.url(self._dice.choice(BROKERS)))


def perform(folder: Path, seed: int, kills: int) -> None:
    """Kill so many, three at a time, and see what came of it."""
    dice = random.Random(seed)
    with Network(folder) as network, troupe(folder) as cast:
        network.create([each.name for each in cast.publishers], [each.name for each in cast.subscribers])
        for client in cast.clients:
            client.start(network.url(dice.choice(BROKERS)))
        cast.flows(50)
        executioner = Executioner(network, cast, dice)
        try:
            while sum(len(names) for _, names in executioner.killed) < kills:
                executioner.wave()
            verdicts = cast.finish()
            until(lambda: network.complete() == set(REPOSITORIES), "repositories have all that others have")
        finally:  # for whoever looks for the reason
            (folder / "kills.txt").write_text("\n".join(f"{at} {' '.join(names)}" for at, names in executioner.killed))
            (folder / "nodes.txt").write_text(network.fabric.errors)
        network.stop()
        acknowledged = set().union(*(client.publication.acknowledged for client in cast.publishers))
        lacking = {name: sorted(acknowledged - there)[:5] for name, there in network.stored().items()}
        assert not any(lacking.values()), lacking
        assert verdicts["s1"].expected >= len(acknowledged)
        assert 0 < verdicts["s2"].expected < verdicts["s1"].expected


@pytest.mark.req("RD-13", "RD-14", "RD-15", "RD-19", "GE-14")
def test_everyone_is_killed_again_and_again(tmp_path: Path) -> None:
    perform(tmp_path, seed=1, kills=12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_everyone_is_killed_for_long(tmp_path: Path, seed: int) -> None:
    perform(tmp_path, seed=seed, kills=200)
