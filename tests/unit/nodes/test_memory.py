"""What filters took is given back to the system when they are gone, but for what docs/matching.md explains."""

import os
import subprocess
import sys

from stentor.cli.running.process import ALLOCATOR

PROGRAM = """
import gc
from pathlib import Path
from tests.unit.nodes.conftest import Stage
from stentor.machine import LinkLost

def resident():
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

def subscribe(stage, count):
    peer = stage.peer("c")
    for number in range(count):
        peer.subscribe(number, f"t/{number % 100}", f"symbol = 'S{number}' AND price > {number % 977}.5")
        peer.hear()
    return peer

stage = Stage()
for count in (100, 15_000):
    before = resident()
    peer = subscribe(stage, count)
    most = resident()
    stage.tell_broker(LinkLost(peer.link, "gone"))
    stage.wait(0)
    assert stage.broker.status(0).subscriptions == 0
print(before, most, resident())
"""


def test_most_of_the_memory_of_filters_is_given_back() -> None:
    allocator = {**ALLOCATOR, "MALLOC_TOP_PAD_": "0"}  # what it keeps ahead is not what this is about
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **allocator, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    before, most, after = map(int, done.stdout.split())
    assert most - before > 15_000, "15,000 filters take more than 15 MiB"
    assert after - before < 0.75 * (most - before), "all of it stayed once"
