"""Messages that are well formed and out of range, over real sockets: no node ends, and nobody else notices."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from tests.integration.house import run, until
from tests.integration.peer import Peer
from tests.integration.test_reliable import House, bodies, house, take
from tests.integration.test_strange_peers import undisturbed

from stentor.model.attribute import EMPTY_SCHEMA
from stentor.model.communication import REPOSITORIES, bundle_of
from stentor.model.control import ControlEvent, GossipFacts, GossipState, Probe, Recovery, Registration, TopicTask
from stentor.model.errors import Refusal
from stentor.model.ids import CatenationNumber, Incarnation, SubscriptionId, publisher_id, topic_id
from stentor.model.messages import AdminRequest, Ping, Pong, Subscription, Topic
from stentor.model.stored.reading import StockRequest
from stentor.model.trust.request_topic import request_topic
from stentor.protocols.delivery.repository.repository import TopicRepository
from stentor.protocols.delivery.stored.read_server import StoredReadServer
from stentor.simulation.clients.odd_messages import LETTERS, MESSAGES, OddMessages
from stentor.wire import block
from stentor.wire.block import Origin
from stentor.wire.letter import frame_of, write

pytestmark = pytest.mark.req("RD-31")

DEEP = "/".join(["a"] * 65)
LONG = "x" * 1100


async def post(port: int, name: str, to: str, *letters: bytes) -> None:
    """Send letters, as somebody who is called that, and wait until the broker has taken them in."""
    async with await Peer.dial(port) as peer:
        await peer.hello(name)
        await peer.send(Topic(topic_id(to), to))
        for number, body in enumerate(letters, 1):
            origin = Origin(topic_id(to), publisher_id("anonymous", name), Incarnation(1), CatenationNumber(number), 0)
            await peer.send(block.encode(origin, EMPTY_SCHEMA, [], [body]))
        await peer.send(Ping(1))
        await peer.expect(Pong)


async def trade(here: House, body: bytes) -> None:
    """Publish an event reliably and receive it: all that is needed for that works."""
    async with here.client() as fabric, fabric.subscribe("orders", name="billing") as events:
        async with fabric.publisher("orders", name="shop") as shop:
            await shop.send(body)
        (event,) = await take(events, 1)
        assert event.body == body


def machine_of(here: House) -> TopicRepository:
    return here.hosts["r1"].node._managed["orders"].machine


def invitation(topic: str) -> GossipFacts:
    return GossipFacts(topic, "r9", (("member/r1", 1, "r9", b"\x90"), ("member/r9", 1, "r9", b"\x90")))


@pytest.mark.parametrize(
    ("to", "event"),
    [
        (REPOSITORIES, invitation("a/#/b")),
        (REPOSITORIES, invitation("a\0b")),
        (REPOSITORIES, invitation(DEEP)),
        (REPOSITORIES, invitation("/".join(["a"] * 64))),
        (REPOSITORIES, GossipState("a/#/b", "r9", ready=True, held=(), facts=0)),
        (REPOSITORIES, Registration("orders", LONG, 1, TopicTask.SHOW)),
        (REPOSITORIES, Registration("", LONG, 1, TopicTask.STATUS)),
        (bundle_of("orders"), Probe("orders", LONG, "publisher", 1)),
        (bundle_of("orders"), Probe("orders", "é" * 255, "publisher", 1)),
        (bundle_of("orders"), Recovery("orders", "me", "subscriber", 1, "anonymous", 1, since="epoch ²")),
    ],
)
def test_a_letter_out_of_range_does_not_end_a_repository(tmp_path: Path, to: str, event: ControlEvent) -> None:
    async def main() -> None:
        async with house(tmp_path, "r1") as here:
            await post(here.broker.port, "stranger", to, write([event]))
            await trade(here, b"still here")
            assert not here.hosts["r1"].stopped.done()

    run(main())


def test_a_subscription_whose_number_no_column_holds_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with undisturbed(tmp_path) as broker, await Peer.dial(broker.port) as peer:
            await peer.hello("stranger")
            await peer.send(Subscription(SubscriptionId(2**63), "well/#", "n > 1"))
            refused = await peer.last_word_after_welcome()
            assert refused.code is Refusal.PROTOCOL
            assert "the id of the message 'subscription'" in refused.reason

    run(main())


def test_a_stranger_who_speaks_for_a_subscriber_does_not_have_it_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            house(tmp_path, "r1") as here,
            here.client() as fabric,
            fabric.subscribe("orders", name="billing") as events,
            fabric.publisher("orders", name="shop") as shop,
        ):
            await shop.send(b"1")
            assert bodies(await take(events, 1)) == [b"1"]
            forged = Recovery("orders", "billing", "subscriber", 0, "anonymous", 5)
            await post(here.broker.port, "stranger", bundle_of("orders"), write([forged]))
            await shop.send(b"2")
            assert bodies(await take(events, 1)) == [b"2"]

    run(main())


def test_odd_messages_and_letters_disturb_nobody(tmp_path: Path) -> None:
    known: dict[str, Sequence[object]] = {"topic": ["orders"], "sender": ["stranger", "billing"], "name": ["stranger"]}

    async def main() -> None:
        random = Random(15)
        sayable = [each for each in MESSAGES if each is not AdminRequest]  # one to leave is carried out
        odd = OddMessages(random, known, ["member/r1"], 0.2)
        async with house(tmp_path, "r1") as here:
            port = here.broker.port
            for _ in range(40):
                async with await Peer.dial(port) as peer:
                    await peer.hello("stranger")
                    await peer.send(*(frame_of(odd.encode(random.choice(sayable))) for _ in range(5)))
            for to in (REPOSITORIES, bundle_of("orders"), "$to/repository:r1", request_topic("stranger", "r1")):
                letters = [frame_of(odd.encode(random.choice(LETTERS))) for _ in range(60)]
                await post(port, "stranger", to, *letters)
            await trade(here, b"still here")
            assert not here.hosts["r1"].stopped.done()
            assert not here.broker.driver.stopped.done()
            await until(lambda: here.broker.status().clients == 1)  # the repository: nobody else is left

    run(main())


# ---- the second line


def poison(patch: pytest.MonkeyPatch, error: Exception) -> None:
    """Break a handler: it raises at requests for a topic's beginning."""
    sound = StoredReadServer._on_stock_request

    def poisoned(self: StoredReadServer, sender: int, event: StockRequest) -> None:
        if event.since == "poison":
            raise error
        sound(self, sender, event)

    patch.setattr(StoredReadServer, "_on_stock_request", poisoned)


