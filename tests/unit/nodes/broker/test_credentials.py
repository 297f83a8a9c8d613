"""Who may take which place: what certificates name, what the fabric's token proves, and what is believed of brokers."""

import itertools
from typing import Any

import pytest

from stentor.machine import (
    Append,
    Appended,
    CertificateEnded,
    Close,
    Dial,
    Effect,
    Input,
    LinkOpened,
    Received,
    Send,
    Started,
    StartTimer,
    TimerFired,
)
from stentor.model.errors import Refusal
from stentor.model.ids import Incarnation, LinkId
from stentor.model.limits import Limits
from stentor.model.messages import (
    AdminReceipt,
    AdminRequest,
    AdminTask,
    AnyMessage,
    Challenge,
    ChallengeRequest,
    Hello,
    Message,
    Rejection,
    Welcome,
)
from stentor.model.scope import ScopePath
from stentor.model.trust.token import FabricToken
from stentor.nodes.broker.broker import Broker
from stentor.nodes.client import Client, Settings
from stentor.nodes.client_api import Connect, Disconnect, Refuse
from stentor.nodes.client_link import RedialBroker
from stentor.nodes.network.network import GatewaySettings, NetworkSettings
from stentor.wire import frame
from stentor.wire.frame import PREAMBLE

NODE = "campus/library/b1"
TOKEN = FabricToken(b"0123456789abcdef0123456789abcdef")
OTHER_TOKEN = FabricToken(b"fedcba9876543210fedcba9876543210")
OURS, THEIRS = b"o" * 16, b"t" * 16  # nonces
PLAIN: dict[str, Any] = {"node": False, "scopes": (), "nonce": OURS, "token": TOKEN}


class Desk:
    """A broker whose links a test opens as it likes."""

    def __init__(self, *gateways: GatewaySettings) -> None:
        self.broker = Broker(ScopePath.parse(NODE), Limits(), "test", NetworkSettings(gateways=gateways))
        self.said: dict[LinkId, bytes] = {}
        self.dialled: list[LinkId] = []
        self._numbers = itertools.count(1)
        self.tell(Started())

    def tell(self, happened: Input) -> list[Effect]:
        effects = self.broker.step(0, happened)
        for effect in effects:
            match effect:
                case Append():
                    self.tell(Appended(effect.log, effect.token))
                case Send():
                    self.said[effect.link] = self.said.get(effect.link, b"") + b"".join(effect.data)
                case Dial():
                    self.dialled.append(effect.link)
        return effects

    def open(self, **proved: Any) -> LinkId:
        link = LinkId(next(self._numbers))
        self.tell(LinkOpened(link, address="127.0.0.1:1", **proved))
        self.tell(Received(link, PREAMBLE))
        return link

    def say(self, link: LinkId, *words: Message) -> list[AnyMessage]:
        self.said.pop(link, None)
        self.tell(Received(link, b"".join(map(frame.encode, words))))
        return self.heard(link)

    def heard(self, link: LinkId) -> list[AnyMessage]:
        return messages(self.said.pop(link, b""))


def messages(data: bytes) -> list[AnyMessage]:
    found = []
    data = data.removeprefix(PREAMBLE)
    while data:
        length = int.from_bytes(data[:4], "little")
        found.append(frame.decode(data[:length]))
        data = data[length:]
    return found


def hello(name: str, role: str = "client", **proof: bytes) -> Hello:
    return Hello(name=name, incarnation=Incarnation(1), window=1 << 20, role=role, **proof)  # type: ignore[arg-type]


def proved(challenge: bytes, name: str, role: str = "client", token: FabricToken = TOKEN) -> Hello:
    return hello(name, role, nonce=THEIRS, proof=token.dialler_proof(challenge, THEIRS, role, name))


def refusal(answers: list[AnyMessage]) -> str:
    (answer,) = answers
    assert isinstance(answer, Rejection), answer
    assert answer.code is Refusal.UNAUTHENTICATED
    return answer.reason


def welcome(answers: list[AnyMessage]) -> Welcome:
    assert isinstance(answers[0], Welcome), answers
    return answers[0]


# ---- certificates


