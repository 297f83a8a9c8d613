"""Hosts in the world: effects, crashes, stalls, clocks."""

from stentor.machine import MILLISECOND, SECOND, Effect, Input, Report, Started, StartTimer, StopTimer, TimerFired
from stentor.simulation.adversary import Adversary
from stentor.simulation.disk import DiskFaults
from stentor.simulation.faults import Faults, Weather
from stentor.simulation.host import Host
from stentor.simulation.world import World

from .machines import Caller, Counter, Echo, Recorder


def run_recorder(world: World, script: dict[type[Input], list[Effect]]) -> tuple[Host, Recorder]:
    recorder = Recorder(script)
    host = world.add("node", lambda: recorder)
    host.start()
    return host, recorder


def test_a_node_is_started_with_what_its_logs_hold_and_timers_fire_when_its_clock_says_so() -> None:
    world = World(1)
    host = world.add("node", lambda: recorder)
    recorder = Recorder()
    host.start()
    (start, started), = recorder.told
    assert started == Started({})
    recorder.script = {TimerFired: [Report("info", "rang", {})]}
    host._execute(StartTimer("t", start + SECOND))
    world.run(SECOND - 1)
    assert len(recorder.told) == 1
    world.run(SECOND)
    assert recorder.told[1] == (start + SECOND, TimerFired("t"))
    assert world.reports == {"info: rang": 1}
