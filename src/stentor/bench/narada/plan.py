"""The plan: which networks, payloads and runs."""

import msgspec

from stentor.bench.grid import numbers, whole
from stentor.bench.narada.topologies import TOPOLOGIES
from stentor.model.errors import InvalidInput

PAYLOADS = (100, 500, 1000, 2000, 4000, 8000)
QUICK_PAYLOADS = (100, 8000)
TABLE_PAYLOAD = 8000  # bytes, of table 1
MISSED = 1000  # events
STORAGES = ("sqlite", "segments")


class NaradaPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The networks, payloads and runs to measure."""

    topologies: tuple[str, ...] = tuple(TOPOLOGIES)
    payloads: tuple[int, ...] = PAYLOADS
    runs: int = 50
    pause: float = 0.01  # seconds between events of a delay trial
    seconds: float = 3.0  # of a flood
    floods: int = 3  # of each kind
    restarts: int = 10  # of a single repository
    recoveries: int = 5  # of one that missed a lot
    storage: str = "sqlite"

    @property
    def sizes(self) -> tuple[int, ...]:
        """All payloads, with that of table 1."""
        return tuple(sorted({*self.payloads, TABLE_PAYLOAD}))


QUICK = NaradaPlan(payloads=QUICK_PAYLOADS, runs=10, seconds=1.0, floods=1, restarts=2, recoveries=1)


def payloads_of(text: str) -> tuple[int, ...]:
    return whole(numbers(text, "--payloads", 8, 60_000), "--payloads")


def topologies_of(text: str) -> tuple[str, ...]:
    names = {word.strip().upper() for word in text.split(",") if word.strip()}
    if not names or names - TOPOLOGIES.keys():
        raise InvalidInput(f"--topologies {text!r}: expected some of {', '.join(TOPOLOGIES)}")
    return tuple(sorted(names))
