"""The publisher and the measuring subscriber, on one clock, in one process where nothing else goes on.

{"publisher": "stentor://…", "subscriber": "stentor://…", "folder": "…"}   is answered by   {"repository": "r1"}
{"type": "delays", "size": 8000, "runs": 50, "pause": 0.01}                by the delays of each event
{"type": "flood", "size": 8000, "seconds": 3, "reliable": true}            by what came through
{"type": "burst", "size": 8000, "events": 1000}                            when all of it is stored
"""

import asyncio
import gc
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from struct import Struct

import msgspec
import uvloop

from stentor.bench.lines import WorkerFailed, read_lines, say
from stentor.bench.narada.topologies import PLAIN, PUBLISHER, RELIABLE, SUBSCRIBER
from stentor.client.event import Batch
from stentor.client.fabric import Fabric, connect
from stentor.client.reliable_publisher import Publisher

_STAMP = Struct("<q")  # when it was published
_ARRIVES_WITHIN = 20.0
_STORED_WITHIN = 60.0
_WARM_UP = 20  # events of each kind that are not counted
RAMP = 0.5  # seconds of a flood that are not counted
_TURN = 64 << 10  # bytes published before the event loop gets a turn
_SILENCE = 1.0  # seconds without an event after which a flood is over
_ROOM = 4 << 20  # bytes of the file that is synced


class PairPlaces(msgspec.Struct):
    """The brokers of publisher and subscriber, and the disk on which a sync is timed."""

    publisher: str
    subscriber: str
    folder: str


class PairReady(msgspec.Struct):
    repository: str  # that steers the publisher


class DelayTrial(msgspec.Struct, tag="delays"):
    """So many events of each kind, each sent a pause after the one before has arrived."""

    size: int
    runs: int
    pause: float


class Delays(msgspec.Struct):
    """In ms, in the order of the runs: best effort, reliable, and an fdatasync of as many bytes."""

    plain: list[float]
    reliable: list[float]
    sync: list[float]


class FloodTrial(msgspec.Struct, tag="flood"):
    """Events one after the other, as fast as it goes."""

    size: int
    seconds: float
    reliable: bool


class Flood(msgspec.Struct):
    """What came to the measuring subscriber while it flowed."""

    published: int
    received: int
    rate: float  # events/s


class BurstTrial(msgspec.Struct, tag="burst"):
    """So many events, reliably."""

    size: int
    events: int


class StoredBurst(msgspec.Struct):
    seconds: float
    copies: int


class Ear:
    """The measuring subscriber's side of one topic."""

    def __init__(self) -> None:
        self.received = 0
        self.taken = 0  # ns, of the last event
        self._arrived = asyncio.Event()

    async def listen(self, batches: AsyncIterator[Batch]) -> None:
        async for batch in batches:
            now = time.perf_counter_ns()
            self.received += len(batch)
            self.taken = now - int(_STAMP.unpack_from(batch.bodies[-1])[0])
            self._arrived.set()

    async def next(self, beyond: int) -> int:
        """The delay of the event after so many, in ns."""
        try:
            async with asyncio.timeout(_ARRIVES_WITHIN):
                while self.received <= beyond:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise WorkerFailed(f"an event did not arrive within {_ARRIVES_WITHIN:g} s") from None
        return self.taken


