"""Hosts, links and the network between them, tried with small machines."""

import pytest

from stentor.machine import (
    MILLISECOND,
    SECOND,
    Append,
    Appended,
    AppendFailed,
    Close,
    Dial,
    Effect,
    Input,
    LinkLost,
    LinkOpened,
    Received,
    Report,
    Send,
    Serve,
    Started,
    StartTimer,
    Stop,
    StopTimer,
    TimerFired,
)
from stentor.model.ids import LinkId
from stentor.simulation.adversary import Adversary
from stentor.simulation.disk import DiskFaults
from stentor.simulation.faults import CALM, Faults, Weather
from stentor.simulation.host import Host
from stentor.simulation.outcome import Anomaly
from stentor.simulation.world import World


class Recorder:
    """Notes what it is told and when; answers a kind of input with effects."""

    def __init__(self, **answers: list[Effect]) -> None:
        self.answers = answers
        self.told: list[tuple[int, Input]] = []

    def step(self, now: int, happened: Input) -> list[Effect]:
        self.told.append((now, happened))
        return self.answers.get(type(happened).__name__, [])

    @property
    def inputs(self) -> list[Input]:
        return [happened for _, happened in self.told]


class Echo:
    """Serves, and sends back what it hears."""

    def __init__(self) -> None:
        self.heard = b""
        self.opened = 0

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        match happened:
            case Started():
                return [Serve()]
            case LinkOpened():
                self.opened += 1
            case Received():
                self.heard += happened.data
                return [Send(happened.link, [happened.data])]
        return []


