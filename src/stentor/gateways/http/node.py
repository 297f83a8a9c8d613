"""A node as its HTTP server sees it."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric


@dataclass(frozen=True)
class ServedNode:
    """What a node shows; all of it is asked for when somebody looks."""

    name: str
    role: str
    status: Callable[[], object]  # becomes the JSON of /status
    waits_for: Callable[[], list[str]]  # sentences that say why it is not ready; none if it is
    metrics: Callable[[], Iterable[Metric]]
    directory: Path | None  # that holds its data; None if this is not on a disk of this machine


def free_space(nodes: Iterable[ServedNode]) -> Iterator[Metric]:
    """Return the space that is left for the data of each node; a directory that cannot be looked at has no sample."""
    free = GaugeMetricFamily(
        "stentor_disk_free_bytes", "Bytes that are free on the disk that holds the node's data.", labels=["role"]
    )
    for node in nodes:
        if node.directory is not None:
            try:
                free.add_metric([node.role], shutil.disk_usage(_existing(node.directory)).free)
            except OSError:
                continue
    yield free


def _existing(directory: Path) -> Path:
    """Return the directory, or the nearest one around it that there is: a ledger makes its own when it is opened."""
    return next(each for each in (directory.absolute(), *directory.absolute().parents) if each.exists())