class Pair:
    """Publishes on both topics, and waits for what comes."""

    def __init__(self, fabric: Fabric, publisher: Publisher, folder: Path) -> None:
        self._fabric, self._publisher = fabric, publisher
        self.plain, self.reliable = Ear(), Ear()
        self._file = os.open(folder / "sync", os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(self._file, bytes(_ROOM), 0)
        os.fsync(self._file)
        self._at = 0

    async def delays(self, trial: DelayTrial) -> Delays:
        """One of each kind in turn, so that drift hits all of them alike."""
        found = Delays([], [], [])
        await self._warm_up(trial)
        gc.collect()
        gc.disable()  # its pauses would be ours, not the network's
        for _ in range(trial.runs):
            found.plain.append(await self._plain(trial) / 1e6)
            found.reliable.append(await self._reliable(trial) / 1e6)
            found.sync.append(self._sync(trial.size) / 1e6)
        gc.enable()
        return found

    async def _warm_up(self, trial: DelayTrial) -> None:
        """Best effort until something has come: then all routes are known."""
        while not self.plain.received:
            await self._fabric.publish(PLAIN, body(trial.size))
            await asyncio.sleep(0.1)
        for _ in range(_WARM_UP if self.reliable.received < _WARM_UP else 2):
            await self._plain(trial)
            await self._reliable(trial)

    async def _plain(self, trial: DelayTrial) -> int:
        await asyncio.sleep(trial.pause)
        before = self.plain.received
        await self._fabric.publish(PLAIN, body(trial.size))
        return await self.plain.next(before)

    async def _reliable(self, trial: DelayTrial) -> int:
        await asyncio.sleep(trial.pause)
        before = self.reliable.received
        self._publisher.send_nowait(body(trial.size))
        return await self.reliable.next(before)

    def _sync(self, size: int) -> int:
        """Write and sync, as one ledger does, over bytes that are there."""
        data = os.urandom(size)
        begin = time.perf_counter_ns()
        os.pwrite(self._file, data, self._at)
        os.fdatasync(self._file)
        self._at = (self._at + size) % (_ROOM - size)
        return time.perf_counter_ns() - begin

    async def flood(self, trial: FloodTrial) -> Flood:
        ear = self.reliable if trial.reliable else self.plain
        sending = asyncio.create_task(self._send(trial))
        await asyncio.sleep(RAMP)
        before, since = ear.received, time.perf_counter()
        published = await sending
        received, seconds = ear.received - before, time.perf_counter() - since
        if trial.reliable:
            await self._publisher.flush(_ARRIVES_WITHIN)
        else:
            await self._fabric.flush()
        count = -1
        while count != ear.received:  # what is still under way must not run into the next trial
            count = ear.received
            await asyncio.sleep(_SILENCE)
        return Flood(published, received, received / seconds)

    async def _send(self, trial: FloodTrial) -> int:
        turn = max(1, _TURN // trial.size)
        end = time.perf_counter() + RAMP + trial.seconds
        count = 0
        while time.perf_counter() < end:
            if trial.reliable:
                await self._publisher.room()
            for _ in range(turn):
                if trial.reliable:
                    self._publisher.send_nowait(body(trial.size))
                else:
                    await self._fabric.publish(PLAIN, body(trial.size))
            count += turn
            await asyncio.sleep(0)
        return count

    async def burst(self, trial: BurstTrial) -> StoredBurst:
        begin = time.perf_counter()
        for _ in range(trial.events):
            await self._publisher.room()
            self._publisher.send_nowait(body(trial.size))
        stored = await self._publisher.flush(_STORED_WITHIN)
        return StoredBurst(time.perf_counter() - begin, stored.copies)

    async def carry_out(self, trial: DelayTrial | FloodTrial | BurstTrial) -> Delays | Flood | StoredBurst:
        match trial:
            case DelayTrial():
                return await self.delays(trial)
            case FloodTrial():
                return await self.flood(trial)
            case BurstTrial():
                return await self.burst(trial)


def body(size: int) -> bytes:
    return _STAMP.pack(time.perf_counter_ns()) + bytes(max(0, size - _STAMP.size))


async def attend() -> None:
    lines = read_lines()
    posts = msgspec.json.decode(await anext(lines), type=PairPlaces)
    async with AsyncExitStack() as stack:
        near = await stack.enter_async_context(connect(posts.publisher, wait=30.0))
        far = await stack.enter_async_context(connect(posts.subscriber, wait=30.0))
        events = await stack.enter_async_context(far.subscribe(PLAIN))
        stored = await stack.enter_async_context(far.subscribe(RELIABLE, name=SUBSCRIBER))
        publisher = await stack.enter_async_context(near.publisher(RELIABLE, name=PUBLISHER))
        pair = Pair(near, publisher, Path(posts.folder))
        tasks = [
            asyncio.create_task(pair.plain.listen(events.batches())),
            asyncio.create_task(pair.reliable.listen(stored.batches())),
        ]
        say(PairReady(publisher.repository))
        async for line in lines:
            say(await pair.carry_out(msgspec.json.decode(line, type=DelayTrial | FloodTrial | BurstTrial)))
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    sys.exit(uvloop.run(attend()))
