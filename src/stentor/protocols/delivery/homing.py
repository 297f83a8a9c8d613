"""Homing: a client that was moved away from the repository of its choice goes back when that one is well again.

A client looks around now and then, and goes back when its home was the better one several times in a row: of a finer
level, or of the same and about as near. So a repository that comes and goes does not take its clients with it each
time, and of two that are equally near the one that a client chose first gets it back.
"""

import msgspec

from stentor.machine import MILLISECOND, Step
from stentor.model.control import ProbeAnswer
from stentor.model.ids import fingerprint
from stentor.protocols.delivery.retry_timer import NEVER
from stentor.protocols.delivery.steering_settings import SteeringSettings

_LOOKS = 3  # in a row that must tell the same: one alone may be a moment's chance
_PARTS = 256  # of half a pause
_JITTER = 5 * MILLISECOND  # by which an answer may be late although its repository is as near


class _Answer(msgspec.Struct, frozen=True, gc=False):
    level: int
    round_trip: int


class Homing:
    """The home of one client. The client is steered elsewhere while `due` is a time."""

    def __init__(self, step: Step, settings: SteeringSettings, client: str) -> None:
        self._step = step
        self._settings = settings
        self._spread = fingerprint("homing", client) % _PARTS  # so that clients do not look around all at once
        self.home = ""  # the repository of the client's choice; "" until one has steered it
        self._since = 0  # when the client was last steered there
        self._has_returned = False
        self._pause = settings.look_after  # after the client had to leave, and between looks while its home answers
        self._wait = self._pause  # the same, while its home is silent
        # Invariant: at most one of the two is a time. A look is followed by a decision, and that by the next look.
        self._look_at = NEVER
        self._decide_at = NEVER
        self._asked_at = 0
        self._answers: dict[str, _Answer] = {}
        # Invariant: one of them is 0.
        self._won = 0  # looks in a row that the home has won
        self._lost = 0  # looks that it has lost since it last won one; at some in between it may have been silent

    @property
    def due(self) -> int:
        return min(self._look_at, self._decide_at)

    def arrive(self, repository: str) -> None:
        """A repository steers the client."""
        self.rest()
        self.home = self.home or repository
        if repository == self.home:
            self._since = self._step.now
        else:
            self._look_later(self._pause)

    def leave(self, repository: str) -> None:
        """The client was moved away from a repository. The sooner that happens again, the longer it stays away."""
        self.rest()
        if repository == self.home:
            is_soon = self._step.now - self._since < _LOOKS * self._settings.look_longest
            is_again = self._has_returned and is_soon
            self._pause = min(2 * self._pause, self._settings.look_longest) if is_again else self._settings.look_after

    def adopt(self, repository: str) -> None:
        """Make this repository the home, or "" the next one that steers the client: the former home is none."""
        self.rest()
        self.home = repository

    def rest(self) -> None:
        self._look_at = self._decide_at = NEVER
        self._won = self._lost = 0

    def _look_later(self, wait: int) -> None:
        self._wait = wait
        self._look_at = self._step.now + wait + wait * self._spread // (2 * _PARTS)

    def look(self) -> bool:
        """Return whether it is time to ask who is there."""
        now = self._step.now
        if self._look_at > now:
            return False
        self._look_at, self._decide_at = NEVER, now + self._settings.second_choice
        self._asked_at = now
        self._answers.clear()
        return True

    def hear(self, answer: ProbeAnswer) -> None:
        if self._decide_at != NEVER and answer.ready:
            round_trip = self._step.now - self._asked_at
            self._answers.setdefault(answer.sender, _Answer(answer.level, round_trip))

    def decide(self, current: str) -> bool:
        """Return whether the client should go home now."""
        if self._decide_at > self._step.now:
            return False
        self._decide_at = NEVER
        home, here = self._answers.get(self.home), self._answers.get(current)
        self._look_later(min(2 * self._wait, self._settings.look_longest) if home is None else self._pause)
        if home is None:
            self._won = 0  # but it is no nearer than it was
        elif here is None or (home.level, home.round_trip) <= (here.level, 3 * here.round_trip // 2 + _JITTER):
            self._won, self._lost = self._won + 1, 0
        else:
            self._won, self._lost = 0, self._lost + 1
        if self._lost == _LOOKS:  # this one is nearer by now
            self.adopt(current)
        self._has_returned |= self._won == _LOOKS
        return self._won == _LOOKS
