"""Access over real sockets with TLS: what a certificate to which nothing was granted can and cannot do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from tests.integration.certificates import issue_client
from tests.integration.house import Node, node, run, take, until
from tests.integration.peer import Peer

import stentor
from stentor.admin import network as operation
from stentor.model.trust.access import Grant, Membership, TopicTerms
from stentor.model.trust.access_messages import AccessFacts, AccessReceipt
from stentor.policies.access import AccessRule
from stentor.runtime.tls import Authority, client_context

pytestmark = pytest.mark.req("SC-21")

VALID = timedelta(days=1)
RULES = (
    AccessRule(principals=("alice",), topics=("quotes/#",), publish=True, subscribe=True, send=True, names=("desk-*",)),
    AccessRule(principals=("OU=trading",), topics=("quotes/#",), subscribe=True),
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `node`, `alice`, `mallory` to whom nothing was granted, and `trader` of the unit trading."""
    home = tmp_path_factory.mktemp("certificates")
    now = datetime.now(UTC)
    authority = Authority.create(valid=VALID, now=now)
    authority.issue_node("node", [], valid=VALID, now=now).save(home / "node")
    for name in ("alice", "mallory"):
        authority.issue_client(name, valid=VALID, now=now).save(home / name)
    unit = x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "trading")
    issue_client(authority, home / "trader", unit, x509.NameAttribute(NameOID.COMMON_NAME, "tom"))
    return home


class Repository:
    """A link that is a repository's, and tells who may do what on reliable topics."""

    def __init__(self, peer: Peer) -> None:
        self._peer, self._version = peer, 0

    async def tell(self, topic: str, owner: str, **grants: dict[str, str | None]) -> None:
        """Return when the broker has written it down."""
        self._version += 1
        values: dict[str, msgspec.Struct | None] = {
            "topic": TopicTerms(owner),
            "member/r1": Membership(principal="node"),
        }
        for role, names in grants.items():
            for name, holder in names.items():
                values[f"grant/{role}/{name}"] = None if holder is None else Grant(holder)
        facts = tuple(
            (key, self._version, "r1", b"" if value is None else msgspec.msgpack.encode(value))
            for key, value in values.items()
        )
        await self._peer.send(AccessFacts(topic=topic, facts=facts, token=self._version))
        await self._peer.expect(AccessReceipt)


@asynccontextmanager
async def repository(broker: Node, certificates: Path) -> AsyncIterator[Repository]:
    context = client_context(certificates / "node")
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, ssl=context)
    async with Peer(reader, writer) as peer:
        await peer.hello("repository:r1")
        yield Repository(peer)


SECRETS = ["#", "orders", "$to/alice", "$to/#", "$bundle/orders", "$stentor/#", "$stentor/trace", "quotes/+", "$x/#"]


def test_who_was_granted_nothing_reads_and_writes_nothing_and_goes_on(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, certificates=certificates / "node", rules=RULES) as broker,
            repository(broker, certificates) as told,
            stentor.connect(broker.url, tls=certificates / "mallory") as mallory,
            stentor.connect(broker.url, name="alice", tls=certificates / "alice") as alice,
            alice.inbox() as inbox,
            alice.subscribe("quotes/#") as quotes,
            mallory.inbox() as own,
        ):
            await told.tell("orders", "alice", subscriber={"billing": "alice"})
            for pattern in SECRETS:
                with pytest.raises(stentor.Refused, match=r"may not subscribe|one by one"):
                    await mallory.subscribe(pattern).__aenter__()
            for topic in ("quotes/x", "orders", "$stentor/trace", "$to/alice", "$chorus/r1/1/orders"):
                for _ in range(2):
                    with pytest.raises(stentor.Refused, match=r"may not|is a reliable topic"):
                        await mallory.publish(topic, b"forged")
                with pytest.raises(stentor.Refused):
                    await mallory.publish_many(topic, [b"forged"])
            with pytest.raises(stentor.Refused, match=r"mallory may not send to alice: .* send = true"):
                await mallory.send(["alice"], b"forged")
            await alice.publish("quotes/x", b"real")
            await alice.send([mallory.name, "alice"], b"letter")
            assert [event.body for event in await take(quotes, 1)] == [b"real"]
            assert [event.body for event in await take(inbox, 1)] == [b"letter"]
            assert [event.body for event in await take(own, 1)] == [b"letter"]
            await mallory.flush()
            assert broker.status().refused.get("protocol") is None
            assert broker.status().dropped["not authorised"] == 5, "one of each topic; the client knows better then"

    run(main())