@pytest.mark.parametrize(
    "scopes",
    [
        ("scope/",),
        ("scope/campus",),
        ("scope/campus/library",),
        ("scope/campus/library/b2",),
        ("repository/r1", "scope/elsewhere", "scope/campus/library/b2"),
    ],
)
def test_a_broker_may_be_where_its_certificate_says(scopes: tuple[str, ...]) -> None:
    desk = Desk()
    link = desk.open(principal="node", scopes=scopes)
    assert welcome(desk.say(link, hello("campus/library/b2", "broker"))).node == NODE


@pytest.mark.parametrize(
    "scopes",
    [
        ("scope/campus/museum",),
        ("scope/campus/library/b",),
        ("scope/campus/library/b2/",),
        ("scope/campus/library/b22",),
        ("scope/b2",),
        ("repository/",),
    ],
)
def test_a_broker_elsewhere_is_refused_with_the_command_that_would_help(scopes: tuple[str, ...]) -> None:
    desk = Desk()
    link = desk.open(principal="node", scopes=scopes)
    reason = refusal(desk.say(link, hello("campus/library/b2", "broker")))
    assert reason == (
        f"a node's certificate that names stentor:{scopes[0]} may not be campus/library/b2: make one with "
        "`stentor certs node campus/library/b2 --scope campus/library/b2`"
    )


def test_a_nodes_certificate_without_scopes_is_refused_with_the_command() -> None:
    desk = Desk()
    for name, role, options in (
        ("campus/library/b2", "broker", "campus/library/b2 --scope campus/library/b2"),
        ("repository:r1", "client", "r1 --repository r1"),
        ("operator:me", "client", "NAME --scope /"),
    ):
        reason = refusal(desk.say(desk.open(principal="node", scopes=()), hello(name, role)))
        assert "names no scopes" in reason
        assert f"`stentor certs node {options}`" in reason


@pytest.mark.parametrize(
    ("scopes", "may"),
    [
        (("repository/r1",), True),
        (("repository/",), True),
        (("repository/r",), False),
        (("repository/r11",), False),
        (("scope/",), False),
    ],
)
def test_a_repository_may_be_what_its_certificate_says(scopes: tuple[str, ...], may: bool) -> None:
    desk = Desk()
    (answer,) = desk.say(desk.open(principal="node", scopes=scopes), hello("repository:r1"))
    assert isinstance(answer, Welcome if may else Rejection)


def test_a_clients_certificate_is_good_for_no_place() -> None:
    desk = Desk()
    for name, role in (("campus/library/b2", "broker"), ("repository:r1", "client"), ("operator:me", "client")):
        link = desk.open(principal="alice", node=False, scopes=())
        assert "only who has a node's certificate may be" in refusal(desk.say(link, hello(name, role)))
    assert not welcome(desk.say(desk.open(principal="alice", node=False, scopes=()), hello("alice"))).is_operator


@pytest.mark.parametrize(
    ("scopes", "obeyed"),
    [
        (("scope/campus",), True),
        ((f"scope/{NODE}",), True),
        (("scope/campus/museum",), False),
        (("repository/",), False),
    ],
)
def test_a_broker_obeys_only_nodes_whose_scope_it_is_in(scopes: tuple[str, ...], obeyed: bool) -> None:
    desk = Desk()
    link = desk.open(principal="node", scopes=scopes)
    desk.say(link, hello("me"))
    (receipt,) = desk.say(link, AdminRequest(token=7, task=AdminTask.ADD_LINK, address="127.0.0.1:9"))
    assert isinstance(receipt, AdminReceipt)
    assert (receipt.code is None) is obeyed
    if not obeyed:
        assert f"`stentor certs node NAME --scope {NODE}`" in receipt.reason


def test_a_peer_is_told_why_its_link_ends_when_its_certificate_does() -> None:
    desk = Desk()
    link = desk.open(principal="alice", node=False, scopes=())
    desk.say(link, hello("alice"))
    effects = desk.tell(CertificateEnded(link, "the certificate expired"))
    assert refusal(desk.heard(link)) == "the certificate expired"
    assert Close(link, "the certificate expired") in effects
    assert desk.tell(CertificateEnded(link, "once more")) == [], "it is gone"


# ---- the token


