"""`stentor topic` and `stentor repository`: reliable topics from the command line, with real processes."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Command, Fabric, fabric, in_process
from tests.end_to_end.command import stentor as command
from tests.end_to_end.network import process, until

import stentor

THREE = """
[fabric]
log = "error"

[[node]]
name = "b1"
listen = "127.0.0.1:0"

[[repository]]
name = "r1"

[[repository]]
name = "r2"
storage = "segments:second"

[[repository]]
name = "r3"
"""


@contextmanager
def repositories(folder: Path) -> Iterator[Fabric]:
    """A broker and three repositories, each as a process."""
    (folder / "three.toml").write_text(THREE)
    with Fabric("--config", "three.toml", cwd=folder) as running:
        yield running


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    """Shared by tests that do not mind which topics there are."""
    with repositories(tmp_path_factory.mktemp("three")) as running:
        yield running


def tell(url: str, *words: str, code: int = 0, tls: Path | None = None) -> str:
    """What a command says."""
    more = () if tls is None else ("--tls", str(tls))
    done = in_process(*words, "--url", url, *more)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def status(url: str, name: str = "") -> dict[str, dict[str, dict[str, object]]]:
    """The topics of repositories."""
    reports = json.loads(tell(url, "repository", "status", *([name] if name else []), "--json"))
    return {each: report["topics"] for each, report in reports.items()}


def send(url: str, topic: str, bodies: list[bytes], tls: Path | None = None) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            stentor.connect(url, wait=PATIENCE, tls=tls) as client,
            client.publisher(topic, name="shop") as shop,
        ):
            for body in bodies:
                await shop.send(body)

    asyncio.run(main())


def take(url: str, topic: str, count: int) -> list[bytes]:
    async def main() -> list[bytes]:
        found: list[bytes] = []
        async with (
            asyncio.timeout(PATIENCE),
            stentor.connect(url, wait=PATIENCE) as client,
            client.subscribe(topic, name="billing", from_="beginning") as events,
        ):
            async for event in events:
                found.append(event.body)
                if len(found) == count:
                    break
        return found

    return asyncio.run(main())


@pytest.mark.req("RD-01", "RD-14", "UX-04")
def test_reliable_topics_out_of_the_box(tmp_path: Path) -> None:
    with fabric(tmp_path) as running:
        url = running.url()
        assert "there are no reliable topics yet" in tell(url, "topic", "show")
        assert tell(url, "topic", "create", "orders", "--reliable") == "orders is reliable on main, 1 copy\n"
        granted = tell(url, "topic", "grant", "orders", "--publisher", "shop", "--subscriber", "billing")
        assert granted == "shop may be a publisher of orders\nbilling may be a subscriber of orders\n"
        send(url, "orders", [b"1", b"2", b"3"])
        (node,) = running.nodes()
        os.kill(node, signal.SIGKILL)
        running.line("node local is back")
        assert take(url, "orders", 3) == [b"1", b"2", b"3"]
        shown = until(lambda: tell(url, "topic", "show", "orders"))
        for word in ("owned by anonymous", "1 of 1", "kept 1 d after everyone", "main", "shop", "billing"):
            assert word in shown
        until(lambda: status(url)["main"]["orders"]["subscribers"]["billing"]["lag"] == 0)  # type: ignore[index]
        assert "orders" in tell(url, "topic", "show")
        assert "billing" in tell(url, "topic", "revoke", "orders", "--subscriber", "billing")
        again = tell(url, "topic", "revoke", "orders", "--subscriber", "billing", code=4)
        assert again == "stentor: billing is no subscriber of this topic\n"
        last = tell(url, "repository", "remove", "main", code=4)
        assert "main is the last repository of orders: `stentor topic bundle orders add NAME`" in last
        assert tell(url, "topic", "delete", "orders", "--yes") == "orders is deleted\n"
        until(lambda: not status(url)["main"])
        assert tell(url, "repository", "remove", "main") == "main left\n"
        assert "no repository answers: `stentor up` without a file runs one" in tell(url, "topic", "show", code=3)
        assert "local" in tell(url, "status"), "the broker goes on without it"
        running.interrupt()
        assert running.ended() == 0


@pytest.mark.req("RD-15", "RD-20", "RD-21")
def test_a_bundle_grows_shrinks_and_survives(tmp_path: Path) -> None:
    with repositories(tmp_path) as three:
        grow_shrink_and_survive(three, tmp_path)


def grow_shrink_and_survive(three: Fabric, tmp_path: Path) -> None:
    url = three.url("b1")
    told = tell(url, "topic", "create", "orders", "--reliable", "--repositories", "r1,r2", "--keep", "2d")
    assert told == "orders is reliable on r1, r2, 2 copies\n"
    assert tell(url, "topic", "create", "orders", "--reliable", "--repositories", "r2,r1") == told, "it is so already"
    tell(url, "topic", "grant", "orders", "--publisher", "shop", "--subscriber", "billing")
    send(url, "orders", [b"%d" % number for number in range(20)])
    assert tell(url, "topic", "bundle", "orders", "add", "r3") == "r3 has all of orders\n"
    assert tell(url, "topic", "bundle", "orders", "remove", "r1") == "r1 left orders\n"
    left = {"r1": [], "r2": ["orders"], "r3": ["orders"]}
    until(lambda: {name: list(topics) for name, topics in status(url).items()} == left)

    os.kill(process(tmp_path, "repositories/r2"), signal.SIGKILL)
    three.line("node r2 is back")

    def whole() -> bool:
        topics = [status(url, name)[name]["orders"] for name in ("r2", "r3")]
        assert all(topic["ready"] and topic["members"] == ["r2", "r3"] for topic in topics)
        return True

    until(whole)
    with Command("repository", "add", "r4", "--storage", "segments:four", "--url", url, cwd=tmp_path) as fourth:
        fourth.line('"name":"r4"')
        assert tell(url, "topic", "bundle", "orders", "add", "r4") == "r4 has all of orders\n"
        assert (tmp_path / "four").is_dir()
        assert take(url, "orders", 20) == [b"%d" % number for number in range(20)]
        table = tell(url, "repository", "status")
        for word in ("r4, serves everyone", "r1, serves everyone, has no topics", "billing at ", "r3 ready"):
            assert word in table
        assert tell(url, "repository", "drain", "r3") == "r3 has no topics any more\n"
        assert tell(url, "repository", "remove", "r4") == "r4 left\n"
        assert fourth.ended() == 3, "nobody is to start it again"
    assert "r2 is the last repository of orders" in tell(url, "repository", "drain", "r2", code=4)
    assert "r2 is the last repository of orders" in tell(url, "topic", "bundle", "orders", "remove", "r2", code=4)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("topic create t", 2, "best-effort topics need no creation"),
        (
            "topic create t --reliable --repositories r1,r9",
            3,
            "the repository 'r9' does not answer; those that do are r1",
        ),
        ("topic create t --reliable --repositories r1 --copies 2", 2, "2 copies need as many repositories"),
        ("topic create t --reliable --repositories r1 --hold-at-border", 2, "has publishers, and none does"),
        ("topic create there --reliable --repositories r2 --hold-at-border", 2, "and none does"),
        ("topic create t --reliable --keep soon", 2, "--keep: expected a duration"),
        ("topic create t --reliable --keep 0s", 2, "--keep 0s: expected at least 1 s"),
        ("topic create t/# --reliable", 2, "holds a wildcard"),
        ("topic create $t --reliable", 4, "topics that begin with '$' are ours"),
        ("topic create there --reliable --repositories r1", 4, "there exists already, on r2"),
        ("topic create there --reliable", 4, "there exists already, on r2"),
        ("topic grant there", 2, "nobody is named"),
        ("topic grant their --publisher x", 2, "no repository has a reliable topic 'their'; did you mean 'there'?"),
        ("topic grant there --publisher a:b", 4, "'a:b' is no name"),
        ("topic bundle there add r9", 3, "the repository 'r9' does not answer"),
        ("topic bundle there remove r1", 4, "r1 is no repository of there"),
        ("topic bundle there change r1", 2, "is not one of"),
        ("repository status r9", 3, "r9: no answer"),
        ("repository remove r9", 3, "the repository 'r9' does not answer"),
        ("repository add r1", 2, "there is a repository r1 already"),
        ("repository add a/b", 2, "is not a repository's name"),
        ("repository add r9 --storage disk", 2, 'expected "sqlite:DIRECTORY"'),
        ("repository add r9 --unit north", 2, "b1 is not in north"),
    ],
)
def test_requests_that_cannot_be_done_are_refused_with_the_reason(
    three: Fabric, words: str, code: int, told: str
) -> None:
    url = three.url("b1")
    tell(url, "topic", "create", "there", "--reliable", "--repositories", "r2")
    assert told in tell(url, *words.split(), code=code)


@pytest.mark.req("RD-16", "RD-32")
def test_a_subscriber_is_moved_by_hand_and_leaves_for_good(three: Fabric) -> None:
    url = three.url("b1")
    tell(url, "topic", "create", "moved", "--reliable", "--repositories", "r1,r2")
    tell(url, "topic", "grant", "moved", "--publisher", "shop", "--subscriber", "billing")
    with stentor.blocking.connect(url) as client, client.subscribe("moved", "price > 2", name="billing") as events:
        (to,) = {"r1", "r2"} - {events.repository}
        moved = tell(url, "topic", "steer", "moved", "--subscriber", "billing", "--to", to)
        assert moved == f"{to} serves billing, a subscriber of moved\n"
        until(lambda: events.repository == to)
        nobody = tell(url, "topic", "steer", "moved", "--to", "r1", code=2)
        assert "who is to be moved? Give --publisher NAME or --subscriber NAME" in nobody
        nowhere = tell(url, "topic", "steer", "moved", "--subscriber", "billing", "--to", "r3", code=2)
        assert "r3 is no repository of moved: these are r1, r2" in nowhere
        left = tell(url, "topic", "leave", "moved", "--name", "billing")
        assert left == "billing is no subscriber of moved any more; nothing is kept for it\n"
        with pytest.raises(stentor.Fenced, match="billing has left moved: its subscription was ended"):
            events.next(PATIENCE)
    again = tell(url, "topic", "leave", "moved", "--name", "billing", code=4)
    assert "billing is no subscriber of moved: there is nothing to leave" in again


@pytest.mark.req("RD-01")
def test_only_the_owner_may_change_a_topic(tmp_path: Path) -> None:
    certificates = tmp_path / "certs"
    assert in_process("certs", "init", str(certificates), "--client", "alice", "--client", "bob").returncode == 0
    alice, bob, node = certificates / "clients" / "alice", certificates / "clients" / "bob", certificates / "node"
    with fabric(tmp_path, "--tls", node) as running:
        url = running.url()
        assert "orders is reliable on main" in tell(url, "topic", "create", "orders", "--reliable", tls=alice)
        granted = tell(url, "topic", "grant", "orders", "--publisher", "shop", "--principal", "bob", tls=alice)
        assert granted == "shop may be a publisher of orders, if they are bob\n"
        send(url, "orders", [b"1"], tls=bob)
        with pytest.raises(stentor.Refused, match="shop is bob, not alice"):
            send(url, "orders", [b"2"], tls=alice)
        by_name = tell(url, "topic", "grant", "orders", "--subscriber", "billing", tls=alice)
        assert by_name == "billing may be a subscriber of orders, if they are billing\n"
        by_all = tell(url, "topic", "grant", "orders", "--subscriber", "audit", "--anyone", tls=alice)
        assert by_all == "audit may be a subscriber of orders, whoever they are\n"
        shown = tell(url, "topic", "show", "orders", tls=alice).splitlines()
        assert ["! anyone" in line for line in shown if line.startswith(("billing ", "audit "))] == [True, False]
        refusals = (
            "grant orders --subscriber x",
            "revoke orders --publisher shop",
            "delete orders",
            "delete orders -y",
        )
        for words in refusals:  # nobody is asked whether to delete what it cannot delete
            assert "belongs to alice, not to bob" in tell(url, "topic", *words.split(), code=4, tls=bob)
        refused = tell(url, "repository", "drain", "main", code=4, tls=bob)
        assert "only node, who runs main, or an operator can make it leave" in refused
        done = command("repository", "add", "r2", "--url", url, "--tls", alice, "--log", "error", cwd=tmp_path)
        assert done.returncode == 1
        assert "only who has a node's certificate may be a repository" in done.stderr


def test_reliable_topics_work_in_a_fleet_of_one_process(tmp_path: Path) -> None:
    (tmp_path / "three.toml").write_text(THREE)
    with Fabric("--config", "three.toml", "--in-process", cwd=tmp_path) as running:
        url = running.url("b1")
        assert running.nodes() == []
        assert tell(url, "topic", "create", "orders", "--reliable") == "orders is reliable on r1, r2, r3, 2 copies\n"
        assert tell(url, "repository", "drain", "r1") == "r1 has no topics any more\n"
        assert tell(url, "repository", "remove", "r1") == "r1 left\n"
        running.line("node r1 left the network")
        running.interrupt()
        assert running.ended() == 0
