"""Two brokers, three repositories, publishers and subscribers as processes that are killed while events flow."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from tests.end_to_end.command import PATIENCE, Fabric, alive
from tests.end_to_end.network import until

import stentor
from stentor.admin.topics import Registrar, TopicReport
from stentor.cli.demo.actor import DemoPart
from stentor.cli.demo.audit import Publication, SubscriberVerdict, judge
from stentor.cli.demo.evidence import Began, Ended, EvidenceReader, Got
from stentor.cli.demo.flights import Flight, flights
from stentor.cli.demo.stage import stored

TOPIC = "flights/nyc"
BROKERS = ("b1", "b2")
REPOSITORIES = ("r1", "r2", "r3")
_LATELY = 1.0  # seconds, within which a living repository is heard by others


class Network:
    """The nodes, as `stentor up` runs them."""

    def __init__(self, folder: Path, storage: dict[str, str] | None = None, limits: str = "") -> None:
        self._folder = folder
        self._storage = {name: f"sqlite:{folder / 'ledgers' / name}" for name in REPOSITORIES} | (storage or {})
        lines = [limits] if limits else []
        for name in BROKERS:
            lines += ["[[node]]", f'name = "{name}"', 'listen = "127.0.0.1:0"', 'http = ""']
        lines += ["[[unit]]", 'name = ""', 'connect = "chain"']
        for place, name in enumerate(REPOSITORIES):
            lines += ["[[repository]]", f'name = "{name}"', f'broker = "{BROKERS[place % 2]}"']
            lines += [f"storage = {msgspec.json.encode(self._storage[name]).decode()}"]
        (folder / "network.toml").write_text("\n".join(lines))
        self.fabric = Fabric("--config", folder / "network.toml", "--log", "info", cwd=folder)
        self._killed: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fabric.__exit__(kind, error, trace)

    def url(self, first: str = "b1") -> str:
        """A broker, and the other one for when it is away."""
        names = (first, *(name for name in BROKERS if name != first))
        return "stentor://" + ",".join(self.fabric.url(name).removeprefix("stentor://") for name in names)

    def create(self, publishers: Iterable[str], subscribers: Iterable[str], copies: int = 0) -> None:
        async def create() -> None:
            async with stentor.connect(self.url(), wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                await registrar.create(TOPIC, REPOSITORIES, copies=copies, within=PATIENCE)
                for name in publishers:
                    await registrar.grant(TOPIC, "publisher", name)
                for name in subscribers:
                    await registrar.grant(TOPIC, "subscriber", name)

        asyncio.run(create())

    def reports(self) -> dict[str, TopicReport]:
        """The topic as each of its repositories sees it that answers."""

        async def ask() -> dict[str, TopicReport]:
            async with stentor.connect(self.url(), wait=PATIENCE) as fabric, Registrar(fabric) as registrar:
                return await registrar.show(TOPIC)

        return asyncio.run(ask())

    def complete(self) -> set[str]:
        """The repositories that are ready and lack nothing that others have, by what they say themselves."""
        return {
            name
            for name, report in self.reports().items()
            if report.ready
            and all(
                peer.missing == 0 and peer.heard is not None and peer.heard < _LATELY
                for other, peer in report.peers.items()
                if self.process(other)
            )
        }

    def process(self, name: str) -> int:
        """The process of a node; 0 while there is none."""
        below = Path("repositories", name) if name in REPOSITORIES else Path(name)
        try:
            pid = int((self._folder / ".stentor" / below / "lock").read_text())
        except (OSError, ValueError):
            return 0
        return pid if pid != self._killed.get(name) and alive(pid) else 0

    def kill(self, name: str) -> None:
        pid = self._killed[name] = self.process(name)
        os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        self.fabric.interrupt()
        assert self.fabric.ended() == 0, self.fabric.errors

    def stored(self) -> dict[str, set[tuple[int, int]]]:
        """What is in the files of each repository, once they have stopped."""
        return {name: self.stored_at(name) for name in REPOSITORIES}

    def stored_at(self, name: str) -> set[tuple[int, int]]:
        return stored(self._storage[name], name, TOPIC)


class Client:
    """A publisher or a subscriber as a process."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        rate: float = 0,
        wants: Callable[[Flight], bool] | None = None,
        where: str = "",
    ) -> None:
        self.name = name
        self.evidence = EvidenceReader(folder / f"{name}.jsonl")
        self._wants = wants
        self._errors = folder / f"{name}.err"
        self._part = DemoPart(
            url="",
            topic=TOPIC,
            name=name,
            evidence=str(folder / f"{name}.jsonl"),
            where=where,
            rows=1 << 30 if rate else 0,
            rate=rate,
        )
        self.lives = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, url: str) -> None:
        part = msgspec.structs.replace(self._part, url=url)
        self.lives += 1
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stentor.cli.demo.actor", msgspec.json.encode(part)],
                stdin=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def began(self) -> int:
        """How many of its lives got as far as being steered by a repository."""
        return sum(isinstance(fact, Began) for fact in self.evidence.read())

    @property
    def got(self) -> int:
        return sum(isinstance(fact, Got) for fact in self.evidence.read())

    @property
    def publication(self) -> Publication:
        return Publication(self.evidence.read())

    @property
    def kept(self) -> int:
        return sum(self.publication.kept.values())

    def wants(self, row: int) -> bool:
        return self._wants is None or self._wants(flights()[row % len(flights())])

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()

    def order(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """In good order."""
        self.order("end")
        assert self._process is not None
        assert self._process.wait(PATIENCE) == 0, self._errors.read_text()
        assert self.evidence.read()[-1] == Ended()
        self.kill()


class Troupe:
    """All clients of a topic, and what is to be said of them in the end."""

    def __init__(self, publishers: list[Client], subscribers: list[Client]) -> None:
        self.publishers, self.subscribers = publishers, subscribers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.clients:
            if client.lives:
                client.kill()

    @property
    def clients(self) -> list[Client]:
        return [*self.publishers, *self.subscribers]

    def verdicts(self) -> dict[str, SubscriberVerdict]:
        publications = [client.publication for client in self.publishers]
        readers = [(client.wants, client.evidence.read()) for client in self.subscribers]
        verdicts = judge(publications, readers)
        return {client.name: verdict for client, verdict in zip(self.subscribers, verdicts, strict=True)}

    @property
    def kept(self) -> int:
        return sum(client.kept for client in self.publishers)

    def flows(self, more: int) -> None:
        """Wait until that many more events are stored."""
        goal = self.kept + more
        until(lambda: self.kept >= goal, f"{more} more events stored")

    def finish(self) -> dict[str, SubscriberVerdict]:
        """Publishers end, subscribers get what is left and end; everything was right, or this fails."""
        for client in self.publishers:
            client.end()
        until(lambda: not any(verdict.lost for verdict in self.verdicts().values()), "all of it delivered")
        for client in self.subscribers:
            client.end()
        verdicts = self.verdicts()
        assert {name: verdict for name, verdict in verdicts.items() if not verdict.sound} == {}
        assert [client.publication.forgotten for client in self.publishers if client.publication.forgotten] == []
        return verdicts
