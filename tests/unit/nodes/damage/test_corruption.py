"""MemoryPart to links: whatever it does to queues and credit, two brokers notice, and their next link is sound."""

from random import Random

import pytest
from tests.unit.nodes.network.desk import HALL, Desk

from stentor.machine import SECOND
from stentor.model.colours.memory_part import MemoryPart
from stentor.nodes.damage.corruption import Corruption
from stentor.protocols.connection.connection import Connection

COUNTERS = ("position", "sent", "limit")


def damaged(part: MemoryPart, seed: int) -> tuple[Connection, Connection]:
    """A link to a neighbour for which events wait, and the same link undamaged."""
    links = []
    for is_damaged in (False, True):
        desk = Desk()
        connection = desk.link(HALL, 1000).connection
        for _ in range(5):
            connection.carry(bytes(100), 1)
        connection.outbox.release()
        assert connection.outbox.queued == 500
        if is_damaged:
            Corruption(desk.network, (), Random(seed)).scramble([part])
        links.append(connection)
    return links[1], links[0]


@pytest.mark.parametrize("seed", range(30))
def test_queues_that_are_damaged_are_sent_and_counted_all_the_same(seed: int) -> None:
    link, _ = damaged(MemoryPart.QUEUES, seed)
    link.outbox.grant(200)
    link.carry(bytes(100), 1)
    link.outbox.release()
    link.beat(100 * SECOND)
    assert link.outbox.queued == sum(len(run.frames) for run in link.outbox._waiting)


def test_some_seed_damages_every_counter_of_a_link() -> None:
    found = set()
    for seed in range(50):
        for part in (MemoryPart.QUEUES, MemoryPart.CREDIT):
            link, sound = damaged(part, seed)
            found |= {name for name in COUNTERS if getattr(link.outbox, name) != getattr(sound.outbox, name)}
            found |= {name for name in ("received", "taken", "_granted") if getattr(link, name) != getattr(sound, name)}
            found |= {"waiting"} if len(link.outbox._waiting) != len(sound.outbox._waiting) else set()
    assert found == {*COUNTERS, "received", "taken", "_granted", "waiting"}


@pytest.mark.parametrize("seed", range(30))
def test_heartbeats_go_on_whatever_becomes_of_their_times(seed: int) -> None:
    link, _ = damaged(MemoryPart.TIMERS, seed)
    link.silent(SECOND)
    assert link.beat(11 * SECOND)
    assert link.silent(100 * SECOND)
