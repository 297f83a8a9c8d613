"""What a broker does with access facts for its clients: who may tell them, and who is told what becomes of them."""

from collections.abc import Callable

from stentor.machine import Effect, Report
from stentor.model.communication import repository_name
from stentor.model.errors import FrameError, Refusal
from stentor.model.ids import LinkId
from stentor.model.messages import AccessFacts, AccessReceipt, BundleReport, BundleRequest, Message
from stentor.model.trust.access import AWAITED, TOPIC
from stentor.model.trust.charter import check_facts, named_member
from stentor.nodes.broker.bundle_watch import BundleWatch
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.network import BrokerNetwork

_REPOSITORY = repository_name("")


class CharterKeeper:
    """Listens to the spreading of access facts. `on_change` is told which topic's charter is another one."""

    def __init__(
        self,
        network: BrokerNetwork,
        post: Callable[[LinkId, Message], None],
        act: Callable[[Effect], None],
        on_change: Callable[[str], None],
    ) -> None:
        self._network, self._post, self._act, self._on_change = network, post, act, on_change
        self._spread = network.access
        self._spread.listener = self
        self._watch = BundleWatch(self._spread.charters, post)
        self._warned: set[LinkId] = set()  # repositories of which people know that they do not wait for receipts

    def hear(self, now: int, session: LinkSession, told: AccessFacts) -> None:  # noqa: ARG002
        """A client tells facts: only a repository may, and only of topics that it manages."""
        link, name = session.connection.link, session.connection.name
        if not session.credentials.is_node or not name.startswith(_REPOSITORY):
            raise FrameError(Refusal.PROTOCOL, "only repositories tell who may do what")
        check_facts(told.topic, told.facts)
        if not self._is_member(session, told):
            self._act(Report("warning", "access facts ignored", {"repository": name, "topic": told.topic}))
        elif not self._spread.tell(link, told) and link not in self._warned:
            self._warned.add(link)
            self._act(Report("warning", "too many access facts at once", {"repository": name, "topic": told.topic}))

    def watch(self, now: int, session: LinkSession, asked: BundleRequest) -> BundleReport:  # noqa: ARG002
        return self._watch.watch(session.connection.link, asked.topic)

    def forget(self, link: LinkId) -> None:
        """A client is gone."""
        self._watch.forget(link)
        self._spread.forget(link)
        self._warned.discard(link)

    def _is_member(self, session: LinkSession, told: AccessFacts) -> bool:
        """Whether a repository manages the topic: as it is known here, or if nobody is known to do so as it says
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

    # ---- what the spreading tells

    def access_changed(self, topic: str) -> None:
        self._watch.changed(topic)
        self._on_change(topic)

    def access_confirmed(self, link: LinkId, token: int) -> None:
        self._post(link, AccessReceipt(token))

    def access_compared(self, neighbour: str) -> None:
        for dialling in self._network.diallings.values():
            if dialling.settings.name == neighbour:
                self._network.acquaintance.on_answer(dialling.settings.address)
