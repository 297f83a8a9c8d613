"""The autoscaler asks the brokers of a supervisor how many clients they have, and starts, stops and purges some."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from stentor.admin import network as operation
from stentor.cli.network.placement import free_number
from stentor.cli.network.search import member_of, members
from stentor.cli.running.balance import Move
from stentor.cli.running.process import Assignment
from stentor.cli.running.scaling_rules import Action, History, Leave, Purge, Rules, Seen, Start, decide
from stentor.cli.running.supervisor import Supervisor
from stentor.client.fabric import Fabric, connect
from stentor.config import Address, DialledLink, Elasticity
from stentor.model.errors import Refused, StentorError
from stentor.model.messages import AdminTask
from stentor.model.reports.view import NetworkView
from stentor.model.scope import LARGEST_UNIT, ScopePath
from stentor.model.wording.count import counted

_LINKS = 2  # of a broker that is started, if there are so many; all but the first come by plans


class Autoscaler:
    """Looks after the brokers of one supervisor, check by check."""

    def __init__(self, settings: Elasticity, supervisor: Supervisor, data: Path, tell: Callable[[str], None]) -> None:
        self._settings = settings
        self._supervisor = supervisor
        self._data = data
        self._tell = tell
        self._rules = Rules(
            clients_per_broker=settings.clients_per_broker,
            most_brokers=settings.most_brokers,
            purge_slow=settings.purge_slow,
        )
        self._history = History()
        self._started: set[str] = set()
        self._purged: set[str] = set()  # that the network must yet forget
        self._moves: set[tuple[str, str]] = set()  # from where to where clients were asked to move at the last check

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(self._settings.check_every)
            try:
                await self.check()
            except (StentorError, OSError) as error:  # the next check may have more luck
                self._tell(f"elasticity: {error}")

    async def check(self) -> None:
        """Ask all brokers, and do what follows from their answers."""
        running = self._supervisor.running()
        answers = await asyncio.gather(*(self._ask(each) for each in running))
        views = {each.name: view for each, view in zip(running, answers, strict=True) if view is not None}
        seen: dict[str, list[Seen]] = {}
        for each in running:
            clients = views[each.name].clients - 1 if each.name in views else None  # one of them is us
            seen.setdefault(_cluster(each.name), []).append(Seen(each.name, clients, each.name in self._started))
        for name in self._supervisor.away():
            seen.setdefault(_cluster(name), []).append(Seen(name, None, name in self._started, away=True))
        self._history, actions = decide(self._rules, self._history, seen)
        for action in actions:
            await self._act(action, views)
        self._moves = {(each.origin, each.target) for each in actions if isinstance(each, Move)}
        await self._dismiss(views)

    async def _ask(self, broker: Assignment) -> NetworkView | None:
        try:
            async with asyncio.timeout(self._settings.check_every), self._connect(broker) as fabric:
                return await operation.view(fabric)
        except (StentorError, TimeoutError):
            return None

    def _connect(self, broker: Assignment) -> Fabric:
        within = self._settings.check_every  # a broker that is started again must not look dead
        url, token = f"stentor://{broker.listen}", broker.token or None
        return connect(url, tls=broker.certificates, token=token, timeout=within, wait=within, stay=True)

    async def _act(self, action: Action, views: dict[str, NetworkView]) -> None:
        match action:
            case Start(cluster):
                await self._start(cluster, views)
            case Leave(name):
                self._tell(f"{_cluster(name) or 'the network'} has few clients: {name} is not needed any more")
                async with self._connect(self._find(name)) as fabric:
                    await operation.order(fabric, AdminTask.LEAVE)
                self._started.discard(name)
            case Move(origin, target, clients):
                async with self._connect(self._find(origin)) as fabric:
                    address = views[target].address
                    await operation.order(fabric, AdminTask.MOVE_CLIENTS, target, address=address, count=clients)
                if (origin, target) not in self._moves:  # who does not follow is not told of again and again
                    self._tell(f"asked to move from {origin} to {target}: {counted(clients, 'client')}")
            case Purge(name):
                self._tell(f"node {name} did not answer: it is purged")
                await self._supervisor.purge(name)
                self._started.discard(name)
                self._purged.add(name)

    def _find(self, name: str) -> Assignment:
        for each in self._supervisor.running():
            if each.name == name:
                return each
        raise StentorError(f"{name} is gone")

    async def _start(self, cluster: str, views: dict[str, NetworkView]) -> None:
        around = [each for each in self._supervisor.running() if _cluster(each.name) == cluster and each.name in views]
        around.sort(key=lambda each: each.name in self._started)  # those of the file first: they stay
        model, view = around[0], views[around[0].name]
        taken = {each.unit for each in members(view, 0)} | self._started
        name = next(each for each in _names(cluster) if each not in taken)
        assignment = replace(
            model,
            name=name,
            listen=str(Address(Address.parse(model.listen).host, 0)),
            advertise="",  # the model's own address is not the new one's
            http=None if model.http is None else str(Address(Address.parse(model.http).host, 0)),
            storage=str(self._data.joinpath(*ScopePath.parse(name).parts)),
            numbers=(*model.numbers[:-1], free_number(name, view)),
            gateways=tuple(
                DialledLink(name=each.name, address=each.listen, is_requested=each is not model)
                for each in around[:_LINKS]
            ),
        )
        self._started.add(name)
        ready = await self._supervisor.add(assignment)
        many = f"more than {self._rules.clients_per_broker:,} clients per broker"
        self._tell(f"{cluster or 'the network'} has {many}: started {name}  stentor://{ready.listen}")

    async def _dismiss(self, views: dict[str, NetworkView]) -> None:
        """Make the network forget those that were purged, as soon as it has noticed that they are gone."""
        for name in sorted(self._purged):
            path = ScopePath.parse(name)
            near = [each for each in self._supervisor.running() if _cluster(each.name) == _cluster(name)]
            for broker in (each for each in near if each.name in views):
                member = member_of(views[broker.name], path, 0)
                if member is None or not member.members:
                    self._purged.discard(name)
                elif not member.reachable:
                    try:
                        async with self._connect(broker) as fabric:
                            await operation.order(fabric, AdminTask.DISMISS, name)
                        self._purged.discard(name)
                    except Refused:
                        continue  # it is not gone yet
                break


def _cluster(name: str) -> str:
    return name.rpartition("/")[0]


def _names(cluster: str) -> Iterator[str]:
    inside = f"{cluster}/" if cluster else ""
    return (f"{inside}auto-{number}" for number in range(1, 2 * LARGEST_UNIT))
