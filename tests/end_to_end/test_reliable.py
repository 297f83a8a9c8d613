"""Reliable delivery with real processes: whoever is killed, what was acknowledged comes to everyone, once, in order."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.network import until
from tests.end_to_end.troupe import BROKERS, REPOSITORIES, Client, Network, Troupe


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

    def waves(self) -> Iterator[list[str]]:
        """Everyone in two waves: at once die a broker, all repositories but one or two, and clients."""
        brokers, repositories, clients = (
            self._dice.sample(group, len(group)) for group in (BROKERS, REPOSITORIES, list(self._clients))
        )
        for broker in brokers:
            victims = [broker, *repositories[: len(brokers)], *clients[: len(brokers)]]
            del repositories[: len(brokers)], clients[: len(brokers)]
            yield victims

    def kill(self, names: list[str]) -> None:
        """All at once, as soon as those who were killed before are back: one repository that has everything is left."""
        until(lambda: all(client.began == client.lives for client in self._clients.values()), "clients are back")
        until(lambda: self._network.complete() == set(REPOSITORIES), "repositories are back")
        until(lambda: all(self._network.process(name) for name in BROKERS), "brokers are back")
        self.killed.append((time.time(), names))
        for name in names:
            if name in self._clients:
                self._clients[name].kill()
            else:
                self._network.kill(name)
        for name in names:
            if name in self._clients:
                self._clients[name].start(self._network.url(self._dice.choice(BROKERS)))
        self._cast.flows(20)


def perform(folder: Path, seed: int, rounds: int) -> int:
    """Kill everyone `rounds` times; how many were killed."""
    dice = random.Random(seed)
    with Network(folder) as network, troupe(folder) as cast:
        network.create([each.name for each in cast.publishers], [each.name for each in cast.subscribers])
        for client in cast.clients:
            client.start(network.url(dice.choice(BROKERS)))
        cast.flows(50)
        executioner = Executioner(network, cast, dice)
        try:
            for _ in range(rounds):
                for wave in executioner.waves():
                    executioner.kill(wave)
            verdicts = cast.finish()
        finally:  # for whoever looks for the reason
            (folder / "kills.txt").write_text("\n".join(f"{at} {' '.join(names)}" for at, names in executioner.killed))
            (folder / "nodes.txt").write_text(network.fabric.errors)
        network.stop()
        acknowledged = set().union(*(client.publication.acknowledged for client in cast.publishers))
        lacking = {name: sorted(acknowledged - there) for name, there in network.stored().items()}
        assert not any(lacking.values()), lacking
        assert verdicts["s1"].expected >= len(acknowledged)
        assert 0 < verdicts["s2"].expected < verdicts["s1"].expected
    return sum(len(names) for _, names in executioner.killed)


@pytest.mark.req("RD-13", "RD-14", "RD-15", "RD-19", "GE-14")
def test_everyone_is_killed_again_and_again(tmp_path: Path) -> None:
    assert perform(tmp_path, seed=1, rounds=4) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_everyone_is_killed_for_long(tmp_path: Path, seed: int) -> None:
    assert perform(tmp_path, seed=seed, rounds=20) >= 180
