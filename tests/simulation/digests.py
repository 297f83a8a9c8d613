"""Digests of the seeds that `make test` runs. A commit that changes no behaviour leaves `digests.json` alone; a commit
that changes some writes it again, with `make digests`, and says so.
"""

import json
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from stentor.simulation.scenarios import SCENARIOS

SEEDS = {  # how many, and how many at a time: a sample of which `make soak` has the rest, within 40 seconds each
    "access": (200, 20),
    "broker": (200, 20),
    "delivery": (200, 20),
    "fabric": (100, 10),
    "fuzz": (60, 20),  # each has some 250 messages
    "log": (200, 100),
    "network": (130, 13),
    "overlay": (200, 40),
}
CHUNKS = [(name, first, step) for name, (count, step) in SEEDS.items() for first in range(0, count, step)]
FILE = Path(__file__).with_name("digests.json")
_LENGTH = 8  # of 32 digits: a change goes unnoticed once in four billion seeds, and the file is read by people, too
_ROW = 10  # digests in a line of the file, so that a diff shows which seeds changed


def shorten(digest: str) -> str:
    """Return as much of a digest as the file holds."""
    return digest[:_LENGTH]


def load() -> dict[str, list[str]]:
    """Return the digests of the file, of each scenario by seed."""
    rows: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: " ".join(lines).split() for name, lines in rows.items()}


def _run(chunk: tuple[str, int, int]) -> list[str]:
    name, first, count = chunk
    return [shorten(SCENARIOS[name].run(seed).digest) for seed in range(first, first + count)]


def main() -> None:
    """Run all seeds, on all cores, and write the file."""
    found: dict[str, list[str]] = defaultdict(list)
    with ProcessPoolExecutor() as pool:
        for (name, _, _), digests in zip(CHUNKS, pool.map(_run, CHUNKS), strict=True):
            found[name] += digests
    rows = {
        name: [" ".join(digests[at : at + _ROW]) for at in range(0, len(digests), _ROW)]
        for name, digests in found.items()
    }
    FILE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
