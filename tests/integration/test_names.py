"""Names: a second holder of a name fences the first one off, and nobody is fenced by an older one."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from tests.integration.house import node, prove_well, run, take, until
from tests.integration.peer import Peer

import stentor
from stentor.model.ids import Incarnation
from stentor.model.messages import Hello
from stentor.wire.frame import PREAMBLE


def test_a_second_holder_of_a_name_fences_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            first = stentor.connect(broker.url, name="sensor")
            await first.__aenter__()
            events = first.subscribe("t")
            await events.__aenter__()
            reading = asyncio.create_task(anext(events))
            async with stentor.connect(broker.url, name="sensor") as second, second.subscribe("t") as seen:
                with pytest.raises(stentor.Fenced, match="'sensor' took over"):
                    await reading
                with pytest.raises(stentor.Fenced):
                    await first.publish("t", b"from the grave")
                with pytest.raises(stentor.Fenced):
                    await first.flush()
                with pytest.raises(stentor.Fenced):
                    await anext(events)
                await second.publish("t", b"alive")
                assert (await take(seen, 1))[0].body == b"alive"
                assert broker.status().clients == 1
                assert broker.status().refused == {"fenced": 1}
                await first.close()
                assert broker.status().clients == 1, "closing the fenced one ends nothing of the new one's"

    run(main())


def test_an_older_client_cannot_take_a_name_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker, stentor.connect(broker.url, name="sensor") as holder:
            async with await Peer.dial(broker.port) as older:
                await older.send(PREAMBLE, Hello(name="sensor", incarnation=Incarnation(1), window=1 << 20))
                assert (await older.last_word()).code is stentor.Refusal.FENCED
            await holder.publish("t")
            await holder.flush()
            assert broker.status().events_in == 1
            assert broker.status().links[0].name == "sensor"

    run(main())


def test_different_names_do_not_disturb_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            fabrics = [stentor.connect(broker.url, name=f"client {number} ✈") for number in range(20)]
            for fabric in fabrics:
                await fabric.__aenter__()
            assert broker.status().clients == 20
            for fabric in fabrics:
                await fabric.flush()
                await fabric.close()
            await until(lambda: broker.status().clients == 0)
            assert broker.status().refused == {}
            await prove_well(broker.url)

    run(main())


def test_a_fight_for_a_name_leaves_the_others_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path) as broker,
            stentor.connect(broker.url) as publisher,
            stentor.connect(broker.url) as subscriber,
            subscriber.subscribe("t") as events,
        ):
            fabrics = []
            for number in range(20):
                fabric = stentor.connect(broker.url, name="wanted")
                await fabric.__aenter__()
                fabrics.append(fabric)
                await publisher.publish("t", b"%d" % number)
            assert [int(event.body) for event in await take(events, 20)] == list(range(20))
            for fabric in fabrics:
                await fabric.close()
            assert broker.status().refused == {"fenced": 19}

    run(main())


def test_two_clients_of_one_name_born_together_do_not_fight_for_ever(tmp_path: Path) -> None:
    """Whichever of them is taken for the newer one: the other ends, and says why."""

    async def main() -> None:
        async with node(tmp_path) as broker:
            twins = [stentor.connect(broker.url, name="twin") for _ in range(2)]
            fenced: set[stentor.Fabric] = set()

            async def live(twin: stentor.Fabric) -> None:
                try:
                    await twin.__aenter__()
                    while len(fenced) < 1:
                        with contextlib.suppress(stentor.LinkBroken):
                            await twin.flush()
                except stentor.Fenced:
                    fenced.add(twin)

            await asyncio.gather(*map(live, twins))
            assert len(fenced) == 1
            (survivor,) = set(twins) - fenced
            await survivor.wait_until(connected=True)
            await survivor.flush()
            for twin in twins:
                await twin.close()

    run(main())
