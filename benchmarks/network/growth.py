"""How a network grows: profiles by level, what a broker that joins makes others say, what a broker holds."""

from collections.abc import Sequence
from itertools import product
from random import Random

from benchmarks.network.lab import Lab
from stentor.planning.network import PlannedNetwork

PROFILE_SIZES = (3, 3, 2, 2)  # members of the units of each level, the lowest first: 36 brokers
SUBSCRIPTIONS = (100, 1_000, 10_000)
JOIN_SIZES = (10, 10, 10)
GRAPH_SIZES = (10, 10, 10, 10)
_TOPICS, _SYMBOLS = 40, 100
_ABOUT_THE_NETWORK = ("Presence", "ProfileChange", "Inventory", "Digest")


def name(digits: Sequence[int]) -> str:
    """Two digits each, so that names sort as numbers do."""
    return "/".join(f"{digit:02d}" for digit in digits)


def grow(sizes: Sequence[int], leave_out: Sequence[int] = ()) -> Lab:
    """Meshes of meshes: the members of every unit are all linked, units by their first brokers in turn."""
    brokers = list(product(*(range(size) for size in sizes[::-1])))
    lab = Lab({name(broker): tuple(broker) for broker in brokers})
    for broker in brokers:
        if broker != tuple(leave_out):
            lab.start(name(broker), [name(other) for other in dials(broker)])
        if broker[-1] == sizes[0] - 1:
            lab.settle()  # a cluster at a time: its first words are said once
    lab.settle()
    return lab


def dials(broker: Sequence[int]) -> list[tuple[int, ...]]:
    """The links that a broker opens: to those before it in its cluster, and for each unit that it is the first of."""
    found = [(*broker[:-1], earlier) for earlier in range(broker[-1])]
    for depth in range(len(broker) - 2, -1, -1):
        if any(broker[depth + 1 :]):
            break
        found += [(*broker[:depth], earlier, *broker[depth + 1 :]) for earlier in range(broker[depth])]
    return found


def subscription(dice: Random) -> tuple[str, str]:
    """What clients ask for: few topics and symbols are asked for often, and limits are round numbers."""
    topic = f"market/{min(int(dice.paretovariate(0.9)), _TOPICS)}"
    symbol = min(int(dice.paretovariate(0.8)), _SYMBOLS)
    match dice.randrange(4):
        case 0:
            return topic, ""
        case 1:
            return topic, f"symbol = 'S{symbol}'"
        case 2:
            return topic, f"symbol = 'S{symbol}' AND price < {10 * dice.randrange(1, 11)}"
        case _:
            low = 10 * dice.randrange(10)
            return topic, f"price >= {low} AND price < {low + 10 * dice.randrange(1, 6)}"


def profiles() -> list[dict[str, float]]:
    """Wants of a member on average, by level, against the predicates of clients behind it, and distinct ones."""
    rows = []
    for count in SUBSCRIPTIONS:
        dice = Random(count)
        lab = grow(PROFILE_SIZES)
        names = sorted(lab.brokers)
        clients = {each: lab.client(each, f"client-{each}") for each in names}
        subscriptions = []
        for _ in range(count):
            where, (topic, text) = dice.choice(names), subscription(dice)
            subscriptions.append((where, topic, text))
            clients[where].subscribe(topic, text)
            lab.settle()
        seen = lab.brokers[names[0]].view()
        for scope in seen.scopes:
            inside = [[each for each in subscriptions if each[0].startswith(member.unit)] for member in scope.members]
            size = len(scope.members)
            rows.append(
                {
                    "subscriptions": count,
                    "level": scope.level,
                    "predicates": sum(map(len, inside)) / size,
                    "distinct": sum(len({each[1:] for each in some}) for some in inside) / size,
                    "wants": sum(member.wants for member in scope.members) / size,
                }
            )
    return rows


def joining() -> dict[str, float]:
    """Messages that brokers hear because the thousandth joins, in its cluster and outside."""
    last = tuple(size - 1 for size in JOIN_SIZES[::-1])
    lab = grow(JOIN_SIZES, leave_out=last)
    lab.settle()
    lab.heard.clear()
    newcomer = name(last)
    lab.start(newcomer, [name(other) for other in dials(last)])
    lab.settle()
    others = [broker for broker in lab.brokers if broker != newcomer]
    heard = {broker: sum(lab.heard[broker, kind] for kind in _ABOUT_THE_NETWORK) for broker in others}
    cluster = newcomer.rpartition("/")[0]
    inside = [count for broker, count in heard.items() if broker.startswith(cluster)]
    outside = [count for broker, count in heard.items() if not broker.startswith(cluster)]
    return {
        "brokers": len(lab.brokers),
        "inside": sum(inside) / len(inside),
        "inside_most": max(inside),
        "outside": sum(outside) / len(outside),
        "outside_most": max(outside),
        "outside_reached": sum(map(bool, outside)),
        "newcomer": sum(lab.heard[newcomer, kind] for kind in _ABOUT_THE_NETWORK),
        "graph_nodes": sum(map(len, lab.brokers[newcomer].network.gateways.graph.members)),
    }


def holding() -> dict[str, float]:
    """What a broker of 10,000 holds of the others."""
    network = PlannedNetwork(GRAPH_SIZES, "mesh", 0, 1)
    graph = network.graph_of(network.broker(0))
    return {
        "brokers": network.brokers,
        "levels": network.depth,
        "nodes": sum(map(len, graph.members)),
        "edges": sum(1 for _ in graph.cache.edges()),
    }
