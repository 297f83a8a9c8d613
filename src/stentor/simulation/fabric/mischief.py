"""Faults of whole nodes, beside the faults of their machines: each concerns a node by name."""

from stentor.machine import MILLISECOND, SECOND, StopRequested
from stentor.nodes.conclusion import Conclude
from stentor.simulation.delivery.fault_script import FaultScript
from stentor.simulation.delivery.participants import Participants
from stentor.simulation.fabric.brokers import FabricStage
from stentor.simulation.fabric.kinds import HousedRepository
from stentor.simulation.fabric.watched import WatchedRepository


class FabricMischief(FaultScript):
    """Ends nodes in good order, and makes machines of repositories fail at a letter."""

    def __init__(self, participants: Participants) -> None:
        super().__init__(participants)
        self._strikes |= {
            "stop-broker": self._stop_broker,
            "stop-repository": self._stop_repository,
            "stumble": self._stumble,
        }

    @property
    def _fabric(self) -> FabricStage:
        assert isinstance(self._world, FabricStage)
        return self._world

    def _stop_broker(self) -> bool:
        """It says farewell to everybody, and is back after a while."""
        world = self._fabric.world
        host = world.hosts[self._world.random.choice(list(self._fabric.addresses.values()))]
        start = host.starts
        world.tell(host.name, StopRequested())
        self._world.after(200 * MILLISECOND, lambda: host.crash(power=False) if host.starts == start else None)
        world.restart(host, SECOND)
        return True

    def _stop_repository(self) -> bool:
        """It tells its last traces, then it ends, as a supervisor has it."""
        repository = self._choose_repository()
        if not isinstance(repository, HousedRepository):
            return False
        repository.handle(Conclude())
        repository.later(200 * MILLISECOND, lambda: repository.handle(StopRequested()))
        repository.later(250 * MILLISECOND, lambda: repository.crash("stops"))
        self._fabric.world.restart(repository.host, SECOND)
        return True

    def _stumble(self) -> bool:
        """A machine fails at the next letter: another one takes its place, and the sender is not heard for a minute."""
        repository = self._choose_repository()
        if repository is None or not isinstance(repository.repository, WatchedRepository):
            return False
        repository.repository.stumbles = True
        return True
