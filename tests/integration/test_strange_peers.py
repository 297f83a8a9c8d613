"""Peers that are not ours, or behave as if they were not: each hears why it is refused, and nobody else notices.

The broker runs on uvloop in production and on asyncio in applications that embed one, so both are tried.
"""

import asyncio
import random
import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from tests.integration.house import Loops, Node, node, prove_well, refused, run, take, until
from tests.integration.peer import NO_ATTRIBUTES, Handler, Peer, definition, origin, pretender, wait_for_end

import stentor
from stentor.model.attribute import Kind, Schema
from stentor.model.ids import Incarnation, SubscriptionId, TopicId, topic_id
from stentor.model.limits import Limits
from stentor.model.messages import (
    Credit,
    Farewell,
    Heartbeat,
    Hello,
    Message,
    Missed,
    Ping,
    Pong,
    Receipt,
    Rejection,
    SchemaDefinition,
    Subscription,
    Topic,
    Unsubscription,
    Welcome,
)
from stentor.wire import block
from stentor.wire.frame import CONTROL_HEADER, PREAMBLE, encode
from stentor.wire.head import UNIFORM

LOOPS = [pytest.param(None, id="asyncio"), pytest.param(uvloop.new_event_loop, id="uvloop")]
ONE_TEXT = Schema(("text",), (Kind.STRING,))


@asynccontextmanager
async def undisturbed(home: Path, limits: Limits | None = None) -> AsyncIterator[Node]:
    """A broker with a well-behaved pair that must be as well afterwards as it was before."""
    async with (
        node(home, limits) as broker,
        stentor.connect(broker.url, name="publisher") as publisher,
        stentor.connect(broker.url, name="subscriber") as subscriber,
        subscriber.subscribe("well/#") as events,
    ):
        yield broker
        await publisher.publish("well/known", b"still here")
        assert (await take(events, 1))[0].body == b"still here"
        await until(lambda: broker.status().clients == 2 and len(broker.driver.links) == 2)
        assert {link.name for link in broker.status().links} == {"publisher", "subscriber"}
        assert not broker.driver.stopped.done()


# ---- at the broker's door


def hello(name: str = "stranger", incarnation: int = 1, window: int = 1 << 20) -> bytes:
    return encode(Hello(name=name, incarnation=Incarnation(incarnation), window=window))


