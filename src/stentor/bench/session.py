"""The GES benchmark: the two networks one after the other, their clients, and the trials of the grid over them."""

import asyncio
import datetime
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import msgspec

from stentor.admin.network import view
from stentor.bench import crowd, ges22, machine, measurer
from stentor.bench.grid import Trial, TrialGrid
from stentor.bench.lines import Worker, WorkerFailed
from stentor.bench.replication import NONE, REPLICATIONS, Replication, enrol
from stentor.bench.results import CHAINS, CONNECTED, GesResults, Sample
from stentor.client.fabric import connect
from stentor.config import Config
from stentor.config.topology import Tree
from stentor.model.reports.view import NetworkView
from stentor.version import __version__

Launch = Callable[[Config], AbstractAsyncContextManager[Mapping[str, str]]]  # gives the URL of each broker

EACH = 5  # clients of the crowd at a broker
HOPS_MATCH = 50  # percent, as in figure 10
_WHOLE_WITHIN = 60.0  # seconds until all brokers know each other
_START = 90.0
_QUIET_TRIAL = 60.0  # seconds that a trial may take beyond its own
_LATE = 20  # times that a crowd is asked again whether more has come
_LATE_IF_STORED = 300  # times that it is asked if events are stored, and nothing is ever lost


class GesBenchmark:
    """`say` tells what is done now, `done` that a trial is over, with its seconds."""

    def __init__(
        self, grid: TrialGrid, folder: Path, launch: Launch, say: Callable[[str], None], done: Callable[[float], None]
    ) -> None:
        self._grid = grid
        self._folder = folder
        self._launch = launch
        self._say = say
        self._done = done
        self.results = GesResults(
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            version=__version__,
            machine=machine.describe(),
            settings={
                "rates": list(grid.rates),
                "sizes": list(grid.sizes),
                "matches": list(grid.matches),
                "events": [grid.events],
                "seconds": [grid.seconds],
                "replications": list(grid.replications),
            },
        )

    def expected(self) -> float:
        """Seconds that all trials take if everything is in time."""
        plain = _seconds(self._grid) + 3 * _seconds(self._hop_grid()) if NONE.copies in self._grid.replications else 0.0
        return plain + len(self._stored()) * _seconds(self._grid.stored())

    def _hop_grid(self) -> TrialGrid:
        return msgspec.structs.replace(self._grid, matches=(HOPS_MATCH,))

    def _stored(self) -> list[Replication]:
        return [each for each in REPLICATIONS if each.copies and each.copies in self._grid.replications]

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            found, urls = await self._launched(stack, connected=False)
            if NONE.copies in self._grid.replications:
                await self._attempt(self._measure_plain(found, urls))
            for replication in self._stored():
                await self._attempt(self._measure_stored(replication, found, urls))
        if NONE.copies in self._grid.replications:
            async with AsyncExitStack() as stack:
                found, urls = await self._launched(stack, connected=True)
                others = await self._gather(stack, found, urls)
                await self._attempt(
                    self._measure(self.results.hops, urls, others, ges22.NEAR, self._hop_grid(), CONNECTED)
                )

    async def _attempt(self, part: Coroutine[None, None, None]) -> None:
        """Keep what a part of the session measured until a process failed, and go on with the next part: a machine
        that is too small for some trials does others.
        """
        try:
            await part
        except WorkerFailed as failed:
            self.results.failures.append(str(failed))
            self._say(f"given up: {failed}")

    async def _measure_plain(self, found: Mapping[str, str], urls: Mapping[int, str]) -> None:
        far = {ges22.FAR: ges22.SUBSCRIBER}
        both = {1: ges22.PUBLISHER, **far}
        async with Worker(crowd.__name__) as nobody:
            await nobody.ask(crowd.Muster([], 0, NONE.topic), crowd.Gathered, _START)
            self.results.clients = 2
            await self._measure(self.results.alone, urls, nobody, both, self._hop_grid(), CHAINS)
        async with AsyncExitStack() as stack:
            others = await self._gather(stack, found, urls)
            await self._measure(self.results.samples, urls, others, far, self._grid, CHAINS)
            await self._measure(self.results.hops, urls, others, both, self._hop_grid(), CHAINS)

    async def _measure_stored(
        self, replication: Replication, found: Mapping[str, str], urls: Mapping[int, str]
    ) -> None:
        stations = {ges22.MIDWAY: ges22.MIDWAY_AT, ges22.FAR: ges22.SUBSCRIBER}
        async with AsyncExitStack() as stack:
            others = await self._gather(stack, found, urls, replication, stations)
            grid = self._grid.stored()
            await self._measure(self.results.stored, urls, others, stations, grid, CHAINS, replication)

    async def _launched(self, stack: AsyncExitStack, *, connected: bool) -> tuple[Mapping[str, str], dict[int, str]]:
        """A network whose brokers know each other."""
        name = "the well-connected network" if connected else "the network"
        self._say(f"{name}: starting {len(ges22.BROKERS)} brokers")
        folder = self._folder / ("connected" if connected else "chains")
        folder.mkdir(parents=True)
        config = ges22.network(folder, connected=connected, storages=not connected)
        found = await stack.enter_async_context(self._launch(config))
        urls = {number: found[name] for number, name in ges22.BROKERS.items()}
        self._say(f"{name}: waiting until all brokers know each other")
        await until_whole(config, found)
        return found, urls

    async def _gather(
        self,
        stack: AsyncExitStack,
        found: Mapping[str, str],
        urls: Mapping[int, str],
        replication: Replication = NONE,
        stations: Mapping[int, int] | None = None,
    ) -> Worker:
        """The crowd, when all brokers know what it wants; `stations` are the subscribers beside it."""
        others = [urls[each] for each in sorted(urls) if each not in (ges22.PUBLISHER, ges22.SUBSCRIBER)]
        muster = crowd.Muster(others, EACH, replication.topic, named=replication.copies > 0)
        if muster.named:
            self._say(f"{replication.topic}: stored by {' and '.join(replication.repositories)}")
            names = [measurer.station_name(str(hops)) for hops in stations or ()]
            await enrol(urls[ges22.PUBLISHER], replication, [*muster.names(), *names])
        self._say(f"{EACH * len(others)} clients subscribe")
        worker = await stack.enter_async_context(Worker(crowd.__name__))
        gathered = await worker.ask(muster, crowd.Gathered, _START)
        self.results.clients = max(self.results.clients, gathered.clients + 2)
        if not muster.named:  # who has a name has subscribed when its repository says so
            await until_wanted(found)
        return worker

    async def _measure(
        self,
        samples: list[Sample],
        urls: Mapping[int, str],
        others: Worker,
        stations: Mapping[int, int],
        grid: TrialGrid,
        network: str,
        replication: Replication = NONE,
    ) -> None:
        """The trials of a grid, with measuring subscribers so many hops away at these brokers."""
        async with Worker(measurer.__name__) as worker:
            posts = measurer.MeasurerPlaces(
                urls[ges22.PUBLISHER],
                {str(hops): urls[at] for hops, at in stations.items()},
                replication.topic,
                named=replication.copies > 0,
            )
            await worker.ask(posts, measurer.MeasurerReady, _START)
            await self._counted(others, -1)
            for trial in grid.trials():
                where = "" if network == CHAINS else ", well connected"
                how = f", stored {replication.copies} ×" if replication.copies else ""
                self._say(f"{trial.match} % of {trial.rate:g} events/s of {trial.size} B{where}{how}")
                samples.append(await self._try(worker, others, trial, network, replication.copies))
                self._done(trial.seconds)

    async def _try(self, worker: Worker, others: Worker, trial: Trial, network: str, copies: int) -> Sample:
        before = (await others.ask(None, crowd.Counted, _START)).received
        noise = machine.Noise()
        measured = await worker.ask(trial, measurer.MeasuredTrial, trial.seconds + _QUIET_TRIAL)
        cores = noise.cores()
        expected = trial.wanted * (self.results.clients - 2)
        late = _LATE_IF_STORED if copies else _LATE
        received = await self._counted(others, before + expected, late) - before
        latencies = {int(hops): latency for hops, latency in measured.latencies.items()}
        return Sample(network, trial, measured.seconds, latencies, expected, received, round(cores, 2), copies)

    async def _counted(self, others: Worker, hoped: int, late: int = _LATE) -> int:
        """How many events the crowd has, when it has as many as hoped or no more come."""
        last, idle = -1, 0
        while idle < late:
            counted = await others.ask(None, crowd.Counted, _START)
            if counted.received >= hoped >= 0:
                return counted.received
            idle = idle + 1 if counted.received == last else 0
            last = counted.received
            await asyncio.sleep(0.1)
            if hoped < 0 and idle > 2:
                break
        return last


