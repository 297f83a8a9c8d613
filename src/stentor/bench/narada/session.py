"""The Narada benchmark: the topologies with their clients and trials, then single operations and recovery."""

import asyncio
import datetime
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from stentor.admin.topics import Registrar
from stentor.bench import machine
from stentor.bench.crowd import Gathered
from stentor.bench.lines import Worker
from stentor.bench.narada import audience, costs, pair, revival
from stentor.bench.narada.plan import MISSED, TABLE_PAYLOAD, NaradaPlan
from stentor.bench.narada.results import DelaySample, FloodSample, NaradaResults
from stentor.bench.narada.topologies import (
    OTHERS,
    PUBLISHER,
    RELIABLE,
    SUBSCRIBER,
    TOPOLOGIES,
    BrokerChain,
    network,
)
from stentor.bench.session import Launch, until_whole
from stentor.client.fabric import connect
from stentor.version import __version__

_START = 90.0
_TRIAL = 120.0
_COSTS = 300.0


class NaradaBenchmark:
    """`say` tells what is done now, `done` how many of the `expected` steps are over."""

    def __init__(
        self, plan: NaradaPlan, folder: Path, launch: Launch, say: Callable[[str], None], done: Callable[[float], None]
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._launch = launch
        self._say = say
        self._done = done
        self.results = NaradaResults(
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            version=__version__,
            machine=machine.describe(),
            plan=plan,
        )

    def expected(self) -> float:
        plan = self._plan
        trials = len(plan.topologies) * (len(plan.sizes) + 2 * plan.floods)
        return trials + 1 + plan.restarts + plan.recoveries

    async def run(self) -> None:
        for name in self._plan.topologies:
            await self._measure(TOPOLOGIES[name])
        await self._operations()
        await self._restarts()
        await self._recoveries()

    # ---- figures 3 to 6

    async def _measure(self, topology: BrokerChain) -> None:
        async with AsyncExitStack() as stack:
            urls = await self._launched(stack, topology, topology.name)
            await self._enrol(urls, topology)
            clients, others = await self._clients(stack, urls, topology)
            for size in self._plan.sizes:
                self._say(f"{topology.name}: {self._plan.runs} events of {size} B, at best effort and reliably")
                self.results.delays.append(await self._delay(clients, topology, size))
                self._done(1.0)
            for _ in range(self._plan.floods):
                for reliable in (False, True):
                    kind = "reliably" if reliable else "at best effort"
                    self._say(f"{topology.name}: {TABLE_PAYLOAD} B at full speed, {kind}")
                    self.results.floods.append(await self._flood(clients, others, topology, reliable))
                    self._done(1.0)

    async def _launched(
        self, stack: AsyncExitStack, topology: BrokerChain, place: str, without: str = ""
    ) -> Mapping[str, str]:
        """The URLs of brokers that know each other, by name; with repositories, but for one that is left out."""
        self._say(f"{topology.name}: starting {topology.title}")
        folder = self._folder / place
        folder.mkdir(parents=True)
        config = network(topology, folder, self._plan.storage, without)
        urls = await stack.enter_async_context(self._launch(config))
        await until_whole(config, urls)
        return urls

    async def _enrol(self, urls: Mapping[str, str], topology: BrokerChain) -> None:
        """Make the reliable topic, for all clients."""
        async with connect(urls[topology.broker(1)], wait=30.0) as fabric, Registrar(fabric) as registrar:
            await registrar.create(RELIABLE, topology.members)
            await registrar.grant(RELIABLE, "publisher", PUBLISHER)
            for name in (SUBSCRIBER, *OTHERS):
                await registrar.grant(RELIABLE, "subscriber", name)

    async def _clients(
        self, stack: AsyncExitStack, urls: Mapping[str, str], topology: BrokerChain
    ) -> tuple[Worker, Worker]:
        """All twenty: the publisher with the measuring subscriber, and the others."""
        self._say(f"{topology.name}: {len(OTHERS) + 2} clients connect")
        others = await stack.enter_async_context(Worker(audience.__name__))
        seats = audience.Seats(list(urls.values()), list(OTHERS))
        gathered = await others.ask(seats, Gathered, _START)
        worker = await stack.enter_async_context(Worker(pair.__name__))
        posts = pair.PairPlaces(urls[topology.broker(1)], urls[topology.broker(topology.brokers)], str(self._folder))
        await worker.ask(posts, pair.PairReady, _START)
        self.results.clients = gathered.clients + 2
        return worker, others

    async def _delay(self, clients: Worker, topology: BrokerChain, size: int) -> DelaySample:
        noise = machine.Noise()
        trial = pair.DelayTrial(size, self._plan.runs, self._plan.pause)
        found = await clients.ask(trial, pair.Delays, _TRIAL)
        return DelaySample(topology.name, size, found.plain, found.reliable, found.sync, round(noise.cores(), 2))

    async def _flood(self, clients: Worker, others: Worker, topology: BrokerChain, reliable: bool) -> FloodSample:
        noise = machine.Noise()
        trial = pair.FloodTrial(TABLE_PAYLOAD, self._plan.seconds, reliable)
        flood = asyncio.create_task(clients.ask(trial, pair.Flood, _TRIAL))
        await asyncio.sleep(pair.RAMP)
        before, since = await others.ask(None, audience.ReceivedCounts, _START), time.monotonic()
        await asyncio.sleep(self._plan.seconds)
        after, seconds = await others.ask(None, audience.ReceivedCounts, _START), time.monotonic() - since
        cores = round(noise.cores(), 2)
        found = await flood
        heard = after.reliable - before.reliable if reliable else after.plain - before.plain
        rate = heard / seconds / len(OTHERS)
        return FloodSample(topology.name, TABLE_PAYLOAD, reliable, found.rate, round(rate, 1), cores)

    # ---- table 1

    async def _operations(self) -> None:
        self._say("single operations of a repository")
        plan = self._plan
        trial = costs.CostTrial(
            str(self._folder / "costs"), plan.storage, TABLE_PAYLOAD, plan.runs, MISSED, plan.recoveries
        )
        async with Worker(costs.__name__) as worker:
            found = await worker.ask(trial, costs.Costs, _COSTS)
        self.results.operations |= {
            "store": found.store,
            "retrieve": found.retrieve,
            "publisher response": found.publisher_response,
            "subscriber response": found.subscriber_response,
            "repository response": found.repository_response,
            "gossip generated": found.gossip_generation,
            "gossip processed": found.gossip_processing,
        }
        self._done(1.0)

    async def _restarts(self) -> None:
        """The only repository of a topic is killed and started again; it has stored a thousand events."""
        topology = TOPOLOGIES["A"]
        taken = self.results.operations["recovery"] = []
        async with AsyncExitStack() as stack:
            urls = await self._launched(stack, topology, "restarts", topology.members[0])
            repository = _Mortal(topology, urls, f"{self._plan.storage}:{self._folder / 'restarts' / 'r1'}")
            stack.push_async_callback(repository.end)
            await repository.start(known=False)
            await self._enrol(urls, topology)
            clients, _ = await self._clients(stack, urls, topology)
            await clients.ask(pair.BurstTrial(TABLE_PAYLOAD, MISSED), pair.StoredBurst, _TRIAL)
            for number in range(self._plan.restarts):
                self._say(f"a single repository is killed and comes back, {number + 1} of {self._plan.restarts}")
                await repository.kill()
                taken.append((await repository.start(known=True)).ready)
                self._done(1.0)

    async def _recoveries(self) -> None:
        """One of three repositories is killed, misses a thousand events, and catches up."""
        topology = TOPOLOGIES["C"]
        taken = self.results.operations["catching up"] = []
        async with AsyncExitStack() as stack:
            urls = await self._launched(stack, topology, "recoveries", topology.members[-1])
            repository = _Mortal(topology, urls, f"{self._plan.storage}:{self._folder / 'recoveries' / 'r3'}")
            stack.push_async_callback(repository.end)
            await repository.start(known=False)
            await self._enrol(urls, topology)
            clients, _ = await self._clients(stack, urls, topology)
            for number in range(self._plan.recoveries):
                self._say(f"a repository misses {MISSED} events, {number + 1} of {self._plan.recoveries}")
                await repository.kill()
                await clients.ask(pair.BurstTrial(TABLE_PAYLOAD, MISSED), pair.StoredBurst, _TRIAL)
                taken.append((await repository.start(known=True)).ready)
                self._done(1.0)


class _Mortal:
    """The last repository of a topology, in a worker that is killed and replaced."""

    def __init__(self, topology: BrokerChain, urls: Mapping[str, str], storage: str) -> None:
        self._name = topology.members[-1]
        url = urls[topology.broker(topology.repositories[-1])]
        self._addresses, self._storage = [url.partition("://")[2]], storage
        self._worker: Worker | None = None

    async def start(self, *, known: bool) -> revival.Revived:
        self._worker = Worker(revival.__name__)
        await self._worker.__aenter__()
        revive = revival.Revive(self._name, self._addresses, self._storage, known)
        return await self._worker.ask(revive, revival.Revived, _START)

    async def kill(self) -> None:
        assert self._worker is not None
        await self._worker.kill()

    async def end(self) -> None:
        if self._worker is not None:
            await self._worker.__aexit__()
