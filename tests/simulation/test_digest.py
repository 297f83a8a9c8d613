"""A seed replays to the same digest in another process and under another PYTHONHASHSEED."""

import os
import subprocess
import sys

import pytest

from stentor.simulation.scenarios import SCENARIOS

SEEDS = {
    "access": range(10),
    "broker": range(5),
    "delivery": range(12),
    "fabric": range(6),
    "fuzz": range(10),
    "log": range(50),
    "network": range(8),
    "overlay": range(30),
}
PROGRAM = """
import sys
from stentor.simulation.scenarios import SCENARIOS
name, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for seed in range(first, last):
    print(SCENARIOS[name].run(seed).digest)
"""


def digests_elsewhere(name: str, seeds: range, hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, str(seeds.start), str(seeds.stop)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.split()


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_a_seed_has_one_digest(name: str) -> None:
    here = [SCENARIOS[name].run(seed).digest for seed in SEEDS[name]]
    assert len(set(here)) == len(here)
    for hash_seed in ("1", "4242"):
        assert here == digests_elsewhere(name, SEEDS[name], hash_seed)


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_keeping_a_trace_changes_nothing_but_the_trace(name: str) -> None:
    plain, traced = SCENARIOS[name].run(3), SCENARIOS[name].run(3, keep_trace=True)
    assert traced.trace
    assert (plain.digest, plain.anomalies, plain.statistics) == (traced.digest, traced.anomalies, traced.statistics)
