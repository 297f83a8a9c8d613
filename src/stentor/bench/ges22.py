"""The two test networks of Fox & Pallickara's Grid Event Service (sections 5.1 and 5.3.3), as far as its words tell.

A reconstruction, as in examples/ges22.toml, which says what of it is theirs. A hop is a broker that an event passes,
the publisher's and the subscriber's too: 22 – 1 – 2 – 4 – 6 – 7 – 8 – 9 – 10 are nine of them; in the well-connected
network 22 – 1 – 8 – 10 are four.
"""

from pathlib import Path

from stentor.config import Config, parse

PUBLISHER, SUBSCRIBER = 22, 10
NEAR = {1: 22, 2: 1, 4: 10}  # in the well-connected network: where one subscribes to be so many hops away
FAR = 9  # hops from 22 to 10 in the other one
MIDWAY, MIDWAY_AT = 6, 7  # hops to the broker where the paper measured what was stored once
STORAGES = {"r1": 1, "r2": 8}  # repositories, and the brokers that they are at
SERVES = {"r1": "", "r2": "SSC-B/SC-6"}  # the units that they serve: everyone, and one super-cluster

_CLUSTERS = {
    "SC-5/k": (1, 2, 3),
    "SC-4/h": (4, 5, 11),
    "SC-4/i": (6, 7, 12),
    "SC-6/n": (8, 9, 10),
    "SC-6/m": (13, 14),
    "SC-4/j": (15, 16, 17),
    "SC-5/l": (18, 19, 20, 21, 22),
}
_LINKS = ((22, 1), (4, 6), (4, 15), (8, 13), (2, 4), (7, 8))  # between clusters and super-clusters
_MORE_LINKS = ((1, 8),)

BROKERS = {number: f"SSC-B/{cluster}/{number}" for cluster, numbers in _CLUSTERS.items() for number in numbers}


def network(folder: Path, *, connected: bool, forwarding: str = "content", storages: bool = False) -> Config:
    """One of the two, on free ports of this machine; what its nodes keep goes into the folder."""
    lines = ["[fabric]", 'data = "."', 'log = "error"', "costs = [1, 2, 3]", f'forwarding = "{forwarding}"']
    # the paper had 23 machines; on one that is overloaded by it, who is slow must not be taken for dead
    lines += ["[limits]", 'heartbeat = "60 s"']
    for number in sorted(BROKERS):
        lines += ["[[node]]", f'name = "{BROKERS[number]}"', 'listen = "127.0.0.1:0"', 'http = ""']
    for cluster in _CLUSTERS:
        lines += ["[[unit]]", f'name = "SSC-B/{cluster}"', f'connect = "{"ring" if connected else "chain"}"']
    for one, other in (*_LINKS, *(_MORE_LINKS if connected else ())):
        lines += ["[[link]]", f'between = ["{BROKERS[one]}", "{BROKERS[other]}"]']
    for name, at in STORAGES.items() if storages else ():
        lines += ["[[repository]]", f'name = "{name}"', f'broker = "{BROKERS[at]}"', 'http = ""']
        lines += [f'storage = "sqlite:{name}"', f'unit = "{SERVES[name]}"']
    return parse("\n".join(lines), str(folder / "ges22.toml"))
