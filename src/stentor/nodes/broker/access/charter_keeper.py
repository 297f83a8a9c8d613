"""What a broker does with access facts for its clients: who may tell them, and who is told what becomes of them."""

from stentor.machine import Step
from stentor.model.communication import repository_name
from stentor.model.errors import FrameError, Refusal
from stentor.model.trust.access import AWAITED, TOPIC
from stentor.model.trust.access_messages import AccessFacts, BundleReport, BundleRequest
from stentor.model.trust.charter import check_facts, named_member
from stentor.nodes.broker.access.bundle_watch import BundleWatch
from stentor.nodes.broker.link_session import LinkSession
from stentor.protocols.dissemination.access.spread import AccessSpread
from stentor.protocols.neighbours import MessagePort

_REPOSITORY = repository_name("")


class CharterKeeper:
    """Takes access facts from repositories, and tells clients which repositories manage their topics."""

    def __init__(self, spread: AccessSpread, step: Step) -> None:
        self._spread = spread
        self._step = step
        self._watch = BundleWatch(spread.charters)
        self._warned: set[MessagePort] = set()  # repositories of which people know that they do not wait for receipts

    def hear(self, session: LinkSession, told: AccessFacts) -> None:
        """A client tells facts: only a repository may, and only of topics that it manages."""
        repository, name = session.connection.outbox, session.connection.name
        if not session.credentials.is_node or not name.startswith(_REPOSITORY):
            raise FrameError(Refusal.PROTOCOL, "only repositories tell who may do what")
        check_facts(told.topic, told.facts)
        if not self._is_member(session, told):
            self._step.report("warning", "access facts ignored", repository=name, topic=told.topic)
        elif not self._spread.tell(repository, told) and repository not in self._warned:
            self._warned.add(repository)
            self._step.report("warning", "too many access facts at once", repository=name, topic=told.topic)

    def watch(self, session: LinkSession, asked: BundleRequest) -> BundleReport:
        return self._watch.watch(session.connection.outbox, asked.topic)

    def on_charter_change(self, topic: str) -> None:
        self._watch.changed(topic)

    def forget(self, client: MessagePort) -> None:
        """A client is gone."""
        self._watch.forget(client)
        self._spread.forget(client)
        self._warned.discard(client)

    def _is_member(self, session: LinkSession, told: AccessFacts) -> bool:
        """Return whether a repository manages the topic: as it is known here, or if nobody is known to do so as it says
        itself when it tells of the topic, or as it was before the topic was deleted. Whoever tells nothing new changes
        nothing; who tells of itself that it has heard of a deletion may do so also if there is another topic by now.
        """
        name, principal = session.connection.name.removeprefix(_REPOSITORY), session.connection.principal
        charter = self._spread.charters.find(told.topic)
        names_itself = named_member(told.facts, name) == principal
        tells_all = names_itself and any(key == TOPIC and value for key, _, _, value in told.facts)
        if charter is None:
            return tells_all
        if charter.is_live and charter.members:
            known = charter.members.get(name)
            is_member = known == principal or (known == "" and names_itself)  # older ledgers name no principals
        else:
            is_member = tells_all or principal in (charter.members.get(name), charter.former.get(name))
        if charter.awaited.get(name) == principal:
            return is_member or charter.knows(fact for fact in told.facts if fact[0] != AWAITED + name)
        return is_member or charter.knows(told.facts)
