"""What goes wrong with whole nodes beside what goes wrong with their machines: each strike concerns a node by name."""

from stentor.machine import MILLISECOND, SECOND, StopRequested
from stentor.nodes.conclusion import Conclude
from stentor.simulation.delivery.cast import Cast
from stentor.simulation.delivery.mischief import Mischief
from stentor.simulation.fabric.brokers import FabricStage
from stentor.simulation.fabric.kinds import HousedDepot
from stentor.simulation.fabric.watched import WatchedRepository


class FabricMischief(Mischief):
    """Nodes end in good order, and machines of repositories fail at what somebody said."""

    def __init__(self, cast: Cast) -> None:
        super().__init__(cast)
        self._strikes |= {
            "stop-broker": self._stop_broker,
            "stop-repository": self._stop_repository,
            "stumble": self._stumble,
        }

    @property
    def _fabric(self) -> FabricStage:
        assert isinstance(self._stage, FabricStage)
        return self._stage

    def _stop_broker(self) -> bool:
        """It says farewell to everybody, and is back after a while."""
        world = self._fabric.world
        host = world.hosts[self._stage.random.choice(list(self._fabric.addresses.values()))]
        start = host.starts
        world.tell(host.name, StopRequested())
        self._stage.after(200 * MILLISECOND, lambda: host.crash(power=False) if host.starts == start else None)
        world.restart(host, SECOND)
        return True

    def _stop_repository(self) -> bool:
        """It tells its last traces, then it ends, as a supervisor has it."""
        depot = self._depot()
        if not isinstance(depot, HousedDepot):
            return False
        depot.handle(Conclude())
        depot.later(200 * MILLISECOND, lambda: depot.handle(StopRequested()))
        depot.later(250 * MILLISECOND, lambda: depot.crash("stops"))
        self._fabric.world.restart(depot.host, SECOND)
        return True

    def _stumble(self) -> bool:
        """A machine fails at the next letter: another one takes its place, and the sender is not heard for a minute."""
        depot = self._depot()
        if depot is None or not isinstance(depot.repository, WatchedRepository):
            return False
        depot.repository.stumbles = True
        return True
