"""What the brokers of a scope say to each other about a plan, over the links of the scope's tree."""

from typing import Annotated

from msgspec import Meta

from stentor.model.colours.colour import Round
from stentor.model.colours.plan import PlanStage, TopologyPlan
from stentor.model.message import Message
from stentor.model.ranges import Count, Id, Path, Reason

Turn = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Announce(Message, frozen=True, kw_only=True, array_like=True, tag="announce", gc=False):
    """A parent tells its children what is going to change; `withdrawn` takes it back."""

    scope: Path
    plan: TopologyPlan
    stage: PlanStage  # that it has reached at the parent
    round: Round  # of the parent: whoever has missed the wave that switched takes it from here
    withdrawn: bool = False


class Poll(Message, frozen=True, kw_only=True, array_like=True, tag="poll", gc=False):
    """A parent asks how far a plan has come below it."""

    scope: Path
    plan: Id
    turn: Turn
    is_known: bool  # to all brokers of the scope: links may be opened


class PlanAnswer(Message, frozen=True, kw_only=True, array_like=True, tag="plan answer", gc=False):
    """A child answers a poll for all below it, itself included."""

    scope: Path
    plan: Id
    turn: Turn
    brokers: Count = 0  # that answered
    known: Count = 0  # of these know the plan
    prepared: Count = 0  # of these are prepared, or have switched
    switched: Count = 0
    silent: Count = 0  # children that did not answer in time
    sent: Count = 0  # parcels of the old colour that were sent over links of the scope
    arrived: Count = 0  # and those that came
    complaint: Reason = ""  # of one that is not prepared


class Go(Message, frozen=True, array_like=True, tag="go", gc=False):
    """A parent tells its children that the old colour has drained: what is held may leave, links may be closed."""

    scope: Path
    plan: Id
