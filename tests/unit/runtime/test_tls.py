"""TLS over real connections, and the files it needs."""

import asyncio
import shutil
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from typer.testing import CliRunner

from stentor.cli import certs
from stentor.model.errors import ConfigError, InvalidInput, Refused
from stentor.runtime.tls import Authority, CertificateFiles, client_context, principal_of, server_context

NOW = datetime.now(UTC)
YEAR = timedelta(days=365)
LONG_AGO = NOW - 3 * YEAR


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create(valid=10 * YEAR, now=LONG_AGO)


@pytest.fixture
def node(authority: Authority, tmp_path: Path) -> Path:
    return saved(authority.issue_node("campus/b1", ["broker.example.org"], valid=YEAR, now=NOW), tmp_path / "node")


@pytest.fixture
def alice(authority: Authority, tmp_path: Path) -> Path:
    return saved(authority.issue_client("alice", valid=YEAR, now=NOW), tmp_path / "alice")


def saved(credentials: CertificateFiles, directory: Path) -> Path:
    credentials.save(directory)
    return directory


def unchecked(directory: Path, *, certificate: bool = True) -> ssl.SSLContext:
    """A client that does not look at its own files before it dials."""
    context = ssl.create_default_context(cafile=directory / "ca.pem")
    if certificate:
        context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    return context


