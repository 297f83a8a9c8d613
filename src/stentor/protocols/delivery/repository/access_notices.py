"""What a repository tells its broker of a topic: who may do what there. Brokers enforce that, and tell each other.

All of it is told on every link, and what changes as soon as it is durable here. Whoever asked for a change is answered
once all brokers that can be reached have written it down, or after a while without: then some of them may be away, and
learn it when they are back.
"""

from collections.abc import Iterable

import msgspec

from stentor.machine import SECOND
from stentor.model.control import RegistrationReceipt
from stentor.model.trust.access import SharedFact
from stentor.model.trust.facts import portions
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.transport import ShareAccess

CONFIRMED_WITHIN = 10 * SECOND  # an owner at a terminal waits for this; a broker that is away may be so for hours
_UNCONFIRMED = "it is registered, but not all brokers have confirmed it yet: those learn it when they are back"


class _Answer(msgspec.Struct):
    """A receipt that waits."""

    to: str
    receipt: RegistrationReceipt
    token: int  # Every notice up to this one must be confirmed.
    due: int = 0  # when it is given nevertheless; 0 until the first tick


class AccessNotices:
    """The notices of one repository about one topic."""

    def __init__(self, state: TopicState) -> None:
        self._state, self._step = state, state.step
        self._token = 0
        # Tokens of notices that are not confirmed, and when each is given up; 0 until the first tick.
        # Invariant: no key is greater than `_token`.
        self._pending: dict[int, int] = {}
        self._answers: list[_Answer] = []

    def tell(self, facts: tuple[SharedFact, ...], *, anew: bool = False) -> None:
        """Tell what is durable. On a new link all of it is told `anew`: what was told on an earlier one may be lost."""
        if anew:
            self._pending.clear()
        for portion in portions(facts):
            self._token += 1
            self._pending[self._token] = 0
            self._step.emit(ShareAccess(self._state.topic, portion, self._token))
        for answer in self._answers if anew else ():
            answer.token = self._token

    def confirm(self, token: int) -> None:
        """All brokers that can be reached have written down what this notice told."""
        self._pending.pop(token, None)
        self._give(self._answers)

    def answer(self, to: str, receipt: RegistrationReceipt) -> None:
        """Give a receipt once everything that was told is confirmed."""
        self._answers.append(_Answer(to, receipt, self._token))
        self._give(self._answers)

    def _give(self, answers: Iterable[_Answer]) -> None:
        oldest = min(self._pending, default=self._token + 1)
        for answer in [each for each in answers if each.token < oldest]:
            self._answers.remove(answer)
            self._state.send(answer.to, answer.receipt)

    def tick(self) -> None:
        """Give up waiting for what has taken too long."""
        now = self._step.now
        given_up = [token for token, due in self._pending.items() if 0 < due <= now]
        for answer in self._answers.copy():
            answer.due = answer.due or now + CONFIRMED_WITHIN
            if answer.due <= now or any(token <= answer.token for token in given_up):
                self._answers.remove(answer)
                receipt = msgspec.structs.replace(answer.receipt, reason=_UNCONFIRMED)
                self._state.send(answer.to, receipt)
        for token in given_up:
            del self._pending[token]  # else whoever asks for something later would wait for it, too
        self._pending = {token: due or now + CONFIRMED_WITHIN for token, due in self._pending.items()}

    @property
    def is_answering(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._answers)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is waited for: all is confirmed, or was given up."""
        return not self._answers and not self._pending
