"""`python -m benchmarks.subscribing`: does delivery notice that somebody adds 100,000 subscriptions meanwhile?

One publisher and one subscriber measure latency at 1,000 messages a second, before, while and after another process
adds filters of workload W2 on the very topic that is measured, as fast as the broker takes them.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.load import Generator
from benchmarks.targets.stentor import StentorNode
from benchmarks.trial import Contestant, Figures, attempt
from benchmarks.workloads import WORKLOADS
from stentor.model.ids import Incarnation, SubscriptionId
from stentor.model.messages import Hello, Receipt, Subscription
from stentor.wire import frame

RESULTS = Path(__file__).parent / "results"
GOAL = 2.0  # times the p99 before
WARM_UP = 2.0  # seconds


def add(port: int, topic: str, count: int) -> None:
    """Say everything at once, and leave when everything is confirmed; the time goes to standard output."""
    wishes = b"".join(
        frame.encode(Subscription(SubscriptionId(number), topic, _where(number))) for number in range(1, count + 1)
    )
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.sendall(
            frame.PREAMBLE
            + frame.encode(Hello(name="adder", incarnation=Incarnation(1), window=1 << 20, heartbeat=3600.0))
        )
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        begin = time.monotonic()
        link.setblocking(False)
        tail, sent = b"", 0
        last = frame.encode(Receipt(SubscriptionId(count)))
        while last not in tail:
            try:
                sent += link.send(wishes[sent : sent + (1 << 16)])
            except BlockingIOError:
                time.sleep(0.002)
            try:
                tail = (tail + link.recv(1 << 20))[-2 * len(last) :]
            except BlockingIOError:
                time.sleep(0.002)
        sys.stdout.write(f"{time.monotonic() - begin}\n")
        sys.stdout.flush()
        sys.stdin.readline()


def _where(number: int) -> str:
    low = number * 7919 % 8000 / 100
    return f"symbol = 'SYM{number * 31 % 5000:05d}' AND price >= {low:.2f} AND price <= {low + 5:.2f}"


def _measure(count: int, seconds: float, rounds: int) -> dict[str, list[Figures]]:
    node = StentorNode()
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        work = Path(directory)
        node.prepare(work, install=False)
        generator = Generator(work)
        node.start(work / "node")
        stack.callback(node.stop)

        def latency(duration: float) -> Figures:
            return attempt(generator, Contestant(node), WORKLOADS["latency"], duration)

        latency(WARM_UP)
        phases: dict[str, list[Figures]] = {"before": [], "while": [], "after": []}
        for _ in range(rounds):
            command = [sys.executable, "-m", "benchmarks.subscribing", "--adder", f"{node.port}", "--count", f"{count}"]
            adder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert adder.stdin is not None
            assert adder.stdout is not None
            assert adder.stdout.readline() == "ready\n"
            phases["before"].append(latency(seconds))
            adder.stdin.write("go\n")
            adder.stdin.flush()
            phases["while"].append(latency(seconds))
            took = float(adder.stdout.readline())
            phases["while"][-1]["took"] = took
            phases["after"].append(latency(seconds))
            adder.communicate("done\n")
            time.sleep(3)  # the broker forgets them little by little
    return phases


def main(
    count: Annotated[int, typer.Option(min=1, help="Subscriptions to add.")] = 100_000,
    seconds: Annotated[float, typer.Option(min=0.5, help="Seconds of one measurement.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; figures are medians.")] = 3,
    adder: Annotated[int, typer.Option(hidden=True, help="Be the process that adds, at this port.")] = 0,
) -> None:
    """Latency before, while and after subscriptions are added to a running broker."""
    if adder:
        add(adder, StentorNode().topic(0), count)
        return
    phases = _measure(count, seconds, rounds)
    console = Console()
    table = Table("µs at 1,000 msg/s", "p50", "p99", "p99.9", "broker, cores", box=None, pad_edge=False)
    medians: dict[str, dict[str, float]] = {}
    for phase, samples in phases.items():
        names = ("p50", "p99", "p999", "cpu_cores")
        medians[phase] = {name: sorted(sample[name] for sample in samples)[len(samples) // 2] for name in names}
        shown = [f"{medians[phase][name]:,.0f}" for name in names[:3]]
        table.add_row(phase, *shown, f"{medians[phase]['cpu_cores']:.2f}")
    console.print(table)
    took = [sample["took"] for sample in phases["while"]]
    ratio = medians["while"]["p99"] / medians["before"]["p99"]
    verdict = "reached" if ratio < GOAL else "missed"
    console.print(f"{count:,} subscriptions in {sorted(took)[len(took) // 2]:.1f} s", highlight=False)
    console.print(f"p99 while / before = {ratio:.2f}, goal < {GOAL:g}: {verdict}", highlight=False)
    RESULTS.mkdir(exist_ok=True)
    out = {"count": count, "seconds": seconds, "phases": phases, "ratio": ratio, "goal": GOAL}
    (RESULTS / "subscribing.json").write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    typer.run(main)
