"""Scopes whose events are to go by their trees: which they are in a seed, and whether events do."""

from collections.abc import Iterable, Mapping
from random import Random

from stentor.nodes.broker.broker import Broker


def draw_forwarding(seed: int, scopes: Iterable[str]) -> dict[str, str]:
    """Return a policy for each scope: in half of the seeds some or all go by their trees."""
    random = Random(f"{seed}/forwarding")  # of its own, so that it changes nothing else of a seed
    share = random.choice((0.0, 0.0, 0.5, 1.0))
    return {scope: "coloured" if random.random() < share else "content" for scope in scopes}


def detours(brokers: Mapping[str, Broker]) -> dict[tuple[str, str], int]:
    """Return how many members of a scope a broker reaches off the scope's tree, by broker and scope."""
    return {
        (name, scope): view.detours
        for name, broker in brokers.items()
        for scope, view in broker.network.colouring.views().items()
        if view.detours
    }
