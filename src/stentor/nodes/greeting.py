"""Greeting: what whoever dials a broker says first, what it proves, and what it wants proved before it believes.

A dialler that knows the fabric's token asks for a challenge and says hello when it has one. With TLS it knows from the
certificate which places the broker may take.
"""

import msgspec

from stentor.machine import LinkOpened
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import publisher_id
from stentor.model.messages import Challenge, ChallengeRequest, Hello, Message, Welcome
from stentor.model.trust.place import described, is_node_name, may_join
from stentor.model.trust.token import is_same
from stentor.protocols.connection.connection import Connection

_LONGEST_HEARTBEAT = 3600.0


class Greeting:
    """The dialler's side of one link."""

    __slots__ = ("_challenge", "_hello", "_opened")

    def __init__(self, opened: LinkOpened, hello: Hello) -> None:
        self._opened = opened
        self._hello = hello
        self._challenge: bytes | None = None  # as the broker drew it

    def first_word(self) -> Message:
        return self._hello if self._opened.token is None else ChallengeRequest()

    def answer(self, challenge: Challenge) -> Hello:
        """Return the hello that proves the token to whoever drew this challenge."""
        opened, hello = self._opened, self._hello
        if opened.token is None or self._challenge is not None:
            raise FrameError(Refusal.PROTOCOL, "a challenge that nobody asked for")
        self._challenge = challenge.nonce
        if not challenge.nonce:
            return hello  # the broker has no token: it cannot check a proof
        proof = opened.token.dialler_proof(challenge.nonce, opened.nonce, hello.role, hello.name)
        return msgspec.structs.replace(hello, nonce=opened.nonce, proof=proof)

    def take_in(self, welcome: Welcome, connection: Connection) -> None:
        """Believe a broker that welcomes us as a client, and keep to its limits from now on."""
        self.check(welcome)
        if not 0 < welcome.heartbeat <= _LONGEST_HEARTBEAT or welcome.largest_body <= 0 or welcome.ahead < 0:
            raise FrameError(Refusal.PROTOCOL, "a welcome with limits that cannot be")
        connection.narrow(welcome.ahead or connection.window)
        connection.greet(welcome.largest_body, welcome.heartbeat)
        connection.name, connection.principal = self._hello.name, welcome.principal
        connection.publisher = publisher_id(welcome.principal, self._hello.name)
        connection.outbox.grant(welcome.window)

    def check(self, welcome: Welcome) -> None:
        """Refuse a broker that is not proved to be one of that name. Plain clients without TLS take any."""
        opened, hello = self._opened, self._hello
        if may_join(opened.scopes, welcome.node):
            return
        if not opened.nonce:
            named = f"names {described(opened.scopes)}" if opened.scopes else "names no scopes"
            raise FrameError(
                Refusal.FORGED,
                f"the broker calls itself {welcome.node}, but its certificate {named}: make one with "
                f"`stentor certs node {welcome.node} --scope {welcome.node}`",
            )
        if hello.role != "broker" and not is_node_name(hello.name):
            return
        if (
            opened.token is None
            or not self._challenge
            or not is_same(welcome.proof, opened.token.broker_proof(self._challenge, opened.nonce, welcome.node))
        ):
            raise FrameError(Refusal.FORGED, f"{welcome.node} does not prove that it knows the fabric's token")
