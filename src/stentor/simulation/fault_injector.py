"""The fault injector breaks things at random times until the faults' end, then heals everything it broke."""

from collections import Counter
from collections.abc import Callable
from random import Random

import msgspec

from stentor.machine import SECOND
from stentor.simulation.disk import SOUND_DISK
from stentor.simulation.host import Host
from stentor.simulation.world import World


class FaultInjector:
    """Injects faults as a Poisson process; which fault is drawn by its rate."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random: Random = world.stream("adversary")
        faults = world.faults
        strikes: list[tuple[Callable[[], None], float]] = [
            (self._break_link, faults.breaks),
            (self._partition, faults.partitions),
            (self._crash, faults.crashes),
            (self._stall, faults.stalls),
            (self._jump, faults.jumps),
        ]
        self._strikes = [strike for strike, rate in strikes if rate > 0]
        self._rates = [rate for _, rate in strikes if rate > 0]
        self._partitions: dict[int, list[tuple[str, str]]] = {}  # the directions that each one stops
        self.struck: Counter[str] = Counter()

    def begin(self) -> None:
        self._plan()
        self._world.schedule.at(self._world.faults.until, self._heal)

    def _plan(self) -> None:
        if not self._strikes:
            return
        time = self._world.now + int(self._random.expovariate(sum(self._rates)) * SECOND)
        if time < self._world.faults.until:
            self._world.schedule.at(time, self._strike)

    def _strike(self) -> None:
        self._random.choices(self._strikes, self._rates)[0]()
        self._plan()

    def _draw(self, mean: int) -> int:
        return 1 + int(min(self._random.expovariate(1.0), 3.0) * mean)

    def _running(self) -> Host | None:
        hosts = [host for host in self._world.hosts.values() if host.up]
        return self._random.choice(hosts) if hosts else None

    def _break_link(self) -> None:
        links = [link for link in self._world.network.links if not link.severed]
        if links:
            self.struck["break"] += 1
            self._world.network.sever(self._random.choice(links), "connection reset by peer")

    def _partition(self) -> None:
        names = list(self._world.hosts)
        if len(names) < 2:
            return
        one, other = self._random.sample(names, 2)
        links = self._world.network.links
        if links and self._random.random() < 0.8:
            one, other = (end.host.name for end in self._random.choice(links).ends)
        directions = [(one, other), (other, one)]
        if self._random.random() < self._world.faults.asymmetric:
            directions = [self._random.choice(directions)]
            self.struck["partition-asymmetric"] += 1
        else:
            self.struck["partition"] += 1
        for direction in directions:
            self._world.network.block(*direction)
        number = sum(self.struck.values())
        self._partitions[number] = directions
        self._world.schedule.after(self._draw(self._world.faults.mean_partition), lambda: self._reunite(number))

    def _reunite(self, number: int) -> None:
        directions = self._partitions.pop(number, None)
        if directions is None:  # healed with everything else
            return
        network = self._world.network
        if self._random.random() < self._world.faults.partition_breaks:
            for link in network.between(*directions[0]):
                if not link.severed:
                    network.sever(link, "timed out")
        for direction in directions:
            network.unblock(*direction)

    def _crash(self) -> None:
        host = self._running()
        if host is None:
            return
        power = self._random.random() < self._world.faults.power_cuts
        self.struck["power-cut" if power else "kill"] += 1
        host.crash(power, silent=power)
        self._world.restart(host, self._draw(self._world.faults.mean_downtime))

    def _stall(self) -> None:
        host = self._running()
        if host is not None:
            self.struck["stall"] += 1
            host.stall(self._draw(self._world.faults.mean_stall))

    def _jump(self) -> None:
        host = self._running()
        if host is not None:
            self.struck["jump"] += 1
            host.jump(self._draw(self._world.faults.mean_jump))

    def _heal(self) -> None:
        """Nothing new goes wrong from here on; what machines have not noticed yet is still theirs to notice."""
        world = self._world
        for directions in self._partitions.values():
            for direction in directions:
                world.network.unblock(*direction)
        self._partitions.clear()
        faults = world.network.sky
        faults.faults = msgspec.structs.replace(faults.faults, damage=0.0, loss=0.0, duplication=0.0)
        for host in world.hosts.values():
            for disk in host.disks:
                disk.faults = SOUND_DISK
            host.wake()
            if not host.up:
                host.start()
