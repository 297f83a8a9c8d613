"""Credentials: what the peer on an accepted link has proved, and so which places it may take.

With TLS its certificate names them. Without, nobody has any before its hello proves the fabric's token, and then it has
all of them: whoever can read the token runs the fabric.
"""

from stentor.machine import LinkOpened
from stentor.model.errors import FrameError, Refusal
from stentor.model.messages import Challenge, Hello
from stentor.model.trust.place import (
    EVERYWHERE,
    REPOSITORY_NAME,
    described,
    is_node_name,
    is_operator_name,
    may_join,
    may_operate,
    may_store,
)
from stentor.model.trust.token import is_same

_HINT = "give it with --token FILE, STENTOR_TOKEN or [fabric] token"


class Credentials:
    """Of one link at a broker."""

    __slots__ = ("_nonce", "_token", "_was_challenged", "_was_refuted", "attributes", "is_node", "scopes")

    def __init__(self, opened: LinkOpened) -> None:
        self.is_node = opened.node
        self.scopes = opened.scopes
        self.attributes = frozenset(opened.attributes)  # of its certificate, such as OU=trading
        self._token, self._nonce = opened.token, opened.nonce
        self._was_challenged = False
        self._was_refuted = False  # it proved some other token

    @property
    def is_operator(self) -> bool:
        """Whether it may take an operator's name."""
        return self.is_node and may_operate(self.scopes)

    def challenge(self) -> Challenge:
        """Return the nonce of this link, once: nobody makes us talk who has not said who they are."""
        if self._was_challenged:
            raise FrameError(Refusal.PROTOCOL, "a second request for a challenge")
        self._was_challenged = True
        return Challenge(self._nonce if self._token is not None else b"")

    def hear(self, hello: Hello, node: str) -> bytes:
        """Note what a hello proves, and refuse a place that it does not; returns what proves the token to the peer."""
        token = self._token
        if token is None or not hello.proof:
            self._check(hello)
            return b""
        expected = token.dialler_proof(self._nonce, hello.nonce, hello.role, hello.name)
        if is_same(hello.proof, expected):
            self.is_node, self.scopes = True, EVERYWHERE
        else:
            self._was_refuted = True  # an old token of somebody who only wants to publish does no harm
        self._check(hello)
        return token.broker_proof(self._nonce, hello.nonce, node)

    def refusal_of_orders(self, node: str) -> str:
        """Return why its orders to a broker are not obeyed; "" if they are."""
        if not self.is_node:
            return self._unproved("order that")
        if not may_join(self.scopes, node):
            return self._elsewhere(f"order {node}", f"NAME --scope {node}")
        return ""

    def _check(self, hello: Hello) -> None:
        name = hello.name
        if hello.role == "broker":
            self._demand(may_join(self.scopes, name), "be a broker", f"be {name}", f"{name} --scope {name}")
        elif is_operator_name(name):
            self._demand(self.is_operator, "be an operator", "be an operator", "NAME --scope /")
        elif is_node_name(name):
            own = name.removeprefix(REPOSITORY_NAME)
            may = may_store(self.scopes, own)
            self._demand(may, "be a repository", f"be the repository {own}", f"{own} --repository {own}")

    def _demand(self, may: bool, kind: str, place: str, options: str) -> None:
        if not self.is_node:
            raise FrameError(Refusal.UNAUTHENTICATED, self._unproved(kind))
        if not may:
            raise FrameError(Refusal.UNAUTHENTICATED, self._elsewhere(place, options))

    def _unproved(self, act: str) -> str:
        if not self._nonce:
            return f"only who has a node's certificate may {act}"
        if self._was_refuted:
            return f"only who proves this fabric's token may {act}, and what was proved is another one: {_HINT}"
        if self._token is None:
            return f"only who proves the fabric's token may {act}, and this broker has none: {_HINT}"
        return f"only who proves the fabric's token may {act}: {_HINT}"

    def _elsewhere(self, act: str, options: str) -> str:
        named = f"names {described(self.scopes)}" if self.scopes else "names no scopes"
        return f"a node's certificate that {named} may not {act}: make one with `stentor certs node {options}`"