def test_without_a_proof_nobody_takes_a_place() -> None:
    desk = Desk()
    for name, role in (("campus/library/b2", "broker"), ("repository:r1", "client"), ("operator:me", "client")):
        reason = refusal(desk.say(desk.open(**PLAIN), hello(name, role)))
        assert "only who proves the fabric's token may be" in reason
        assert "--token FILE, STENTOR_TOKEN or [fabric] token" in reason
    link = desk.open(**PLAIN)
    assert not welcome(desk.say(link, hello("me"))).is_operator, "whoever wants no place is welcome"
    (receipt,) = desk.say(link, AdminRequest(token=7, task=AdminTask.LEAVE))
    assert isinstance(receipt, AdminReceipt)
    assert receipt.code is Refusal.UNAUTHENTICATED
    assert "--token FILE" in receipt.reason


def test_a_broker_without_a_token_trusts_nobody() -> None:
    desk = Desk()
    link = desk.open(**{**PLAIN, "token": None})
    assert desk.say(link, ChallengeRequest()) == [Challenge(b"")]
    assert "this broker has none" in refusal(desk.say(link, proved(OURS, "repository:r1")))


@pytest.mark.parametrize(
    ("name", "role"),
    [("campus/library/b2", "broker"), ("repository:r1", "client"), ("operator:me", "client"), ("me", "client")],
)
def test_who_proves_the_token_has_every_place_and_is_proved_it_in_return(name: str, role: str) -> None:
    desk = Desk()
    link = desk.open(**PLAIN)
    assert desk.say(link, ChallengeRequest()) == [Challenge(OURS)]
    answer = welcome(desk.say(link, proved(OURS, name, role)))
    assert answer.is_operator
    assert answer.principal == "anonymous", "it changes nobody's principal"
    assert answer.proof == TOKEN.broker_proof(OURS, THEIRS, NODE)


def test_who_proves_the_token_is_obeyed() -> None:
    desk = Desk()
    link = desk.open(**PLAIN)
    desk.say(link, proved(OURS, "me"))
    assert desk.say(link, AdminRequest(token=7, task=AdminTask.ADD_LINK, address="127.0.0.1:9")) == [AdminReceipt(7)]


def test_another_token_is_refused_where_one_is_needed() -> None:
    desk = Desk()
    reason = refusal(desk.say(desk.open(**PLAIN), proved(OURS, "repository:r1", token=OTHER_TOKEN)))
    assert "what was proved is another one" in reason
    link = desk.open(**PLAIN)
    assert not welcome(desk.say(link, proved(OURS, "me", token=OTHER_TOKEN))).is_operator
    (receipt,) = desk.say(link, AdminRequest(token=7, task=AdminTask.LEAVE))
    assert isinstance(receipt, AdminReceipt)
    assert "what was proved is another one" in receipt.reason


def test_a_proof_proves_nothing_on_another_link() -> None:
    desk = Desk()
    overheard = proved(OURS, "repository:r1")
    assert isinstance(desk.say(desk.open(**PLAIN), overheard)[0], Welcome)
    link = desk.open(**{**PLAIN, "nonce": b"another nonce..."})
    assert "what was proved is another one" in refusal(desk.say(link, overheard))


@pytest.mark.parametrize(
    ("name", "role"), [("repository:r2", "client"), ("repository:r1", "broker"), ("campus/library/b2", "broker")]
)
def test_a_proof_is_good_for_no_other_name_or_role(name: str, role: str) -> None:
    desk = Desk()
    stolen = proved(OURS, "repository:r1")
    moved = hello(name, role, nonce=stolen.nonce, proof=stolen.proof)
    assert "what was proved is another one" in refusal(desk.say(desk.open(**PLAIN), moved))


def test_a_brokers_proof_is_no_diallers() -> None:
    desk = Desk()
    mirrored = hello("repository:r1", nonce=THEIRS, proof=TOKEN.broker_proof(OURS, THEIRS, "repository:r1"))
    assert "what was proved is another one" in refusal(desk.say(desk.open(**PLAIN), mirrored))


