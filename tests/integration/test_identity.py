"""Nodes prove their places over real sockets: certificates that name them, end and are revoked; the fabric's token."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.x509.oid import NameOID
from tests.integration.certificates import issue_client
from tests.integration.house import PATIENCE, TOKEN, Loops, Node, node, prove_well, refused, run, until
from tests.integration.peer import Peer
from tests.integration.ports import free_port

import stentor
from stentor.admin import network as operation
from stentor.admin.topics import Registrar
from stentor.machine import StopRequested
from stentor.model.ids import Incarnation
from stentor.model.limits import Limits
from stentor.model.messages import AdminTask, Challenge, ChallengeRequest, Hello, Rejection, Welcome
from stentor.model.scope import ScopePath
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.policies.access import AccessRule
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.runtime.dialler import Dialler
from stentor.runtime.disk import NodeStorage
from stentor.runtime.driver import Driver
from stentor.runtime.log import Logger
from stentor.runtime.repository import RepositoryHost
from stentor.runtime.server import listen
from stentor.runtime.tls import Authority
from stentor.runtime.token import load_token, make_token, withdraw_token
from stentor.storage.ledger_store import find_ledger_store
from stentor.wire.frame import PREAMBLE, decode

LOOPS = [pytest.param(None, id="asyncio"), pytest.param(uvloop.new_event_loop, id="uvloop")]
VALID = timedelta(days=1)
RULES = (AccessRule(principals=("*",), topics=("t/#", "well/#"), publish=True, subscribe=True),)


@pytest.fixture
def authority() -> Authority:
    return Authority.create(valid=VALID, now=datetime.now(UTC))


def node_certificate(authority: Authority, home: Path, *places: str, valid: timedelta = VALID) -> Path:
    authority.issue_node(home.name, [], valid=valid, now=datetime.now(UTC), places=places).save(home)
    return home


def client_certificate(authority: Authority, home: Path, *, valid: timedelta = VALID) -> Path:
    authority.issue_client(home.name, valid=valid, now=datetime.now(UTC)).save(home)
    return home


class Member:
    """A broker that dials others, if it is told to."""

    def __init__(self, home: Path, name: str, certificates: Path, port: int, *dials: int) -> None:
        gateways = tuple(GatewaySettings(address=f"127.0.0.1:{each}") for each in dials)
        settings = NetworkSettings(address=f"127.0.0.1:{port}", gateways=gateways)
        self._log = Logger()
        self._log.stream = io.StringIO()
        self._log.configure(level="info", json=False, node="")
        self.broker = Broker(ScopePath.parse(name), Limits(), "test", settings)
        self._storage = NodeStorage(home)
        self.driver = Driver(self.broker, dialler=Dialler(certificates), storage=self._storage, log=self._log)
        self._certificates, self._port = certificates, port

    @property
    def reports(self) -> list[str]:
        """The lines of its log."""
        assert isinstance(self._log.stream, io.StringIO)
        return self._log.stream.getvalue().splitlines()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Member"]:
        self.driver.start()
        await self.driver.serving
        server = await listen(self.driver, "127.0.0.1", self._port, self._certificates)
        try:
            yield self
        finally:
            server.close()
            self.driver.tell(StopRequested())
            await self.driver.close()
            self._storage.close()


@asynccontextmanager
async def pair(
    home: Path, dialled: tuple[str, Path], dialling: tuple[str, Path]
) -> AsyncIterator[tuple[Member, Member]]:
    """Two brokers, each with a name and a certificate directory; the second dials the first."""
    ports = free_port(), free_port()
    async with (
        Member(home / "one", dialled[0], dialled[1], ports[0]).running() as one,
        Member(home / "other", dialling[0], dialling[1], ports[1], ports[0]).running() as other,
    ):
        yield one, other


# ---- certificates name places


def test_brokers_are_linked_if_their_certificates_name_their_places(tmp_path: Path, authority: Authority) -> None:
    async def main() -> None:
        one = node_certificate(authority, tmp_path / "a", "scope/campus/a")
        other = node_certificate(authority, tmp_path / "b", "scope/campus/b/b1")
        async with pair(tmp_path, ("campus/a/b1", one), ("campus/b/b1", other)) as (dialled, dialling):
            await until(lambda: list(dialling.broker.network.peers) == ["campus/a/b1"])
            await until(lambda: list(dialled.broker.network.peers) == ["campus/b/b1"])

    run(main())


def test_a_node_of_one_unit_is_refused_when_it_dials_under_a_name_of_another(
    tmp_path: Path, authority: Authority
) -> None:
    async def main() -> None:
        honest = node_certificate(authority, tmp_path / "a", "scope/campus/a")
        thief = node_certificate(authority, tmp_path / "b", "scope/campus/b")
        async with pair(tmp_path, ("campus/a/b1", honest), ("campus/a/b2", thief)) as (dialled, dialling):
            await until(lambda: any("link refused" in each for each in dialling.reports))
            told = next(each for each in dialling.reports if "link refused" in each)
            assert "stentor certs node campus/a/b2 --scope campus/a/b2" in told
            assert not dialled.broker.network.peers

    run(main())


def test_a_node_of_one_unit_is_refused_when_it_answers_under_a_name_of_another(
    tmp_path: Path, authority: Authority
) -> None:
    async def main() -> None:
        honest = node_certificate(authority, tmp_path / "a", "scope/campus/a")
        thief = node_certificate(authority, tmp_path / "b", "scope/campus/b")
        async with pair(tmp_path, ("campus/a/b1", thief), ("campus/a/b2", honest)) as (dialled, dialling):
            await until(lambda: any("peer refused" in each for each in dialling.reports))
            told = next(each for each in dialling.reports if "peer refused" in each)
            assert "calls itself campus/a/b1, but its certificate names stentor:scope/campus/b" in told
            assert not dialling.broker.network.peers
            client = client_certificate(authority, tmp_path / "alice")
            await refused(f"stentor://{dialled.broker.network.address}", "calls itself campus/a/b1", tls=client)

    run(main())


def test_a_nodes_certificate_without_places_is_refused_with_the_command(tmp_path: Path, authority: Authority) -> None:
    async def main() -> None:
        everywhere = node_certificate(authority, tmp_path / "node", "scope/", "repository/")
        nowhere = node_certificate(authority, tmp_path / "old")
        async with node(tmp_path / "home", certificates=everywhere) as broker:
            with pytest.raises(stentor.Refused, match=r"names no scopes .* `stentor certs node r1 --repository r1`"):
                await stentor.connect(broker.url, name="repository:r1", tls=nowhere).__aenter__()
        async with node(tmp_path / "home", certificates=nowhere) as broker:
            client = client_certificate(authority, tmp_path / "alice")
            await refused(broker.url, "names no scopes: make one with `stentor certs node test/b1", tls=client)

    run(main())


# ---- certificates end


@pytest.mark.parametrize("loops", LOOPS)
def test_a_client_is_sent_away_when_its_certificate_expires(tmp_path: Path, authority: Authority, loops: Loops) -> None:
    async def main() -> None:
        broker_home = node_certificate(authority, tmp_path / "node", "scope/")
        long = client_certificate(authority, tmp_path / "bob")
        short = client_certificate(authority, tmp_path / "alice", valid=timedelta(seconds=3))
        async with (
            node(tmp_path / "home", certificates=broker_home, rules=RULES) as broker,
            stentor.connect(broker.url, name="bob", tls=long) as bob,
            stentor.connect(broker.url, name="alice", tls=short) as alice,
        ):
            await asyncio.wait_for(alice.wait_until(connected=False), PATIENCE)
            with pytest.raises(stentor.Refused, match="the certificate expired on"):
                await alice.flush()
            await until(lambda: [link.name for link in broker.status().links] == ["bob"])
            await bob.flush()
            assert broker.status().refused == {"unauthenticated": 1}

    run(main(), loops)


@pytest.mark.parametrize("loops", LOOPS)
def test_a_client_is_sent_away_when_its_certificate_is_revoked(
    tmp_path: Path, authority: Authority, loops: Loops
) -> None:
    async def main() -> None:
        broker_home = node_certificate(authority, tmp_path / "node", "scope/")
        alice_home, bob_home = (client_certificate(authority, tmp_path / name) for name in ("alice", "bob"))
        async with (
            node(tmp_path / "home", certificates=broker_home, rules=RULES) as broker,
            stentor.connect(broker.url, name="alice", tls=alice_home) as alice,
            stentor.connect(broker.url, name="bob", tls=bob_home) as bob,
        ):
            revoke(authority, broker_home, alice_home)
            await asyncio.wait_for(alice.wait_until(connected=False), PATIENCE)
            with pytest.raises(stentor.Refused, match="was revoked by its authority"):
                await alice.flush()
            await refused(broker.url, "was revoked by its authority", tls=alice_home)
            await bob.flush()
            (broker_home / "revoked.pem").write_text("damaged")
            await asyncio.sleep(1.5)  # it is looked at every second
            await refused(broker.url, "was revoked by its authority", tls=alice_home)
            async with stentor.connect(broker.url, tls=bob_home):
                await bob.flush()

    run(main(), loops)


def revoke(authority: Authority, at: Path, *whom: Path) -> None:
    serials = [x509.load_pem_x509_certificate((home / "cert.pem").read_bytes()).serial_number for home in whom]
    (at / "revoked.new").write_bytes(authority.revoke(serials, b"", datetime.now(UTC)))
    (at / "revoked.new").replace(at / "revoked.pem")


def test_a_client_leaves_a_broker_whose_certificate_is_revoked(tmp_path: Path, authority: Authority) -> None:
    async def main() -> None:
        broker_home = node_certificate(authority, tmp_path / "node", "scope/")
        alice_home = client_certificate(authority, tmp_path / "alice")
        async with (
            node(tmp_path / "home", certificates=broker_home, rules=RULES) as broker,
            stentor.connect(broker.url, tls=alice_home) as alice,
        ):
            revoke(authority, alice_home, broker_home)
            await asyncio.wait_for(alice.wait_until(connected=False), PATIENCE)
            await until(lambda: "was revoked" in alice.trouble)
            await refused(broker.url, "was revoked by its authority", tls=alice_home)

    run(main())


def test_brokers_part_when_the_certificate_of_one_expires(tmp_path: Path, authority: Authority) -> None:
    async def main() -> None:
        long = node_certificate(authority, tmp_path / "long", "scope/")
        short = node_certificate(authority, tmp_path / "short", "scope/", valid=timedelta(seconds=3))
        async with pair(tmp_path, ("campus/b1", long), ("campus/b2", short)) as (dialled, _):
            await until(lambda: bool(dialled.broker.network.peers))
            await until(lambda: not dialled.broker.network.peers)
            assert any("peer refused" in each and "the certificate expired on" in each for each in dialled.reports)

    run(main())


@pytest.mark.parametrize("name", ["al\0ice", "alice\x1b[2J", "anonymous"])
def test_a_principal_that_is_not_printable_or_nobodys_is_refused(
    tmp_path: Path, authority: Authority, name: str
) -> None:
    async def main() -> None:
        odd = tmp_path / "odd"
        issue_client(authority, odd, x509.NameAttribute(NameOID.COMMON_NAME, name))
        async with node(
            tmp_path / "home", certificates=node_certificate(authority, tmp_path / "node", "scope/")
        ) as broker:
            with pytest.raises(stentor.Refused, match="cannot be a principal"):
                await stentor.connect(broker.url, name="alice", tls=odd).__aenter__()
            await until(lambda: not broker.driver.links)

    run(main())


# ---- the token


class Eavesdropper:
    """Hands bytes on between a client and a broker, and keeps all of them."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.heard = bytearray()
        self.server: asyncio.Server

    async def __aenter__(self) -> "Eavesdropper":
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"stentor://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        pumps = [self._pump(reader, far_writer), self._pump(far_reader, writer)]
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                self.heard += data
                sink.write(data)
        finally:
            sink.close()

    def hellos(self) -> list[Hello]:
        """What was said, as far as it is control messages that begin a link."""
        found = []
        data = bytes(self.heard)
        for start in range(len(data)):
            length = int.from_bytes(data[start : start + 4], "little")
            if 12 < length < 4096 and data[start + 4 : start + 6] == b"\x02\x01" and start + length <= len(data):
                message = decode(data[start : start + length])
                if isinstance(message, Hello):
                    found.append(message)
        return found