async def greet(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "127.0.0.1") -> tuple[bytes, list[str]]:
    """Dials a server that says hello to whom it knows; what the client read, and whom the server saw."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(principal_of(writer.get_extra_info("ssl_object")))
        writer.write(b"hello " + principal_of(writer.get_extra_info("peercert")).encode())
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=host)
        try:
            return await reader.read(), seen
        finally:
            writer.close()


def refused(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    """A TLS 1.3 client believes that it is connected, and learns the truth when it reads."""
    try:
        said, seen = asyncio.run(greet(server, client))
    except (ssl.SSLError, ConnectionError):
        return True
    return said == b"" and not seen


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "broker.example.org"])
def test_a_good_client_is_known_by_name(node: Path, alice: Path, host: str) -> None:
    assert asyncio.run(greet(server_context(node), client_context(alice), host)) == (b"hello alice", ["alice"])


def test_nodes_dial_each_other(node: Path) -> None:
    assert asyncio.run(greet(server_context(node), client_context(node))) == (b"hello campus/b1", ["campus/b1"])


def test_a_client_without_a_certificate_is_refused(node: Path, alice: Path) -> None:
    assert refused(server_context(node), unchecked(alice, certificate=False))


def test_a_client_of_another_authority_is_refused(node: Path, tmp_path: Path) -> None:
    other = Authority.create(valid=YEAR, now=NOW)
    mallory = saved(other.issue_client("alice", valid=YEAR, now=NOW), tmp_path / "mallory")
    bundle = (mallory / "ca.pem").read_bytes() + (node / "ca.pem").read_bytes()
    (mallory / "ca.pem").write_bytes(bundle)  # trusts the server, so that it is the server which refuses
    assert refused(server_context(node), client_context(mallory))


def test_a_server_of_another_authority_is_refused(alice: Path, tmp_path: Path) -> None:
    other = Authority.create(valid=YEAR, now=NOW)
    directory = saved(other.issue_node("campus/b1", [], valid=YEAR, now=NOW), tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        asyncio.run(greet(server_context(directory), client_context(alice)))


def test_an_expired_client_is_refused(authority: Authority, node: Path, tmp_path: Path) -> None:
    expired = saved(authority.issue_client("alice", valid=YEAR, now=LONG_AGO), tmp_path / "expired")
    assert refused(server_context(node), unchecked(expired))


def test_a_client_certificate_is_not_good_for_a_server(alice: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(greet(server_context(alice), client_context(alice)))


def test_a_server_of_another_name_is_refused(node: Path, alice: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        asyncio.run(greet(server_context(node), client_context(alice), "other.example.org"))


def test_older_versions_of_tls_are_refused(node: Path, alice: Path) -> None:
    old = unchecked(alice)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert refused(server_context(node), old)


def test_a_certificates_common_name_is_the_principal() -> None:
    assert principal_of({"subject": ((("countryName", "DE"),), (("commonName", "alice"),))}) == "alice"
    for stranger in (None, {}, {"subject": ((("commonName", "a"),), (("commonName", "b"),))}):
        with pytest.raises(Refused, match="certificate with one common name"):
            principal_of(stranger)


def foreign_key(directory: Path) -> None:
    Authority.create(valid=YEAR, now=NOW).issue_client("x", valid=YEAR, now=NOW).save(directory / "x")
    shutil.copy(directory / "x/key.pem", directory / "key.pem")


def foreign_authority(directory: Path) -> None:
    (directory / "ca.pem").unlink()
    Authority.create(valid=YEAR, now=NOW).save(directory)


def encrypted_key(directory: Path) -> None:
    key = serialization.load_pem_private_key((directory / "key.pem").read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    (directory / "key.pem").write_bytes(pem)


def expired(directory: Path) -> None:
    old = Authority.create(valid=10 * YEAR, now=LONG_AGO)
    old.issue_node("b1", [], valid=YEAR, now=LONG_AGO).save(directory, force=True)


def early(directory: Path) -> None:
    young = Authority.create(valid=YEAR, now=NOW)
    young.issue_node("b1", [], valid=YEAR, now=NOW + YEAR / 2).save(directory, force=True)


def no_file(directory: Path) -> None:
    (directory / "ca.pem").unlink()
    (directory / "ca.pem").mkdir()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (shutil.rmtree, r"ca\.pem: no such file; `stentor certs init`"),
        (lambda directory: (directory / "key.pem").unlink(), r"key\.pem: no such file"),
        (no_file, r"ca\.pem: cannot be read: Is a directory"),
        (lambda directory: (directory / "cert.pem").write_text("hello"), r"cert\.pem: expected a certificate in PEM"),
        (lambda directory: (directory / "key.pem").write_text(""), r"key\.pem: expected a private key in PEM"),
        (encrypted_key, r"key\.pem: expected a private key without a password"),
        (foreign_key, r"key\.pem: not the key of .*cert\.pem"),
        (foreign_authority, r"cert\.pem: not signed by the authority in .*ca\.pem"),
        (expired, r"cert\.pem: expired on \d{4}-"),
        (early, r"cert\.pem: not valid before \d{4}-.*clock"),
    ],
)
def test_files_that_cannot_be_used(node: Path, damage: Callable[[Path], object], complaint: str) -> None:
    damage(node)
    for context in (server_context, client_context):
        with pytest.raises(ConfigError, match=complaint):
            context(node)


def run(*words: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(certs.app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


def test_certs_init_makes_all_certificates_in_one_step(tmp_path: Path) -> None:
    made = tmp_path / "certs"
    hosts, clients = ("--host", "10.0.0.1", "--host", "b.example.org"), ("--client", "alice", "--client", "bob")
    code, told, _ = run("init", made, *hosts, *clients)
    assert code == 0
    assert f'[tls] directory = "{made}/node"' in told
    assert f"STENTOR_TLS={made}/clients/bob" in told
    homes = ("node", "clients/alice", "clients/bob")
    inner = [f"{home}/{name}.pem" for home in homes for name in ("ca", "cert", "key")]
    assert sorted(str(path.relative_to(made)) for path in made.rglob("*.*")) == sorted(["ca.pem", "ca.key", *inner])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.rglob("*.*")}
    assert modes == {"ca.pem": 0o644, "cert.pem": 0o644, "ca.key": 0o600, "key.pem": 0o600}
    for host in ("10.0.0.1", "b.example.org", "localhost"):
        _, seen = asyncio.run(greet(server_context(made / "node"), client_context(made / "clients/bob"), host))
        assert seen == ["bob"]


def test_certificates_can_be_made_step_by_step(tmp_path: Path) -> None:
    assert run("authority", tmp_path)[0] == 0
    assert run("node", "campus/b1", "--host", "b1.example.org", "--directory", tmp_path, "--days", "9")[0] == 0
    assert run("client", "alice@example.org", "--directory", tmp_path)[0] == 0
    home = tmp_path / "nodes/campus/b1"
    certificate = x509.load_pem_x509_certificate((home / "cert.pem").read_bytes())
    assert timedelta(days=8) < certificate.not_valid_after_utc - NOW < timedelta(days=10)
    said = asyncio.run(greet(server_context(home), client_context(tmp_path / "clients/alice@example.org")))
    assert said == (b"hello alice@example.org", ["alice@example.org"])


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_nothing_is_overwritten_unless_forced(tmp_path: Path) -> None:
    assert run("init", tmp_path, "--client", "alice")[0] == 0
    before = contents(tmp_path)
    for again in (
        ("init", tmp_path),
        ("authority", tmp_path),
        ("client", "alice", "--directory", tmp_path),
    ):
        code, _, complaint = run(*again)
        assert code == 2
        assert "exists already" in complaint
        assert "--force" in complaint
    assert contents(tmp_path) == before
    assert run("client", "alice", "--directory", tmp_path, "--force")[0] == 0
    after = contents(tmp_path)
    assert {path.name for path in before if before[path] != after[path]} == {"cert.pem", "key.pem"}
    (tmp_path / "ca.pem").unlink()
    (tmp_path / "ca.key").unlink()
    assert run("init", tmp_path, "--client", "new")[0] == 2
    assert not (tmp_path / "clients/new").exists()
    assert not (tmp_path / "ca.key").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["init", "{}", "--host", "0.0.0.0"], "0.0.0.0 can be listened on, but not dialled"),
        (["init", "{}", "--host", "b1:7420"], "'b1:7420' is neither a host name nor an address"),
        (["init", "{}", "--client", "../alice"], "'../alice' cannot be a principal"),
        (["init", "{}", "--client", "a" * 65], "cannot be a principal"),
        (["init", "{}", "--days", "0"], "--days"),
        (["init", "/proc/nowhere"], "/proc/nowhere/ca.key: cannot be written"),
        (["node", "a/../../b", "-d", "{}"], "'.' and '..' are no names"),
        (["node", "b1", "-d", "{}"], "ca.pem: no such file; `stentor certs init`"),
        (["client", "", "-d", "{}"], "'' cannot be a principal"),
    ],
)
def test_wrong_words_are_refused_and_nothing_is_made(tmp_path: Path, words: list[str], complaint: str) -> None:
    code, told, complained = run(*(word.format(tmp_path) for word in words))
    assert (code, told) == (2, "")
    assert complaint in complained
    assert not list(tmp_path.iterdir())


def test_an_authority_that_cannot_sign(tmp_path: Path) -> None:
    old = Authority.create(valid=YEAR, now=LONG_AGO)
    with pytest.raises(ConfigError, match="the authority expired on"):
        old.issue_client("alice", valid=YEAR, now=NOW)
    with pytest.raises(InvalidInput, match="1 to 64 characters"):
        Authority.create(valid=YEAR, now=NOW).issue_node("x" * 65, [], valid=YEAR, now=NOW)
    old.save(tmp_path)
    Authority.create(valid=YEAR, now=NOW).save(tmp_path / "other")
    shutil.copy(tmp_path / "other/ca.key", tmp_path / "ca.key")
    with pytest.raises(ConfigError, match=r"ca\.key: not the key of .*ca\.pem"):
        Authority.load(tmp_path)


def test_a_certificate_does_not_outlive_its_authority(tmp_path: Path) -> None:
    young = Authority.create(valid=timedelta(days=9), now=NOW)
    young.issue_client("alice", valid=YEAR, now=NOW).save(tmp_path)
    certificate = x509.load_pem_x509_certificate((tmp_path / "cert.pem").read_bytes())
    assert certificate.not_valid_after_utc == young.certificate.not_valid_after_utc
