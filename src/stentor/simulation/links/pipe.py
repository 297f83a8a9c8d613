"""One direction of a stream: bytes arrive in order, late, cut and merged; a broken middlebox may damage them."""

from collections import Counter, deque
from collections.abc import Callable
from random import Random

from stentor.simulation.faults import LinkFaults
from stentor.simulation.schedule import Appointment, Schedule


class PipeFaults:
    """The faults that all pipes share; they can change while bytes are under way."""

    __slots__ = ("faults", "random", "seen")

    def __init__(self, random: Random, weather: LinkFaults) -> None:
        self.random = random
        self.faults = weather
        self.seen: Counter[str] = Counter()

    def delay(self) -> int:
        faults = self.faults
        return faults.shortest_delay + int(self.random.expovariate(1.0) * faults.mean_delay)

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability


class Pipe:
    """Calls `receive` with chunks and `end` once, after the last byte before `finish`."""

    __slots__ = (
        "_dead",
        "_due",
        "_end",
        "_faults",
        "_last",
        "_queue",
        "_receive",
        "_schedule",
        "_stalled",
        "in_flight",
    )

    def __init__(
        self,
        schedule: Schedule,
        faults: PipeFaults,
        receive: Callable[[bytes], None],
        end: Callable[[str], None],
        not_before: int = 0,
    ) -> None:
        self._schedule = schedule
        self._faults = faults
        self._receive = receive
        self._end = end
        self._queue: deque[tuple[int, bytes | str]] = deque()  # arrival, and bytes or the reason of the end
        self._last = not_before
        self._due: Appointment | None = None
        self._stalled = self._dead = False
        self.in_flight = 0

    def send(self, data: bytes) -> None:
        if self._dead or not data:
            return
        faults = self._faults
        if len(data) > 1 and faults.chance(faults.faults.cut):
            cut = faults.random.randrange(1, len(data))
            pieces = [data[:cut], data[cut:]]
        else:
            pieces = [data]
        if faults.chance(faults.faults.damage):
            pieces = self._damage(pieces)
        for piece in pieces:
            merged = bool(self._queue) and faults.chance(faults.faults.merge)
            self._put(self._last if merged else self._arrival(), piece)

    def finish(self, reason: str) -> None:
        """The sender ended the stream: its end arrives behind what was sent."""
        if not self._dead:
            self._put(self._arrival(), reason)

    def cut(self) -> None:
        """Whatever is under way is lost, and nothing arrives any more."""
        self._dead = True
        self._queue.clear()
        self.in_flight = 0
        if self._due is not None:
            self._due.cancel()

    def stall(self) -> None:
        """Nothing arrives until `resume`, and nothing is lost."""
        self._stalled = True

    def resume(self) -> None:
        self._stalled = False
        self._plan()

    def _arrival(self) -> int:
        self._last = max(self._last, self._schedule.now + self._faults.delay())
        return self._last

    def _put(self, arrival: int, item: bytes | str) -> None:
        self._queue.append((arrival, item))
        if isinstance(item, bytes):
            self.in_flight += len(item)
        self._plan()

    def _plan(self) -> None:
        if self._due is None and self._queue and not self._stalled:
            self._due = self._schedule.at(self._queue[0][0], self._arrive)

    def _arrive(self) -> None:
        self._due = None
        if self._stalled:
            return
        chunk, end = self._gather()
        if chunk:
            self.in_flight -= len(chunk)
            self._receive(chunk)
        if end is not None and not self._dead:
            self._dead = True
            self._end(end)
        self._plan()

    def _gather(self) -> tuple[bytes, str | None]:
        """Everything that has arrived by now, in one chunk."""
        now = self._schedule.now
        parts: list[bytes] = []
        while self._queue and self._queue[0][0] <= now:
            _, item = self._queue.popleft()
            if isinstance(item, str):
                return b"".join(parts), item
            parts.append(item)
        return b"".join(parts), None

    def _damage(self, pieces: list[bytes]) -> list[bytes]:
        """What a broken middlebox makes of one write."""
        faults = self._faults
        kind = faults.random.choice(faults.faults.damages)
        faults.seen[f"{kind}-bytes"] += 1
        victim = faults.random.randrange(len(pieces))
        if kind == "lost":
            return pieces[:victim] + pieces[victim + 1 :]
        if kind == "repeated":
            return pieces[: victim + 1] + pieces[victim:]
        if kind == "flipped":
            return [_flip(piece, faults.random) if at == victim else piece for at, piece in enumerate(pieces)]
        if len(pieces) > 1:
            return pieces[::-1]
        overtaken = self._take_back()
        return pieces if overtaken is None else [*pieces, overtaken]

    def _take_back(self) -> bytes | None:
        """The last piece before this one, if it has not arrived yet."""
        if len(self._queue) < 2 or not isinstance(self._queue[-1][1], bytes):
            return None  # the first one in the queue has its appointment already
        piece = self._queue.pop()[1]
        assert isinstance(piece, bytes)
        self.in_flight -= len(piece)
        return piece


def _flip(piece: bytes, random: Random) -> bytes:
    """One bit of it changed."""
    at = random.randrange(len(piece))
    return piece[:at] + bytes([piece[at] ^ 1 << random.randrange(8)]) + piece[at + 1 :]
