"""The handshake at a broker: who comes in, as a client or as another broker, and whose place is taken by that."""

from typing import NamedTuple

from stentor.machine import Step, StopTimer
from stentor.model.errors import FrameError, InvalidInput, Refusal
from stentor.model.ids import LinkId, publisher_id
from stentor.model.limits import Limits
from stentor.model.messages import Challenge, ChallengeRequest, Hello, Welcome
from stentor.model.ranges import check_client_name
from stentor.model.trust.place import REPOSITORY_NAME
from stentor.nodes.broker.access.access_control import AccessControl
from stentor.nodes.broker.link_session import HelloTimeout, LinkSession
from stentor.nodes.broker.redirection import Redirection
from stentor.nodes.network.network import BrokerNetwork
from stentor.protocols.connection.connection import SMALLEST_WINDOW
from stentor.protocols.connection.name_registry import NameRegistry
from stentor.wire.parcel import SOFT_PARCEL

_LONGEST_HEARTBEAT = 3600.0


class Replaced(NamedTuple):
    """A link whose place another one takes."""

    link: LinkId
    code: Refusal
    reason: str


class Handshake:
    """Says and hears hello and welcome."""

    def __init__(
        self,
        limits: Limits,
        version: str,
        network: BrokerNetwork,
        names: NameRegistry,
        access: AccessControl,
        redirection: Redirection,
        step: Step,
    ) -> None:
        self.boot = 0
        self._name = network.context.name
        self._limits = limits
        self._version = version
        self._network = network
        self._names = names
        self._access = access
        self._redirection = redirection
        self._step = step

    def challenge(self, session: LinkSession, message: ChallengeRequest | Challenge) -> None:
        """Answer somebody who wants to prove the fabric's token, or the broker that wants us to prove it."""
        connection, greeting = session.connection, session.greeting
        if connection.greeted or session.dialled == isinstance(message, ChallengeRequest):
            raise FrameError(Refusal.PROTOCOL, "a challenge after a hello, or by the wrong side")
        if isinstance(message, ChallengeRequest):
            connection.outbox.post(session.credentials.challenge())
        elif greeting is None:
            raise FrameError(Refusal.PROTOCOL, "a challenge without a hello")
        else:
            connection.outbox.post(greeting.answer(message))

    def greet(self, session: LinkSession, hello: Hello) -> Replaced | None:
        """Greet somebody who says who they are; return the link whose place it takes."""
        connection = session.connection
        if connection.greeted or session.dialled:
            raise FrameError(Refusal.PROTOCOL, "hello was said before, or by whoever was dialled")
        try:
            check_client_name(hello.name)
        except InvalidInput as error:
            raise FrameError(Refusal.PROTOCOL, str(error)) from None
        if hello.window < SMALLEST_WINDOW or not 0 <= hello.incarnation < 1 << 48:
            raise FrameError(Refusal.PROTOCOL, f"a hello with a window below {SMALLEST_WINDOW} or a bad incarnation")
        connection.name = hello.name
        connection.incarnation = hello.incarnation
        connection.attempt = hello.attempt
        return self._greet_broker(session, hello) if hello.role == "broker" else self._greet_client(session, hello)

    def _greet_client(self, session: LinkSession, hello: Hello) -> Replaced | None:
        connection = session.connection
        if not self._network.outgoing.acquaintance.is_over and not hello.name.startswith(REPOSITORY_NAME):
            raise FrameError(Refusal.BUSY, "this broker is asking its neighbours who may do what: try again")
        proof = session.credentials.hear(hello, self._name)
        self._access.check_name(session)
        fenced = self._names.claim(connection)
        connection.publisher = publisher_id(connection.principal, hello.name)
        slower = max(self._limits.heartbeat, hello.heartbeat)  # NaN is not slower
        self._welcome(session, hello, min(slower, _LONGEST_HEARTBEAT), proof)
        session.serve()
        self._step.report("debug", "client connected", client=hello.name, principal=connection.principal)
        self._redirection.point(session, hello)
        if fenced is None:
            return None
        # the same client on a newer link must not give up for good
        code = Refusal.CLOSING if fenced.incarnation == hello.incarnation else Refusal.FENCED
        return Replaced(fenced.link, code, f"another client with the name {hello.name!r} took over")

    def _greet_broker(self, session: LinkSession, hello: Hello) -> Replaced | None:
        proof = session.credentials.hear(hello, self._name)
        self._welcome(session, hello, self._limits.heartbeat / 2, proof)
        return self._admit(session, hello.name, hello.cost, hello.address)

    def _welcome(self, session: LinkSession, hello: Hello, heartbeat: float, proof: bytes) -> None:
        limits, connection = self._limits, session.connection
        connection.greet(limits.largest_body, heartbeat)
        ahead = min(hello.window, limits.window)
        connection.outbox.grant(ahead)
        left = ahead if ahead < hello.window else 0
        welcome = Welcome(
            node=self._name,
            boot=self.boot,
            principal=connection.principal,
            window=limits.window,
            largest_body=limits.largest_body,
            heartbeat=heartbeat,
            agent=self._version,
            ahead=left,
            traces=self._network.settings.traces,
            proof=proof,
            is_operator=session.credentials.is_operator,
            sums=self._network.settings.sums,
        )
        connection.outbox.post(welcome)
        self._step.emit(StopTimer(HelloTimeout(connection.link)))

    def welcomed(self, session: LinkSession, welcome: Welcome) -> Replaced | None:
        """Join the broker that we dialled, which takes us; return the link whose place it takes."""
        connection, greeting = session.connection, session.greeting
        if connection.greeted or greeting is None:
            raise FrameError(Refusal.PROTOCOL, "a Welcome without a hello")
        if self._network.outgoing.find(connection.link) is None:  # a plan, or an operator, removed it meanwhile
            raise FrameError(Refusal.CLOSING, f"the link to {welcome.node} was removed")
        if not 0 < welcome.heartbeat <= _LONGEST_HEARTBEAT or welcome.largest_body <= 0 or welcome.ahead < 0:
            raise FrameError(Refusal.PROTOCOL, "a welcome with limits that cannot be")
        greeting.check(welcome)
        connection.narrow(welcome.ahead or connection.window)
        connection.greet(self._limits.largest_body, self._limits.heartbeat / 2)
        connection.outbox.grant(welcome.window)
        connection.name = welcome.node
        if welcome.largest_body < self._limits.largest_body:
            self._step.report(
                "warning",
                "the peer takes smaller bodies only",
                peer=welcome.node,
                theirs=welcome.largest_body,
                ours=self._limits.largest_body,
            )
        self._step.emit(StopTimer(HelloTimeout(connection.link)))
        return self._admit(session, welcome.node, 0.0, "")

    def _admit(self, session: LinkSession, name: str, cost: float, address: str) -> Replaced | None:
        session.connection.largest_frame += 2 * SOFT_PARCEL  # several frames, and their masks
        former = self._network.link_up(session, name, cost, address)
        if former is None:
            return None
        former.leave_network()
        return Replaced(former.connection.link, Refusal.CLOSING, "another link took over")
