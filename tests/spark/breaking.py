"""Simulations that fail where a test wants them to; they run on workers, which know nothing of a test's patches."""

import pytest

from stentor.simulation.outcome import Outcome
from stentor.simulation.scenarios import SCENARIOS
from stentor.storage.segment import SegmentLog

LOSES, CRASHES = 17, 23


def run(scenario: str, seed: int) -> Outcome:
    if seed == CRASHES:
        raise RuntimeError("the seed of crashes")
    with pytest.MonkeyPatch.context() as patch:
        if seed == LOSES:
            patch.setattr(SegmentLog, "sync", lambda _: None)
        return SCENARIOS[scenario].run(seed)
