"""One direction of a stream."""

from random import Random

from stentor.machine import SECOND
from stentor.simulation.faults import LinkFaults
from stentor.simulation.links.pipe import Pipe, PipeFaults
from stentor.simulation.schedule import Schedule

WRITES = [bytes([number]) * (number % 40 + 1) for number in range(200)]


class Listener:
    def __init__(self, seed: int, weather: LinkFaults) -> None:
        self.schedule = Schedule()
        self.faults = PipeFaults(Random(seed), weather)
        self.chunks: list[bytes] = []
        self.ends: list[str] = []
        self.pipe = Pipe(self.schedule, self.faults, self.chunks.append, self.ends.append)

    def feed(self) -> bytes:
        for write in WRITES:
            self.pipe.send(write)
            self.schedule.run(self.schedule.now + 1000)
        self.schedule.run(self.schedule.now + SECOND)
        return b"".join(self.chunks)


def test_bytes_arrive_in_order_cut_and_merged() -> None:
    listener = Listener(1, LinkFaults())
    assert listener.feed() == b"".join(WRITES)
    assert set(listener.chunks) - set(WRITES), "other chunks than were written"
    assert listener.pipe.in_flight == 0


def test_the_end_comes_behind_the_last_byte_and_once() -> None:
    listener = Listener(2, LinkFaults())
    listener.pipe.send(b"last words")
    listener.pipe.finish("over")
    listener.schedule.run(SECOND)
    assert (b"".join(listener.chunks), listener.ends) == (b"last words", ["over"])


def test_a_cut_loses_what_is_under_way_and_a_stall_does_not() -> None:
    listener = Listener(3, LinkFaults())
    listener.pipe.send(b"held")
    listener.pipe.stall()
    listener.schedule.run(SECOND)
    assert listener.chunks == []
    listener.pipe.resume()
    listener.schedule.run(2 * SECOND)
    assert b"".join(listener.chunks) == b"held"
    listener.pipe.send(b"lost")
    listener.pipe.cut()
    listener.pipe.send(b"ignored")
    listener.pipe.finish("ignored")
    listener.schedule.run(3 * SECOND)
    assert (b"".join(listener.chunks), listener.ends) == (b"held", [])


def test_damage_loses_repeats_swaps_and_flips() -> None:
    seen: set[str] = set()
    lengths = set()
    for seed in range(10):
        listener = Listener(seed, LinkFaults(damage=0.1))
        received = listener.feed()
        assert received != b"".join(WRITES)
        lengths.add(len(received) - sum(map(len, WRITES)))
        seen.update(listener.faults.seen)
        assert listener.pipe.in_flight == 0
    assert seen == {"lost-bytes", "repeated-bytes", "swapped-bytes", "flipped-bytes"}
    assert min(lengths) < 0 < max(lengths)
