"""The fabric's token on the real disk: its file, and the pointers by which commands find it."""

import os
import stat
import threading
from pathlib import Path

import pytest

from stentor.model.errors import ConfigError
from stentor.model.trust.token import FabricToken
from stentor.runtime.token import (
    announce_token,
    find_token,
    load_token,
    make_token,
    pointed_path,
    withdraw_token,
)

ADDRESS = "127.0.0.1:7420"


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's runtime directory."""
    home = tmp_path / "runtime"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    return home


def test_a_token_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "fabric.token"
    old = os.umask(0)
    try:
        made = make_token(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(made.value) >= 32
    assert make_token(path) == load_token(path) == made
    assert make_token(tmp_path / "other") != made
    assert sorted(each.name for each in path.parent.iterdir()) == ["fabric.token"], "nothing else is left"


def test_nodes_that_start_together_agree_on_one_token(tmp_path: Path) -> None:
    found: list[FabricToken] = []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        found.append(make_token(tmp_path / "fabric.token"))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({token.value for token in found}) == 1


def test_a_token_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "fabric.token"
    make_token(path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="others can read the fabric's token: `chmod 600"):
        load_token(path)
    with pytest.raises(ConfigError, match="others can read"):
        make_token(path)


@pytest.mark.parametrize("text", ["", "short", "x" * 5000])
def test_a_file_that_is_no_token_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fabric.token"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(ConfigError, match="expected a token of at least 16 bytes"):
        load_token(path)


def test_a_token_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such token; `stentor up` makes one"):
        load_token(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="cannot read the fabric's token"):
        load_token(tmp_path)


def test_a_token_is_found_by_the_address_of_its_broker(tmp_path: Path, runtime: Path) -> None:
    path = tmp_path / "fabric.token"
    token = make_token(path)
    assert find_token(ADDRESS) is None
    assert announce_token(ADDRESS, path) == ""
    assert announce_token("[::1]:7421", path) == ""
    assert find_token(ADDRESS) == find_token("localhost:7420") == find_token("localhost:7421") == token
    assert find_token("127.0.0.1:7421") is None
    assert find_token("127.0.0.2:7420") is None
    assert token.value not in b"".join(each.read_bytes() for each in runtime.rglob("*") if each.is_file())


def test_a_pointer_is_taken_away_by_whoever_left_it(tmp_path: Path, runtime: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    make_token(one)
    announce_token(ADDRESS, one)
    withdraw_token(ADDRESS, other)
    assert pointed_path(ADDRESS) == one
    withdraw_token(ADDRESS, one)
    assert pointed_path(ADDRESS) is None
    withdraw_token(ADDRESS, one)


def test_a_pointer_to_a_fabric_that_is_gone_is_none(tmp_path: Path, runtime: Path) -> None:
    path = tmp_path / "fabric.token"
    announce_token(ADDRESS, path)
    assert find_token(ADDRESS) is None


def test_a_runtime_directory_that_others_may_use_is_not_believed(tmp_path: Path, runtime: Path) -> None:
    path = tmp_path / "fabric.token"
    make_token(path)
    announce_token(ADDRESS, path)
    (runtime / "stentor").chmod(0o770)
    assert find_token(ADDRESS) is None
    assert "others may use it" in announce_token(ADDRESS, path)


def test_a_link_in_the_place_of_the_runtime_directory_is_not_believed(tmp_path: Path, runtime: Path) -> None:
    path = tmp_path / "fabric.token"
    make_token(path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / ADDRESS).write_text(str(path))
    (runtime / "stentor").symlink_to(elsewhere)
    assert find_token(ADDRESS) is None


def test_without_a_runtime_directory_there_is_one_under_the_temporary_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "fabric.token"
    token = make_token(path)
    assert announce_token(ADDRESS, path) == ""
    folder = tmp_path / f"stentor-{os.getuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert find_token(ADDRESS) == token
