"""`stentor pub --name`, `stentor sub --name` and `stentor topic peek`: reliable topics without a program."""

import fcntl
import json
import os
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.command import PATIENCE, STENTOR, Command, environment, fabric, in_process
from tests.end_to_end.command import stentor as command
from tests.end_to_end.network import until

import stentor

EVIL = "a\x1b[2J\x07\rb\u202e\x9bc"
SHOWN = "a\\x1b[2J\\x07\\rb\\u202e\\x9bc"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with fabric(tmp_path_factory.mktemp("fabric")) as running:
        yield running.url()


def tell(url: str, *words: str, code: int = 0, env: dict[str, str] | None = None) -> str:
    """What a command says; without a terminal, on standard output or standard error."""
    done = command(*words, "--url", url, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def created(url: str, topic: str) -> str:
    tell(url, "topic", "create", topic, "--reliable")
    tell(url, "topic", "grant", topic, "--publisher", "shop", "--subscriber", "billing")
    return topic


def store(url: str, topic: str, bodies: list[bytes], **columns: list[Any]) -> None:
    with (
        stentor.blocking.connect(url, wait=PATIENCE) as client,
        client.publisher(topic, name="shop") as shop,
    ):
        shop.send_many(bodies, columns)
        shop.flush()


def report(url: str, topic: str) -> dict[str, Any]:
    reports = json.loads(tell(url, "topic", "show", topic, "--json"))
    return dict(reports["main"])


def events(url: str, topic: str, *words: str) -> list[dict[str, Any]]:
    """What `stentor sub` prints under a name."""
    done = command("sub", topic, "--name", "billing", "--json", *words, "--url", url)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- publishing


@pytest.mark.req("UX-04", "RD-01")
def test_a_named_publisher_returns_when_all_is_stored(url: str, tmp_path: Path) -> None:
    topic = created(url, "stored")
    assert (
        tell(url, "pub", topic, "one", "--name", "shop", "-a", "price=3.5") == f"stored 1 event on {topic} (1 copy)\n"
    )
    (tmp_path / "lines").write_text("".join(f"{number}\n" for number in range(5000)))
    assert tell(url, "pub", topic, "--from", str(tmp_path / "lines"), "--name", "shop", "-a", "price=1") == (
        f"stored 5,000 events on {topic} (1 copy)\n"
    )
    counted = tell(url, "pub", topic, "x", "--count", "2500", "--name", "shop")
    assert counted == f"stored 2,500 events on {topic} (1 copy)\n"
    paced = tell(url, "pub", topic, "x", "--count", "3", "--rate", "1000", "--name", "shop")
    assert paced == f"stored 3 events on {topic} (1 copy)\n"
    (tmp_path / "nothing").touch()
    assert (
        tell(url, "pub", topic, "--from", str(tmp_path / "nothing"), "--name", "shop")
        == f"stored 0 events on {topic}\n"
    )
    assert report(url, topic)["events"] == 7504
    refused = tell(url, "pub", topic, "x", "--name", "thief", code=4)
    assert refused.endswith(f"`stentor topic grant {topic} --publisher thief`\n")
    assert refused.count("\n") == 1


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_publisher_that_is_stopped_says_how_many_are_stored(url: str, ending: signal.Signals) -> None:
    topic = created(url, f"stopped/{ending.name}")
    with Command("pub", topic, "--from", "-", "--name", "shop", "--url", url) as publisher:
        assert publisher.process.stdin is not None
        publisher.process.stdin.write(b"1\n2\nnot a whole line")
        publisher.process.stdin.flush()
        until(lambda: report(url, topic)["events"] == 2)
        publisher.process.send_signal(ending)
        assert publisher.ended() == 130
    assert publisher.err == [f"known to be stored on {topic}: 2 of 2 sent"]


def test_a_publisher_that_is_fenced_says_how_many_are_stored(url: str) -> None:
    topic = created(url, "fenced")
    with Command("pub", topic, "--from", "-", "--name", "shop", "--url", url) as publisher:
        assert publisher.process.stdin is not None
        publisher.process.stdin.write(b"1\n")
        publisher.process.stdin.flush()
        until(lambda: report(url, topic)["events"] == 1)
        tell(url, "pub", topic, "newer", "--name", "shop")
        publisher.process.stdin.write(b"2\n")
        publisher.process.stdin.close()
        assert publisher.ended() == 4
    assert publisher.err[0] == f"known to be stored on {topic}: 1 of 1 sent"
    assert "took over" in publisher.err[1]


def test_an_event_that_is_too_large_is_named(url: str, tmp_path: Path) -> None:
    topic = created(url, "large")
    (tmp_path / "lines").write_bytes(b"1\n2\n" + b"x" * (2 << 20) + b"\n4\n")
    told = tell(url, "pub", topic, "--from", str(tmp_path / "lines"), "--name", "shop", code=2)
    assert "event 3: the body has 2097152 bytes" in told


# ---- subscribing


@pytest.mark.req("UX-04", "RD-01")
def test_what_was_printed_is_acknowledged_and_only_that(url: str) -> None:
    topic = created(url, "counted")
    store(url, topic, [b"%d" % number for number in range(10)], price=list(range(10)))
    first = events(url, topic, "--from", "beginning", "--count", "3")
    assert [event["body"] for event in first] == ["0", "1", "2"]
    assert [event["redelivered"] for event in first] == [False] * 3
    assert {event["repository"] for event in first} == {"main"}
    assert [event["sequence"] - first[0]["sequence"] for event in first] == [0, 1, 2]
    assert report(url, topic)["subscribers"]["billing"]["lag"] == 7
    done = command("sub", topic, "--name", "billing", "--count", "2", "--from", "beginning", "--url", url)
    lines = [line.replace(" redelivered", "") for line in done.stdout.splitlines()]
    assert lines == [f"{topic} price=3  3", f"{topic} price=4  4"]
    assert done.stderr.splitlines() == [
        "billing has come before, and goes on where it was: --from is for new names",
        f"subscribed to {topic} as billing",
    ]
    rest = events(url, topic, "--count", "5")
    assert [event["body"] for event in rest] == ["5", "6", "7", "8", "9"]
    assert report(url, topic)["subscribers"]["billing"]["lag"] == 0


@pytest.mark.req("UX-04")
def test_events_that_an_earlier_life_had_are_marked(url: str) -> None:
    """A life that took them all and printed none, since nobody read its output."""
    topic = created(url, "marked")
    events(url, store_and_name(url, topic), "--from", "beginning", "--count", "1")
    store(url, topic, [b"x" * 1000] * 200)
    source, sink = os.pipe()
    with subprocess.Popen(
        [STENTOR, "sub", topic, "--name", "billing", "--url", url],
        stdout=sink,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as reader:
        os.close(sink)
        until(lambda: unread(source) > 0)
        reader.kill()
        reader.wait(PATIENCE)
    os.close(source)
    again = events(url, topic, "--count", "1")
    assert again[0]["redelivered"]
    assert " redelivered  " in tell(url, "sub", topic, "--name", "billing", "--count", "1")


def store_and_name(url: str, topic: str) -> str:
    store(url, topic, [b"first"])
    return topic


def unread(pipe: int) -> int:
    """Bytes that a pipe holds."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_subscriber_that_is_stopped_while_nobody_reads_acknowledges_what_it_wrote(
    url: str, ending: signal.Signals
) -> None:
    topic = created(url, f"unread/{ending.name}")
    store(url, topic, [b"%05d" % number + b"x" * 200 for number in range(3000)])
    source, sink = os.pipe()
    room = fcntl.fcntl(source, fcntl.F_GETPIPE_SZ)
    words = ("sub", topic, "--name", "billing", "--from", "beginning", "--json", "--url", url)
    with subprocess.Popen([STENTOR, *words], stdout=sink, stderr=subprocess.PIPE, env=environment()) as reader:
        os.close(sink)
        until(lambda: unread(source) > room // 2)
        reader.send_signal(ending)
        assert reader.wait(PATIENCE) == 0
    with os.fdopen(source, "rb") as pipe:
        written = [json.loads(line)["body"][:5] for line in pipe]
    assert 0 < len(written) < 3000
    assert written == [f"{number:05d}" for number in range(len(written))]
    (following,) = events(url, topic, "--count", "1")
    assert following["body"][:5] == f"{len(written):05d}", "the first that was not written comes next"


def test_a_reader_of_our_output_that_leaves_costs_nothing(url: str) -> None:
    topic = created(url, "pipe")
    store(url, topic, [b"%05d" % number + b"x" * 200 for number in range(3000)])
    with subprocess.Popen(
        [STENTOR, "sub", topic, "--name", "billing", "--from", "beginning", "--url", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        room = fcntl.fcntl(reader.stdout, fcntl.F_GETPIPE_SZ)
        taken = len(os.read(reader.stdout.fileno(), 1000))
        reader.stdout.close()
        assert reader.wait(PATIENCE) == 0
        assert reader.stderr.read().decode() == f"subscribed to {topic} as billing\n"
    (following,) = events(url, topic, "--count", "1")
    assert int(following["body"][:5]) <= (taken + room) // 200


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("sub t --from now", "--from is where a new name of a reliable topic begins: give it a --name, too"),
        ("sub t/# --name billing", "--name subscribes to one reliable topic, and 't/#' holds a wildcard"),
        (
            "sub t --name billing --from soon",
            "--from soon: expected beginning, now, an epoch such as r1:107, or",
        ),
        ("topic peek t --from soon", "--from soon: expected beginning, now, an epoch such as r1:107, or"),
        ("topic peek t --where price>", "price>"),
    ],
)
def test_wrong_use_is_told_at_once(tmp_path: Path, words: str, told: str) -> None:
    done = in_process(*words.split(), cwd=tmp_path, env={"STENTOR_URL": "stentor://127.0.0.1:1"})
    assert done.returncode == 2
    assert told in done.stderr


def test_a_link_that_breaks_is_reported(tmp_path: Path) -> None:
    with fabric(tmp_path) as running:
        url = running.url()
        topic = created(url, "orders")
        with (
            Command("sub", "flights/#", "--url", url) as live,
            Command("sub", topic, "--name", "billing", "--url", url) as named,
        ):
            for reader in (live, named):
                reader.line("subscribed to", err=True)
            (node,) = running.nodes()
            os.kill(node, signal.SIGKILL)
            for reader in (live, named):
                reader.line(f"link to {url} lost: .+; reconnecting", err=True)
                reader.line("connected again to local", err=True)
            tell(url, "pub", topic, "after", "--name", "shop")
            named.line("^orders  after$")
            for reader in (live, named):
                reader.interrupt()
                assert reader.ended() == 0
                assert len(reader.err) == 3, "the end of a command is no broken link"


# ---- looking


@pytest.mark.req("UX-04", "RD-01")
def test_peeking_shows_the_last_events_and_leaves_nothing_behind(url: str) -> None:
    topic = created(url, "peeked")
    for start in range(0, 3000, 100):  # records enough to make parts of
        store(url, topic, [b"%d" % n for n in range(start, start + 100)], price=list(range(start, start + 100)))
    before = report(url, topic)

    def peeked(*words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in tell(url, "topic", "peek", topic, "--json", *words).splitlines()]

    last = peeked()
    assert [int(event["body"]) for event in last] == list(range(2990, 3000))
    assert {(event["name"], event["repository"]) for event in last} == {("shop", "main")}
    assert [int(event["body"]) for event in peeked("--last", "700")] == list(range(2300, 3000))
    rare = [int(event["body"]) for event in peeked("--where", "price = 5 OR price = 1500", "--last", "10")]
    assert rare == [5, 1500]
    earlier = peeked("--last", "150")[0]
    for epoch in (last[-2]["epoch"], str(last[-2]["sequence"])):  # there is one repository
        assert [int(event["body"]) for event in peeked("--from", epoch)] == [2998, 2999]
    assert [int(event["body"]) for event in peeked("--from", "beginning")] == list(range(3000))
    assert [int(event["body"]) for event in peeked("--from", earlier["time"], "--last", "1")] == [2999]
    assert [int(event["body"]) for event in peeked("--name", "billing", "--last", "1")] == [2999]
    line = tell(url, "topic", "peek", topic, "--last", "1")
    assert line.split() == [f"main:{last[-1]['sequence']}", line.split()[1], "shop", "price=2999", "2999"]
    assert tell(url, "topic", "peek", topic, "--where", "price > 5000") == f"{topic} has no such events\n"
    after = report(url, topic)
    assert after["subscribers"] == before["subscribers"], "nobody has come"
    assert after["next"] == before["next"], "nothing was registered"
    assert "--subscriber thief`\n" in tell(url, "topic", "peek", topic, "--name", "thief", code=4)
    assert "did you mean 'peeked'?" in tell(url, "topic", "peek", "peekd", code=2)


@pytest.mark.req("RD-01")
def test_who_does_not_own_a_topic_needs_a_name_to_peek(tmp_path: Path) -> None:
    certificates = tmp_path / "certs"
    assert in_process("certs", "init", str(certificates), "--client", "alice", "--client", "bob").returncode == 0
    alice, bob = (str(certificates / "clients" / name) for name in ("alice", "bob"))
    with fabric(tmp_path, "--tls", certificates / "node") as running:
        url = running.url()
        tell(url, "topic", "create", "orders", "--reliable", "--tls", alice)
        grants = ("--publisher", "shop", "--subscriber", "billing", "--principal", "bob")
        tell(url, "topic", "grant", "orders", *grants, "--tls", alice)
        tell(url, "pub", "orders", "1", "--name", "shop", "--tls", bob)
        assert tell(url, "topic", "peek", "orders", "--tls", alice).endswith("shop  1\n")
        refused = tell(url, "topic", "peek", "orders", "--tls", bob, code=4)
        assert refused == (
            "stentor: orders belongs to alice, not to bob: others read it with --name NAME, which its owner can grant "
            "with `stentor topic grant orders --subscriber NAME`\n"
        )
        assert tell(url, "topic", "peek", "orders", "--name", "billing", "--tls", bob).endswith("shop  1\n")


# ---- what is said of a topic


def test_creating_a_topic_again_with_other_settings_is_refused(url: str) -> None:
    words = ("topic", "create", "again", "--reliable", "--keep", "2d")
    assert tell(url, *words) == "again is reliable on main, 1 copy\n"
    for same in (words, (*words, "--copies", "1"), words[:4]):
        assert tell(url, *same) == "again is reliable on main, 1 copy\n"
    refused = tell(url, "topic", "create", "again", "--reliable", "--keep", "7d", "--expire", "90d", code=4)
    assert refused == (
        "stentor: again exists already with other settings: keep is 2 d, not 7 d; expire is never, not 90 d; "
        "nothing was changed, nor can it be\n"
    )
    assert report(url, "again")["keep"] == 2 * 86_400


@pytest.mark.req("UX-04")
def test_events_are_counted_and_registrations_are_not(url: str) -> None:
    topic = created(url, "deleted")
    store(url, topic, [b"1", b"2"])
    asked = subprocess.run(
        [STENTOR, "topic", "delete", topic, "--url", url],
        input=b"n\n",
        capture_output=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert asked.stdout.startswith(f"{topic} has 2 events at main: delete all of it?".encode())
    assert "events  2, kept 1 d after everyone has them" in tell(url, "topic", "show", topic)


@pytest.mark.req("UX-04")
def test_tables_of_topics_fit_a_narrow_terminal(url: str) -> None:
    topic = created(url, "narrow")
    for name in ("a-subscriber-with-a-rather-long-name", "another-one-that-is-as-long"):
        tell(url, "topic", "grant", topic, "--subscriber", name, "--publisher", name, "--principal", "somebody")
    store(url, topic, [b"x"])
    where = "carrier = 'UA' AND dep_delay > 60 AND distance >= 1000 AND origin IN ('JFK', 'LGA', 'EWR')"
    events(url, topic, "--from", "beginning", "--where", "TRUE", "--count", "1")
    with Command("sub", topic, "--name", "billing", "--where", where, "--url", url) as reader:
        reader.line("subscribed", err=True)
    for words in (("topic", "show", topic), ("topic", "show")):
        shown = tell(url, *words, env={"COLUMNS": "80"})
        assert max(map(len, shown.splitlines())) <= 80
        assert "…" not in shown
    for heading in ("topic", "owner", "copies on", "publishers", "subscribers", "most behind"):
        assert heading in shown


@pytest.mark.req("RD-01", "UX-04")
def test_pub_without_a_name_is_refused_on_a_reliable_topic_and_nothing_is_said_to_be_published(url: str) -> None:
    topic = created(url, "refused")
    said = tell(url, "pub", topic, "x", code=4)
    assert f"{topic} is a reliable topic" in said
    assert f"stentor pub {topic} --name NAME" in said
    assert "published" not in said.replace("is published on it", "")
    assert "stored 1 event" in tell(url, "pub", topic, "x", "--name", "shop")


@pytest.mark.req("UX-04")
def test_a_terminal_is_shown_no_control_characters(tmp_path: Path) -> None:
    with fabric(tmp_path) as up:  # its own: a table of subscriptions is cut short where there are many
        show_control_characters(up.url())


def show_control_characters(url: str) -> None:
    topic = f"evil/{EVIL}"
    with Command("sub", "evil/#", "--count", "1", "--url", url) as live:
        live.line("subscribed", err=True)
        with stentor.blocking.connect(url, wait=PATIENCE) as client:
            client.publish(topic, f"{EVIL}\n".encode(), attributes={"note": f"{EVIL}\n"})
            client.flush()
            assert live.ended() == 0
            with client.subscribe(topic):
                status = tell(url, "status")
    assert live.out == [f"evil/{SHOWN} note={SHOWN}\\n  {SHOWN}\\n"]
    assert f"evil/{SHOWN}" in status
    tell(url, "topic", "create", topic, "--reliable")
    store(url, created(url, "good"), [EVIL.encode()], note=[EVIL])
    said = [
        status,
        tell(url, "topic", "show"),
        tell(url, "topic", "show", topic),
        tell(url, "topic", "show", topic, "--json"),
        tell(url, "topic", "peek", "good"),
        tell(url, "topic", "peek", "good", "--json"),
        tell(url, "repository", "status"),
        tell(url, "topic", "grant", f"{topic}x", "--publisher", "x", code=2),
        tell(url, "topic", "grant", topic, "--publisher", EVIL, code=2),
        command("filter", "check", f"note = '{EVIL}'", "--attr", f"note={EVIL}").stdout,
    ]
    for text in said:
        assert not {character for character in text if not character.isprintable()} - {"\n"}
        assert "\\u202e" in text
