"""Digests of the seeds that `make test` runs, and which of these seeds shows each thing that can go wrong. A commit
that changes no behaviour leaves `digests.json` and `witnesses.json` alone; a commit that changes some writes them
again, with `make digests`, and says so.
"""

import json
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from stentor.simulation.outcome import Outcome
from stentor.simulation.scenarios import SCENARIOS

SEEDS = {  # how many, and how many at a time: a sample of which `make soak` has the rest, within 40 seconds each
    "access": (100, 20),
    "broker": (100, 20),
    "colours": (18, 3),
    "damage": (6, 2),
    "delivery": (100, 20),
    "fabric": (60, 10),
    "fuzz": (60, 20),  # each has some 250 messages
    "log": (200, 100),
    "network": (60, 10),
    "overlay": (120, 40),
    "plans": (30, 6),
    "rebuilding": (10, 2),
}
CHUNKS = [(name, first, step) for name, (count, step) in SEEDS.items() for first in range(0, count, step)]
FAULTS = {  # what has to happen somewhere in these seeds, or they would prove little
    "access": (
        "break checked confirmed disk-full flipped-bytes half-open ignored kill lost-block partition "
        "partition-asymmetric power-cut stall stop sync-error told torn unwritable"
    ),
    "broker": (
        "break delivered disk-full fenced flipped-bytes half-open jump kill lost-bytes missed partition "
        "partition-asymmetric power-cut published repeated-bytes stall stop swapped-bytes sync-error"
    ),
    "colours": "indexes members plans pointers profiles rounds routes timers",
    "damage": (
        "credit foreign indexes members plans pointers profiles queues rounds routes subscriptions timers undisturbed"
    ),
    "delivery": (
        "author-crash collected crash-in-step cut-in-commit cut-in-step death delivered disk-full ended-well "
        "body-rot deleted echo events-expired "
        "forged forget join kill leave leave-elsewhere left life-drawn lost lost-block muffled outlive partition "
        "power-cut published reader-crash redelivered repeated return "
        "revoke rival-author rival-reader roam rot subscribed-again sync-error torn"
    ),
    "fabric": (
        "attached author-crash batch break concluded cut-in-commit death delivered disk-full ended-well fenced "
        "flipped-bytes forged half-open join "
        "jump kill leave left lost-block lost-bytes partition partition-asymmetric power-cut published reader-crash "
        "redelivered repeated-bytes revoke roam rot stall stop stop-broker stop-repository stumble swapped-bytes "
        "sync-error torn traced"
    ),
    "fuzz": "assured insiders messages news orders",
    "log": "disk-full garbage-block kills lost-block power-cuts rewrites sync-error torn torn-tails",
    "network": (
        "break delivered flipped-bytes half-open jump kill lost-bytes moves partition partition-asymmetric "
        "power-cut published redirected relayed repeated-bytes settled settled-held stall swapped-bytes"
    ),
    "plans": "changes delivered exits held moves plans-done",
    "rebuilding": "break delivered handed-over held kill partition plans-done plans-undone stall",
    "overlay": "Farewell break crash dismiss join leave partition reprice shortcut stall",
}
FILE = Path(__file__).with_name("digests.json")
WITNESSES = Path(__file__).with_name("witnesses.json")
_LENGTH = 8  # of 32 digits: a change goes unnoticed once in four billion seeds, and the file is read by people, too
_ROW = 10  # digests in a line of the file, so that a diff shows which seeds changed


def shorten(digest: str) -> str:
    """Return as much of a digest as the file holds."""
    return digest[:_LENGTH]


def load() -> dict[str, list[str]]:
    """Return the digests of the file, of each scenario by seed."""
    rows: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: " ".join(lines).split() for name, lines in rows.items()}


def load_witnesses() -> dict[str, dict[str, int]]:
    """Return, of each scenario, a seed for each thing that can go wrong: it happens there."""
    found: dict[str, dict[str, int]] = json.loads(WITNESSES.read_text(encoding="utf-8"))
    return found


def _run(chunk: tuple[str, int, int]) -> list[Outcome]:
    name, first, count = chunk
    return [SCENARIOS[name].run(seed) for seed in range(first, first + count)]


def main(*chosen: str) -> None:
    """Run all seeds, or those of the chosen scenarios, on all cores, and write the files, unless a seed fails."""
    names = chosen or tuple(FAULTS)
    found = defaultdict(list, {name: digests for name, digests in load().items() if name not in names})
    witnesses = {name: seeds for name, seeds in load_witnesses().items() if name not in names}
    witnesses |= {name: {} for name in names}
    chunks = [chunk for chunk in CHUNKS if chunk[0] in names]
    failing: list[str] = []
    with ProcessPoolExecutor() as pool:
        for (name, _, _), outcomes in zip(chunks, pool.map(_run, chunks), strict=True):
            found[name] += [shorten(outcome.digest) for outcome in outcomes]
            for outcome in outcomes:
                if outcome.anomalies:
                    failing.append(f"stentor simulate {name} --seed {outcome.seed}")
                for fault in [each for each in FAULTS[name].split() if outcome.statistics.get(each)]:
                    witnesses[name].setdefault(fault, outcome.seed)
    if failing:
        raise SystemExit("\n".join(["nothing is written, because these seeds fail:", *failing]))
    rows = {
        name: [" ".join(digests[at : at + _ROW]) for at in range(0, len(digests), _ROW)]
        for name, digests in sorted(found.items())
    }
    FILE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    WITNESSES.write_text(json.dumps(witnesses, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
