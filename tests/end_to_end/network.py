"""A network of real processes as its clients and operators see it."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TypeVar

from tests.end_to_end.command import PATIENCE, Fabric

import stentor
from stentor.admin import network as operation
from stentor.model.errors import StentorError
from stentor.model.reports.view import LinkView, MemberView, NetworkView

T = TypeVar("T")


def network(*members: int, more: str = "") -> str:
    """A file with so many members in each unit, the outermost first; each unit is a chain."""
    names = ["/".join(parts) for parts in product(*([f"u{n}" for n in range(count)] for count in members))]
    units = sorted({"/".join(name.split("/")[:depth]) for name in names for depth in range(len(members))})
    lines = [more]
    lines += [f'[[node]]\nname = "{name}"\nlisten = "127.0.0.1:0"\n' for name in names]
    lines += [f'[[unit]]\nname = "{unit}"\nconnect = "chain"\n' for unit in units]
    return "\n".join(lines)


def view(url: str, tls: Path | None = None) -> NetworkView:
    async def ask() -> NetworkView:
        async with stentor.connect(url, tls=tls, wait=PATIENCE, stay=True) as fabric:
            return await operation.view(fabric)

    return asyncio.run(ask())


def link(url: str, peer: str) -> LinkView | None:
    """The link of a broker to another one."""
    return next((each for each in view(url).links if each.peer == peer), None)


def member(url: str, unit: str) -> MemberView | None:
    """What a broker knows of a member of a scope around it."""
    return next((each for scope in view(url).scopes for each in scope.members if each.unit == unit), None)


def until(ask: Callable[[], T], what: str = "it") -> T:
    """Ask until the answer is true and nothing in it is asserted in vain, and return it.

    What a network says of itself changes while it is looked at, and on a busy machine any broker may be suspected for
    a moment: what must hold together is asserted of one answer, within `ask`.
    """
    end = time.monotonic() + PATIENCE
    while True:
        trouble: Exception = AssertionError(f"{what} did not become true")
        try:
            if answer := ask():
                return answer
        except (AssertionError, StentorError) as error:
            trouble = error
        if time.monotonic() > end:
            raise trouble
        time.sleep(0.05)


def crosses(origin: str, target: str, topic: str = "far/away") -> bool:
    """Whether an event that is published at one broker arrives at another; nobody says when the network is ready."""

    async def travel() -> bool:
        async with (
            asyncio.timeout(PATIENCE),
            stentor.connect(target, wait=PATIENCE, stay=True) as reader,
            stentor.connect(origin, wait=PATIENCE, stay=True) as writer,
            reader.subscribe(topic, where="n > 1") as events,
        ):
            arrival = asyncio.ensure_future(anext(aiter(events)))
            while not arrival.done():
                await writer.publish(topic, n=1)
                await writer.publish(topic, n=2)
                await asyncio.wait([arrival], timeout=0.1)
            return arrival.result()["n"] == 2

    return asyncio.run(travel())


def kill(running: Fabric, folder: Path, name: str) -> None:
    """kill -9; whoever supervises it starts it again, and we wait for that."""
    pattern = f"node {re.escape(name)} is back"
    before = sum(bool(re.search(pattern, line)) for line in running.out)
    os.kill(process(folder, name), signal.SIGKILL)
    running.line(pattern, count=before + 1)


def process(folder: Path, name: str) -> int:
    """The process of a broker whose data is below a folder."""
    return int((folder / ".stentor" / name / "lock").read_text())
