"""`stentor pub` and `stentor sub`: everything they offer, and everything that can be wrong with what they are given."""

import json
import os
import pty
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, STENTOR, Command, Fabric, environment, in_process
from tests.end_to_end.command import stentor as command
from tests.integration.ports import free_port
from tests.skipping import system_tool

import stentor


def subscribed(running: Fabric, *arguments: str) -> Command:
    """`stentor sub`, when it is."""
    reader = Command("sub", *arguments, "--url", running.url())
    reader.begun("subscribed", err=True)
    return reader


def events(reader: Command) -> list[dict[str, object]]:
    assert reader.ended() == 0, reader.errors
    return [json.loads(line) for line in reader.out]


@pytest.mark.req("UX-04")
def test_attributes_of_every_type(running: Fabric) -> None:
    with subscribed(running, "types/#", "--count", "1", "--json") as reader:
        done = command(
            "pub",
            "types/all",
            "body",
            "--attr",
            "i=-5",
            "--attr",
            "d=2.5",
            "--attr",
            "e=1e3",
            "--attr",
            "yes=true",
            "--attr",
            "no=false",
            "--attr",
            "s=some text",
            "--attr",
            "empty=",
            "--attr",
            "underscored=1_000",
            "--attr",
            "equals=a=b",
            "--attr",
            'digits:="007"',
            "-a",
            "j:=7",
            "-a",
            "f:=7.0",
            "-a",
            "b:=true",
            "--url",
            running.url(),
        )
        assert done.returncode == 0
        assert done.stdout == ""
        assert done.stderr == "published 1 event on types/all\n"
        (event,) = events(reader)
    assert (event["topic"], event["body"], event["number"]) == ("types/all", "body", 1)
    attributes = event["attributes"]
    assert attributes == {
        "i": -5,
        "d": 2.5,
        "e": 1000.0,
        "yes": True,
        "no": False,
        "s": "some text",
        "empty": "",
        "underscored": "1_000",
        "equals": "a=b",
        "digits": "007",
        "j": 7,
        "f": 7.0,
        "b": True,
    }
    assert isinstance(attributes, dict)
    assert isinstance(attributes["f"], float)
    assert isinstance(attributes["j"], int)


@pytest.mark.req("UX-04", "GE-06")
def test_filters_and_output_for_people(running: Fabric) -> None:
    with subscribed(running, "flights/+", "--where", "carrier = 'UA' AND dep_delay > 60", "--count", "2") as reader:
        assert reader.line("subscribed to flights/. where carrier = 'UA' AND dep_delay > 60", err=True)
        with stentor.blocking.connect(running.url(), wait=PATIENCE) as client:
            client.publish("flights/jfk", b"on time", carrier="UA", dep_delay=0.0)
            client.publish("flights/jfk", b"other", carrier="AA", dep_delay=99.0)
            client.publish("flights/jfk/gate", b"too deep", carrier="UA", dep_delay=99.0)
            client.publish("flights/jfk", b"late", carrier="UA", dep_delay=75.5, night=True)
            client.publish("flights/lga", "Zürich\xff".encode("latin-1"), carrier="UA", dep_delay=61)
            client.publish("flights/lga", b"third", carrier="UA", dep_delay=61)
        assert reader.ended() == 0
    assert reader.out == [
        "flights/jfk carrier=UA dep_delay=75.5 night=true  late",
        "flights/lga carrier=UA dep_delay=61  Z\\xfcrich\\xff",
    ]
    assert len(reader.err) == 1


def test_bodies_from_a_file_and_from_standard_input(running: Fabric, tmp_path: Path) -> None:
    (tmp_path / "bodies").write_bytes(b"one\ntwo\r\n\nb\xffd\nlast without end")
    with subscribed(running, "lines", "--count", "10", "--json") as reader:
        done = command("pub", "lines", "--from", tmp_path / "bodies", "--url", running.url())
        assert (done.returncode, done.stderr) == (0, "published 5 events on lines\n")
        done = command("pub", "lines", "--from", "-", "--url", running.url(), stdin="a\nb\n")
        assert (done.returncode, done.stderr) == (0, "published 2 events on lines\n")
        done = command("pub", "lines", "--from", "-", "--count", "3", "--url", running.url(), stdin="1\n2\n3\n4\n5\n")
        assert (done.returncode, done.stderr) == (0, "published 3 events on lines\n")
        found = [event.get("body", event.get("body_base64")) for event in events(reader)]
    assert found == ["one", "two\r", "", "Yv9k", "last without end", "a", "b", "1", "2", "3"]


