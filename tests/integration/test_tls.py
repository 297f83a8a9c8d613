"""TLS on both ends: who may talk to whom, and what is said to those who may not."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from cryptography.hazmat.primitives import serialization
from tests.integration.certificates import issue_client
from tests.integration.house import Loops, Node, node, prove_well, refused, run, take, until
from tests.integration.http import scrape
from tests.integration.peer import Peer

import stentor
from stentor.model.limits import Limits
from stentor.policies.access import AccessRule
from stentor.runtime.tls import Authority, CertificateFiles

LOOPS = [pytest.param(None, id="asyncio"), pytest.param(uvloop.new_event_loop, id="uvloop")]
VALID = timedelta(days=1)
RULES = (
    AccessRule(principals=("alice", "bob"), topics=("t/#", "well/#"), publish=True, subscribe=True, names=("app",)),
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `node`, `alice`, `bob`, and `mallory` of another authority."""
    home = tmp_path_factory.mktemp("certificates")
    now = datetime.now(UTC)
    ours, theirs = (Authority.create(valid=VALID, now=now) for _ in range(2))
    ours.issue_node("node", [], valid=VALID, now=now).save(home / "node")
    ours.issue_client("alice", valid=VALID, now=now).save(home / "alice")
    ours.issue_client("bob", valid=VALID, now=now).save(home / "bob")
    theirs.issue_client("mallory", valid=VALID, now=now).save(home / "mallory")
    theirs.issue_node("node", [], valid=VALID, now=now).save(home / "false-node")
    stranger = theirs.issue_client("stranger", valid=VALID, now=now)  # who trusts us, although we do not trust them
    CertificateFiles(ours_pem(ours) + stranger.authority, stranger.certificate, stranger.key).save(home / "stranger")
    issue_client(ours, home / "nameless")  # it names nobody
    return home


def ours_pem(authority: Authority) -> bytes:
    return authority.certificate.public_bytes(serialization.Encoding.PEM)


def alone(broker: Node) -> bool:
    return not broker.driver.links and broker.status().clients == 0


@pytest.mark.req("UX-02")
@pytest.mark.parametrize("loops", LOOPS)
def test_the_broker_knows_who_its_clients_are(tmp_path: Path, certificates: Path, loops: Loops) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, certificates=certificates / "node", rules=RULES) as broker,
            stentor.connect(broker.url, name="app", tls=certificates / "alice") as alice,
            stentor.connect(broker.url, name="app", tls=certificates / "bob") as bob,
            bob.subscribe("t/#", where="n >= 0") as events,
        ):
            assert (alice.principal, bob.principal) == ("alice", "bob")
            assert alice.node == "test/b1"
            assert {link.principal for link in broker.status().links} == {"alice", "bob"}, "a name is a principal's own"
            for number in range(500):
                await alice.publish("t/x", bytes(1000), n=number)
            assert [event["n"] for event in await take(events, 500)] == list(range(500))

    run(main(), loops)


def test_a_client_comes_back_over_tls(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path, certificates=certificates / "node", rules=RULES)
        async with (
            stentor.connect(first.url, tls=certificates / "alice") as fabric,
            fabric.subscribe("t") as events,
        ):
            await first.crash()
            await fabric.wait_until(connected=False)
            second = await Node.start(tmp_path, port=first.port, certificates=certificates / "node", rules=RULES)
            await fabric.wait_until(connected=True)
            await fabric.flush()
            await fabric.publish("t", b"again")
            assert (await take(events, 1))[0].body == b"again"
        await until(lambda: alone(second))
        await second.stop()

    run(main())


@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        ("mallory", "certificate"),
        ("stranger", "certificate"),
        (None, "TLS"),
    ],
)
def test_who_has_no_certificate_of_ours_is_refused(
    tmp_path: Path, certificates: Path, credentials: str | None, reason: str, loops: Loops
) -> None:
    async def main() -> None:
        async with node(tmp_path, certificates=certificates / "node", rules=RULES) as broker:
            await refused(broker.url, reason, tls=certificates / credentials if credentials else None)
            await prove_well(broker.url, certificates / "alice")
            await until(lambda: alone(broker))

    run(main(), loops)


