"""A worker: one trial in a process of its own, so that memory is its own too; the task is on its command line."""

import gc
import sys

import msgspec

from benchmarks.matching.trial import Task, measure
from benchmarks.matching.truth import Disagreement

WRONG = 3  # the status of a worker whose contestant gave a wrong answer

if __name__ == "__main__":
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # as a broker sets it
    try:
        figures = measure(msgspec.json.decode(sys.argv[1], type=Task))
    except Disagreement as disagreement:
        sys.stderr.write(f"wrong: {disagreement}\n")
        sys.exit(WRONG)
    sys.stdout.buffer.write(msgspec.json.encode(figures) + b"\n")
