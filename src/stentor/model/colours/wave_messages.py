"""What the brokers of a scope say to each other about its waves. They say it over links of the scope's tree, but for
claims and requests to rejoin, which go to any neighbour in the scope.
"""

from typing import Annotated

from msgspec import Meta

from stentor.model.colours.colour import Round
from stentor.model.colours.manifest import ManifestRows
from stentor.model.colours.plan import NO_PLAN, Choosers, FinishedOrders, TopologyChanges
from stentor.model.colours.plan_messages import Announce, Go, PlanAnswer, Poll
from stentor.model.message import Message
from stentor.model.ranges import Address, Count, Id, Path

MOST_DEEP = 4096  # brokers on the way from a root to a leaf
Rank = Annotated[int, Meta(ge=0, le=4096)]  # in the root group; whoever is not in it comes after all who are
Depth = Annotated[int, Meta(ge=0, le=MOST_DEEP)]
Trail = Annotated[tuple[Path, ...], Meta(max_length=MOST_DEEP)]


class Rotate(Message, frozen=True, kw_only=True, array_like=True, tag="rotate", gc=False):
    """A parent tells its children that a round begins (the paper's recolour message).

    Without rows the manifest is as it was in the last round; a child that has another one says so in its Ack.
    """

    scope: Path
    round: Round
    root: Path
    rank: Rank  # of the root
    depth: Depth  # of the receiver
    manifest: Id  # a digest of it
    rows: ManifestRows | None = None  # the manifest, if it has changed
    plan: Id = NO_PLAN  # that is under way
    is_switched: bool = False  # from this round on, or since an earlier one, the plan is in force
    finished: Id = NO_PLAN  # the last plan that was finished: whoever missed its end has to finish it, too
    orders: FinishedOrders = ()  # the last plans by order that were finished, for those who were away meanwhile


class Ack(Message, frozen=True, kw_only=True, array_like=True, tag="ack wave", gc=False):
    """A child answers a wave: at once that it is taken, and once more when everybody below it has answered.

    The complete one tells what is below, the child included.
    """

    scope: Path
    round: Round
    is_taken: bool = True  # False: the sender of the wave is not this child's parent, and shall leave it out
    is_complete: bool = False
    lacks_manifest: bool = False
    brokers: Count = 0  # that have taken the wave
    height: Depth = 0  # of the subtree
    confirmed: Id = 0  # members whose owners stand by their rows, as a mask of the numbers in the manifest
    rows: ManifestRows = ()  # of owners who do not
    requests: TopologyChanges = ()  # what brokers below would have changed: the root makes a plan of it
    free: Path = ""  # a broker with room for one more child, if there is any
    free_address: Address = ""  # where that one listens
    choosers: Choosers = ()  # brokers below that would leave their units by other exits than they chose


class ScopeManifest(Message, frozen=True, array_like=True, tag="manifest", gc=False):
    """A parent tells a child the manifest of a round that the child lacks."""

    scope: Path
    round: Round
    rows: ManifestRows


class RootClaim(Message, frozen=True, kw_only=True, array_like=True, tag="root claim", gc=False):
    """A broker tells its neighbours in a scope below which root it is, and how far; "" is none."""

    scope: Path
    root: Path
    rank: Rank
    depth: Depth


class Rejoin(Message, frozen=True, kw_only=True, array_like=True, tag="rejoin", gc=False):
    """A broker without a parent, or with one below a root of less right, asks the root to place it.

    Those who pass it on towards the root add their names: the answer goes back the same way. The first of them is the
    neighbour that was asked, which says whether it has a free place itself.
    """

    scope: Path
    broker: Path
    has_room: bool = True
    trail: Trail = ()


class Place(Message, frozen=True, kw_only=True, array_like=True, tag="place", gc=False):
    """The root gives a broker a parent: a neighbour, or somebody to be dialled at `address`; "" if there is none."""

    scope: Path
    broker: Path
    parent: Path
    root: Path
    rank: Rank
    round: Round = 0
    depth: Depth = 0  # of the broker, below its new parent
    address: Address = ""
    trail: Trail = ()  # who still has to pass it on, the last one first
    switched: Id = NO_PLAN  # the plan that is in force at the new parent since its round


class Crown(Message, frozen=True, array_like=True, tag="crown", gc=False):
    """A root that is about to leave tells a child to be the root in its place."""

    scope: Path


WaveMessage = Rotate | Ack | ScopeManifest | RootClaim | Rejoin | Place | Crown | Announce | Poll | PlanAnswer | Go
WAVE_MESSAGES: tuple[type[Message], ...] = (
    Rotate,
    Ack,
    ScopeManifest,
    RootClaim,
    Rejoin,
    Place,
    Crown,
    Announce,
    Poll,
    PlanAnswer,
    Go,
)
