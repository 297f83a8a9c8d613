"""The lease of subscriptions over real sockets: a broker forgets what its clients want, and hears it again."""

from pathlib import Path

import pytest
import uvloop
from tests.integration.house import node, run, take, until

import stentor
from stentor.model.limits import Limits


@pytest.mark.req("CO-14")
def test_a_broker_that_forgets_subscriptions_learns_them_from_the_next_heartbeat(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node(tmp_path, Limits(heartbeat=0.2)) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("a/#") as everything,
            fabric.subscribe("a/1", where="n > 1") as some,
        ):
            table = broker.broker._forwarder.table
            before = set(table.subscriptions)
            for wishes in broker.broker.subscription_lists:
                wishes.clear()
            await until(lambda: len(table.subscriptions) == 2 and not before & set(table.subscriptions))
            await fabric.publish("a/1", b"again", n=2)
            assert [event.body for event in await take(everything, 1)] == [b"again"]
            assert [event.body for event in await take(some, 1)] == [b"again"]

    run(main(), uvloop.new_event_loop)