def test_a_challenge_out_of_place_ends_the_link() -> None:
    desk = Desk()
    for words in (
        [Challenge(THEIRS)],
        [ChallengeRequest(), ChallengeRequest()],
        [hello("me"), ChallengeRequest()],
        [hello("me"), Challenge(THEIRS)],
        [hello("me", proof=bytes(65))],
        [hello("me", nonce=bytes(65))],
    ):
        answer = desk.say(desk.open(**PLAIN), *words)[-1]
        assert isinstance(answer, Rejection)
        assert answer.code is Refusal.PROTOCOL


def test_no_log_line_shows_a_token() -> None:
    assert TOKEN.value.decode() not in repr(LinkOpened(LinkId(1), **PLAIN))


# ---- what diallers believe


def dialling(**opened: Any) -> tuple[Desk, LinkId]:
    """A broker that has just dialled another one."""
    desk = Desk(GatewaySettings(address="127.0.0.1:9"))
    (link,) = desk.dialled
    desk.tell(LinkOpened(link, dialled=True, address="127.0.0.1:9", **opened))
    return desk, link


def welcomed(node: str, proof: bytes = b"") -> Welcome:
    return Welcome(
        node=node, boot=1, principal="node", window=1 << 20, largest_body=1 << 20, heartbeat=5.0, proof=proof
    )


def linked(desk: Desk, link: LinkId, *words: Message) -> bool:
    """Whether the broker is linked after these words of the one that it dialled."""
    desk.said.pop(link, None)
    desk.tell(Received(link, PREAMBLE + b"".join(map(frame.encode, words))))
    return bool(desk.broker.network.peers)


@pytest.mark.parametrize(
    ("scopes", "believed"),
    [(("scope/campus/museum",), True), (("scope/",), True), (("scope/campus/library",), False), ((), False)],
)
def test_a_broker_believes_only_a_name_that_the_certificate_there_names(
    scopes: tuple[str, ...], believed: bool
) -> None:
    desk, link = dialling(scopes=scopes)
    assert isinstance(desk.heard(link)[0], Hello)
    assert linked(desk, link, welcomed("campus/museum/b1")) is believed
    if not believed:
        (rejection,) = [each for each in desk.heard(link) if isinstance(each, Rejection)]
        assert "`stentor certs node campus/museum/b1 --scope campus/museum/b1`" in rejection.reason


def test_two_brokers_prove_the_token_to_each_other() -> None:
    desk, link = dialling(**PLAIN)
    assert desk.heard(link) == [ChallengeRequest()]
    desk.tell(Received(link, PREAMBLE + frame.encode(Challenge(THEIRS))))
    (said,) = desk.heard(link)
    assert isinstance(said, Hello)
    assert said.nonce == OURS
    assert said.proof == TOKEN.dialler_proof(THEIRS, OURS, "broker", NODE)
    proof = TOKEN.broker_proof(THEIRS, OURS, "campus/museum/b1")
    desk.tell(Received(link, frame.encode(welcomed("campus/museum/b1", proof))))
    assert list(desk.broker.network.peers) == ["campus/museum/b1"]


@pytest.mark.parametrize(
    "proof",
    [
        b"",
        OTHER_TOKEN.broker_proof(THEIRS, OURS, "campus/museum/b1"),
        TOKEN.broker_proof(THEIRS, OURS, "campus/museum/b2"),
        TOKEN.broker_proof(THEIRS, THEIRS, "campus/museum/b1"),
        TOKEN.dialler_proof(THEIRS, OURS, "broker", NODE),
    ],
)
def test_a_broker_does_not_believe_one_that_does_not_prove_the_token(proof: bytes) -> None:
    desk, link = dialling(**PLAIN)
    assert not linked(desk, link, Challenge(THEIRS), welcomed("campus/museum/b1", proof))
    (rejection,) = [each for each in desk.heard(link) if isinstance(each, Rejection)]
    assert rejection.reason == "campus/museum/b1 does not prove that it knows the fabric's token"


def test_a_link_that_nobody_wants_any_more_is_no_way_in() -> None:
    desk, _ = dialling(**PLAIN)
    late = LinkId(-99)
    for words in (welcomed("campus/museum/b1"), Challenge(THEIRS)):
        desk.tell(LinkOpened(late, dialled=True, **PLAIN))
        desk.tell(Received(late, PREAMBLE + frame.encode(words)))
        assert isinstance(desk.heard(late)[-1], Rejection)


