"""Host choice: where a newcomer is better off than at a broker that has enough to do."""

from collections.abc import Iterable
from typing import NamedTuple


class Load(NamedTuple):
    """A broker of a cluster, and how many clients it serves."""

    name: str
    clients: int


def find_host(limit: int, own: int, near: Iterable[Load]) -> str | None:
    """Return a near broker that has less to do than the limit, for a newcomer of one that has more; None to keep it."""
    if own <= limit:
        return None
    little = [each for each in near if each.clients < limit]
    return min(little, key=lambda each: (each.clients, each.name)).name if little else None
