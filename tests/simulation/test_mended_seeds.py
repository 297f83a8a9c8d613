"""Seeds beyond those of `digests.SEEDS` that failed once, and for which something was mended."""

import pytest

from stentor.simulation.scenarios import SCENARIOS

MENDED = [
    ("fabric", 167),  # the only repository that knew that a subscriber had left died: nobody promised more
    ("fabric", 182),  # a beginning left out what was found to be damaged in that moment
]


@pytest.mark.parametrize(("name", "seed"), MENDED)
def test_a_seed_for_which_something_was_mended_does_not_fail_again(name: str, seed: int) -> None:
    assert SCENARIOS[name].run(seed).anomalies == ()