def test_a_count_repeats_the_body_at_a_rate(running: Fabric) -> None:
    with subscribed(running, "many", "--count", "30", "--json") as reader:
        done = command("pub", "many", "again", "--count", "30", "--rate", "1000", "--url", running.url())
        assert (done.returncode, done.stderr) == (0, "published 30 events on many\n")
        found = events(reader)
    assert [event["body"] for event in found] == ["again"] * 30
    assert [event["number"] for event in found] == list(range(1, 31))


def test_long_work_shows_a_bar_on_a_terminal(running: Fabric) -> None:
    shown, terminal = pty.openpty()
    with subprocess.Popen(
        [STENTOR, "pub", "slowly", "x", "--count", "40", "--rate", "20", "--url", running.url()],
        stderr=terminal,
        stdin=subprocess.DEVNULL,
        env=environment({"TERM": "xterm", "COLUMNS": "100"}),
    ) as child:
        os.close(terminal)
        seen = b""
        while True:
            try:
                part = os.read(shown, 65536)
            except OSError:  # a terminal ends so
                break
            if not part:
                break
            seen += part
        assert child.wait(PATIENCE) == 0
    os.close(shown)
    assert b"publishing" in seen
    assert b"/40" in seen
    assert b"published 40 events on slowly" in seen


def test_an_option_or_the_environment_names_the_broker(running: Fabric) -> None:
    done = command("pub", "t", "x", env={"STENTOR_URL": running.url()})
    assert done.returncode == 0
    done = command("pub", "t", "x", "--url", running.url(), env={"STENTOR_URL": "stentor://127.0.0.1:1"})
    assert done.returncode == 0, "what is said on the command line goes before the environment"


# ---- what can be wrong


@pytest.mark.req("UX-04")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pub", "a/+", "x"], "holds a wildcard: '+' and '#' are for subscribing"),
        (["pub", "a", "x", "--attr", "x:=NaN"], "is not JSON"),
        (["pub", "a", "x", "--attr", "x=1e999"], "attribute 'x' is inf"),
        (["pub", "a", "x", "--attr", "x:=[1]"], "attributes are bool, int, float or str"),
        (["pub", "a", "x", "--attr", "x"], "write name=value, or name:=JSON"),
        (["pub", "a", "--from", "no-such-file"], "--from no-such-file: No such file or directory"),
        (["pub", "a", "x", "--from", "-"], "a body or --from, not both"),
        (["pub", "a", "x", "--colour"], "No such option: --colour"),
        (["pub", "a", "x", "--count", "0"], "greater than or equal to 1"),
        (["sub", "a", "--url", "http://127.0.0.1:7420"], "write stentor://host:port"),
        (["sub", "a", "--tls", "no-such-directory"], "no-such-directory/ca.pem: no such file"),
        (["frobnicate"], "No such command"),
    ],
)
def test_wrong_use_is_told_at_once(tmp_path: Path, arguments: Sequence[str], told: str) -> None:
    done = in_process(*arguments, cwd=tmp_path, env={"STENTOR_URL": "stentor://127.0.0.1:1"})
    assert done.returncode == 2, done
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_wrong_use_of_the_real_command() -> None:
    done = command("pub", "a/+", "x", "--url", "stentor://127.0.0.1:1")
    assert done.returncode == 2
    assert done.stderr == (
        "stentor: topic 'a/+' holds a wildcard: '+' and '#' are for subscribing, publish on one topic at a time\n"
    )
    done = command("pub", "a", "--colour")
    assert done.returncode == 2
    assert "No such option: --colour" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sub", "a/#/b"], "stentor: pattern 'a/#/b': '#' stands for all that follows, so it must be the last level\n"),
        (["sub", "a", "--where", "x = "], "stentor: the filter ends too early"),
    ],
)
def test_a_wrong_subscription_is_told_and_no_more(running: Fabric, arguments: Sequence[str], told: str) -> None:
    done = command(*arguments, "--url", running.url())
    assert done.returncode == 2
    assert done.stderr.startswith(told)
    assert "never retrieved" not in done.stderr