@pytest.mark.req("CO-13")
def test_a_link_that_is_removed_while_it_is_greeted_is_not_taken() -> None:
    desk, link = dialling(scopes=("scope/",))
    desk.broker.network.outgoing.remove("127.0.0.1:9")
    assert not linked(desk, link, welcomed("campus/museum/b1"))
    (rejection,) = [each for each in desk.heard(link) if isinstance(each, Rejection)]
    assert rejection.reason == "the link to campus/museum/b1 was removed"


# ---- clients


class Caller:
    """A client that dials, and a test that answers."""

    def __init__(self, name: str, **opened: Any) -> None:
        self.machine = Client(Settings(name=name, addresses=("host:1",), incarnation=Incarnation(1)))
        (dial,) = [each for each in self.machine.step(0, Started()) if isinstance(each, Dial)]
        self.link = dial.link
        self.effects = self.machine.step(0, LinkOpened(self.link, dialled=True, **opened))

    def said(self) -> list[AnyMessage]:
        data = b"".join(b"".join(each.data) for each in self.effects if isinstance(each, Send))
        return messages(data)

    def hear(self, *words: Message) -> list[Effect]:
        self.effects = self.machine.step(0, Received(self.link, PREAMBLE + b"".join(map(frame.encode, words))))
        return self.effects

    def is_connected(self) -> bool:
        return any(isinstance(each, Connect) for each in self.effects)


def test_a_client_without_a_token_says_hello_at_once_and_takes_any_broker() -> None:
    caller = Caller("me", node=False, scopes=(), nonce=OURS)
    (said,) = caller.said()
    assert isinstance(said, Hello)
    assert not said.proof
    caller.hear(welcomed("anything"))
    assert caller.is_connected()


@pytest.mark.parametrize(("name", "strict"), [("me", False), ("repository:r1", True), ("operator:me", True)])
def test_only_who_takes_a_place_wants_the_broker_to_prove_the_token(name: str, strict: bool) -> None:
    caller = Caller(name, **PLAIN)
    assert caller.said() == [ChallengeRequest()]
    caller.hear(Challenge(THEIRS), welcomed("campus/b1"))
    assert caller.is_connected() is not strict
    caller = Caller(name, **PLAIN)
    caller.hear(Challenge(THEIRS), welcomed("campus/b1", TOKEN.broker_proof(THEIRS, OURS, "campus/b1")))
    assert caller.is_connected()


@pytest.mark.parametrize(
    ("scopes", "believed"),
    [(("scope/campus",), True), (("scope/museum",), False), (("repository/b1",), False), ((), False)],
)
def test_a_client_believes_only_a_name_that_the_certificate_there_names(
    scopes: tuple[str, ...], believed: bool
) -> None:
    caller = Caller("me", node=True, scopes=scopes)
    effects = caller.hear(welcomed("campus/b1"))
    assert caller.is_connected() is believed
    if not believed:
        (reason,) = [each.reason for each in effects if isinstance(each, Disconnect)]
        assert "`stentor certs node campus/b1 --scope campus/b1`" in reason
        assert not any(isinstance(each, Refuse) for each in effects), "another broker may be honest"


def test_a_second_challenge_is_no_part_of_a_greeting() -> None:
    caller = Caller("me", **PLAIN)
    effects = caller.hear(Challenge(THEIRS), Challenge(OURS))
    assert any(isinstance(each, Disconnect) and "nobody asked for" in each.reason for each in effects)


def test_a_client_leaves_a_broker_whose_certificate_ended_and_tries_again() -> None:
    caller = Caller("me", node=True, scopes=("scope/",))
    caller.hear(welcomed("campus/b1"))
    effects = caller.machine.step(0, CertificateEnded(caller.link, "it was revoked"))
    assert Disconnect("it was revoked") in effects
    assert any(isinstance(each, StartTimer) and each.timer == RedialBroker() for each in effects)
    assert not any(isinstance(each, Refuse) for each in effects)
    assert any(isinstance(each, Dial) for each in caller.machine.step(0, TimerFired(RedialBroker())))