@pytest.mark.parametrize("loops", LOOPS)
def test_a_tls_peer_that_shows_no_certificate_gets_nowhere(tmp_path: Path, certificates: Path, loops: Loops) -> None:
    async def main() -> None:
        async with node(tmp_path, certificates=certificates / "node", rules=RULES) as broker:
            context = ssl.create_default_context(cafile=certificates / "node" / "ca.pem")
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, ssl=context)
            async with Peer(reader, writer) as stranger:
                await stranger.send(b"STENTOR\x01")
                with pytest.raises((ssl.SSLError, OSError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
            await until(lambda: alone(broker))
            await prove_well(broker.url, certificates / "alice")

    run(main(), loops)


def test_a_broker_of_another_authority_is_refused_by_the_client(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with node(tmp_path, certificates=certificates / "false-node") as impostor:
            await refused(impostor.url, "certificate", tls=certificates / "alice")

    run(main())


def test_a_broker_of_another_name_is_refused_by_the_client(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with node(tmp_path, certificates=certificates / "node", rules=RULES) as broker:
            server = await asyncio.start_server(
                lambda reader, writer: forward(reader, writer, broker.port), "127.0.0.2", 0
            )
            url = f"stentor://127.0.0.2:{server.sockets[0].getsockname()[1]}"
            await refused(url, r"127\.0\.0\.2", tls=certificates / "alice")
            server.close()

    run(main())


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
        finally:
            sink.close()

    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)


@pytest.mark.parametrize("loops", LOOPS)
def test_a_tls_client_at_a_plain_port_is_refused(tmp_path: Path, certificates: Path, loops: Loops) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            await refused(broker.url, r"TLS|SSL", tls=certificates / "alice")
            await until(lambda: broker.status().refused.get("protocol", 0) > 0)
            await until(lambda: alone(broker))
            await prove_well(broker.url)

    run(main(), loops)


def test_a_tls_client_at_a_plain_port_is_told_so_in_words(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            told = await refused(broker.url, "TLS", tls=certificates / "alice")
            assert isinstance(told, stentor.Unreachable)
            assert "_ssl.c" not in str(told)

    run(main())


@pytest.mark.parametrize("loops", LOOPS)
def test_a_peer_that_never_shakes_hands_is_ended(tmp_path: Path, certificates: Path, loops: Loops) -> None:
    """The time to say hello includes the TLS handshake."""

    async def main() -> None:
        limits = Limits(hello_within=0.3)
        async with (
            node(tmp_path, limits, certificates=certificates / "node", rules=RULES) as broker,
            await Peer.dial(broker.port) as silent,
            await Peer.dial(broker.port) as slow,
            await Peer.dial(broker.port) as half,
        ):
            await half.send(b"\x16\x03\x01\x02\0\x01\0")
            dripping = asyncio.create_task(drip(slow))
            for peer in (silent, half, slow):
                assert await peer.ended()
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)

    run(main(), loops)


async def drip(peer: Peer) -> None:
    for byte in b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500):
        await peer.send(bytes([byte]))
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("loops", LOOPS)
def test_a_certificate_that_names_nobody_is_refused(tmp_path: Path, certificates: Path, loops: Loops) -> None:
    async def main() -> None:
        async with node(tmp_path, certificates=certificates / "node", rules=RULES) as broker:
            await refused(broker.url, "common name", tls=certificates / "nameless")
            await until(lambda: alone(broker))
            await prove_well(broker.url, certificates / "alice")

    run(main(), loops)


def test_garbage_at_a_tls_port_harms_nobody(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with node(tmp_path, certificates=certificates / "node", rules=RULES) as broker:
            for said in (b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\x16\x03\x01\xff\xff" + bytes(1000), b"STENTOR\x01"):
                async with await Peer.dial(broker.port) as stranger:
                    await stranger.send(said)
                    stranger.writer.write_eof()
                    assert await stranger.ended()
            await prove_well(broker.url, certificates / "alice")
            await until(lambda: alone(broker))

    run(main())


def test_missing_certificates_are_named_before_anything_is_dialled(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(stentor.ConfigError, match=r"nowhere/ca\.pem: no such file; `stentor certs init`"):
            await stentor.connect("stentor://127.0.0.1:1", tls=tmp_path / "nowhere").__aenter__()

    run(main())


def test_clients_of_one_name_and_two_principals_are_two_series(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, certificates=certificates / "node", rules=RULES) as broker,
            stentor.connect(broker.url, name="app", tls=certificates / "alice") as alice,
            stentor.connect(broker.url, name="app", tls=certificates / "bob") as bob,
            alice.subscribe("t"),
            bob.subscribe("t"),
        ):
            broker.serve_http()
            await scrape(broker.http_port)

    run(main())


def test_only_a_node_may_be_a_repository(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with node(tmp_path, certificates=certificates / "node", rules=RULES) as broker:
            with pytest.raises(stentor.Refused, match="only who has a node's certificate may be a repository"):
                await stentor.connect(broker.url, name="repository:r1", tls=certificates / "alice").__aenter__()
            async with stentor.connect(broker.url, name="repository:r1", tls=certificates / "node") as repository:
                assert repository.principal == "node"
            await until(lambda: alone(broker))

    run(main())