def test_a_body_over_the_limit(running: Fabric, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(10_000_000))
    done = command("pub", "t", "--from", tmp_path / "large", "--url", running.url())
    assert done.returncode == 2
    assert "the body has 10000000 bytes, the broker takes 1048576" in done.stderr


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "secret").touch(0o000)
    # Root may read every file, unless it gives that right away.
    launcher = [system_tool("setpriv"), "--bounding-set=-all"] if os.geteuid() == 0 else []
    with Command("pub", "t", "--from", tmp_path / "secret", launcher=launcher) as child:
        child.line("Permission denied", err=True)
        assert child.ended() == 2


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read")
def test_a_file_that_cannot_be_read(running: Fabric) -> None:
    done = command("pub", "t", "--from", "/proc/self/mem", "--url", running.url())
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "Input/output error" in done.stderr


def test_a_command_that_finds_no_broker_exits_with_3() -> None:
    done = command("pub", "t", "x", "--url", "stentor://127.0.0.1:1")
    assert done.returncode == 3
    assert "no broker at stentor://127.0.0.1:1" in done.stderr
    assert "connection refused" in done.stderr
    assert "stentor up" in done.stderr
    assert done.stdout == ""


def test_a_command_that_is_refused_exits_with_4(tmp_path: Path) -> None:
    (tmp_path / "stentor.toml").write_text(
        '[limits]\nsubscriptions = 1\n[[node]]\nname = "local"\nlisten = "127.0.0.1:0"\n'
    )
    with Fabric("--config", "stentor.toml", cwd=tmp_path) as small, subscribed(small, "a"):
        done = command("sub", "b", "--url", small.url())
        assert done.returncode == 4
        assert "too many subscriptions" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_command_that_is_interrupted_exits_with_130(running: Fabric) -> None:
    with Command("pub", "t", "x", "--count", "1000000", "--rate", "50", "--url", running.url()) as writer:
        with stentor.blocking.connect(running.url(), wait=PATIENCE) as client, client.subscribe("t") as heard:
            for event in heard:
                assert event.body == b"x"
                break
        writer.interrupt()
        assert writer.ended() == 130
        assert "Traceback" not in writer.errors


def test_a_subscription_ends_with_ctrl_c(running: Fabric) -> None:
    with subscribed(running, "t") as reader:
        reader.interrupt()
        assert reader.ended() == 0, "until Ctrl-C is what it is for"
        assert reader.out == []
        assert len(reader.err) == 1


def test_a_subscription_ends_when_its_output_is_closed(running: Fabric) -> None:
    """`stentor sub … | head -1`"""
    with subprocess.Popen(
        [STENTOR, "sub", "pipe", "--url", running.url()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environment(),
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert b"subscribed" in child.stderr.readline()
        with stentor.blocking.connect(running.url(), wait=PATIENCE) as client:
            client.publish("pipe", b"first")
            assert child.stdout.readline() == b"pipe  first\n"
            child.stdout.close()
            while child.poll() is None:
                client.publish("pipe", b"more")
                time.sleep(0.05)
        assert b"Traceback" not in child.stderr.read()


def test_output_that_cannot_be_written(running: Fabric) -> None:
    with (
        Path("/dev/full").open("wb") as full,
        subprocess.Popen(
            [STENTOR, "sub", "full", "--url", running.url()],
            stdout=full,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=environment(),
        ) as child,
    ):
        assert child.stderr is not None
        assert b"subscribed" in child.stderr.readline()
        with stentor.blocking.connect(running.url(), wait=PATIENCE) as client:
            client.publish("full")
            client.flush()
        assert child.wait(PATIENCE) == 1
        said = child.stderr.read().decode()
    assert "Traceback" not in said
    assert "No space left on device" in said


def test_a_subscription_outlives_the_broker(tmp_path: Path) -> None:
    """What `stentor sub` prints continues after a restart of the whole fabric."""
    address = f"127.0.0.1:{free_port()}"
    url = f"stentor://{address}"
    with Fabric("--listen", address, "--data", tmp_path / "data", cwd=tmp_path) as first:
        reader = subscribed(first, "t", "--count", "1")
        first.interrupt()
        first.ended()
    with reader, Fabric("--listen", address, "--data", tmp_path / "data", cwd=tmp_path):
        with stentor.blocking.connect(url, wait=PATIENCE) as client:
            while reader.process.poll() is None:
                client.publish("t", b"after")
                time.sleep(0.05)
        assert reader.ended() == 0
        assert reader.out == ["t  after"]
