"""Hosts: timers, clocks, processes, logs."""

import pytest
from tests.unit.simulation.machines import Alarm, Counter, Recorder

from stentor.machine import (
    SECOND,
    Appended,
    AppendFailed,
    Effect,
    Input,
    Report,
    Started,
    StartTimer,
    StopTimer,
    TimerFired,
)
from stentor.simulation.disk import DiskFaults
from stentor.simulation.fault_injector import FaultInjector
from stentor.simulation.faults import Faults
from stentor.simulation.host import Host
from stentor.simulation.world import World


def recorder_in(world: World, **answers: list[Effect]) -> tuple[Host, Recorder]:
    recorder = Recorder(**answers)
    host = world.add("node", lambda: recorder)
    host.start()
    return host, recorder


# ---- timers, clocks, processes


def test_a_timer_fires_by_its_nodes_clock_is_replaced_and_stopped() -> None:
    world = World(1, Faults(drift=100_000))
    host, recorder = recorder_in(world)
    start = host.now
    for timer in ("kept", "stopped", "replaced"):
        recorder.answers = {"Appended": [StartTimer(Alarm(timer), start + SECOND)]}
        host.handle(Appended("", 0))
    recorder.answers = {"Appended": [StopTimer(Alarm("stopped")), StartTimer(Alarm("replaced"), start + 2 * SECOND)]}
    host.handle(Appended("", 0))
    world.run(3 * SECOND)
    fired = [(now, happened) for now, happened in recorder.told if isinstance(happened, TimerFired)]
    assert [happened.timer for _, happened in fired] == [Alarm("kept"), Alarm("replaced")]
    assert [0 <= now - start - delay < 2 for (now, _), delay in zip(fired, (SECOND, 2 * SECOND), strict=True)]


def test_a_jump_of_the_clock_makes_timers_due() -> None:
    world = World(1)
    host, recorder = recorder_in(world)
    recorder.answers = {"Appended": [StartTimer(Alarm("t"), host.now + 60 * SECOND)]}
    host.handle(Appended("", 0))
    world.run(SECOND)
    before = host.now
    host.jump(120 * SECOND)
    world.run(SECOND)
    assert recorder.told[-1] == (before + 120 * SECOND, TimerFired(Alarm("t")))


def test_a_stalled_process_gets_everything_afterwards_in_order_but_no_timer_that_was_stopped() -> None:
    world = World(1)
    host, recorder = recorder_in(world, Appended=[StopTimer(Alarm("t"))])
    recorder.answers = {
        "AppendFailed": [StartTimer(Alarm("t"), host.now + SECOND)],
        "Appended": [StopTimer(Alarm("t"))],
    }
    host.handle(AppendFailed("", 0, ""))
    host.stall(5 * SECOND)
    host.handle(Appended("", 1))
    world.run(4 * SECOND)
    host.handle(Appended("", 2))
    assert len(recorder.told) == 2
    world.run(6 * SECOND)
    assert recorder.inputs[2:] == [Appended("", 1), Appended("", 2)]


def test_a_crash_takes_the_state_and_the_timers_and_a_restart_builds_a_new_machine() -> None:
    world = World(1)
    machines: list[Recorder] = []

    def build() -> Recorder:
        machines.append(Recorder(Started=[StartTimer(Alarm("t"), 0)]))
        return machines[-1]

    host = world.add("node", build)
    host.start()
    host.crash(power=True)
    world.restart(host, SECOND)
    world.run(2 * SECOND)
    assert [machine.inputs for machine in machines] == [[Started({})], [Started({}), TimerFired(Alarm("t"))]]


def test_a_machine_that_raises_is_an_anomaly_and_is_restarted() -> None:
    class Broken:
        def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
            raise ValueError("oops")

    world = World(1)
    host = world.add("node", Broken)
    host.start()
    world.run(SECOND - 1)
    assert {anomaly.kind for anomaly in world.anomalies} == {"raised"}
    assert "ValueError: oops (test_world.py" in world.anomalies[0].detail
    assert host.starts == 2


def test_reports_are_counted_and_effects_for_the_application_reach_it() -> None:
    class Deliver(Effect, frozen=True):
        what: str

    class Application:
        def __init__(self) -> None:
            self.got: list[Effect] = []
            self.deaths = 0

        def told(self, effect: Effect) -> None:
            self.got.append(effect)

        def died(self) -> None:
            self.deaths += 1

    world, application = World(1), Application()
    host = world.add("node", lambda: Recorder(Started=[Report("info", "ready", {}), Deliver("x")]), application)
    host.start()
    assert world.reports == {"info: ready": 1}
    assert application.got == [Deliver("x")]
    host.crash(power=False)
    assert application.deaths == 1


# ---- logs


@pytest.mark.parametrize("seed", range(8))
def test_what_was_appended_survives_power_cuts_and_failing_disks(seed: int) -> None:
    faults = Faults(
        until=5 * SECOND,
        crashes=4.0,
        power_cuts=0.7,
        mean_downtime=SECOND // 5,
        disk=DiskFaults(sync_error=0.002, full=0.001),
    )
    world = World(seed, faults)
    durable: list[int] = [0]
    machines: list[Counter] = []

    def build() -> Counter:
        durable.append(machines[-1].durable if machines else 0)
        machines.append(Counter())
        return machines[-1]

    world.add("node", build).start()
    FaultInjector(world).begin()
    world.run(6 * SECOND)
    assert world.anomalies == []
    assert len(machines) > 5
    assert machines[-1].durable > 100
    assert durable == sorted(durable)


def test_a_log_whose_durable_part_is_damaged_keeps_the_node_down() -> None:
    world = World(1)
    host = world.add("node", Counter)
    host.start()
    world.run(SECOND)
    host.crash(power=True)
    host.disk.open("numbers.log").rot(30)
    host.start()
    assert not host.up
    assert [anomaly.kind for anomaly in world.anomalies] == ["lost-write"]
