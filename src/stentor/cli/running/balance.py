"""Balance: how many clients of which broker of a cluster go to which other one.

A broker that has more than its share gives half of the excess to those that have less, and never more than they have
room for. So whoever gives stays above its share and whoever takes stays below it, nobody gives what it was given, and
what is left to move halves with every check.
"""

from collections.abc import Sequence
from typing import NamedTuple

from stentor.policies.host_choice import Load

_TOLERANCE = 10  # a tenth above its share a broker keeps its clients: a move costs more than that much unevenness


class Move(NamedTuple):
    """So many clients go from one broker to another."""

    origin: str
    target: str
    clients: int


def balance(limit: int, brokers: Sequence[Load]) -> list[Move]:
    """Return who gives how many to whom; `limit` is how many clients a broker may have before that matters."""
    if len(brokers) < 2:
        return []
    share = max(limit, -(-sum(each.clients for each in brokers) // len(brokers)))
    room = {each.name: share - each.clients for each in brokers if each.clients < share}
    moves = []
    for each in sorted(brokers, key=lambda each: (-each.clients, each.name)):
        excess = each.clients - share
        if excess <= share // _TOLERANCE:
            break
        left = -(-excess // 2)
        for target in sorted(room, key=lambda name: (-room[name], name)):
            count = min(left, room[target])
            if count > 0:
                moves.append(Move(each.name, target, count))
                room[target] -= count
                left -= count
    return moves
