"""Owner requests: what owners and operators want of a topic is registered, durably and at the other repositories,
before they are told so.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from stentor.model.communication import inbox_of
from stentor.model.control import ControlEvent, Migrate, Registration, RegistrationReceipt, TopicTask
from stentor.model.errors import Refusal, Refused
from stentor.model.mail import KEPT_FOR
from stentor.model.trust.access import ANONYMOUS, TopicTerms
from stentor.model.trust.place import UNPROVED, is_operator_name
from stentor.protocols.delivery.replication.gossip import Gossip
from stentor.protocols.delivery.repository.deferred import AnswerOwner
from stentor.protocols.delivery.repository.serving.name_holders import NameHolders
from stentor.protocols.delivery.repository.status import TopicStatus
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue
from stentor.protocols.delivery.repository.storing.damage import Damage
from stentor.protocols.delivery.repository.storing.gap_closing import GapClosing
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.transport import SendLetter

_KEEP = 86_400  # seconds
_REFUSED_BY_REGISTRY = (  # tasks that are refused for what is registered, or is not, and for nothing else
    TopicTask.CREATE,
    TopicTask.REVOKE,
    TopicTask.LEAVE,
    TopicTask.ADD_REPOSITORY,
    TopicTask.REMOVE_REPOSITORY,
)


class OwnerRequests:
    """Carries out those of one topic at one repository."""

    def __init__(
        self,
        state: TopicState,
        gossip: Gossip,
        commits: CommitQueue,
        holders: NameHolders,
        damage: Damage,
        gap_closing: GapClosing,
        status: TopicStatus,
    ) -> None:
        self._state, self._gossip = state, gossip
        self._commits, self._holders = commits, holders
        self._damage, self._gap_closing = damage, gap_closing
        self._status = status
        self._topic, self._settings = state.topic, state.settings
        self._registry = state.registry
        self.handlers: dict[type[ControlEvent], Callable[[int, Any], None]] = {Registration: self._on_registration}

    def _on_registration(self, _: int, event: Registration) -> None:
        code, reason, report = None, "", b""
        try:
            self._carry_out(event)
            report = msgspec.json.encode(self._status.report(self._state.step.now, event.name))
        except Refused as refused:
            code, reason = refused.code, refused.reason
        receipt = RegistrationReceipt(
            self._topic, self._settings.name, token=event.token, code=code, reason=reason, report=report
        )
        if code is not None or event.task in (TopicTask.SHOW, TopicTask.STEER):
            self._state.send(inbox_of(event.sender), receipt)
        elif event.task is TopicTask.DELETE:  # nobody is left to agree
            self._commits.after_commit(SendLetter(inbox_of(event.sender), (receipt,)))
        else:
            self._commits.after_sharing(AnswerOwner(inbox_of(event.sender), receipt))

    def _carry_out(self, event: Registration) -> None:
        registry = self._registry
        self._check_topic(event)
        if event.task is TopicTask.CREATE and not registry.created:
            copies = event.copies or min(2, len(event.repositories))
            keep, expire = event.keep or _KEEP, event.expire or (KEPT_FOR if self._topic == self._settings.mail else 0)
            terms = TopicTerms(event.principal, copies, keep, expire, event.hold, after=event.after)
            self._state.register(registry.create(terms, _principals(event), max(event.born, event.after + 1)))
            return
        if event.task not in (TopicTask.SHOW, TopicTask.LEAVE):
            self._check(event)
        try:
            self._change(event)
        except Refused:  # who asks believes that for good: the others may know better
            if event.task in _REFUSED_BY_REGISTRY and self._gossip.membership.may_lack_facts:
                reason = f"{self._settings.name} has not heard yet what the others have registered: ask again soon"
                raise Refused(Refusal.BUSY, reason) from None
            raise

    def _change(self, event: Registration) -> None:
        """Do what the sender of the request may ask for; raise Refused if it does not fit what is registered."""
        registry = self._registry
        match event.task:
            case TopicTask.CREATE:
                if set(event.repositories) != set(registry.members):
                    members = ", ".join(registry.members)
                    raise Refused(Refusal.TOPIC, f"{self._topic} exists already, on {members}")
                terms = registry.terms
                asked = (event.copies or terms.copies, event.keep or terms.keep, event.expire or terms.expire)
                if asked != (terms.copies, terms.keep, terms.expire):
                    raise Refused(Refusal.TOPIC, f"{self._topic} exists already with other settings")
            case TopicTask.DELETE:
                self._state.register(registry.delete())
            case TopicTask.GRANT:
                if not event.name or ":" in event.name:
                    raise Refused(Refusal.PROTOCOL, f"{event.name!r} is no name: it must not be empty, nor hold a ':'")
                self._state.register(registry.grant(event.role, event.name, event.holder))
            case TopicTask.REVOKE:
                self._state.register(registry.revoke(event.role, event.name))
            case TopicTask.ADD_REPOSITORY:
                if not event.joins:
                    self._check_units(event)
                self._add(_principals(event))
            case TopicTask.REMOVE_REPOSITORY:
                self._remove(event.repositories)
            case TopicTask.ACCEPT_LOSS:
                self._accept_loss()
            case TopicTask.STEER:
                self._steer(event)
            case TopicTask.LEAVE:
                self._leave(event)
            case _:
                pass

    def _check_topic(self, event: Registration) -> None:
        """Refuse what is about another topic of this name, or cannot be."""
        if self._registry.deleted:
            raise Refused(Refusal.BUSY, f"{self._topic} is being deleted")
        if self._registry.is_ended(event.after) and event.task is not TopicTask.SHOW:
            code = Refusal.BUSY if event.task is TopicTask.CREATE else Refusal.UNKNOWN  # others are asked, or we later
            raise Refused(code, f"{self._settings.name} has an earlier {self._topic}, which was deleted")
        if any(len(each) not in (0, len(event.repositories)) for each in (event.principals, event.units)):
            raise Refused(Refusal.PROTOCOL, "each of the repositories has a principal and a unit, or none is named")

    def _check(self, event: Registration) -> None:
        """Refuse who may not change this topic. Without TLS everybody has one principal, and operators have a name."""
        is_operator = is_operator_name(event.sender)
        if event.principal == ANONYMOUS and not is_operator and event.task is not TopicTask.CREATE:
            raise Refused(Refusal.NOT_AUTHORISED, UNPROVED)
        leaves = event.task is TopicTask.REMOVE_REPOSITORY and event.repositories == (self._settings.name,)
        concerns_us = leaves or event.task in (TopicTask.STEER, TopicTask.ACCEPT_LOSS)
        if not (concerns_us and (is_operator or event.principal == self._gossip.principal)):
            self._registry.check_owner(event.principal)

    def _add(self, principals: dict[str, str]) -> None:
        """New members are told by name: they do not listen to the bundle yet. One that is a member already may have
        another principal now.
        """
        registry = self._registry
        for name, principal in principals.items():
            unit, known = registry.units.get(name, ""), registry.principal_of(name)
            self._state.register(registry.set_member(name, unit, principal or known))
        for name in principals:
            self._state.say(self._gossip.invitation(), name)

    def _steer(self, event: Registration) -> None:
        """Send a client that we steer to another repository, which must be able to take it."""
        inbox = self._holders.inbox_of(event.role, event.name)
        if inbox is None:
            raise Refused(
                Refusal.UNKNOWN, f"{self._settings.name} does not steer a {event.role} {event.name} of {self._topic}"
            )
        for name in event.repositories:
            if name not in self._registry.members:
                raise Refused(Refusal.UNKNOWN, f"{name} is no repository of {self._topic}")
            if name != self._settings.name:
                if not any(peer.name == name and peer.is_ready for peer in self._gossip.membership.living):
                    raise Refused(Refusal.BUSY, f"{name} is silent or catching up, and can steer nobody now")
                self._state.send(inbox, Migrate(self._topic, self._settings.name, name))

    def _leave(self, event: Registration) -> None:
        """End a subscription for whoever may use its name. Nobody holds the name from then on: the life that does is
        turned away as an older one is, and cannot register it again.
        """
        registry, name = self._registry, event.name
        known = registry.subscriptions.get(name)
        if known is None:
            raise Refused(Refusal.UNKNOWN, f"{name} is no subscriber of {self._topic}: there is nothing to leave")
        if known.principal != event.principal:
            raise Refused(Refusal.NOT_AUTHORISED, f"{name} is {known.principal}'s, not {event.principal}'s")
        self._state.register(registry.leave(name, self._holders.newest("subscriber", name), by_itself=False))

    def _accept_loss(self) -> None:
        """Give up what is damaged here, and what was acknowledged and is with none of those that live."""
        membership = self._gossip.membership
        if membership.is_awaited or not all(peer.told for peer in membership.living):
            reason = f"{self._settings.name} has not heard yet what the others have: ask again soon"
            raise Refused(Refusal.BUSY, reason)
        is_damaged = self._damage.is_found
        if is_damaged:
            self._damage.accept()
        if not self._gap_closing.accept_loss() and not is_damaged:
            what = f"nothing of {self._topic} is damaged at {self._settings.name}, or awaited there that nobody has"
            raise Refused(Refusal.UNKNOWN, what)

    def _check_units(self, event: Registration) -> None:
        """Refuse a second storage of the same level for a unit: the two would not know which of them counts."""
        units = self._registry.units
        for name, unit in zip(event.repositories, event.units, strict=False):
            there = [each for each in self._registry.members if unit and units[each] == unit and each != name]
            if there:
                raise Refused(
                    Refusal.TOPIC,
                    f"{unit} has a storage for {self._topic} already, {', '.join(there)}: `stentor topic bundle "
                    f"{self._topic} add {name} --join` lets {name} serve it together with {there[0]}",
                )

    def _remove(self, repositories: tuple[str, ...]) -> None:
        for name in repositories:
            if name not in self._registry.members:
                raise Refused(Refusal.UNKNOWN, f"{name} is no repository of {self._topic}")
        self._registry.check_remaining(self._topic, repositories)
        for name in repositories:
            self._state.register(self._registry.remove_member(name))


def _principals(event: Registration) -> dict[str, str]:
    """Return the principal of each repository that an owner names; "" if it does not: each knows its own."""
    return dict(zip(event.repositories, event.principals or ("",) * len(event.repositories), strict=True))