@pytest.mark.parametrize("name", ["publisher:mallory:$mail", "subscriber:mallory:x:$mail", "publisher:mallory:none"])
def test_an_end_of_a_topic_that_is_not_there_tells_no_traces(tmp_path: Path, certificates: Path, name: str) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, certificates=certificates / "node", rules=RULES) as broker,
            stentor.connect(broker.url, name=name, tls=certificates / "mallory") as mallory,
        ):
            with pytest.raises(stentor.Refused, match="may not publish on"):
                await mallory.publish("$stentor/trace", b"forged")

    run(main())


def test_a_name_belongs_to_a_principal(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, certificates=certificates / "node", rules=RULES) as broker,
            repository(broker, certificates) as told,
        ):
            await told.tell("orders", "alice", subscriber={"billing": "alice"})
            for name in ("alice", "alice:app", "desk-7", "subscriber:billing:orders", "repository:r1"):
                with pytest.raises(stentor.Refused, match=r"mallory may not|not mallory|only who has a node"):
                    await stentor.connect(broker.url, name=name, tls=certificates / "mallory").__aenter__()
            for name in ("alice", "alice:app", "desk-7", "subscriber:billing:orders"):
                async with stentor.connect(broker.url, name=name, tls=certificates / "alice") as alice:
                    assert alice.name == name
            async with stentor.connect(broker.url, tls=certificates / "mallory") as mallory:
                assert mallory.name.startswith("mallory:")

    run(main())


def test_a_grant_that_changes_ends_and_begins_deliveries_at_once(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, certificates=certificates / "node", rules=RULES) as broker,
            repository(broker, certificates) as told,
            stentor.connect(broker.url, tls=certificates / "mallory") as reader,
            stentor.connect(broker.url, name="alice", tls=certificates / "alice") as alice,
        ):
            await told.tell("quotes/x", "owner", subscriber={"desk": "mallory"})
            async with reader.subscribe("quotes/x") as events:
                with pytest.raises(stentor.Refused, match="quotes/x is a reliable topic"):
                    await alice.publish("quotes/x", b"lost")
                await told.tell("quotes/x", "owner", subscriber={"desk": None})
                with pytest.raises(stentor.Refused, match="stentor topic grant quotes/x --subscriber NAME"):
                    await anext(events)
            with pytest.raises(stentor.Refused):
                await reader.subscribe("quotes/x").__aenter__()

    run(main())


def test_attributes_of_certificates_stand_for_those_who_have_them(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, certificates=certificates / "node", rules=RULES) as broker,
            stentor.connect(broker.url, tls=certificates / "trader") as trader,
            stentor.connect(broker.url, tls=certificates / "alice") as alice,
            trader.subscribe("quotes/#") as events,
        ):
            await alice.publish("quotes/x", b"1")
            assert [event.body for event in await take(events, 1)] == [b"1"]
            with pytest.raises(stentor.Refused):
                await trader.publish("quotes/x")
            view = await operation.access(trader, topic="quotes/x")
            assert [(each.act, each.allowed) for each in view.verdicts] == [("publish", False), ("subscribe", True)]

    run(main())


def test_a_refused_topic_is_tried_again_on_another_link(tmp_path: Path, certificates: Path) -> None:
    async def main() -> None:
        first = await Node.start(tmp_path, certificates=certificates / "node")
        async with stentor.connect(first.url, tls=certificates / "alice") as alice:
            with pytest.raises(stentor.Refused):
                await alice.publish("quotes/x")
            await first.stop()
            await alice.wait_until(connected=False)
            second = await Node.start(tmp_path, port=first.port, certificates=certificates / "node", rules=RULES)
            await alice.wait_until(connected=True)
            await alice.publish("quotes/x")
            await until(lambda: second.status().events_in == 1)
        await second.stop()

    run(main())