def stranger(broker: Node) -> None:
    """From now on nobody here finds the broker's token by its address, as if they were another user."""
    withdraw_token(f"127.0.0.1:{broker.port}", broker.home / TOKEN)


def test_the_token_is_never_on_the_wire_and_its_proof_cannot_be_used_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, Eavesdropper(broker.port) as between:
            token = tmp_path / TOKEN
            async with stentor.connect(between.url, name="repository:r1", token=token) as fabric:
                assert fabric.is_operator
                with pytest.raises(stentor.Refused, match="no member 'nobody' is known here"):
                    await operation.order(fabric, AdminTask.DISMISS, "nobody")  # it is obeyed, as far as it can be
            secret = load_token(token).value
            assert len(between.heard) > 300
            assert secret not in between.heard
            assert bytes.fromhex(secret.decode()) not in between.heard
            (overheard,) = between.hellos()
            assert overheard.proof
            stranger(broker)
            async with await Peer.dial(broker.port) as thief:
                await thief.send(PREAMBLE, ChallengeRequest())
                assert await thief.reader.readexactly(len(PREAMBLE)) == PREAMBLE
                assert (await thief.expect(Challenge)).nonce
                await thief.send(overheard)
                assert "what was proved is another one" in (await thief.expect(Rejection)).reason

    run(main())


