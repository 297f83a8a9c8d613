"""Access in a fabric with TLS, with real processes: the grants of an owner hold at the broker, and end at once."""

import asyncio
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, in_process

import stentor
from stentor.admin.topics import Registrar

pytestmark = pytest.mark.req("SC-21")


async def first(events: stentor.Events) -> bytes:
    return (await anext(aiter(events))).body


async def play(url: str, certificates: Path) -> None:
    alice, bob, mallory = (
        stentor.connect(url, tls=certificates / "clients" / name, wait=PATIENCE) for name in ("alice", "bob", "mallory")
    )
    async with alice, bob, mallory, Registrar(alice) as owner:
        await owner.create("orders")
        await owner.grant("orders", "publisher", "shop", "alice")
        await owner.grant("orders", "subscriber", "billing", "bob")
        for pattern in ("#", "orders", "$bundle/orders", "$to/alice", "$stentor/#"):
            with pytest.raises(stentor.Refused):
                await mallory.subscribe(pattern).__aenter__()
        for name in ("billing", "mallory"):
            with pytest.raises(stentor.Refused, match="stentor topic grant orders --subscriber"):
                await mallory.subscribe("orders", name=name).__aenter__()
        with pytest.raises(stentor.Refused, match="orders is a reliable topic"):
            await mallory.publish("orders", b"forged")
        with pytest.raises(stentor.Refused, match="shop is alice, not mallory"):
            await mallory.publisher("orders", name="shop").__aenter__()
        async with (
            alice.publisher("orders", name="shop") as shop,
            bob.subscribe("orders", name="billing") as stored,
            bob.subscribe("orders") as passing,
            bob.subscribe("#", where="price > 0") as all_of_it,
            alice.subscribe("orders") as own,
        ):
            await shop.send(b"1", price=1)
            for events in (passing, all_of_it, own):
                assert await first(events) == b"1"
            assert (await anext(aiter(stored))).body == b"1"
            await owner.revoke("orders", "subscriber", "billing")
            with pytest.raises(stentor.Refused, match="bob may not subscribe to orders"):
                await first(passing)
            with pytest.raises(stentor.Refused):
                await anext(aiter(stored))
            await shop.send(b"2", price=1)
            assert await first(own) == b"2"
            await owner.grant("orders", "subscriber", "audit", "bob")
            await shop.send(b"3", price=1)
            assert await first(all_of_it) == b"3", "what was sent before the grant is not seen"
        await mallory.flush()


def test_grants_of_an_owner_hold_at_the_broker(tmp_path: Path) -> None:
    certificates = tmp_path / "certs"
    clients = [word for name in ("alice", "bob", "mallory") for word in ("--client", name)]
    assert in_process("certs", "init", str(certificates), *clients).returncode == 0
    words = ("--listen", "127.0.0.1:0", "--data", "data", "--http", "", "--tls", str(certificates / "node"))
    with Fabric(*words, cwd=tmp_path) as running:
        assert "access is granted only, by 0 [[access]] lines" in "\n".join(running.out)

        async def limited() -> None:
            async with asyncio.timeout(2 * PATIENCE):
                await play(running.url(), certificates)

        asyncio.run(limited())
