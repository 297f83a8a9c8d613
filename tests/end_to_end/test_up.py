"""`stentor up` and `stentor node`: fabrics start, say where they listen, mend themselves and leave nothing behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.end_to_end.command import (
    PATIENCE,
    STENTOR,
    Command,
    Fabric,
    alive,
    environment,
    fabric,
    gone,
    in_process,
)
from tests.end_to_end.command import stentor as command
from tests.end_to_end.own_loopback import UNAVAILABLE
from tests.integration.ports import free_port
from tests.skipping import lacks

import stentor

OWN_LOOPBACK = [sys.executable, str(Path(__file__).parent / "own_loopback.py")]

THREE = """
[[node]]
name = "campus/b1"
listen = "127.0.0.1:0"

[[node]]
name = "campus/b2"
listen = "127.0.0.1:0"
http = ""

[[node]]
name = "campus/b3"
listen = "127.0.0.1:0"
storage = "elsewhere"
[node.limits]
largest_body = "4 KiB"

[[unit]]
name = "campus"
connect = "chain"
"""


ONE_OF_EACH = """
[[node]]
name = "b1"
listen = "127.0.0.1:0"

[[repository]]
name = "r1"
"""


@pytest.fixture
def launcher() -> list[str]:
    """How to run a command where port 7420 is free."""
    if subprocess.run([*OWN_LOOPBACK, "/bin/true"], check=False).returncode == UNAVAILABLE:
        lacks("no network namespaces here: the ports that everybody uses may be in use")
    return OWN_LOOPBACK


@pytest.mark.req("UX-01", "UX-04", "UX-06")
def test_up_in_an_empty_folder(tmp_path: Path, launcher: list[str]) -> None:
    with Fabric(cwd=tmp_path, launcher=launcher) as running:
        assert running.url() == "stentor://127.0.0.1:7420"
        assert running.http() == "http://127.0.0.1:7480"
        assert running.line("data in .stentor")
        (node,) = running.nodes()
        join = [*launcher, "--join", str(running.process.pid)]
        with Command("sub", "a/#", "--count", "1", cwd=tmp_path, launcher=join) as reader:
            reader.line("subscribed to a/#", err=True)
            published = subprocess.run(
                [*join, STENTOR, "pub", "a/b", "hello"], check=False, capture_output=True, env=environment()
            )
            assert published.returncode == 0, published.stderr
            assert reader.ended() == 0
            assert reader.out == ["a/b  hello"]
        assert sorted(path.name for path in tmp_path.iterdir()) == [".stentor"], "everything is in one place"
        running.interrupt()
        assert running.ended() == 0
        assert running.out[-1] == "stopped"
        assert running.errors == ""
        assert gone(node)


def test_a_fabric_stops_cleanly_with_clients_connected(tmp_path: Path) -> None:
    with fabric(tmp_path) as running, stentor.blocking.connect(running.url(), wait=PATIENCE) as client:
        (node,) = running.nodes()
        client.publish("t")
        client.flush()
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0
        assert running.errors == ""
        assert gone(node)


def test_no_node_outlives_its_supervisor(tmp_path: Path) -> None:
    with fabric(tmp_path) as running:
        (node,) = running.nodes()
        running.process.kill()
        assert running.process.wait() == -signal.SIGKILL
        assert gone(node)


def test_a_node_that_is_killed_is_started_again(tmp_path: Path) -> None:
    port = free_port()
    with (
        Fabric("--listen", f"127.0.0.1:{port}", "--http", "", "--data", "data", cwd=tmp_path) as running,
        stentor.blocking.connect(running.url(), wait=PATIENCE) as client,
        client.subscribe("t") as events,
    ):
        assert client.status().boot == 1
        (node,) = running.nodes()
        os.kill(node, signal.SIGKILL)
        running.line("node local ended .*SIGKILL.*: starting it again")
        running.line("node local is back")
        while True:
            try:
                assert client.status().boot == 2  # the client came back by itself
                client.flush()
                break
            except stentor.LinkBroken:
                continue
        client.publish("t", b"back")
        for event in events:
            assert event.body == b"back"
            break
        running.interrupt()
        assert running.ended() == 0


def test_three_nodes_of_a_file_are_three_processes(tmp_path: Path) -> None:
    (tmp_path / "stentor.toml").write_text(THREE)
    with Fabric("--config", "stentor.toml", cwd=tmp_path) as running:
        nodes = running.nodes()
        assert len(nodes) == 3
        for name in ("campus/b1", "campus/b2", "campus/b3"):
            with stentor.blocking.connect(running.url(name), wait=PATIENCE) as client:
                assert client.status().node == name
                if name == "campus/b3":
                    with pytest.raises(stentor.BodyTooLarge):
                        client.publish("t", bytes(5000))
        assert (tmp_path / ".stentor" / "campus" / "b1").is_dir()
        assert (tmp_path / "elsewhere" / "boot.log").is_file()
        with urllib.request.urlopen(running.http("campus/b1") + "/readyz", timeout=60) as answer:
            assert answer.read() == b"ready\n"
        assert "http" not in running.line("campus/b2 .*")[0]
        os.kill(nodes[1], signal.SIGKILL)
        running.line("is back")
        assert [alive(node) for node in nodes] == [True, False, True], "the others were left alone"
        nodes = running.nodes()
        running.interrupt()
        assert running.ended() == 0
        assert gone(*nodes)


def test_one_node_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "stentor.toml").write_text(THREE)
    with Command("node", "campus/b2", "--config", "stentor.toml", "--log", "info", "--json-log", cwd=tmp_path) as node:
        ready = json.loads(node.line("campus/b2")[0] and node.out[0])
        assert ready["name"] == "campus/b2"
        with stentor.blocking.connect(f"stentor://{ready['listen']}", wait=PATIENCE) as client:
            assert client.status().node == "campus/b2"
        second = command("node", "campus/b2", "-c", "stentor.toml", cwd=tmp_path)
        assert second.returncode == 2
        assert re.search(r"in use by a running node \(process \d+\): stop it", second.stderr)
        node.interrupt()
        assert node.ended() == 0
        records = [json.loads(line) for line in node.err]
        assert [record["event"] for record in records] == ["listening", "stopped"]
        assert all(record["node"] == "campus/b2" for record in records)


def test_a_node_that_is_not_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "stentor.toml").write_text(THREE)
    done = in_process("node", "campus/b4", "--config", "stentor.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "no node is called 'campus/b4'; did you mean 'campus/b" in done.stderr


@pytest.mark.req("UX-06")
def test_a_wrong_file_is_refused_with_line_key_expectation_and_spelling(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(
        '[fabric]\nlogg = "info"\n\n[[node]]\nname = "a/b"\nlisen = "127.0.0.1:0"\n\n'
        '[[node]]\nname = "c"\nrole = "brocker"\nlisten = 7420\n[node.limits]\nqueue = "8 megs"\n'
    )
    done = command("up", "--config", "wrong.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    for told in (
        "wrong.toml:2: fabric.logg: unknown key; did you mean 'log'?",
        "wrong.toml:6: node[0].lisen: unknown key; did you mean 'listen'?",
        "wrong.toml:10: node[1].role: expected broker, found \"brocker\"; did you mean 'broker'?",
        "wrong.toml:11: node[1].listen: expected host:port in quotes, found 7420 (an integer)",
        "wrong.toml:13: node[1].limits.queue: expected a size such as",
    ):
        assert told in done.stderr
    assert in_process("config", "check", "wrong.toml", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[node]\nname = 1\n", "wrong.toml:1:"),
        ('[[node]]\nname = "a"\n[[node]]\nname = "a"\nlisten = "127.0.0.1:0"\n', "wrong.toml:4: node[1].name"),
    ],
)
def test_other_wrong_files(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "wrong.toml").write_bytes(text.encode("latin-1"))
    done = in_process("up", "-c", "wrong.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = in_process("up", "--config", "nowhere.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "nowhere.toml: cannot read the configuration: No such file" in done.stderr


def test_options_that_a_file_excludes(tmp_path: Path) -> None:
    (tmp_path / "stentor.toml").write_text(THREE)
    done = in_process("up", "--config", "stentor.toml", "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert done.returncode == 2
    assert "set them in the file" in done.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = command("up", "--listen", address, "--data", "one", cwd=tmp_path)
        assert done.returncode in (1, 2)
        assert f"{address} is taken by another program: stop it, or listen on another port" in done.stderr
        assert "Traceback" not in done.stderr
        done = command("up", "--listen", "127.0.0.1:0", "--http", address, "--data", "two", cwd=tmp_path)
        assert done.returncode in (1, 2)
        assert f"cannot serve HTTP on {address}: Address already in use" in done.stderr
        assert "Traceback" not in done.stderr


def test_other_machines_are_kept_out_without_tls(tmp_path: Path) -> None:
    for option in ("--listen", "--http"):
        done = in_process("up", option, "0.0.0.0:0", cwd=tmp_path)
        assert done.returncode == 2
        assert "0.0.0.0:0 can be reached by other machines and has no TLS" in done.stderr
        assert "stentor certs init" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_data_that_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = command("up", "--listen", "127.0.0.1:0", "--data", "file", cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert "cannot keep data in file/local: Not a directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_level_that_does_not_exist(tmp_path: Path) -> None:
    done = command("up", "--listen", "127.0.0.1:0", "--log", "loud", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "warning" in done.stderr


def test_a_node_on_any_port_that_comes_back_can_be_found(tmp_path: Path) -> None:
    with fabric(tmp_path) as running, stentor.blocking.connect(running.url(), wait=PATIENCE) as client:
        client.flush()
        (node,) = running.nodes()
        os.kill(node, signal.SIGKILL)
        back = running.line("node local is back.*")[0]
        found = re.search(r"stentor://\S+", back)
        with stentor.blocking.connect(found[0] if found else running.url(), wait=PATIENCE) as again:
            assert again.status().boot == 2


def test_health_is_where_it_was_when_a_node_or_the_fabric_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "stentor.toml").write_text(ONE_OF_EACH)
    with Fabric("--config", "stentor.toml", cwd=tmp_path) as running:
        places = {name: running.http(name) for name in ("b1", "r1")}
        assert len(set(places.values())) == 2
        for place in places.values():
            assert fetch(place, "/livez") == "alive\n"
        assert "stentor_repository_linked 1.0" in fetch(places["r1"], "/metrics")
        for node in running.nodes():
            os.kill(node, signal.SIGKILL)
        for name, place in places.items():
            running.line(f"node {name} is back")
            assert fetch(place, "/livez") == "alive\n"
        running.interrupt()
        assert running.ended() == 0
    with Fabric("--config", "stentor.toml", cwd=tmp_path) as running:
        assert {name: running.http(name) for name in ("b1", "r1")} == places
    with Command("node", "r1", "--config", "stentor.toml", cwd=tmp_path) as alone:
        alone.line('"name":"r1"')
        assert json.loads(alone.out[0])["http"] == places["r1"]
        assert fetch(places["r1"], "/livez") == "alive\n"
        with pytest.raises(urllib.error.HTTPError, match="503"):
            fetch(places["r1"], "/readyz")


def test_a_port_of_the_last_time_that_others_have_now(tmp_path: Path) -> None:
    (tmp_path / "stentor.toml").write_text(ONE_OF_EACH)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for home in ("b1", "repositories/r1"):
            (tmp_path / ".stentor" / home).mkdir(parents=True)
            (tmp_path / ".stentor" / home / "http").write_text(f"{taken.getsockname()[1]}\n")
        with Fabric("--config", "stentor.toml", cwd=tmp_path) as running:
            for name in ("b1", "r1"):
                assert fetch(running.http(name), "/livez") == "alive\n"


def test_a_broker_shows_the_repository_inside_it(tmp_path: Path) -> None:
    with fabric(tmp_path) as running:
        metrics = fetch(running.http(), "/metrics")
        assert "stentor_clients " in metrics
        assert "stentor_repository_linked 1.0" in metrics
        assert json.loads(fetch(running.http(), "/status"))["repository"]["repository"] == "main"
        assert fetch(running.http(), "/readyz") == "ready\n"
        page = fetch(running.http(), "/")
        assert "<h1>local</h1>" in page
        assert "<h1>main</h1>" in page
        assert command("repository", "remove", "main", "--url", running.url(), cwd=tmp_path).returncode == 0
        while "stentor_repository_linked" in fetch(running.http(), "/metrics"):
            continue
        assert fetch(running.http(), "/readyz") == "ready\n"


def test_process_titles_name_the_node(tmp_path: Path) -> None:
    (tmp_path / "stentor.toml").write_text(ONE_OF_EACH)
    with Fabric("--config", "stentor.toml", cwd=tmp_path) as running:
        assert title(running.process.pid) == "stentor: up stentor.toml"
        assert sorted(map(title, running.nodes())) == ["stentor: broker b1", "stentor: repository r1"]
    with Command("node", "b1", "--config", "stentor.toml", cwd=tmp_path) as alone:
        alone.line('"name":"b1"')
        assert title(alone.process.pid) == "stentor: broker b1"
    with fabric(tmp_path) as running:
        assert title(running.process.pid) == "stentor: up"
        assert [title(node) for node in running.nodes()] == ["stentor: broker local"]


def title(pid: int) -> str:
    """What `ps` shows of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def test_repositories_in_one_process_serve_health_where_the_file_says_so(tmp_path: Path) -> None:
    more = 'http = "127.0.0.1:0"\n[[repository]]\nname = "r2"\n'
    (tmp_path / "stentor.toml").write_text(ONE_OF_EACH + more)
    with Fabric("--config", "stentor.toml", "--in-process", cwd=tmp_path) as running:
        assert fetch(running.http("r1"), "/readyz") == "ready\n"
        assert "http" not in running.line("r2 .*")[0]


def fetch(place: str, path: str) -> str:
    with urllib.request.urlopen(place + path, timeout=PATIENCE) as answer:
        return str(answer.read(), "utf-8")
