"""Access at a broker: who may come in under a name, publish and subscribe, and what ends when a charter changes.

A flow is checked when it is met, a subscription when it is made, and a name when somebody greets with it. So an event
is never checked: its flow has a route to those who may read it, or to nobody.
"""

from collections.abc import Callable

import msgspec

from stentor.matching.topic_tree import is_wild
from stentor.model.communication import within_of
from stentor.model.errors import FrameError, TopicError
from stentor.model.filter import Filter
from stentor.model.ids import TopicId, topic_id
from stentor.model.reports.trace import TRACE
from stentor.model.reports.view import AccessView, Verdict
from stentor.model.topic import check_pattern
from stentor.model.trust.access_messages import AccessReport, AccessRequest, FlowRefusal
from stentor.nodes.broker.link_session import LinkSession, LinkState
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.policies.access import AccessPolicy, AccessSettings, Charter, Denied
from stentor.policies.access_classes import AccessClasses
from stentor.policies.subject import Subject
from stentor.policies.system_topics import may_read_all, topic_within
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.broker_subscription import ReadAccess
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.subscriptions import Subscriptions


class ExpectantEnd:
    """A subscriber of a topic whose charter is not known here yet: it may read what that grants, once it comes."""

    __slots__ = ("_policy", "_subject")

    def __init__(self, policy: AccessPolicy, subject: Subject) -> None:
        self._policy, self._subject = policy, subject

    def may_read(self, topic: str) -> bool:
        return self._policy.may_subscribe(self._subject, topic)


