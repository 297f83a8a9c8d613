"""What colours cost a broker that has nothing to heal: the real machines in one process, in a time that is counted."""

import gc
import sys
import time
from itertools import product
from random import Random

from benchmarks.network.growth import grow, name, subscription
from benchmarks.network.lab import Lab
from stentor.model.colours.colour import COLOURS
from stentor.model.colours.wave_messages import Ack, Rotate
from stentor.model.limits import Limits
from stentor.wire import frame

SUBSCRIPTIONS = 100_000
_CLIENTS = 100
_ATTRIBUTES = 1000  # so that filters differ as much as those of so many clients would
_CLUSTER, _UNITS = 16, 4  # members of a cluster, and clusters
_STEP = 0.25  # seconds in which nothing but a timer happens
_SETTLING = 15.0  # seconds until everybody has been told of all subscriptions
_AUDITED = 300.0  # seconds of counted time


def audit() -> dict[str, float]:
    """The share of a core that a broker with many subscriptions takes while nothing happens, and one without any."""
    return {
        "subscriptions": SUBSCRIPTIONS,
        "share": _idle(SUBSCRIPTIONS),
        "share_without": _idle(0),
    }


def _idle(count: int) -> float:
    """Return the processor time of two brokers, for a second of which one has so many subscriptions."""
    dice = Random(count)
    lab = Lab({name((number,)): (number,) for number in range(2)}, Limits())
    lab.start(name((0,)), [])
    lab.start(name((1,)), [name((0,))])
    lab.settle()
    guests = [lab.client(name((0,)), f"client-{number}") for number in range(_CLIENTS)]
    for number in range(count):
        topic, where = subscription(dice)
        where += f"{' AND ' if where else ''}user = {dice.randrange(_ATTRIBUTES)}"
        guests[number % _CLIENTS].subscribe(topic, where)
    lab.settle()
    _pass(lab, _SETTLING)
    gc.collect()
    begin = time.process_time()
    _pass(lab, _AUDITED)
    taken = time.process_time() - begin
    found = lab.brokers[name((0,))].status(lab.now).subscriptions
    assert found == count, f"{found} subscriptions of {count} are in force"
    return taken / _AUDITED


def _pass(lab: Lab, seconds: float) -> None:
    for _ in range(int(seconds / _STEP)):
        lab.pass_time(_STEP)


def memory() -> dict[str, float]:
    """The bytes of a broker's tables for parcels of one colour, and of all of them."""
    lab = grow((_CLUSTER, _UNITS))
    tables = lab.brokers[name((0, 0))].network.relay._tables
    depth = len(tables.current)
    tables.states(tables.current)
    one = _size(tables)
    for colours in product(range(COLOURS), repeat=depth):
        tables.states(colours)
    return {"brokers": len(lab.brokers), "one_colour": one, "all_colours": _size(tables)}


def _size(root: object) -> int:
    """Return the bytes of what can be reached from an object and is not the index of what members want."""
    seen: set[int] = set()
    todo, size = [state for states in root._states.values() for state in states], 0  # type: ignore[attr-defined]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type) or type(each).__name__ == "InterestIndex":
            continue
        seen.add(id(each))
        size += sys.getsizeof(each)
        todo += gc.get_referents(each)
    return size


def waves() -> dict[str, float]:
    """The bytes of a wave message and its answer if nothing has changed, with long names."""
    broker = "continent/country/campus/broker-17"
    scope = broker.rpartition("/")[0]
    rotate = Rotate(scope=scope, round=2**40, root=broker, rank=4095, depth=3, manifest=2**63)
    answer = Ack(scope=scope, round=2**40, is_complete=True, brokers=64, height=5, confirmed=2**64 - 1, free=broker)
    return {"rotate_bytes": len(frame.encode(rotate)), "ack_bytes": len(frame.encode(answer))}
