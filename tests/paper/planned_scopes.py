"""Scopes whose brokers carry out plans, as tests of plans need them."""

from tests.paper.scope import PaperScope

from stentor.model.colours.plan import PlanStage, PlanView, TopologyChange, TopologyPlan
from stentor.model.message import Message

SOON = 0.5  # seconds: less than from one wave to the next
DONE = ("announced 7", "prepared", "switched", "finished")  # what a plan of this number makes a broker do
UNDONE = ("announced 7", "prepared", "withdrawn")


def mesh(*more: str) -> PaperScope:
    """A is the root, B its deputy; they, C and D are all linked with each other, and `more` brokers with nobody."""
    scope = PaperScope("A", "B", "C", "D", *more, roots=("A", "B"))
    for leaf in ("B", "C", "D"):
        scope.link("A", leaf)
    scope.settle()
    for one, other in (("B", "C"), ("B", "D"), ("C", "D")):
        scope.link(one, other)
    scope.settle()
    assert scope["A"].tree.children == ("B", "C", "D")
    return scope


def link(far: str = "C", near: str = "A") -> TopologyChange:
    """A link that is to come."""
    return TopologyChange(near=near, far=far, before=0, after=1000, address=f"at {far}")


def plan(number: int = 7, changes: int = 1) -> TopologyPlan:
    return TopologyPlan(number, tuple(link(f"x{each}") for each in range(changes)))


def view(scope: PaperScope, root: str = "A", number: int = 7) -> PlanView:
    """Return what a broker tells of a plan as its root."""
    (found,) = [each for each in scope[root].planning.views() if each.number == number]
    return found


def story(scope: PaperScope, name: str) -> list[str]:
    """Return what a plan made a broker do; polls may prepare it several times, which is told once."""
    return list(dict.fromkeys(scope.work[name].done))


def stories(scope: PaperScope) -> set[tuple[str, ...]]:
    return {tuple(story(scope, name)) for name in scope.brokers}


def stages(scope: PaperScope, *names: str) -> set[PlanStage]:
    return {scope[name].announced.stage for name in names or scope.brokers}


def said(scope: PaperScope, kind: type[Message]) -> list[tuple[str, str]]:
    return [(sender, to) for sender, to, message in scope.said if isinstance(message, kind)]
