"""A load on a network of real processes, by which everything is seen that is lost, doubled or out of order."""

import asyncio
from collections.abc import Sequence

from tests.end_to_end.command import Fabric, stentor

import stentor as library

_EACH = 20  # events of a publisher at a time


class Load:
    """Publishers at some brokers and subscribers at some; every event has a number, by which a gap is seen."""

    def __init__(self, up: Fabric, publishers: Sequence[str], subscribers: Sequence[str], pause: float = 0.01) -> None:
        """A broker that is named several times has as many subscribers; publishers rest for `pause` seconds."""
        self._up = up
        self._publishers = publishers
        self._subscribers = subscribers
        self._pause = pause
        self.sent = dict.fromkeys(publishers, 0)
        self.got: list[dict[str, list[int]]] = [{} for _ in subscribers]
        self._is_over = False

    async def run(self, *commands: tuple[str, ...]) -> list[str]:
        """Publish while commands run one after the other; return what they print. Without any, publish for a second."""
        async with asyncio.TaskGroup() as group:
            ready = [asyncio.Event() for _ in self._subscribers]
            for name, got, event in zip(self._subscribers, self.got, ready, strict=True):
                group.create_task(self._subscribe(name, got, event))
            await asyncio.gather(*(event.wait() for event in ready))
            for name in self._publishers:
                group.create_task(self._publish(name))
            printed = []
            for command in commands:
                await asyncio.sleep(0.5)
                done = await asyncio.to_thread(stentor, *command, "--url", self._up.url(self._publishers[0]))
                assert done.returncode == 0, (command, done.stdout, done.stderr)
                printed.append(done.stdout)
            await asyncio.sleep(0.5 if commands else 1.0)
            self._is_over = True
        return printed

    async def _publish(self, name: str) -> None:
        async with library.connect(self._up.url(name)) as fabric:
            while not self._is_over:
                for _ in range(_EACH):
                    await fabric.publish(f"load/{name}", str(self.sent[name]).encode())
                    self.sent[name] += 1
                await asyncio.sleep(self._pause)
            await fabric.publish(f"load/{name}", b"end")
            await fabric.flush()

    async def _subscribe(self, name: str, got: dict[str, list[int]], ready: asyncio.Event) -> None:
        ended = 0
        async with library.connect(self._up.url(name)) as fabric, fabric.subscribe("load/#") as events:
            await events.settled()
            ready.set()
            async for event in events:
                if event.body == b"end":
                    ended += 1
                    if ended == len(self._publishers):
                        return
                    continue
                got.setdefault(event.topic, []).append(int(event.body))

    def check(self) -> None:
        """All subscribers got all events, once and in order."""
        for name, topics in zip(self._subscribers, self.got, strict=True):
            for publisher, count in self.sent.items():
                assert count > 0
                numbers = topics[f"load/{publisher}"]
                assert numbers == list(range(count)), f"{name} got {len(numbers)} of {count} events of {publisher}"