def poisoned(name: str) -> bytes:
    return write([StockRequest("orders", name, 1, "", "anonymous", "poison")])


@pytest.mark.parametrize("storage", ["sqlite", pytest.param("segments", marks=pytest.mark.slow)])
def test_a_topic_whose_machine_fails_at_a_letter_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    poison(monkeypatch, KeyError("poison"))

    async def main() -> None:
        async with (
            house(tmp_path, "r1", storage=storage) as here,
            here.client() as fabric,
            fabric.subscribe("orders", name="billing") as events,
            fabric.publisher("orders", name="shop") as shop,
        ):
            await shop.send_many([b"%d" % number for number in range(100)])
            machine = machine_of(here)
            await post(here.broker.port, "stranger", request_topic("stranger", "r1"), poisoned("stranger"))
            await until(lambda: machine_of(here) is not machine)
            second = machine_of(here)
            await post(
                here.broker.port, "stranger", request_topic("stranger", "r1"), *[poisoned("stranger")] * 5
            )  # is not heard
            await shop.send_many([b"%d" % number for number in range(100, 200)])
            assert bodies(await take(events, 200)) == [b"%d" % number for number in range(200)]
            assert machine_of(here) is second
            assert not here.hosts["r1"].stopped.done()
            for name in ("another", "a third"):
                await post(here.broker.port, name, request_topic(name, "r1"), poisoned(name))
            assert "KeyError" in await here.hosts["r1"].stopped

    run(main())


def test_an_assertion_at_a_letter_ends_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, AssertionError("poison"))

    async def main() -> None:
        async with house(tmp_path, "r1") as here:
            await post(here.broker.port, "stranger", request_topic("stranger", "r1"), poisoned("stranger"))
            assert "AssertionError" in await here.hosts["r1"].stopped

    run(main())