class Caller:
    """Dials an address, sends numbers, and dials again when the link is lost."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.links = self.sent = 0
        self.losses: list[str] = []
        self.heard = b""
        self.link: LinkId | None = None

    def step(self, now: int, happened: Input) -> list[Effect]:
        match happened:
            case Started() | TimerFired("dial"):
                self.links += 1
                return [Dial(LinkId(self.links), self.address)]
            case LinkOpened():
                self.link = happened.link
                return [StartTimer("send", now)]
            case LinkLost():
                self.losses.append(happened.reason)
                self.link = None
                return [StartTimer("dial", now + SECOND // 10)]
            case TimerFired("send") if self.link is not None:
                self.sent += 1
                return [Send(self.link, [b"%06d" % self.sent]), StartTimer("send", now + 10 * MILLISECOND)]
            case Received():
                self.heard += happened.data
        return []


class Counter:
    """Appends the next number as soon as the one before is durable."""

    def __init__(self) -> None:
        self.durable = 0

    def step(self, now: int, happened: Input) -> list[Effect]:  # noqa: ARG002
        match happened:
            case Started():
                numbers = [int(record) for record in happened.records.get("numbers", [])]
                assert numbers == list(range(1, len(numbers) + 1)), "no gaps, no repetition, in order"
                self.durable = len(numbers)
            case Appended():
                self.durable = happened.token
            case AppendFailed():
                return [Stop(happened.reason)]
        following = self.durable + 1
        return [Append("numbers", following, [b"%d" % following])]


def recorder_in(world: World, **answers: list[Effect]) -> tuple[Host, Recorder]:
    recorder = Recorder(**answers)
    host = world.add("node", lambda: recorder)
    host.start()
    return host, recorder


def pair(faults: Faults = CALM, seed: int = 1) -> tuple[World, Caller, Echo]:
    world = World(seed, faults)
    caller, echo = Caller("server"), Echo()
    world.add("client", lambda: caller)
    world.add("server", lambda: echo)
    world.hosts["server"].start()
    world.hosts["client"].start()
    return world, caller, echo


# ---- timers, clocks, processes


def test_a_timer_fires_by_its_nodes_clock_is_replaced_and_stopped() -> None:
    world = World(1, Faults(drift=100_000))
    host, recorder = recorder_in(world)
    start = host.now
    for timer in ("kept", "stopped", "replaced"):
        recorder.answers = {"Appended": [StartTimer(timer, start + SECOND)]}
        host.handle(Appended("", 0))
    recorder.answers = {"Appended": [StopTimer("stopped"), StartTimer("replaced", start + 2 * SECOND)]}
    host.handle(Appended("", 0))
    world.run(3 * SECOND)
    fired = [(now, happened) for now, happened in recorder.told if isinstance(happened, TimerFired)]
    assert [happened.timer for _, happened in fired] == ["kept", "replaced"]
    assert [0 <= now - start - delay < 2 for (now, _), delay in zip(fired, (SECOND, 2 * SECOND), strict=True)]


def test_a_jump_of_the_clock_makes_timers_due() -> None:
    world = World(1)
    host, recorder = recorder_in(world)
    recorder.answers = {"Appended": [StartTimer("t", host.now + 60 * SECOND)]}
    host.handle(Appended("", 0))
    world.run(SECOND)
    before = host.now
    host.jump(120 * SECOND)
    world.run(SECOND)
    assert recorder.told[-1] == (before + 120 * SECOND, TimerFired("t"))


def test_a_stalled_process_gets_everything_afterwards_in_order_but_no_timer_that_was_stopped() -> None:
    world = World(1)
    host, recorder = recorder_in(world, Appended=[StopTimer("t")])
    recorder.answers = {"AppendFailed": [StartTimer("t", host.now + SECOND)], "Appended": [StopTimer("t")]}
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
        machines.append(Recorder(Started=[StartTimer("t", 0)]))
        return machines[-1]

    host = world.add("node", build)
    host.start()
    host.crash(power=True)
    world.restart(host, SECOND)
    world.run(2 * SECOND)
    assert [machine.inputs for machine in machines] == [[Started({})], [Started({}), TimerFired("t")]]


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
        until=5 * SECOND, crashes=4.0, power_cuts=0.7, mean_downtime=SECOND // 5,
        disk=DiskFaults(sync_error=0.002, full=0.001),
    )  # fmt: skip
    world = World(seed, faults)
    durable: list[int] = [0]
    machines: list[Counter] = []

    def build() -> Counter:
        durable.append(machines[-1].durable if machines else 0)
        machines.append(Counter())
        return machines[-1]

    world.add("node", build).start()
    Adversary(world).begin()
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


# ---- streams


def test_bytes_arrive_whole_and_in_order_both_ways() -> None:
    world, caller, echo = pair()
    world.run(5 * SECOND)
    expected = b"".join(b"%06d" % number for number in range(1, caller.sent + 1))
    assert caller.sent > 400
    assert expected.startswith(echo.heard)
    assert echo.heard.startswith(caller.heard)
    assert len(caller.heard) > 2000
    assert caller.losses == []


def test_a_dial_is_refused_by_who_is_down_and_times_out_at_who_is_unreachable() -> None:
    world = World(1)
    caller = Caller("server")
    world.add("client", lambda: caller).start()
    world.add("server", Echo)
    world.run(SECOND)
    assert set(caller.losses) == {"connection refused"}
    world.hosts["server"].start()
    world.network.block("server", "client")
    world.run(2 * SECOND)
    caller.losses.clear()
    world.run(10 * SECOND)
    assert set(caller.losses) == {"timed out"}
    world.network.unblock("server", "client")
    world.run(20 * SECOND)
    assert caller.heard


def test_a_closed_link_is_lost_to_the_peer_after_the_last_word_and_to_nobody_else() -> None:
    world = World(1)
    recorder = Recorder(Started=[Dial(LinkId(1), "server")])
    world.add("client", lambda: recorder)
    server = Recorder(Started=[Serve()], LinkOpened=[Send(LinkId(1), [b"bye"]), Close(LinkId(1), "enough")])
    world.add("server", lambda: server)
    world.hosts["server"].start()
    world.hosts["client"].start()
    world.run(SECOND)
    last_words = b"".join(happened.data for happened in recorder.inputs if isinstance(happened, Received))
    assert last_words == b"bye"
    assert recorder.inputs[-1] == LinkLost(LinkId(1), "the peer closed the link")
    assert [type(happened) for happened in server.inputs] == [Started, LinkOpened]


def test_a_partition_holds_bytes_back_and_a_healed_one_delivers_them() -> None:
    world, caller, echo = pair()
    world.run(SECOND)
    world.network.block("client", "server")
    world.run(2 * SECOND)
    heard, sent = len(echo.heard), caller.sent
    world.run(4 * SECOND)
    assert len(echo.heard) == heard, "one direction stands still"
    assert caller.sent > sent
    world.network.unblock("client", "server")
    world.run(5 * SECOND)
    assert b"".join(b"%06d" % number for number in range(1, caller.sent + 1)).startswith(echo.heard)
    assert len(echo.heard) > heard + 6 * 150
    assert caller.losses == []


def test_a_broken_link_is_noticed_by_both_sides_unless_it_is_half_open() -> None:
    for half_open, noticed in ((0.0, {2}), (1.0, {0, 1})):
        counts = set()
        for seed in range(20):
            world = World(seed, Faults(half_open=half_open))
            one, other = Recorder(Started=[Dial(LinkId(1), "b")]), Recorder(Started=[Serve()])
            world.add("b", lambda other=other: other).start()  # type: ignore[misc]
            world.add("a", lambda one=one: one).start()  # type: ignore[misc]
            world.run(SECOND)
            world.network.sever(world.network.links[0], "reset")
            world.run(2 * SECOND)
            counts.add(sum(isinstance(each.inputs[-1], LinkLost) for each in (one, other)))
        assert counts <= noticed | {1}
        assert counts & noticed


def test_a_killed_peer_is_noticed_and_one_without_power_may_not_be() -> None:
    world, caller, _ = pair()
    world.run(SECOND)
    world.hosts["server"].crash(power=False)
    world.run(2 * SECOND)
    assert caller.losses
    silent = 0
    for seed in range(20):
        world, caller, _ = pair(seed=seed)
        world.run(SECOND)
        world.hosts["server"].crash(power=True, silent=True)
        world.run(2 * SECOND)
        silent += not caller.losses
    assert silent > 10


# ---- datagrams


def test_datagrams_are_whole_and_get_lost_repeated_and_overtaken() -> None:
    faults = Faults(weather=Weather(loss=0.2, duplication=0.2, mean_delay=20 * MILLISECOND))
    world = World(1, faults)
    caller, echo = Caller("datagram:server"), Echo()
    world.add("server", lambda: echo).start()
    world.add("client", lambda: caller).start()
    world.run(5 * SECOND)
    numbers = [int(caller.heard[at : at + 6]) for at in range(0, len(caller.heard), 6)]
    assert len(set(numbers)) < caller.sent - 1, "lost"
    assert len(set(numbers)) < len(numbers), "repeated"
    assert numbers != sorted(numbers), "overtaken"
    assert (caller.losses, echo.opened) == ([], 1)


def test_datagrams_for_who_is_gone_are_lost_silently_and_who_is_back_gets_a_new_link() -> None:
    world = World(1)
    caller, echoes = Caller("datagram:server"), []

    def build() -> Echo:
        echoes.append(Echo())
        return echoes[-1]

    server = world.add("server", build)
    server.start()
    world.add("client", lambda: caller).start()
    world.run(SECOND)
    server.crash(power=True)
    world.run(2 * SECOND)
    server.start()
    world.run(3 * SECOND)
    assert caller.losses == []
    assert [echo.opened for echo in echoes] == [1, 1]
    assert echoes[1].heard


# ---- everything at once


def test_the_same_seed_gives_the_same_digest_and_another_seed_another() -> None:
    faults = Faults(
        until=5 * SECOND, weather=Weather(damage=0.05), breaks=1.0, partitions=1.0, crashes=1.0, stalls=1.0, jumps=1.0,
        drift=500,
    )  # fmt: skip

    def digest(seed: int) -> tuple[str, list[Anomaly]]:
        world, _, _ = pair(faults, seed)
        Adversary(world).begin()
        world.run(10 * SECOND)
        return world.trace.digest(), world.anomalies

    assert digest(7) == digest(7)
    assert digest(7)[0] != digest(8)[0]


def test_after_the_faults_everything_is_healed() -> None:
    faults = Faults(until=10 * SECOND, weather=Weather(damage=0.1), partitions=2.0, crashes=1.0, stalls=1.0)
    for seed in range(3):
        world, caller, _ = pair(faults, seed)
        adversary = Adversary(world)
        adversary.begin()
        world.run(10 * SECOND)
        assert sum(adversary.struck.values()) > 10
        assert all(host.up for host in world.hosts.values())
        assert not world.network.blocked("client", "server")
        assert not world.network.blocked("server", "client")
        assert world.network.sky.weather.damage == 0
        heard = len(caller.heard)
        world.run(75 * SECOND)
        assert len(caller.heard) > heard
