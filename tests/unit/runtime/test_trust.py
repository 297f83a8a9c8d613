"""Places in certificates, and the lists of those that were revoked."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from typer.testing import CliRunner

from stentor.cli import certs
from stentor.model.errors import ConfigError, InvalidInput
from stentor.runtime.tls import Authority, check_principal, read_certificates
from stentor.runtime.trust import Trust, revoked_in

NOW = datetime.now(UTC)
YEAR = timedelta(days=365)


def make(*arguments: str) -> str:
    done = CliRunner().invoke(certs.app, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(certs.app, arguments)
    assert done.exit_code == 2, done.output
    return done.output


def uris(directory: Path) -> list[str]:
    certificate = read_certificates(directory / "cert.pem")[0]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def serial(directory: Path) -> int:
    return read_certificates(directory / "cert.pem")[0].serial_number


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make("init", str(tmp_path / "certs"), "--client", "alice")
    return tmp_path / "certs"


# ---- what `stentor certs` makes


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ([], ["stentor:scope/campus/library/b1"]),
        (["--scope", "campus/library"], ["stentor:scope/campus/library"]),
        (["--scope", "/"], ["stentor:scope/"]),
        (["--repository", "r1"], ["stentor:repository/r1"]),
        (["--repository", "/", "--scope", "campus"], ["stentor:scope/campus", "stentor:repository/"]),
        (
            ["--scope", "a/b", "--scope", "c", "--repository", "r1", "--repository", "r2"],
            ["stentor:scope/a/b", "stentor:scope/c", "stentor:repository/r1", "stentor:repository/r2"],
        ),
    ],
)
def test_a_nodes_certificate_names_its_places(home: Path, options: list[str], places: list[str]) -> None:
    make("node", "campus/library/b1", "-d", str(home), *options)
    assert uris(home / "nodes/campus/library/b1") == places


def test_the_certificate_for_this_machine_is_good_for_every_place(home: Path) -> None:
    assert uris(home / "node") == ["stentor:scope/", "stentor:repository/"]


@pytest.mark.parametrize(
    "options",
    [
        ["--scope", ""],
        ["--scope", "/campus"],
        ["--scope", "campus/"],
        ["--scope", "a/../b"],
        ["--repository", ""],
        ["--repository", "a/b"],
        ["--repository", "r 1"],
    ],
)
def test_places_that_cannot_be_are_not_named(home: Path, options: list[str]) -> None:
    refused("node", "campus/b1", "-d", str(home), *options)
    assert not (home / "nodes").exists()


def test_nobody_is_called_anonymous() -> None:
    with pytest.raises(InvalidInput, match="cannot be a principal"):
        check_principal("anonymous")


# ---- revoking


def revoked(directory: Path) -> list[int]:
    return [number for _, number in revoked_in(directory / "revoked.pem", read_certificates(directory / "ca.pem"))]


def test_a_certificate_is_revoked_by_its_directory_its_file_or_its_number(home: Path) -> None:
    for name in ("bob", "carol"):
        make("client", name, "-d", str(home))
    make("revoke", str(home / "clients/alice"), "-d", str(home))
    make("revoke", str(home / "clients/bob/cert.pem"), "-d", str(home))
    make("revoke", f"{serial(home / 'clients/carol'):x}", "-d", str(home))
    make("revoke", str(home / "clients/alice"), "-d", str(home))
    numbers = [serial(home / "clients" / name) for name in ("alice", "bob", "carol")]
    assert revoked(home) == numbers
    assert revoked(home / "node") == revoked(home / "clients/bob") == numbers, "nodes and clients know at once"


def test_a_new_certificate_directory_knows_what_was_revoked_before(home: Path) -> None:
    make("revoke", str(home / "clients/alice"), "-d", str(home))
    make("client", "alice", "-d", str(home), "--force")
    make("node", "b1", "-d", str(home))
    assert len(revoked(home / "clients/alice")) == 1
    assert serial(home / "clients/alice") not in revoked(home / "clients/alice")
    assert revoked(home / "nodes/b1") == revoked(home)


def test_a_new_authority_begins_with_an_empty_list(home: Path) -> None:
    make("revoke", str(home / "clients/alice"), "-d", str(home))
    make("init", str(home), "--client", "alice", "--force")
    assert not (home / "revoked.pem").exists()
    Trust(home / "node")
    Trust(home / "clients/alice")


def test_what_is_no_certificate_cannot_be_revoked(home: Path) -> None:
    assert "no certificate, and no serial number" in refused("revoke", "alice", "-d", str(home))


def test_a_list_that_cannot_be_used_is_named_at_the_start(home: Path, tmp_path: Path) -> None:
    (home / "node/revoked.pem").write_text("nothing")
    with pytest.raises(ConfigError, match="expected a list of revoked certificates in PEM"):
        Trust(home / "node")
    stranger = Authority.create(valid=YEAR, now=NOW)  # of the same name as ours
    (home / "node/revoked.pem").write_bytes(stranger.revoke([1], b"", NOW))
    with pytest.raises(ConfigError, match=r"a list that no authority in ca\.pem signed"):
        Trust(home / "node")


def test_lists_of_several_authorities_may_stand_in_one_file(tmp_path: Path) -> None:
    one, other = Authority.create(valid=YEAR, now=NOW), Authority.create(valid=YEAR, now=NOW, name="another")
    path = tmp_path / "revoked.pem"
    path.write_bytes(one.revoke([1, 2], b"", NOW) + b"\n" + other.revoke([3], b"", NOW))
    assert [number for _, number in revoked_in(path, [one.certificate, other.certificate])] == [1, 2, 3]
    with pytest.raises(ConfigError, match="no authority"):
        revoked_in(path, [one.certificate])