class AccessControl:
    """Enforces on the links of a broker what its policy decides."""

    def __init__(
        self,
        settings: AccessSettings,
        charter_of: Callable[[str], Charter | None],
        forwarder: Forwarder[Outbox],
        subscriptions: Subscriptions[Outbox],
        sessions: LinkSessions,
        place: str = "",
    ) -> None:
        """`place` is the broker's name."""
        self.policy = AccessPolicy(settings, charter_of, place)
        self.classes = AccessClasses(self.policy)
        self._forwarder = forwarder
        self._subscriptions = subscriptions
        self._sessions = sessions
        self.changed: dict[str, None] = {}  # topics whose charters have changed in this step
        self._others: frozenset[str] = frozenset()  # principals that are in other classes by that
        self._numbers: set[TopicId] = set()  # of topics on which others may publish by that

    # ---- when somebody begins something

    def check_name(self, session: LinkSession) -> None:
        """Raise FrameError if somebody may not be connected under the name that it greets with."""
        denied = self.policy.deny_name(subject_of(session))
        if denied is not None:
            raise FrameError(denied.code, denied.reason)

    def admits_flow(self, session: LinkSession, topic: TopicId) -> bool:
        """Return whether a client may publish on a topic; if not, it is told once."""
        denied = self.policy.deny_publishing(subject_of(session), self._forwarder.table.topics[topic].name)
        if denied is None:
            return True
        if topic not in session.flows.denied:
            session.flows.denied.add(topic)
            self._subscriptions.refused[denied.code] += 1
            session.connection.outbox.post(FlowRefusal(topic, denied.code, denied.reason))
        return False

    def admit_subscription(
        self, session: LinkSession, pattern: str, where: Filter | None
    ) -> ReadAccess | Denied | None:
        """Return what a pattern means to a client; None is all of it."""
        subject = subject_of(session)
        if is_wild(pattern):
            return self.classes.deny_pattern(subject, pattern) or self._reader_of(subject, pattern)
        denied = self.policy.deny_subscribing(subject, pattern)
        if denied is not None and subject.end_of("subscriber", pattern) and self.policy.charter_of(pattern) is None:
            return ExpectantEnd(self.policy, subject)
        return denied or self.policy.deny_filter(subject, pattern, where)

    def _reader_of(self, subject: Subject, pattern: str) -> ReadAccess | None:
        """Return what a pattern with wildcards, which is not denied, means to a subject; None is all of it."""
        return None if may_read_all(subject, pattern) else self.classes.class_of(subject, pattern)

    # ---- when a charter changes

    def on_charter_change(self, topic: str) -> None:
        """The charter of a topic is another one: its routes are worked out again; whom it concerns is for `review`."""
        table = self._forwarder.table
        self._others |= self.classes.update(topic)
        self.changed[topic] = None
        self._numbers |= table.forget_routes(topic) | table.forget_routes(within_of("+", topic))

    def review(self) -> None:
        """End what the charters that changed in this step do not allow any more, and let begin what they do.

        A step may bring many of them, and there may be many clients, so these are looked at once for all charters.
        """
        by_name = any(map(self._forwarder.table.has_exact, self.changed))
        for session in list(self._sessions):
            if session.state is not LinkState.CLIENT:
                continue
            session.flows.denied -= self._numbers
            subject = subject_of(session)
            is_end = any(topic in self.changed for topic in subject.topics_of_end())
            if is_end:
                session.flows.denied.discard(topic_id(TRACE))  # ends of topics that there are tell traces
            if is_end and (denied := self.policy.deny_name(subject)) is not None:
                self._sessions.refuse(session, denied.code, denied.reason)
            elif is_end or by_name or subject.principal in self._others:
                self._review(session, subject)
        self.changed = {}
        self._numbers = set()
        self._others = frozenset()

    def _review(self, session: LinkSession, subject: Subject) -> None:
        """See to it that the subscriptions of a client mean what they may mean."""
        for number, subscription in list(session.subscriptions.items()):
            pattern = subscription.pattern
            if is_wild(pattern):
                self._forwarder.table.change_access(subscription, self._reader_of(subject, pattern))
            elif topic_within(pattern) in self.changed:
                access = self.admit_subscription(session, pattern, subscription.filter)
                if isinstance(access, Denied):
                    receipt = self._subscriptions.revoke(session.subscriptions, number, access)
                    session.connection.outbox.post(receipt)
                else:
                    self._forwarder.table.change_access(subscription, access)

    # ---- for those who ask

    def report(self, node: str, session: LinkSession, asked: AccessRequest) -> AccessReport:
        """Tell the rules in force, or what somebody may do on a topic."""
        asking = subject_of(session)
        about = asking
        if asked.principal not in ("", asking.principal):
            about = Subject(asked.principal, asked.principal, attributes=frozenset(asked.attributes))
        settings = self.policy.settings
        view = AccessView(node=node, default="open" if settings.is_open else "granted", principal=about.principal)
        if about is not asking and not asking.is_node:
            told = "only nodes and operators may ask about others: leave the principal out to ask about yourself"
            view = msgspec.structs.replace(view, verdicts=(Verdict(act="ask", allowed=False, reason=told),))
        elif asked.topic:
            charter = self.policy.charter_of(asked.topic)
            owner = "" if charter is None else charter.owner
            view = msgspec.structs.replace(
                view, topic=asked.topic, reliable=owner, verdicts=self._verdicts(about, asked.topic)
            )
        else:
            rules = settings.rules if asking.is_node else self.policy.lines_of(asking)
            view = msgspec.structs.replace(view, rules=tuple(map(str, rules)))
        return AccessReport(asked.token, msgspec.Raw(msgspec.msgpack.encode(view)))

    def _verdicts(self, subject: Subject, topic: str) -> tuple[Verdict, ...]:
        try:
            check_pattern(topic)
        except TopicError as error:
            return (Verdict(act="name this topic", allowed=False, reason=str(error)),)
        if is_wild(topic):
            return (_verdict("subscribe", self.classes.deny_pattern(subject, topic)),)
        charter = self.policy.charter_of(topic)
        publishing = self.policy.deny_publishing(subject, topic)
        verdicts = [
            _verdict("publish", publishing),
            _verdict("subscribe", self.policy.deny_subscribing(subject, topic)),
        ]
        if charter is not None:
            for role, grants in (("publisher", charter.publishers), ("subscriber", charter.subscribers)):
                held = [name for name, holder in grants.items() if holder in ("", subject.principal)]
                verdicts += [Verdict(act=f"be the {role} {name}", allowed=True) for name in sorted(held)]
        return tuple(verdicts)


def subject_of(session: LinkSession) -> Subject:
    """Return who is at the other end of a link."""
    connection = session.connection
    return Subject(connection.principal, connection.name, session.credentials.is_node, session.credentials.attributes)


def _verdict(act: str, denied: Denied | None) -> Verdict:
    return Verdict(act=act, allowed=denied is None, reason="" if denied is None else denied.reason)
