"""A scenario: a name, what it is about, and a run that depends on nothing but its seed."""

from dataclasses import dataclass
from typing import Protocol

from stentor.simulation.outcome import Outcome


class Run(Protocol):
    def __call__(self, seed: int, keep_trace: bool = False) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    description: str
    run: Run