def test_without_the_token_nobody_takes_a_nodes_name_or_gives_orders(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            make_token(tmp_path / "mine")
            stranger(broker)
            for token in (None, tmp_path / "mine"):
                for name in ("repository:r1", "operator:me"):
                    with pytest.raises(stentor.Refused, match=r"only who proves .* --token FILE"):
                        await stentor.connect(broker.url, name=name, token=token).__aenter__()
                async with stentor.connect(broker.url, token=token) as fabric:
                    assert not fabric.is_operator
                    for task in (AdminTask.LEAVE, AdminTask.ADD_LINK, AdminTask.DISMISS):
                        with pytest.raises(stentor.Refused, match="only who proves"):
                            await operation.order(fabric, task, "test/b2", address="127.0.0.1:9")
                    await fabric.publish("t", b"anyone may")
                    await fabric.flush()
                    await fabric.status()
            async with await Peer.dial(broker.port) as impostor:
                await impostor.send(
                    PREAMBLE, Hello(name="test/b2", incarnation=Incarnation(1), window=1 << 20, role="broker")
                )
                assert await impostor.reader.readexactly(len(PREAMBLE)) == PREAMBLE
                assert "may be a broker" in (await impostor.expect(Rejection)).reason
            assert broker.broker.ready
            await prove_well(broker.url)

    run(main())


def test_who_asks_for_no_challenge_hears_of_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, await Peer.dial(broker.port) as peer:
            assert isinstance(await peer.hello("me"), Welcome)

    run(main())


@asynccontextmanager
async def stored(home: Path) -> AsyncIterator[tuple[Node, RepositoryHost]]:
    """A broker and a repository, which finds the token as a command does."""
    async with node(home) as broker:
        store = find_ledger_store(f"sqlite:{home / 'repositories'}", "r1")
        host = RepositoryHost(RepositorySettings(name="r1"), (f"127.0.0.1:{broker.port}",), store)
        host.start()
        await asyncio.wait_for(host.linked, PATIENCE)
        try:
            yield broker, host
        finally:
            await host.close()


def test_without_the_token_nobody_drains_a_repository_or_changes_a_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path) as (broker, host):
            stranger(broker)
            async with stentor.connect(broker.url) as fabric, Registrar(fabric) as registrar:
                for retire in (True, False):
                    with pytest.raises(stentor.Refused, match=r"prove the fabric's token: --token FILE"):
                        await registrar.drain("r1", retire=retire)
                await registrar.create("orders", ["r1"])
                attempts: list[Callable[[], object]] = [
                    lambda: registrar.grant("orders", "publisher", "shop"),
                    lambda: registrar.revoke("orders", "publisher", "shop"),
                    lambda: registrar.remove("orders", "r1"),
                    lambda: registrar.delete("orders"),
                    lambda: registrar.drain("r1"),
                ]
                for attempt in attempts:
                    with pytest.raises(stentor.Refused, match=r"prove the fabric's token: --token FILE"):
                        await attempt()  # type: ignore[misc]
                with pytest.raises(stentor.Refused, match=r"prove the fabric's token"):
                    registrar.check_can_change("anonymous")
                assert list((await registrar.status("r1")).topics) == ["orders"], "asking needs no token"
            assert not host.stopped.done()
            async with (
                stentor.connect(broker.url, name="owner", token=tmp_path / TOKEN) as fabric,
                Registrar(fabric) as registrar,
            ):
                await registrar.grant("orders", "publisher", "shop")
                assert await registrar.delete("orders") == ()
                await registrar.drain("r1", retire=True)
                assert await asyncio.wait_for(asyncio.shield(host.stopped), PATIENCE) == "left the network for good"

    run(main())


