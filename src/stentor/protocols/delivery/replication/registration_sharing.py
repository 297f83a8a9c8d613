"""Registration sharing: what waits until the other repositories have what is registered here.

Else it could be lost with this repository, and one that does not know a subscriber would let it begin anew.
"""

from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.repository.deferred import Answer
from stentor.protocols.delivery.repository.topic_state import TopicState


class RegistrationSharing:
    """The registrations of one topic, and on whom they are."""

    def __init__(self, state: TopicState, membership: MembershipView) -> None:
        self._registry, self._membership = state.registry, membership
        # Digests of registrations. Others may rely on what is durable.
        self.durable_digest = 0  # of all that is durable here
        self._shared_digest = 0  # of what was last on all others that live, too
        self._registered = 0  # how much was registered when it was last on as many others as must have it
        self._waiting: list[Answer] = []

    def note_durable(self, digest: int) -> None:
        self.durable_digest = digest

    @property
    def is_awaited(self) -> bool:
        """Whether something waits until others have what is registered here."""
        return bool(self._waiting)

    def wait(self, answer: Answer) -> None:
        """Have this carried out when others have what is registered here."""
        self._waiting.append(answer)

    def take_shared(self) -> list[Answer]:
        """Remove and return what waited, if others have what is registered here."""
        if not self._waiting or not self.is_shared():
            return []
        answers, self._waiting = self._waiting, []
        return answers

    def is_shared(self) -> bool:
        """Return whether all others that live have what is registered here, and note it if they have. One that can
        write nothing has heard it, and is not waited for.
        """
        digest = self._registry.digest
        if self._shared_digest != digest:
            living = [peer for peer in self._membership.living if not peer.stuck]
            is_agreed = self.durable_digest == digest and all(peer.facts == digest for peer in living)
            are_enough = len(living) >= self._membership.copies - 1
            if not is_agreed or not (are_enough or self._registered == self._registry.registrations):
                return False
            self._shared_digest = digest
            if are_enough:
                self._registered = self._registry.registrations
        return True
