"""Steering: a client finds the repositories of a topic, has one of them steer it, and leaves it if it fails.

A client believes the members of the bundle that its broker vouches for, and nobody else.
"""

import enum
from collections.abc import Callable, Mapping

import msgspec

from stentor.machine import Step
from stentor.model.communication import Role, bundle_of, inbox_of, repository_name
from stentor.model.control import (
    ControlEvent,
    Denial,
    Migrate,
    Persistent,
    Probe,
    ProbeAnswer,
    Recovery,
    RecoveryResponse,
    Rectify,
    Sync,
)
from stentor.model.errors import Refusal
from stentor.protocols.delivery.authentication import BundleMembers
from stentor.protocols.delivery.endpoint_api import DrawLife, Refuse, ReportSteering, ReportTrouble
from stentor.protocols.delivery.homing import Homing
from stentor.protocols.delivery.retry_timer import NEVER, RetryTimer
from stentor.protocols.delivery.steering_settings import SteeringSettings
from stentor.protocols.delivery.transport import SendLetter

FINAL = frozenset(
    {
        Refusal.NOT_AUTHORISED,
        Refusal.UNAUTHENTICATED,
        Refusal.FORGED,
        Refusal.FENCED,
        Refusal.FILTER,
        Refusal.PROTOCOL,
    }
)
_ATTEMPTS = 15  # bits: with the incarnation above them, attempts grow from life to life
_LAST_LIFE = (1 << 48) - 1


def life_of(attempt: int) -> int:
    """Return the life in which a client made this attempt."""
    return attempt >> _ATTEMPTS


class SteeringState(enum.Enum):
    """How far a client has got with the repositories of its topic."""

    SEARCHING = "searching"  # asks who is there
    ASKING = "asking"  # has chosen a repository, and asks it to steer the client
    STEERED = "steered"  # a repository steers the client
    REFUSED = "refused"  # no repository ever will


TRANSITIONS = {
    (SteeringState.SEARCHING, SteeringState.SEARCHING),  # with the first link a first attempt begins
    (SteeringState.SEARCHING, SteeringState.ASKING),
    (SteeringState.ASKING, SteeringState.STEERED),
    (SteeringState.ASKING, SteeringState.SEARCHING),
    (SteeringState.STEERED, SteeringState.SEARCHING),
    (SteeringState.SEARCHING, SteeringState.REFUSED),
    (SteeringState.ASKING, SteeringState.REFUSED),
    (SteeringState.STEERED, SteeringState.REFUSED),
    (SteeringState.REFUSED, SteeringState.REFUSED),  # for another reason
}


class _Candidate(msgspec.Struct, frozen=True, gc=False):
    name: str
    level: int
    order: int


