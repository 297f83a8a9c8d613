"""Flooding against content routing: events and bytes on the links between brokers, for the same events."""

import tempfile
from pathlib import Path
from random import Random

from benchmarks.network.lab import Guest, Lab
from stentor.bench import ges22
from stentor.config import Config, load
from stentor.model.attribute import Value

EVENTS = 1000
MATCH = 20  # one of so many: 5 %
BODY = bytes(250)
CAMPUS = Path(__file__).parents[2] / "examples" / "campus.toml"


def build(config: Config, forwarding: str) -> Lab:
    """All brokers of a file in the laboratory, those that are dialled first."""
    lab = Lab({str(node.name): config.numbers(node) for node in config.nodes})
    dials = {str(node.name): [each.name for each in config.dials(node)] for node in config.nodes}
    for name in reversed(_order(dials)):
        lab.start(name, dials[name], forwarding)
    lab.settle()
    return lab


def _order(dials: dict[str, list[str]]) -> list[str]:
    """Brokers so that each comes before those that it dials; a circle of dialling cannot be."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name not in seen:
            seen.add(name)
            for other in dials[name]:
                visit(other)
            order.append(name)

    for name in dials:
        visit(name)
    return order[::-1]


def _trial(config: Config, forwarding: str, common: bool) -> tuple[int, int]:
    """Events and bytes on links; all clients want the same events, or each others."""
    lab = build(config, forwarding)
    names = sorted(lab.brokers)
    publisher = lab.client(names[-1], "publisher")
    for number, name in enumerate(names[:-1]):
        lab.client(name, f"client-{number}").subscribe("ges/test", f"kind = 'test' AND tag = {0 if common else number}")
    lab.settle()
    dice = Random(1)
    _publish(lab, publisher, [{"kind": "test", "tag": -1, "weight": 0.5}])
    before = lab.links()
    for _ in range(EVENTS):
        row: dict[str, Value] = {"kind": "test", "tag": dice.randrange(MATCH), "weight": 0.5}
        _publish(lab, publisher, [row])
    after = lab.links()
    return after[0] - before[0], after[1] - before[1]


def _publish(lab: Lab, publisher: Guest, rows: list[dict[str, Value]]) -> None:
    publisher.publish("ges/test", rows, BODY)
    lab.settle()


def measure() -> list[dict[str, float | str]]:
    """For each network: how much less content routing sends."""
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as folder:
        networks = {"campus, 9": load(CAMPUS), "22 brokers": ges22.network(Path(folder), connected=False)}
        for name, config in networks.items():
            for common in (True, False):
                flooded, routed = (_trial(config, policy, common) for policy in ("flooding", "content"))
                rows.append(
                    {
                        "network": name,
                        "wanted": "the same 5 %" if common else "5 % of its own",
                        "flooding_events": flooded[0],
                        "content_events": routed[0],
                        "flooding_bytes": flooded[1],
                        "content_bytes": routed[1],
                        "events_ratio": flooded[0] / max(1, routed[0]),
                        "bytes_ratio": flooded[1] / max(1, routed[1]),
                    }
                )
    return rows