def test_with_tls_only_whoever_runs_a_repository_drains_it(tmp_path: Path, authority: Authority) -> None:
    async def main() -> None:
        everywhere = node_certificate(authority, tmp_path / "node", "scope/", "repository/")
        own = node_certificate(authority, tmp_path / "storage", "repository/r1")
        elsewhere = node_certificate(authority, tmp_path / "elsewhere", "scope/elsewhere")
        alice = client_certificate(authority, tmp_path / "alice")
        async with node(tmp_path / "home", certificates=everywhere) as broker:
            for operator in (own, everywhere):
                store = find_ledger_store(f"sqlite:{tmp_path / 'repositories'}", "r1")
                address = f"127.0.0.1:{broker.port}"
                host = RepositoryHost(RepositorySettings(name="r1"), (address,), store, own)
                host.start()
                await asyncio.wait_for(host.linked, PATIENCE)
                for stranger in (alice, elsewhere):
                    async with stentor.connect(broker.url, tls=stranger) as fabric, Registrar(fabric) as registrar:
                        with pytest.raises(stentor.Refused, match="only storage, who runs r1, or an operator"):
                            await registrar.drain("r1", retire=True)
                async with stentor.connect(broker.url, tls=operator) as fabric, Registrar(fabric) as registrar:
                    await registrar.drain("r1", retire=True)
                await asyncio.wait_for(asyncio.shield(host.stopped), PATIENCE)
                await host.close()

    run(main())