class Steering:
    """The choice of one client. Whoever owns it calls `tick` when it is `due`.

    What steering says leaves after what its owner says in the same step.
    """

    def __init__(
        self,
        step: Step,
        topic: str,
        name: str,
        role: Role,
        incarnation: int,
        introduce: Callable[[int], Recovery],
        settings: SteeringSettings,
    ) -> None:
        """`introduce` returns what a repository is asked with, in this attempt."""
        self._step = step
        self._topic = topic
        self._name = name
        self._role = role
        self._introduce = introduce
        self._settings = settings
        self.attempt = incarnation << _ATTEMPTS
        # Invariants: `repository` is "" while SEARCHING, and is not while ASKING or STEERED; `ended` is there once
        # REFUSED.
        self._state = SteeringState.SEARCHING
        self.repository = ""  # that steers us, or is asked to
        self.ended: Refuse | None = None
        self.members: tuple[str, ...] = ()  # of the bundle, as the repository knows it
        self.notice_group = 0  # of those who want the same, at this repository
        self._was_steered = False  # in this life
        self._newest: Denial | None = None  # by whom it was told that a newer life is known
        self._believed = BundleMembers()  # as our broker, or an earlier one, has told
        self._deleted_version = 0  # at which a topic of this name was deleted, as our broker has told
        self._linked = False
        self.node = ""
        self._candidates: dict[str, _Candidate] = {}  # those that have answered and are ready
        self._answered: set[str] = set()  # Invariant: the names of all candidates are among them.
        self._expected: set[str] = set()  # members of the bundle, as those that have answered know it
        self._left_out: dict[str, int] = {}  # until when repositories that failed us are a second choice
        self._failures = 0  # since a repository steered us
        self._trouble = ""
        self._decision = NEVER  # when a candidate is chosen, although not all have answered
        self._complaint = NEVER  # when the application is told that nobody steers it
        self._probing = RetryTimer(settings.first_pause, settings.longest_pause)
        self._asking = RetryTimer(settings.answer, settings.answer)
        self.homing = Homing(step, settings, name)

    def _advance(self, to: SteeringState) -> None:
        assert (self._state, to) in TRANSITIONS, f"{self._state} is not followed by {to}"
        self._state = to

    @property
    def steered(self) -> bool:
        return self._state is SteeringState.STEERED

    @property
    def due(self) -> int:
        if not self._linked or self.ended is not None:
            return NEVER
        return min(self._decision, self._complaint, self._probing.due, self._asking.due, self.homing.due)

    def link(self, node: str = "") -> None:
        """There is a new link, to this broker: ask again for what may be lost with the old one."""
        self._linked = True
        self.node = node
        if self.ended is not None:
            return
        if self.repository:
            self._ask()
        elif self._complaint == NEVER:
            self._begin(self._step.now)
        else:
            self._complaint = self._step.now + self._settings.complaint
            self._probing.rest()
            self._probe()

    def unlink(self) -> None:
        self._linked = False

    def vouch(self, principals: Mapping[str, str], deleted_version: int = 0) -> None:
        """Believe these repositories of the topic from now on, each under its principal, as our broker says; and none
        of those that has a topic of this name which was deleted.
        """
        if deleted_version > self._deleted_version:
            self._deleted_version = deleted_version
            if self.repository and self._linked and self.ended is None:
                self._ask()  # it may have that one
        if self._believed.principals == principals or self.ended is not None:
            return
        self._believed = BundleMembers(principals)
        self._candidates = {name: each for name, each in self._candidates.items() if name in principals}
        if self.homing.home not in principals:
            self.homing.adopt(self.repository if self.steered else "")
        if self.repository and self.repository not in principals:
            self.suspect("it is no repository of the topic any more")
        elif not self.repository and not self._candidates:
            self._decision = NEVER
            if self._linked:
                self._probing.rest()
                self._probe()  # whoever has answered was not believed

    def suspect(self, reason: str) -> None:
        """The repository fails us: look for another one."""
        assert self.repository, "only one that steers us, or is asked to, can fail"
        now = self._step.now
        self.homing.leave(self.repository)
        self._left_out[self.repository] = now + self._settings.left_out
        self._trouble = f"repository {self.repository} of topic {self._topic!r}: {reason}"
        pause = self._settings.first_pause << min(self._failures - 1, 16) if self._failures else 0
        self._failures += 1
        self._begin(now + min(pause, self._settings.longest_pause))

    def renew(self, life: int) -> int | None:
        """A life that began now would be this one. Return the life that we take, or None if there is nothing to change.

        Whoever was never steered, and whose clock is behind that of an earlier life, takes the next life after that
        one. If the clock is not behind, somebody began after us: we are fenced.
        """
        denial, self._newest = self._newest, None
        if denial is None or self._was_steered or self.ended is not None:
            return None
        if denial.newest < life or denial.newest == _LAST_LIFE:
            self.end(denial.code, denial.reason)
            return None
        self.attempt = max(self.attempt, denial.newest + 1 << _ATTEMPTS)
        return denial.newest + 1

    def end(self, code: Refusal, reason: str) -> None:
        """Give up: it is of no use to go on."""
        self._advance(SteeringState.REFUSED)
        self.ended = Refuse(code, reason)
        self._step.emit_last(self.ended)

    def hear(self, sender: int, event: ControlEvent) -> bool:
        """Return whether an event is for the client that we steer: from its repository, and of this attempt."""
        if self.ended is not None or not self._believed.wrote(sender, event.sender):
            return False
        if isinstance(event, ProbeAnswer):
            if event.attempt == self.attempt:
                self._on_probe_answer(event)
            return False
        if not self.repository or event.sender != self.repository:
            return False
        if isinstance(event, RecoveryResponse | Persistent | Rectify | Sync) and event.attempt != self.attempt:
            return self.steered and isinstance(event, Persistent) and event.attempt == -self.notice_group < 0
        if isinstance(event, Denial):
            if event.attempt in (0, self.attempt):  # 0: whenever we asked, it is so now
                self._on_denial(event)
        elif isinstance(event, Migrate):
            if event.to in self._believed.principals:
                self.homing.home = event.to  # somebody wants us there
                self._move(event.to)
            else:
                self.suspect("it leaves")
        elif isinstance(event, RecoveryResponse):
            self._on_recovery_response(event)
        return self.steered

    def tick(self) -> None:
        """Do what is due."""
        now = self._step.now
        if self.due > now:
            return
        if self.homing.look():
            self._ask_who_is_there()
        if self.homing.decide(self.repository):
            self._move(self.homing.home)
        if self._decision <= now:
            self._choose()
        if self._probing.due <= now:
            self._probe()
        if self._asking.due <= now:
            if self._asking.tries >= self._settings.tries:
                self.suspect("it does not answer")
            else:
                self._asking.again(now)
                self._send_recovery()
        if self._complaint <= now:
            self._complaint = now + self._settings.complaint
            self._step.emit_last(ReportTrouble(self._describe()))

    # ---- finding one

    def _begin(self, at: int) -> None:
        """Begin a new attempt, with a probe at this time."""
        self._start_over()
        if at > self._step.now or not self._linked:
            self._probing.due = at
        else:
            self._probe()

    def _start_over(self) -> None:
        self.attempt += 1
        self._advance(SteeringState.SEARCHING)
        self.repository = ""
        self.notice_group = 0
        self._candidates.clear()
        self._answered.clear()
        self._expected.clear()
        self._decision = NEVER
        self._asking.rest()
        self._probing.rest()
        self.homing.rest()
        if self._complaint == NEVER:
            self._complaint = self._step.now + self._settings.complaint

    def _move(self, repository: str) -> None:
        """Begin a new attempt, with a repository that is there as far as we know."""
        self._start_over()
        self._settle_on(repository)

    def _settle_on(self, repository: str) -> None:
        self._advance(SteeringState.ASKING)
        self.repository = repository
        self._ask()

    def _probe(self) -> None:
        if self._probing.tries:
            self._probing.again(self._step.now)
        else:
            self._probing.ask(self._step.now)
        self._ask_who_is_there()

    def _ask_who_is_there(self) -> None:
        self._send(
            bundle_of(self._topic),
            Probe(self._topic, self._name, role=self._role, attempt=self.attempt, node=self.node),
        )

    def _on_probe_answer(self, answer: ProbeAnswer) -> None:
        if not self.repository:
            self._consider(answer)
            return
        if answer.sender == self.repository:
            self._asking.tries = min(self._asking.tries, 1)  # it is there, and will answer when it may
        self.homing.hear(answer)

    def _consider(self, answer: ProbeAnswer) -> None:
        name = answer.sender
        self._answered.add(name)
        self._expected.update(answer.members)
        if answer.ready and name not in self._candidates:
            self._candidates[name] = _Candidate(name, answer.level, len(self._candidates))
        if not self._candidates:
            return
        left_out = self._avoided()
        if not self._expected - self._answered - left_out:
            self._choose()
        else:
            fresh = any(each not in left_out for each in self._candidates)
            wait = self._settings.grace if fresh else self._settings.second_choice
            self._decision = min(self._decision, self._step.now + wait)

    def _avoided(self) -> set[str]:
        self._left_out = {name: until for name, until in self._left_out.items() if until > self._step.now}
        return set(self._left_out)

    def _choose(self) -> None:
        """Choose a candidate of the finest level, and there the one that answered first."""
        left_out = self._avoided()
        best = min(self._candidates.values(), key=lambda each: (each.name in left_out, each.level, each.order))
        self._decision = NEVER
        self._probing.rest()
        self._settle_on(best.name)

    # ---- having it steer us

    def _ask(self) -> None:
        self._asking.ask(self._step.now)
        self._send_recovery()

    def _send_recovery(self) -> None:
        recovery = msgspec.structs.replace(self._introduce(self.attempt), ended=self._deleted_version)
        self._send(inbox_of(repository_name(self.repository)), recovery)

    def _on_recovery_response(self, response: RecoveryResponse) -> None:
        self.members, self.notice_group = response.members, response.chorus
        self._asking.rest()
        if not self.steered:
            self._advance(SteeringState.STEERED)
            self.homing.arrive(self.repository)
            self._step.emit_last(ReportSteering(self.repository, response.epoch, response.past, response.where))
        self._was_steered = True
        self._failures = 0
        self._complaint = NEVER
        self._trouble = ""

    def _on_denial(self, denial: Denial) -> None:
        if denial.newest and not self._was_steered:
            self._newest = denial
            self._step.emit_last(DrawLife())
            self._failures = max(self._failures, 1)
            self.suspect(denial.reason)
        elif denial.code in FINAL:
            self.end(denial.code, denial.reason)
        else:
            self._failures = max(self._failures, 1)  # it is there and says no: do not ask at once
            self.suspect(denial.reason)

    def _describe(self) -> str:
        if self.repository:
            return f"repository {self.repository} of topic {self._topic!r} does not answer"
        if self._answered:
            return f"no repository of topic {self._topic!r} is ready yet: {', '.join(sorted(self._answered))}"
        return self._trouble or f"no repository answers for topic {self._topic!r}: is it created?"

    def _send(self, to: str, event: ControlEvent) -> None:
        self._step.emit_last(SendLetter(to, (event,)))
