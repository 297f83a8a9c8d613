"""The fabric's token from the command line: what strangers on the machine cannot do, and how operators are known."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.command import Command, Fabric, alive, fabric
from tests.end_to_end.command import stentor as command
from tests.integration.ports import free_port


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("token")


@pytest.fixture(scope="module")
def up(home: Path) -> Iterator[Fabric]:
    with fabric(home) as running:
        yield running


@pytest.fixture(scope="module")
def stranger(home: Path, up: Fabric) -> dict[str, str]:
    """The environment of somebody who has another runtime directory, as every other user of the machine has."""
    other = home / "other-runtime"
    other.mkdir(mode=0o700)
    return {"STENTOR_URL": up.url(), "XDG_RUNTIME_DIR": str(other)}


def test_the_token_is_made_for_its_owner_only(home: Path, up: Fabric) -> None:
    token = home / "data" / "fabric.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert token.read_text().strip() not in "".join(up.out + up.err)


@pytest.mark.parametrize(
    "order",
    [
        ["repository", "remove", "main"],
        ["repository", "drain", "main"],
        ["broker", "remove", "local"],
        ["link", "add", "local", "127.0.0.1:1", "--at-once"],
        ["topic", "create", "$mail", "--reliable"],
    ],
    ids=lambda order: " ".join(order[:2]),
)
def test_a_stranger_gives_no_orders(up: Fabric, stranger: dict[str, str], order: list[str]) -> None:
    nodes = up.nodes()
    done = command(*order, env=stranger)
    assert done.returncode == 4, done.stderr
    assert "--token FILE" in done.stderr
    assert all(map(alive, nodes))
    status = command("repository", "status", env=stranger)
    assert "main, serves everyone" in status.stdout, "asking needs no token"


def test_a_stranger_publishes_and_subscribes(stranger: dict[str, str]) -> None:
    with Command("sub", "t", "--count", "1", env=stranger) as reader:
        reader.line("subscribed", err=True)
        assert command("pub", "t", "hello", env=stranger).returncode == 0
        assert reader.ended() == 0


def test_a_stranger_cannot_be_a_repository_or_a_broker(home: Path, up: Fabric, stranger: dict[str, str]) -> None:
    with Command("repository", "add", "r2", "--data", home / "thief", "--http", "", env=stranger) as thief:
        assert thief.ended() != 0
        assert "only who proves the fabric's token may be a repository" in thief.errors
    address = up.url().removeprefix("stentor://")
    with Command(
        "broker", "add", "other", "--knowing", address, "--data", home / "thief", "--http", "", env=stranger
    ) as thief:
        thief.line("link refused .*only who proves the fabric's token may be a broker", err=True)


def test_a_topic_is_changed_and_deleted_with_the_token(home: Path, up: Fabric, stranger: dict[str, str]) -> None:
    assert command("topic", "create", "orders", "--reliable", env=stranger).returncode == 0
    for change in (["grant", "orders", "--publisher", "shop"], ["delete", "orders"], ["delete", "orders", "--yes"]):
        done = command("topic", *change, env=stranger)
        assert done.returncode == 4, done.stderr
        assert "--token FILE" in done.stderr
        assert "delete all of it?" not in done.stdout + done.stderr, "it is refused before anything is asked"
    (home / "wrong").touch(mode=0o600)
    (home / "wrong").write_text("0" * 64)
    done = command("topic", "delete", "orders", "--yes", "--token", home / "wrong", env=stranger)
    assert done.returncode == 4, done.stderr
    token = home / "data" / "fabric.token"
    granted = command("topic", "grant", "orders", "--publisher", "shop", "--token", token, env=stranger)
    assert granted.returncode == 0, granted.stderr
    deleted = command("topic", "delete", "orders", "--yes", env={**stranger, "STENTOR_TOKEN": str(token)})
    assert deleted.returncode == 0, deleted.stderr


def test_commands_of_the_fabrics_user_find_the_token_without_an_option(tmp_path: Path, up: Fabric) -> None:
    for words in (["create", "mine", "--reliable"], ["grant", "mine", "--subscriber", "me"], ["delete", "mine", "-y"]):
        done = command("topic", *words, "--url", up.url(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_a_node_with_another_directory_is_given_the_token(tmp_path: Path) -> None:
    """Two brokers of one network that `stentor node` runs, as on two machines, from files of their own."""
    links = '[[link]]\nbetween = ["net/b1", "net/b2"]\n'
    nodes = '[[node]]\nname = "net/b1"\nlisten = "127.0.0.1:{}"\n[[node]]\nname = "net/b2"\nlisten = "127.0.0.1:{}"\n'
    ports = free_port(), free_port()
    (tmp_path / "one.toml").write_text('[fabric]\ndata = "one"\n' + nodes.format(*ports) + links)
    (tmp_path / "two.toml").write_text('[fabric]\ndata = "two"\n' + nodes.format(*ports) + links)
    (tmp_path / "three.toml").write_text(
        '[fabric]\ndata = "three"\ntoken = "two/fabric.token"\n' + nodes.format(*ports) + links
    )
    with Command("node", "net/b2", "-c", "two.toml", cwd=tmp_path) as far:
        far.line("listening", err=True)
        with Command("node", "net/b1", "-c", "one.toml", cwd=tmp_path) as near:
            near.line("link refused .*what was proved is another one", err=True)
        with Command("node", "net/b1", "-c", "three.toml", cwd=tmp_path) as near:
            near.line("linked", err=True)
        told = {"STENTOR_TOKEN": str(tmp_path / "two" / "fabric.token")}
        with Command("node", "net/b1", "-c", "one.toml", cwd=tmp_path, env=told) as near:
            near.line("linked", err=True)
        lost = command("node", "net/b1", "-c", "one.toml", "--token", "nowhere", cwd=tmp_path)
        assert lost.returncode == 2
        assert "nowhere: no such token" in lost.stderr