def _seconds(grid: TrialGrid) -> float:
    return sum(trial.seconds for trial in grid.trials())


async def until_whole(config: Config, urls: Mapping[str, str]) -> None:
    """Until every broker can reach all members of all scopes around it."""
    tree = Tree(node.name for node in config.nodes)

    def whole(seen: NetworkView) -> bool:
        known = {member.unit for scope in seen.scopes for member in scope.members if member.reachable}
        wanted = {
            str(member)
            for scope in seen.scopes
            for unit, members in tree.members.items()
            if str(unit) == scope.scope
            for member in members
        }
        return wanted <= known

    await _until(urls, whole, "the brokers do not all know each other")


async def until_wanted(urls: Mapping[str, str]) -> None:
    """Until every broker knows that somebody in every other unit wants something."""

    def wanted(seen: NetworkView) -> bool:
        others = [
            member for scope in seen.scopes for member in scope.members if member.hop
        ]  # the broker's own units have no hop
        return all(member.wants for member in others if member.unit not in _SILENT)

    await _until(urls, wanted, "what the clients want is not known everywhere")


_SILENT = {ges22.BROKERS[number] for number in (ges22.PUBLISHER, ges22.SUBSCRIBER)}


async def _until(urls: Mapping[str, str], sound: Callable[[NetworkView], bool], trouble: str) -> None:
    end = asyncio.get_running_loop().time() + _WHOLE_WITHIN

    async def look(url: str) -> None:
        async with connect(url, wait=30.0) as fabric:
            while not sound(await view(fabric)):
                if asyncio.get_running_loop().time() > end:
                    raise WorkerFailed(f"{trouble} after {_WHOLE_WITHIN:.0f} s")
                await asyncio.sleep(0.2)

    await asyncio.gather(*map(look, urls.values()))
