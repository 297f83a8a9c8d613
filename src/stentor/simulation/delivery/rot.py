"""Bit rot: damage to a disk that no power cut explains."""

from collections.abc import Sequence
from random import Random

from stentor.simulation.disk import SimulatedDisk

_MOST_TRIED = 8  # of the newest bodies rot: not everybody has these yet


def rot_anything(disk: SimulatedDisk, random: Random) -> bool:
    """Flip some bits of what is durable; return whether there is anything."""
    names = [name for name in disk.names() if disk.open(name).size()]
    if not names:
        return False
    file = disk.open(random.choice(names))
    used = file.durable
    if not used:
        return False
    for _ in range(random.randint(1, 4)):
        file.rot(random.randrange(used))
    return True


def rot_body(disk: SimulatedDisk, random: Random, bodies: Sequence[bytes]) -> bool:
    """Flip a bit of a stored body: what is left of its record tells what was there. Return whether one was found. What
    was synced last is spared: no ledger can tell it from what a power cut has torn (decision 19).
    """
    newest = bodies[-_MOST_TRIED:]
    for body in random.sample(newest, len(newest)):
        for name in disk.names():
            file = disk.open(name)
            at = file.synced.find(body)
            if body and 0 <= at < file.newest:
                file.rot(at + random.randrange(len(body)))
                return True
    return False
