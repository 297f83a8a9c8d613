"""Who is believed: the repositories of a topic's bundle, and nobody else.

A letter names its sender, and anybody may write any name there. What proves it is the id under which the letter was
published: it is made of a principal and of the name under which that principal is connected. Brokers let nobody publish
under another id, and let only nodes connect under the name of a repository. So a letter was written by a member of the
bundle if its id is made of the member's name and of the principal that the member's fact names.

Everything in reliable delivery that believes a repository asks here: publishers, subscribers, readers, registrars, and
the other repositories.

Repositories believe owners, operators and readers as principals. These choose their names, so that two names with one
id can be found: their letters come on topics that name them, and the name must be the one that the id is made of.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from stentor.model.communication import repository_name
from stentor.model.control import ControlEvent, Registration, TopicTask
from stentor.model.ids import publisher_id
from stentor.model.stored.reading import PageRequest, ReaderAck, StockRequest
from stentor.model.trust.access import MEMBER, Membership, SharedFact
from stentor.protocols.delivery.transport import LetterReceived

FORMER = "former/"  # the key of a repository that left the bundle, and is heard until others have all that it has
_QUESTIONS = (TopicTask.SHOW, TopicTask.STATUS)  # which anybody may ask, of many repositories at once
_membership = msgspec.msgpack.Decoder(Membership)


@lru_cache(1024)
def _repository_id(principal: str, name: str) -> int:
    return publisher_id(principal, repository_name(name))


def is_repository(sender: int, name: str, principal: str) -> bool:
    """Return whether `sender` is the id of the repository `name` under this principal; nobody's principal is ""."""
    return bool(principal) and _repository_id(principal, name) == sender


def is_forged(heard: LetterReceived, event: ControlEvent) -> bool:
    """Return whether a letter asks for something with the authority of somebody who did not write it.

    Nobody is answered then: whoever the letter names would believe the answer.
    """
    if not isinstance(event, Registration | StockRequest | PageRequest | ReaderAck):
        return False  # whoever handles it looks at its id
    if publisher_id(event.principal, event.sender) != heard.sender:
        return True
    if isinstance(event, Registration) and event.task in _QUESTIONS and not heard.requester:
        return False
    return heard.requester != event.sender


class BundleMembers:
    """Those who are believed about one topic, and their principals."""

    def __init__(self, principals: Mapping[str, str] | None = None) -> None:
        self.principals = dict(principals or {})  # by name; "" is not known, and nobody is believed under it

    def wrote(self, sender: int, name: str) -> bool:
        """Return whether the member that a letter names as its sender has published it."""
        return is_repository(sender, name, self.principals.get(name, ""))

    def include(self, sender: int) -> bool:
        """Return whether this is the id of any of them."""
        return any(is_repository(sender, name, principal) for name, principal in self.principals.items())


def introduced(facts: Iterable[SharedFact]) -> BundleMembers:
    """Return the members that these facts name: whoever sends them says who it is, and its id must prove that."""
    principals = {}
    for key, _, _, value in facts:
        kind = next((kind for kind in (MEMBER, FORMER) if key.startswith(kind)), None)
        if kind is not None and value:
            try:
                principals[key.removeprefix(kind)] = _membership.decode(value).principal
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue  # whoever wrote that is not introduced by it
    return BundleMembers(principals)
