"""The three networks of the paper's figure 2, as far as its words tell: brokers in a chain, and who is at which.

The publisher is at the first broker and the measuring subscriber at the last; the other clients are spread over all.
"""

from pathlib import Path
from typing import NamedTuple

from stentor.config import Config, parse

PLAIN, RELIABLE = "narada/plain", "narada/reliable"  # topics: best effort, and with guarantees
PUBLISHER, SUBSCRIBER = "publisher", "measuring"
OTHERS = tuple(f"other-{number}" for number in range(1, 19))  # 20 clients in all


class BrokerChain(NamedTuple):
    """Brokers in a chain, and the number of the broker at which each repository is."""

    name: str
    title: str
    brokers: int
    repositories: tuple[int, ...]

    def broker(self, number: int) -> str:
        return f"b{number}"

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the repositories."""
        return tuple(f"r{number}" for number, _ in enumerate(self.repositories, 1))


TOPOLOGIES = {
    "A": BrokerChain("A", "1 broker, 1 repository", 1, (1,)),
    "B": BrokerChain("B", "3 brokers, 1 repository", 3, (2,)),
    "C": BrokerChain("C", "3 brokers, 3 repositories", 3, (1, 2, 3)),
}


def network(topology: BrokerChain, folder: Path, storage: str, without: str = "") -> Config:
    """A topology on free ports of this machine, its ledgers of this kind; one of the repositories may be left out."""
    lines = ["[fabric]", 'data = "."', 'log = "error"']
    # on a machine that is overloaded by it, who is slow must not be taken for dead
    lines += ["[limits]", 'heartbeat = "60 s"']
    for number in range(1, topology.brokers + 1):
        lines += ["[[node]]", f'name = "{topology.broker(number)}"', 'listen = "127.0.0.1:0"', 'http = ""']
    for number in range(1, topology.brokers):
        lines += ["[[link]]", f'between = ["{topology.broker(number)}", "{topology.broker(number + 1)}"]']
    for name, at in zip(topology.members, topology.repositories, strict=True):
        if name != without:
            lines += ["[[repository]]", f'name = "{name}"', f'broker = "{topology.broker(at)}"']
            lines += [f'storage = "{storage}:{name}"', 'http = ""']
    return parse("\n".join(lines), str(folder / "narada.toml"))
