"""Replications: how often an event is stored before anybody gets it (section 5.3.2 of the paper).

As there, node 1 stores for everyone and node 8 once more what clients in super-cluster SC-6 want: a topic is stored by
the repository at broker 1, or by that and the one at broker 8, which tells the clients of its unit what it has.
"""

from collections.abc import Iterable
from typing import NamedTuple

from stentor.admin.topics import Registrar
from stentor.bench.ges22 import STORAGES
from stentor.bench.grid import TOPIC
from stentor.client.fabric import connect

PUBLISHER = "publisher"


class Replication(NamedTuple):
    """A topic and the repositories that store it; none if it is one of best effort."""

    name: str
    topic: str
    repositories: tuple[str, ...] = ()

    @property
    def copies(self) -> int:
        return len(self.repositories)


NONE = Replication("none", TOPIC)
ONE = Replication("one", f"{TOPIC}/one", tuple(STORAGES)[:1])
TWO = Replication("two", f"{TOPIC}/two", tuple(STORAGES)[:2])
REPLICATIONS = (NONE, ONE, TWO)


async def enrol(url: str, replication: Replication, subscribers: Iterable[str]) -> None:
    """Make its topic, for the publisher and these."""
    async with connect(url, wait=30.0) as fabric, Registrar(fabric) as registrar:
        await registrar.create(replication.topic, replication.repositories, copies=1)
        await registrar.grant(replication.topic, "publisher", PUBLISHER)
        for name in subscribers:
            await registrar.grant(replication.topic, "subscriber", name)
