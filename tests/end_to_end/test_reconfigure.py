"""`stentor reconfigure`, `link` and `broker remove` on real brokers, while clients publish and nothing may be lost."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.command import Command, Fabric, stentor
from tests.end_to_end.network import until

import stentor as library

BROKERS = ("hall/b1", "hall/b2", "hall/b3", "hall/b4", "lab/b1", "lab/b2")
CHAIN = (("hall/b1", "hall/b2"), ("hall/b2", "hall/b3"), ("hall/b3", "hall/b4"), ("lab/b1", "lab/b2"))
BORDER = ("hall/b1", "lab/b1")
_EACH = 20  # events of a publisher at a time
_PAUSE = 0.01


def write(path: Path, *links: tuple[str, str], cost: float | None = None, brokers: tuple[str, ...] = BROKERS) -> Path:
    """Write a file with brokers and these links; the last one has the cost."""
    text = '[fabric]\nlog = "error"\n\n[colours]\ndelta_max = "50 ms"\n'
    text += "".join(f'\n[[node]]\nname = "{name}"\nlisten = "127.0.0.1:0"\nhttp = ""\n' for name in brokers)
    for near, far in links:
        price = f"cost = {cost}\n" if cost is not None and (near, far) == links[-1] else ""
        text += f'\n[[link]]\nbetween = ["{near}", "{far}"]\n{price}'
    path.write_text(text)
    return path


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Fabric]:
    write(tmp_path / "stentor.toml", *CHAIN, BORDER)
    with Fabric("--config", "stentor.toml", cwd=tmp_path) as up:
        until(lambda: is_legal(up))
        yield up


def is_legal(up: Fabric) -> bool:
    """Whether every scope has one root that reaches all of its brokers."""
    done = stentor("map", "--json", "--url", up.url("hall/b1"))
    if done.returncode:
        return False
    found = json.loads(done.stdout)
    scopes = [found["network"], *found["network"]["units"]]
    return len(found["brokers"]) == len(BROKERS) and all(
        scope["colours"] is not None and scope["colours"]["is_legal"] and not scope["colours"]["silent"]
        for scope in scopes
    )


class Load:
    """Publishers at some brokers and subscribers at some; every event has a number, by which a gap is seen."""

    def __init__(self, up: Fabric, publishers: tuple[str, ...], subscribers: tuple[str, ...]) -> None:
        self._up = up
        self._publishers = publishers
        self._subscribers = subscribers
        self.sent = dict.fromkeys(publishers, 0)
        self.got: dict[str, dict[str, list[int]]] = {name: {} for name in subscribers}
        self._is_over = False

    async def run(self, *commands: tuple[str, ...]) -> list[str]:
        """Publish while commands run one after the other; return what they print."""
        async with asyncio.TaskGroup() as group:
            ready = [asyncio.Event() for _ in self._subscribers]
            for name, event in zip(self._subscribers, ready, strict=True):
                group.create_task(self._subscribe(name, event))
            await asyncio.gather(*(event.wait() for event in ready))
            for name in self._publishers:
                group.create_task(self._publish(name))
            printed = []
            for command in commands:
                await asyncio.sleep(0.5)
                done = await asyncio.to_thread(stentor, *command, "--url", self._up.url(self._publishers[0]))
                assert done.returncode == 0, (command, done.stdout, done.stderr)
                printed.append(done.stdout)
            await asyncio.sleep(0.5)
            self._is_over = True
        return printed

    async def _publish(self, name: str) -> None:
        async with library.connect(self._up.url(name)) as fabric:
            while not self._is_over:
                for _ in range(_EACH):
                    await fabric.publish(f"load/{name}", str(self.sent[name]).encode())
                    self.sent[name] += 1
                await asyncio.sleep(_PAUSE)
            await fabric.publish(f"load/{name}", b"end")
            await fabric.flush()

    async def _subscribe(self, name: str, ready: asyncio.Event) -> None:
        ended = 0
        async with library.connect(self._up.url(name)) as fabric, fabric.subscribe("load/#") as events:
            await events.settled()
            ready.set()
            async for event in events:
                if event.body == b"end":
                    ended += 1
                    if ended == len(self._publishers):
                        return
                    continue
                self.got[name].setdefault(event.topic, []).append(int(event.body))

    def check(self) -> None:
        """All subscribers got all events, once and in order."""
        for name, topics in self.got.items():
            for publisher, count in self.sent.items():
                assert count > 0
                numbers = topics[f"load/{publisher}"]
                assert numbers == list(range(count)), f"{name} got {len(numbers)} of {count} events of {publisher}"


@pytest.mark.req("CO-05", "CO-06", "CO-09", "CO-12", "CO-13")
def test_a_network_is_rebuilt_under_load_without_losing_an_event(network: Fabric, tmp_path: Path) -> None:
    ring = write(tmp_path / "ring.toml", CHAIN[0], CHAIN[2], CHAIN[3], BORDER, ("hall/b1", "hall/b4"))
    far = write(tmp_path / "far.toml", *CHAIN, ("hall/b4", "lab/b2"), cost=3)
    load = Load(network, ("hall/b1", "hall/b4", "lab/b2"), ("hall/b2", "hall/b3", "lab/b1"))
    printed = asyncio.run(
        load.run(
            ("reconfigure", str(ring)),
            ("reconfigure", str(ring)),
            ("reconfigure", str(far)),
            ("link", "cost", "hall/b1", "hall/b2", "7"),
            ("link", "add", "hall/b1", "hall/b3"),
            ("link", "remove", "hall/b2", "hall/b3"),
            ("reconfigure", "--status"),
        )
    )
    load.check()
    assert "done in" in printed[0]
    assert printed[1] == "the network is as the file says\n"
    assert "done in" in printed[-1]


@pytest.mark.req("CO-15")
def test_a_broker_with_clients_leaves_without_losing_an_event(network: Fabric) -> None:
    load = Load(network, ("hall/b1", "lab/b2"), ("hall/b4", "hall/b3"))
    (printed,) = asyncio.run(load.run(("broker", "remove", "hall/b4", "--timeout", "30")))
    load.check()
    assert "hall/b4 left the network" in printed


@pytest.mark.req("CO-08", "CO-09", "CO-13", "CO-15")
def test_brokers_join_and_leave_under_load_as_files_say_the_root_among_them(network: Fabric, tmp_path: Path) -> None:
    grown = write(
        tmp_path / "grown.toml",
        *CHAIN,
        BORDER,
        ("hall/b5", "hall/b4"),
        ("hall/b5", "hall/b1"),
        ("lab/b3", "hall/b5"),
        ("lab/b3", "lab/b2"),
        brokers=(*BROKERS, "hall/b5", "lab/b3"),
    )
    rootless = write(
        tmp_path / "rootless.toml",
        *CHAIN[1:],
        ("hall/b5", "hall/b4"),
        ("lab/b3", "hall/b5"),
        ("lab/b3", "lab/b2"),
        brokers=("hall/b2", "hall/b3", "hall/b4", "hall/b5", "lab/b1", "lab/b2", "lab/b3"),
    )
    load = Load(network, ("hall/b3", "lab/b2"), ("hall/b1", "hall/b4", "lab/b1"))
    printed = asyncio.run(
        load.run(
            ("reconfigure", str(grown), "--dry-run"),
            ("reconfigure", str(grown)),
            ("reconfigure", str(grown)),
            ("reconfigure", str(rootless)),
            ("reconfigure", str(rootless)),
        )
    )
    load.check()
    assert "+ hall/b5 joins by hall/b4\n+ lab/b3 joins by lab/b2\n" in printed[0]
    assert "+ lab/b3 - hall/b5, cost 2" in printed[0]
    assert "lab/b3 has joined by lab/b2\n" in printed[1]
    assert printed[1].count("done in") == 2
    assert printed[2] == printed[4] == "the network is as the file says\n"
    assert "hall/b1 left the network\n" in printed[3]


@pytest.mark.req("CO-09")
def test_a_broker_that_nobody_here_starts_is_waited_for_with_the_command_that_starts_it(
    network: Fabric, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    wanted = write(
        elsewhere / "wanted.toml",
        *CHAIN,
        BORDER,
        ("lab/b3", "lab/b1"),
        ("lab/b3", "lab/b2"),
        brokers=(*BROKERS, "lab/b3"),
    )
    with Command("reconfigure", str(wanted), "--url", network.url("hall/b1"), cwd=tmp_path) as waiting:
        command = waiting.begun(r"^ +stentor (broker add .+)")[1].split()
        with Command(*command, cwd=tmp_path) as started:
            started.begun(r'"name":"lab/b3"')
            assert waiting.ended() == 0
            done = stentor("reconfigure", str(wanted), "--url", network.url("hall/b1"))
            assert done.stdout == "the network is as the file says\n"


@pytest.mark.req("CO-09")
def test_what_no_plan_can_do_is_refused_and_changes_nothing(network: Fabric, tmp_path: Path) -> None:
    def reconfigure(text: str, *options: str) -> str:
        path = tmp_path / "wanted.toml"
        path.write_text(text)
        done = stentor("reconfigure", str(path), *options, "--url", network.url("hall/b1"))
        assert done.returncode != 0, done.stdout
        return done.stderr

    whole = write(tmp_path / "stentor-too.toml", *CHAIN, BORDER).read_text()
    assert "changes how events are forwarded" in reconfigure(
        whole.replace("[fabric]", '[fabric]\nforwarding = "flooding"')
    )
    assert "cannot reach each other" in reconfigure(
        whole.replace('between = ["hall/b2", "hall/b3"]', 'between = ["hall/b2", "lab/b2"]')
    )
    for command in (
        ("link", "remove", "hall/b1", "lab/b1"),
        ("link", "add", "hall/b1", "hall/b2"),
        ("link", "remove", "hall/b1", "hall/b3"),
        ("link", "add", "hall/b1", "hall/b1"),
        ("reconfigure",),
    ):
        done = stentor(*command, "--url", network.url("hall/b1"))
        assert done.returncode != 0, (command, done.stdout)
    done = stentor("reconfigure", "--status", "--url", network.url("hall/b1"))
    assert done.stdout == "no root knows of a plan\n"
    done = stentor("reconfigure", "--abort", "--url", network.url("hall/b1"))
    assert done.stdout == "no plan is under way\n"