STRANGERS: dict[str, tuple[bytes, stentor.Refusal, str]] = {
    "a browser": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", stentor.Refusal.PROTOCOL, "web browser"),
    "a web client": (b"POST /events HTTP/1.1\r\n\r\n", stentor.Refusal.PROTOCOL, "web client"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", stentor.Refusal.PROTOCOL, "HTTP/2"),
    "MQTT": (b"\x10\x12\0\x04MQTT\x05\x02\0\x3c\0\0\x05abcde", stentor.Refusal.PROTOCOL, "MQTT"),
    "NATS": (b'CONNECT {"verbose":false}\r\nPING\r\n', stentor.Refusal.PROTOCOL, "NATS"),
    "Redis": (b"*1\r\n$4\r\nPING\r\n", stentor.Refusal.PROTOCOL, "Redis"),
    "AMQP": (b"AMQP\0\0\x09\x01", stentor.Refusal.PROTOCOL, "AMQP"),
    "SSH": (b"SSH-2.0-OpenSSH_9.6\r\n", stentor.Refusal.PROTOCOL, "SSH"),
    "TLS": (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", stentor.Refusal.PROTOCOL, "TLS"),
    "zeros": (bytes(64), stentor.Refusal.PROTOCOL, "not a Stentor node"),
    "text": (b"hello, is anybody there?\n", stentor.Refusal.PROTOCOL, "it began with b'hello, i"),
    "an older version": (
        b"STENTOR\x01" + hello(),
        stentor.Refusal.VERSION,
        "version 1 .* this node .* upgrade the peer",
    ),
    "a newer version": (b"STENTOR\x03" + hello(), stentor.Refusal.VERSION, "version 3 .* this node is the older one"),
    "version zero": (b"STENTOR\0" + hello(), stentor.Refusal.VERSION, "version 0"),
    "a frame of another version": (PREAMBLE + struct.pack("<IBB", 20, 2, 9) + bytes(20), stentor.Refusal.CORRUPT, "9"),
    "a frame of another kind": (
        PREAMBLE + struct.pack("<IBB", 20, 7, 1) + bytes(20),
        stentor.Refusal.PROTOCOL,
        "kind 7",
    ),
    "a large frame before hello": (
        PREAMBLE + struct.pack("<IBB", 4097, 2, 1),
        stentor.Refusal.TOO_LARGE,
        "at most 4096",
    ),
    "a huge frame before hello": (
        PREAMBLE + struct.pack("<IBB", 2**32 - 1, 1, 1),
        stentor.Refusal.TOO_LARGE,
        "at most",
    ),
    "a short frame": (PREAMBLE + struct.pack("<IBB", 5, 2, 1) + bytes(9), stentor.Refusal.PROTOCOL, "too short"),
    "a damaged hello": (PREAMBLE + hello()[:-1] + b"\xff", stentor.Refusal.CORRUPT, "damaged"),
    "not MessagePack": (
        PREAMBLE + CONTROL_HEADER.pack(13, 2, 1, 0, 0x3AB551CE) + b"\xc1",
        stentor.Refusal.CORRUPT,
        "damaged",
    ),
    "events before hello": (
        PREAMBLE + block.encode(origin("stranger", "t"), NO_ATTRIBUTES, [], [b"x"]),
        stentor.Refusal.PROTOCOL,
        "before hello",
    ),
    "a subscription before hello": (
        PREAMBLE + encode(Subscription(SubscriptionId(1), "#")),
        stentor.Refusal.PROTOCOL,
        "'subscription' has no place",
    ),
    "a broker's word": (
        PREAMBLE + encode(Welcome(node="b", boot=1, principal="p", window=1, largest_body=1, heartbeat=1.0)),
        stentor.Refusal.PROTOCOL,
        "Welcome",
    ),
    "no name": (PREAMBLE + hello(name=""), stentor.Refusal.PROTOCOL, "name"),
    "a name that cannot be printed": (PREAMBLE + hello(name="a\x1b[31m"), stentor.Refusal.PROTOCOL, "printable"),
    "a long name": (PREAMBLE + hello(name="x" * 256), stentor.Refusal.PROTOCOL, "255"),
    "a small window": (PREAMBLE + hello(window=0), stentor.Refusal.PROTOCOL, "window"),
    "a negative incarnation": (PREAMBLE + hello(incarnation=-1), stentor.Refusal.PROTOCOL, "incarnation"),
}


@pytest.mark.parametrize("loops", LOOPS)
def test_strangers_hear_why_they_are_refused(tmp_path: Path, loops: Loops) -> None:
    async def main() -> None:
        async with undisturbed(tmp_path) as broker:
            for who, (said, code, reason) in STRANGERS.items():
                async with await Peer.dial(broker.port) as stranger:
                    await stranger.send(said)
                    answer = await stranger.last_word()
                    assert answer.code is code, who
                    assert re.search(reason, answer.reason), (who, answer.reason)
            refused = broker.status().refused
            assert sum(refused.values()) == len(STRANGERS)

    run(main(), loops)


def test_a_hello_cut_anywhere_is_understood(tmp_path: Path) -> None:
    async def main() -> None:
        said = PREAMBLE + hello(name="cut") + encode(Ping(5))
        async with undisturbed(tmp_path) as broker:
            for step in (1, 2, 3, 7, 8, 9, 20):
                async with await Peer.dial(broker.port) as peer:
                    for start in range(0, len(said), step):
                        await peer.send(said[start : start + step])
                        await asyncio.sleep(0)
                    assert await peer.reader.readexactly(len(PREAMBLE)) == PREAMBLE
                    await peer.expect(Welcome)
                    assert await peer.expect(Pong) == Pong(5)

    run(main())


@pytest.mark.parametrize("loops", LOOPS)
def test_a_peer_that_says_nothing_is_ended(tmp_path: Path, loops: Loops) -> None:
    async def main() -> None:
        async with undisturbed(tmp_path, Limits(hello_within=1.0)) as broker:
            async with await Peer.dial(broker.port) as silent, await Peer.dial(broker.port) as gone:
                gone.writer.close()
                assert (await silent.last_word()).code is stentor.Refusal.SILENT
            assert broker.status().refused == {"silent": 1}

    run(main(), loops)


def test_a_peer_that_speaks_one_byte_at_a_time_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with undisturbed(tmp_path, Limits(hello_within=1.0)) as broker, await Peer.dial(broker.port) as slow:
            talking = asyncio.create_task(drip(slow, PREAMBLE + struct.pack("<IBB", 4000, 2, 1) + bytes(100_000)))
            assert (await slow.last_word()).code is stentor.Refusal.SILENT, "bytes are no greeting"
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)

    run(main())


async def drip(peer: Peer, data: bytes) -> None:
    for position in range(len(data)):
        await peer.send(data[position : position + 1])
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("loops", LOOPS)
def test_garbage_of_every_kind_ends_only_its_own_link(tmp_path: Path, loops: Loops) -> None:
    """Thousands of links' worth: random bytes, alone or behind good ones, and good ones cut or flipped."""
    dice = random.Random(20261115)

    async def main() -> None:
        async with undisturbed(tmp_path, Limits(hello_within=60)) as broker:
            for _ in range(100):
                await asyncio.gather(*(attack(broker.port, dice) for _ in range(25)))
            await until(lambda: len(broker.driver.links) == 2)
            assert broker.status().subscriptions == 1
            assert broker.status().topics <= 1

    run(main(), loops)


async def attack(port: int, dice: random.Random) -> None:
    good = [
        PREAMBLE,
        encode(
            Hello(
                name=f"garbage {dice.random()}",
                incarnation=Incarnation(1),
                window=1 << 20,
                heartbeat=dice.choice([0.0, 1e9, 1e308]),
            )
        ),
        encode(Subscription(SubscriptionId(dice.randrange(2**63)), "garbage/#", dice.choice(["", "x = 1", "x ="]))),
        encode(Topic(topic_id("garbage/x"), "garbage/x")),
        encode(SchemaDefinition(ONE_TEXT)),
        encode(Credit(dice.randrange(2**62))),
        encode(Ping(dice.randrange(2**63))),
        encode(Heartbeat(dice.randrange(2**20))),
    ]
    said = bytearray(b"".join(good[: dice.randrange(len(good) + 1)]))
    match dice.randrange(4):
        case 0:
            said += dice.randbytes(dice.randrange(1, 2000))
        case 1 if said:
            del said[dice.randrange(len(said)) :]
        case 2 if said:
            said[dice.randrange(len(said))] ^= 1 << dice.randrange(8)
        case _:  # a frame whose head is right and whose inside is not
            inside = dice.randbytes(dice.randrange(58, 500))
            said += struct.pack("<IBB", len(inside) + 6, dice.choice([1, 2]), 1) + inside
    async with await Peer.dial(port) as peer:
        await peer.send(bytes(said))
        if dice.random() < 0.5:
            peer.writer.write_eof()
            await peer.ended()


# ---- behind the broker's door


@asynccontextmanager
async def inside(broker: Node, name: str = "stranger") -> AsyncIterator[Peer]:
    async with await Peer.dial(broker.port) as peer:
        await peer.hello(name)
        yield peer


def offences(name: str) -> dict[str, tuple[list[bytes | Message], stentor.Refusal]]:
    """What a client of this name could say after its hello, and must not."""
    topic = definition("t")
    one = block.encode(origin(name, "t"), NO_ATTRIBUTES, [], [b"x"])
    forged = block.encode(origin("somebody else", "t"), NO_ATTRIBUTES, [], [b"x"])
    unknown = block.encode(origin(name, "t"), Schema(("unknown",), (Kind.STRING,)), [["x"]], [b"x"])
    hop = one[:7] + b"\1" + one[8:]
    twice = Schema(("a", "a"), (Kind.STRING, Kind.STRING))
    return {
        "a second hello": ([Hello(name="again", incarnation=Incarnation(2), window=1 << 20)], stentor.Refusal.PROTOCOL),
        "a topic nobody defined": ([one], stentor.Refusal.TOPIC),
        "a wildcard as topic": ([definition("t/#")], stentor.Refusal.TOPIC),
        "an empty topic": ([definition("")], stentor.Refusal.TOPIC),
        "another topic's number": ([Topic(TopicId(7), "t")], stentor.Refusal.TOPIC),
        "another publisher's events": ([topic, forged], stentor.Refusal.FORGED),
        "a schema nobody defined": ([topic, unknown], stentor.Refusal.SCHEMA),
        "a schema with a name twice": ([SchemaDefinition(twice)], stentor.Refusal.SCHEMA),
        "a schema with a bad name": ([SchemaDefinition(Schema(("a b",), (Kind.STRING,)))], stentor.Refusal.SCHEMA),
        "a schema without a type": ([SchemaDefinition(Schema(("a", "b"), (Kind.STRING,)))], stentor.Refusal.SCHEMA),
        "a hop that is not a client's": ([topic, hop], stentor.Refusal.PROTOCOL),
        "a heartbeat from elsewhere": ([Heartbeat(1 << 40)], stentor.Refusal.CORRUPT),
        "a broker's word": ([Receipt(SubscriptionId(1))], stentor.Refusal.PROTOCOL),
        "10 MB": ([struct.pack("<IBB", 10_000_000, 1, 1) + bytes(100_000)], stentor.Refusal.TOO_LARGE),
        "10 MB of control": ([struct.pack("<IBB", 10_000_000, 2, 1) + bytes(1000)], stentor.Refusal.TOO_LARGE),
        "events cut short": ([struct.pack("<IBB", 20, 1, 1) + bytes(14)], stentor.Refusal.PROTOCOL),
    }


@pytest.mark.parametrize("loops", LOOPS)
def test_clients_that_break_the_rules_are_refused_and_nobody_else(tmp_path: Path, loops: Loops) -> None:
    async def main() -> None:
        async with undisturbed(tmp_path) as broker:
            for what, (said, code) in offences("stranger").items():
                async with inside(broker) as peer:
                    await peer.send(*said)
                    answer = await peer.last_word_after_welcome()
                    assert answer.code is code, (what, answer)
                    assert answer.reason
            await until(lambda: broker.status().topics == 0)

    run(main(), loops)


def test_whatever_a_client_may_say_twice_or_too_early_does_no_harm(tmp_path: Path) -> None:
    async def main() -> None:
        async with undisturbed(tmp_path) as broker, inside(broker) as peer:
            await peer.send(
                Credit(0),
                Credit(2**62),
                definition("t"),
                definition("t"),
                SchemaDefinition(ONE_TEXT),
                SchemaDefinition(ONE_TEXT),
                Unsubscription(SubscriptionId(77)),
                Subscription(SubscriptionId(0), "t"),
                Subscription(SubscriptionId(2**63 - 1), "t"),
                Ping(0),
            )
            assert [type(await peer.receive()) for _ in range(4)] == [Receipt, Receipt, Receipt, Pong]
            await peer.send(Farewell("enough"))
            assert await peer.ended()

    run(main())


def damaged_frames() -> dict[str, bytes]:
    """Event frames that are wrong inside: by chance, or sealed with a right checksum by somebody who means it."""
    good = block.encode(origin("stranger", "bad/x"), ONE_TEXT, [["text"]], [b"body"])
    at = origin("stranger", "bad/x")

    def sealed(column: bytes, bodies: bytes, flags: int = UNIFORM) -> bytes:
        return block.seal(at, ONE_TEXT.id, 1, flags, len(column), column + bodies)

    right, empty = b"\1\1\0\0\0\4\0\0\0text", bytes(4)
    return {
        "a flipped bit in the body": good[:-1] + bytes([good[-1] ^ 1]),
        "a flipped bit in the columns": good[:70] + bytes([good[70] ^ 1]) + good[71:],
        "a flipped bit in the checksum": good[:60] + bytes([good[60] ^ 1]) + good[61:],
        "a flipped bit in the number": good[:40] + bytes([good[40] ^ 1]) + good[41:],
        "bodies beyond the frame": sealed(right, b"\xff\xff\xff\x7fabc", flags=0),
        "bodies that do not fill the frame": sealed(right, empty + b"more"),
        "columns that do not fill their place": sealed(right + b"\0", empty),
        "columns cut short": sealed(right[:4], empty),
        "text that is not UTF-8": sealed(b"\1\1\0\0\0\4\0\0\0te\xff\xfe", empty),
        "text outside its dictionary": sealed(b"\1\1\0\7\0\4\0\0\0text", empty),
        "no events": block.seal(at, ONE_TEXT.id, 0, UNIFORM, 0, empty),
    }


@pytest.mark.parametrize(
    ("what", "where"),
    [
        *(pytest.param(what, "", id=f"{what}, all") for what in damaged_frames()),
        *(pytest.param(what, "text = 'text'", id=f"{what}, filtered") for what in damaged_frames()),
    ],
)
def test_damaged_events_harm_no_subscriber(tmp_path: Path, what: str, where: str) -> None:
    """They are refused at the border, or at the latest dropped: nobody reads them, nor loses a link over them."""

    async def main() -> None:
        async with (
            undisturbed(tmp_path) as broker,
            stentor.connect(broker.url) as fabric,
            fabric.subscribe("bad/#", where) as events,
            inside(broker) as stranger,
        ):
            link = next(link.address for link in broker.status().links if link.name == fabric.name)
            await stranger.send(definition("bad/x"), SchemaDefinition(ONE_TEXT), damaged_frames()[what])
            await stranger.send(Ping(1))
            while not isinstance(answer := await stranger.receive(), Rejection | Pong):
                pass
            assert isinstance(answer, Pong) or answer.code in (stentor.Refusal.CORRUPT, stentor.Refusal.PROTOCOL)
            await fabric.publish("bad/x", b"good", text="text")
            (event,) = await take(events, 1)
            assert (event.body, event["text"]) == (b"good", "text")
            assert link in {link.address for link in broker.status().links}, "its link has not been lost in between"

    run(main())


# ---- at the client's end


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await wait_for_end(reader)


def says(data: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await wait_for_end(reader)

    return handle


async def answers_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


@pytest.mark.parametrize(
    ("server", "kind", "reason"),
    [
        (answers_http, stentor.Unreachable, "web server"),
        (says(b'INFO {"server_id":"NABC","version":"2.10"}\r\n'), stentor.Unreachable, "NATS server"),
        (says(b"SSH-2.0-OpenSSH_9.6\r\n"), stentor.Unreachable, "SSH"),
        (says(b"-ERR unknown command\r\n"), stentor.Unreachable, "Redis"),
        (says(b"220 mail.example.org ESMTP\r\n"), stentor.Unreachable, "it began with b'220 mail"),
        (says(b"STENTOR\x01" + bytes(100)), stentor.Unreachable, "version 1 .* this node version 2: upgrade the peer"),
        (says(PREAMBLE + bytes(100)), stentor.Unreachable, "kind 0"),
        (says(PREAMBLE + encode(Pong(1))), stentor.Unreachable, "'echo' has no place here"),
        (says(PREAMBLE + struct.pack("<IBB", 5000, 2, 1)), stentor.Unreachable, "at most 4096"),
        (says(PREAMBLE + encode(Rejection(stentor.Refusal.BUSY, "come later"))), stentor.Unreachable, "come later"),
        (
            says(PREAMBLE + encode(Rejection(stentor.Refusal.UNAUTHENTICATED, "who are you"))),
            stentor.Refused,
            "who are you",
        ),
        (hangs_up, stentor.Unreachable, "closed the link"),
        (silent, stentor.Unreachable, "stentor up"),
    ],
)
def test_servers_that_are_no_brokers_are_named(server: Handler, kind: type[Exception], reason: str) -> None:
    async def main() -> None:
        async with pretender(server) as port:
            assert type(await refused(f"stentor://127.0.0.1:{port}", reason)) is kind

    run(main())


def test_a_client_survives_whatever_a_broker_says(tmp_path: Path) -> None:
    """Random bytes behind a good welcome: the client reconnects, and its application sees no error."""
    dice = random.Random(7)
    links = 0

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal links
        links += 1
        peer = Peer(reader, writer)
        await peer.greet(1 << 20)
        good = [
            encode(Topic(topic_id("t"), "t")),
            encode(Receipt(SubscriptionId(1))),
            encode(Missed({SubscriptionId(9): 1})),
            encode(SchemaDefinition(ONE_TEXT)),
            encode(Credit(dice.randrange(2**62))),
            encode(Pong(dice.randrange(99))),
        ]
        said = bytearray(b"".join(good[: dice.randrange(len(good) + 1)]))
        if links % 2:
            said += dice.randbytes(dice.randrange(64, 300))
        else:
            inside = dice.randbytes(dice.randrange(58, 300))
            said += struct.pack("<IBB", len(inside) + 6, dice.choice([1, 2]), 1) + inside
        await peer.send(bytes(said))

    async def main() -> None:
        async with pretender(babble) as port, stentor.connect(f"stentor://127.0.0.1:{port}") as fabric:
            reading = asyncio.create_task(read_all(fabric))
            await until(lambda: links >= 12)
            assert not reading.done()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    run(main())


async def read_all(fabric: stentor.Fabric) -> None:
    async with fabric.subscribe("t") as events:
        async for event in events:
            raise AssertionError(event)


def test_a_well_behaved_pair_is_served_after_all_strange_peers(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path) as broker:
            await prove_well(broker.url)
            await until(lambda: not broker.driver.links)
            assert broker.status().clients == 0

    run(main())
