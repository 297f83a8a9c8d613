"""What it costs to know that every broker knows a subscription: messages in the laboratory, time with processes."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.network.lab import Lab
from stentor.cli.bench import running
from stentor.client.fabric import connect
from stentor.config import parse
from stentor.model.messages import SettlementRequest

SHAPES: dict[str, tuple[int, Callable[[int], range]]] = {  # brokers, and whom each of them dials
    "chain": (3, lambda number: range(max(number - 1, 0), number)),
    "mesh": (8, range),
}
SUBSCRIPTIONS = 30
_KINDS = ("ProfileChange", "MarkReceipt")
_WITHIN = 30.0


def count_messages(shape: str) -> dict[str, float]:
    """How many messages brokers send each other from a client's question to the end, by kind."""
    brokers, dials = SHAPES[shape]
    lab = Lab({f"b{number}": (number,) for number in range(brokers)})
    for number in range(brokers):
        lab.start(f"b{number}", [f"b{other}" for other in dials(number)])
        lab.settle()
    guest = lab.client("b0", "client")
    guest.subscribe("t", "n > 1")
    lab.settle()
    lab.heard.clear()
    guest.say(SettlementRequest(1, 10.0))
    lab.settle()
    return {kind: sum(count for (_, each), count in lab.heard.items() if each == kind) for kind in _KINDS}


async def _time(shape: str, folder: Path) -> list[float]:
    """Seconds that each of some subscriptions took, with a process for each broker."""
    brokers, dials = SHAPES[shape]
    lines = ["[fabric]", 'data = "."', 'log = "error"']
    for number in range(brokers):
        lines += ["[[node]]", f'name = "a/b{number}"', 'listen = "127.0.0.1:0"', 'http = ""']
    for number in range(brokers):
        for other in dials(number):
            lines += ["[[link]]", f'between = ["a/b{number}", "a/b{other}"]']
    config = parse("\n".join(lines), str(folder / "settling.toml"))
    launch = running(lambda text: None, lambda node: None)  # noqa: ARG005
    taken = []
    async with launch(config) as urls, connect(urls["a/b0"], wait=_WITHIN) as fabric:
        for number in range(SUBSCRIPTIONS):
            async with fabric.subscribe(f"t/{number}", where="n > 1") as events:
                begin = time.perf_counter()
                settled = await events.settled(_WITHIN)
                if settled.brokers == brokers:  # the first ones may be asked before all are linked
                    taken.append(time.perf_counter() - begin)
    return taken


def measure() -> list[dict[str, float | str]]:
    rows: list[dict[str, float | str]] = []
    for shape, (brokers, _) in SHAPES.items():
        counted = count_messages(shape)
        with tempfile.TemporaryDirectory() as folder:
            taken = asyncio.run(_time(shape, Path(folder)))
        rows.append(
            {
                "network": f"{shape} of {brokers}",
                "changes": counted["ProfileChange"],
                "receipts": counted["MarkReceipt"],
                "median_ms": 1000 * statistics.median(taken),
                "most_ms": 1000 * max(taken),
            }
        )
    return rows
