"""A topic at a repository: the machine that manages it, and what waits for that."""

from typing import NamedTuple

from stentor.machine import CommitFailed, Committed, Input, Recalled, Scanned
from stentor.protocols.delivery.repository.repository import TopicRepository

_ANSWERS = (Committed, CommitFailed, Scanned, Recalled)


class ToldTraces(NamedTuple):
    """Traces that were told: up to this number, at this time, and of which sequence numbers of each topic."""

    number: int
    at: int
    horizons: dict[str, int]


class ManagedTopic:
    """One topic. If its machine fails at what a peer said, another one takes its place."""

    __slots__ = ("_owner", "_stale_upto", "heard", "machine")

    def __init__(self, machine: TopicRepository, owner: str) -> None:
        self.machine = machine
        self._stale_upto = 0  # the last token of a machine that failed: what comes of it is not for this one
        self.heard: list[Input] = []  # while its ledger is being opened, or traces until it is time to write them
        self._owner = owner  # as whoever created it here says, until that is registered

    @property
    def owner(self) -> str:
        return self.machine.registry.terms.owner or self._owner

    def renew(self, machine: TopicRepository) -> None:
        """Go on with a machine that knows nothing yet."""
        self.machine.log.release()
        self._stale_upto = self.machine.last_token
        machine.skip_tokens(self._stale_upto)
        self.machine = machine

    def is_stale(self, happened: Input) -> bool:
        """Whether this came of what a machine asked of the ledger that failed since."""
        return isinstance(happened, _ANSWERS) and happened.token <= self._stale_upto
