"""Links between hosts: streams, datagrams, partitions, and everything at once."""

from tests.unit.simulation.machines import Caller, Echo, Recorder

from stentor.machine import MILLISECOND, SECOND, Close, Dial, LinkLost, LinkOpened, Received, Send, Serve, Started
from stentor.model.ids import LinkId
from stentor.simulation.fault_injector import FaultInjector
from stentor.simulation.faults import CALM, Faults, LinkFaults
from stentor.simulation.outcome import Anomaly
from stentor.simulation.world import World


def pair(faults: Faults = CALM, seed: int = 1) -> tuple[World, Caller, Echo]:
    world = World(seed, faults)
    caller, echo = Caller("server"), Echo()
    world.add("client", lambda: caller)
    world.add("server", lambda: echo)
    world.hosts["server"].start()
    world.hosts["client"].start()
    return world, caller, echo


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
    faults = Faults(weather=LinkFaults(loss=0.2, duplication=0.2, mean_delay=20 * MILLISECOND))
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
        until=5 * SECOND,
        weather=LinkFaults(damage=0.05),
        breaks=1.0,
        partitions=1.0,
        crashes=1.0,
        stalls=1.0,
        jumps=1.0,
        drift=500,
    )

    def digest(seed: int) -> tuple[str, list[Anomaly]]:
        world, _, _ = pair(faults, seed)
        FaultInjector(world).begin()
        world.run(10 * SECOND)
        return world.trace.digest(), world.anomalies

    assert digest(7) == digest(7)
    assert digest(7)[0] != digest(8)[0]


def test_after_the_faults_everything_is_healed() -> None:
    faults = Faults(until=10 * SECOND, weather=LinkFaults(damage=0.1), partitions=2.0, crashes=1.0, stalls=1.0)
    for seed in range(3):
        world, caller, _ = pair(faults, seed)
        fault_injector = FaultInjector(world)
        fault_injector.begin()
        world.run(10 * SECOND)
        assert sum(fault_injector.struck.values()) > 10
        assert all(host.up for host in world.hosts.values())
        assert not world.network.blocked("client", "server")
        assert not world.network.blocked("server", "client")
        assert world.network.sky.faults.damage == 0
        heard = len(caller.heard)
        world.run(75 * SECOND)
        assert len(caller.heard) > heard
