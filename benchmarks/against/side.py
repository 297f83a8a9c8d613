"""One side of a comparison in pairs, run by the Python of that side, with what both sides have.

It starts a broker and a repository, then reads lines of a window, `single` or `batched`, and seconds, and answers each
with events a second and microseconds of processor time per event.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.durable.stentor import OverSegments, OverSqlite
from benchmarks.trial import Cost


def main() -> None:
    (contestant,) = [kind() for kind in (OverSqlite, OverSegments) if kind.name == sys.argv[1]]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stentor-side-")))
        stack.callback(contestant.stop)
        contestant.prepare(folder, install=False)
        contestant.start(folder / "fabric")
        assert contestant.server is not None
        print("ready", flush=True)
        for line in sys.stdin:
            window, kind, seconds = line.split()
            cost = Cost(contestant.server)
            outcome = contestant.publish(int(window), float(seconds), kind == "batched")
            figures = cost.figures(outcome.acknowledged)
            print(outcome.acknowledged / outcome.seconds, figures["cpu_us"], figures["noise_cores"], flush=True)


if __name__ == "__main__":
    main()