def test_a_repository_does_not_serve_a_broker_that_does_not_prove_the_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "false") as false:
            store = find_ledger_store(f"sqlite:{tmp_path / 'repositories'}", "r1")
            mine = make_token(tmp_path / "mine")
            address = f"127.0.0.1:{false.port}"
            host = RepositoryHost(RepositorySettings(name="r1"), (address,), store, token=mine)
            host.start()
            reason = await asyncio.wait_for(asyncio.shield(host.stopped), PATIENCE)
            assert "only who proves this fabric's token may be a repository" in reason
            assert not host.linked.done()
            await host.close()

    run(main())


def test_who_comes_when_a_list_is_new_does_not_keep_it_from_those_who_are_there(
    tmp_path: Path, authority: Authority
) -> None:
    """The list is read when somebody comes, too; that must not pass for having looked at everybody."""

    async def main() -> None:
        home = node_certificate(authority, tmp_path / "node", "scope/")
        alice_home, bob_home = (client_certificate(authority, tmp_path / name) for name in ("alice", "bob"))
        async with (
            node(tmp_path / "home", certificates=home) as broker,
            stentor.connect(broker.url, tls=alice_home) as alice,
        ):
            revoke(authority, home, alice_home)
            async with stentor.connect(broker.url, tls=bob_home):
                await asyncio.wait_for(alice.wait_until(connected=False), PATIENCE)

    run(main())


def test_certificates_are_watched_again_after_there_were_no_links(tmp_path: Path, authority: Authority) -> None:
    async def main() -> None:
        home = node_certificate(authority, tmp_path / "node", "scope/")
        alice_home = client_certificate(authority, tmp_path / "alice")
        async with node(tmp_path / "home", certificates=home, rules=RULES) as broker:
            await prove_well(broker.url, alice_home)
            await until(lambda: not broker.driver.links)
            await asyncio.sleep(1.2)  # the watch, which looks every second, has nothing to look at
            async with stentor.connect(broker.url, tls=alice_home) as alice:
                revoke(authority, home, alice_home)
                await asyncio.wait_for(alice.wait_until(connected=False), PATIENCE)

    run(main())
