"""Scaling rules: when a cluster gets another broker, when one that was started by load goes again, and who is purged.

Clients are asked to move to a broker that was started for them, and away from one that is not needed any more: see
`balance`.
"""

from collections.abc import Mapping, Sequence

import msgspec

from stentor.cli.running.balance import Move, balance
from stentor.policies.host_choice import Load

MISSES = 3  # checks in a row that a broker may leave unanswered
CALM = 6  # checks in a row with few clients before a broker goes


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator wants; clients are counted on average in a cluster."""

    clients_per_broker: int
    most_brokers: int
    purge_slow: bool


class Seen(msgspec.Struct, frozen=True):
    """A broker at a check."""

    name: str
    clients: int | None  # None if it did not answer
    started: bool = False  # by load; those of the file never leave
    away: bool = False  # it died and is being started again, which is no fault of slowness


class History(msgspec.Struct, frozen=True):
    """What earlier checks told."""

    missed: dict[str, int] = {}  # checks in a row that a broker did not answer
    calm: dict[str, int] = {}  # checks in a row with few clients in a cluster


class Start(msgspec.Struct, frozen=True):
    """Another broker for a cluster."""

    cluster: str


class Leave(msgspec.Struct, frozen=True):
    """A broker that is not needed any more."""

    name: str


class Purge(msgspec.Struct, frozen=True):
    """A broker that does not answer."""

    name: str


Action = Start | Leave | Purge | Move


def decide(rules: Rules, history: History, seen: Mapping[str, Sequence[Seen]]) -> tuple[History, list[Action]]:
    """What to do after a check of all clusters, and what to remember for the next one."""
    missed: dict[str, int] = {}
    calm: dict[str, int] = {}
    actions: list[Action] = []
    for cluster, brokers in seen.items():
        answers = [each for each in brokers if each.clients is not None]
        for each in brokers:
            if each.clients is None and not each.away:
                missed[each.name] = history.missed.get(each.name, 0) + 1
        slow = [each.name for each in brokers if missed.get(each.name, 0) >= MISSES]
        if rules.purge_slow and answers:  # where nobody answers, the last one would go
            actions += [Purge(name) for name in slow]
            for name in slow:
                del missed[name]
        else:
            slow = []
        if not answers:
            continue
        average = sum(each.clients or 0 for each in answers) / len(answers)
        if average > rules.clients_per_broker:
            if len(brokers) - len(slow) < rules.most_brokers:
                actions.append(Start(cluster))
        elif average < rules.clients_per_broker / 2:
            calm[cluster] = history.calm.get(cluster, 0) + 1
            started = [Load(each.name, each.clients or 0) for each in answers if each.started]
            if calm[cluster] >= CALM and started and len(answers) > 1:
                actions.append(_let_go(started, answers))
                if isinstance(actions[-1], Leave):
                    del calm[cluster]
                continue
        actions += balance(rules.clients_per_broker, [Load(each.name, each.clients or 0) for each in answers])
    return History(missed, calm), actions


def _let_go(started: Sequence[Load], answers: Sequence[Seen]) -> Leave | Move:
    """A broker that is not needed leaves, once its last clients have gone to another one."""
    idle = [each.name for each in started if not each.clients]
    if idle:
        return Leave(max(idle))
    last = min(started, key=lambda each: (each.clients, each.name))
    others = [each for each in answers if each.name != last.name]
    return Move(last.name, min(others, key=lambda each: (each.clients or 0, each.name)).name, last.clients)
