"""Every scenario under many seeds; whatever fails says how to see it again."""

import pytest
from tests.simulation import digests

from stentor.simulation.scenarios import SCENARIOS

# Faults that are known and not mended yet: docs/roadmap.md. Whoever mends one takes it out.
OPEN: dict[tuple[str, int], set[str]] = {}
# Seeds beyond the sample that failed once, each for a reason of its own.
MENDED = (
    ("delivery", 182),  # one that had left when its owner added it back was never started again
    ("delivery", 633),  # what a reader at rest lacked was forgotten where it reads, since a finer storage had it
    ("delivery", 677),  # a coarser storage passed over what it had forgotten for a subscriber whom it still steered
    ("delivery", 739),  # traces of one that left and came back ended with its ledger, which those of a node do not
    ("delivery", 846),  # one that had forgotten events was asked for them, so nobody else was
    ("delivery", 857),  # letters of a life of which no fact was there
    ("delivery", 876),  # a stored reader insisted on a batch that had expired since it was planned
    ("fabric", 75),  # a home whose answers came too late again and again was looked for without end
    ("fabric", 158),  # a subscriber was registered here while its grant was taken back there
    ("fabric", 162),  # a receipt was taken for the answer to the owner's last request, and not to the one before
    ("fabric", 167),  # the only repository that knew that a subscriber had left died: nobody promised more
    ("fabric", 182),  # a beginning left out what was found to be damaged in that moment
    ("fabric", 193),  # a subscriber that was about to leave was told that it was fenced, since it had left
    ("fabric", 263),  # a node that has left and throws its ledger away has no machine for the topic
    ("fabric", 273),  # records of what counted as forgotten stayed, since a member had died meanwhile
    ("fabric", 277),  # events were forgotten while members were away that had registered a subscriber
    ("fabric", 333),  # epochs were compared with the numbers that one gave when it had left and come back
    ("fabric", 347),  # a repository lost its own traces: later ones left before those that were sent again
    ("fabric", 453),  # a tick of a machine that had failed made the next one read its ledger twice
    ("fabric", 464),  # what a finer storage kept for a registration that had ended counted for the name's next one
    ("fabric", 506),  # a publisher that had moved was taken to be where it was before, in the step that heard of it
    ("fabric", 554),  # an owner asked again faster than two repositories found out what each had registered apart
    ("fabric", 672),  # names were registered once more at one that was cut off, as if they had never been
    ("fabric", 751),  # the owner asked one that was never told that it manages the topic, and nobody else
    ("fabric", 768),  # one that had just begun again refused to remove a member that was added while it was away
    ("fabric", 780),  # one that leaves waited for others to take what they had closed while it was away
    ("fabric", 963),  # what one alone had synced last rotted: no ledger can tell that from what was torn
    ("fabric", 1077),  # who had left here and subscribed again there got what was left of the former registration
    ("network", 889),  # what waited while a client moved was read as if for those of its subscriptions that were left
    ("overlay", 272),  # both ends hid a link that came back and needed it, in turns and without end
    ("plans", 38),  # of two links of a broker to one unit another was used when a plan was finished, not switched
    ("plans", 103),  # the end of a link that does not open it heard later than the other what a plan had made it cost
    ("plans", 117),  # a broker waited for what a child had to say that was none, for as long as a plan may take
    ("plans", 162),  # receipts for a reader that moved took another way than events, so it parted too early
    ("plans", 175),  # of two links that cost the same after a plan another was used when the plan had ended
    ("rebuilding", 83),  # a link that a plan had brought was not opened again by a broker that had been killed
    ("rebuilding", 218),  # two plans that waited together took a broker's last links away, one after the other
)


@pytest.mark.parametrize(("name", "first", "count"), digests.CHUNKS)
def test_every_seed_runs_as_before_and_nothing_happens_that_must_not(name: str, first: int, count: int) -> None:
    failures = []
    changed = []
    unseen = []
    before, witnesses = digests.load()[name], digests.load_witnesses()[name]
    for seed in range(first, first + count):
        outcome = SCENARIOS[name].run(seed)
        if {anomaly.kind for anomaly in outcome.anomalies} != OPEN.get((name, seed), set()):
            found = "\n    ".join(f"{anomaly.kind}: {anomaly.detail}" for anomaly in outcome.anomalies[:5])
            failures.append(f"stentor simulate {name} --seed {seed}\n    {found}")
        if digests.shorten(outcome.digest) != before[seed]:
            changed.append(seed)
        witnessed = [fault for fault, witness in witnesses.items() if witness == seed]
        unseen += [f"{fault} in {seed}" for fault in witnessed if not outcome.statistics.get(fault)]
    assert not failures, "\n".join(["", *failures])
    assert not changed, (
        f"seeds of {name} that do not run as before: {changed}. If this commit means to change what nodes do, run "
        f"`make digests` and commit what it writes; if not, compare `stentor simulate {name} --seed {changed[0]} "
        f"--trace` with what the commit before it prints"
    )
    assert not unseen, f"what went wrong in seeds of {name} when `make digests` last ran, and does not: {unseen}"


@pytest.mark.parametrize(("name", "seed"), MENDED)
def test_a_seed_that_failed_once_does_not_fail_again(name: str, seed: int) -> None:
    assert [f"{anomaly.kind}: {anomaly.detail}" for anomaly in SCENARIOS[name].run(seed).anomalies] == []


def test_every_scenario_has_its_seeds_and_their_digests() -> None:
    assert digests.SEEDS.keys() == SCENARIOS.keys()
    assert {name: len(each) for name, each in digests.load().items()} == {
        name: count for name, (count, _) in digests.SEEDS.items()
    }


def test_everything_that_can_go_wrong_does_in_one_of_these_seeds() -> None:
    """The seeds themselves are run above, which sees it happen."""
    witnesses = digests.load_witnesses()
    assert {name: sorted(found) for name, found in witnesses.items()} == {
        name: sorted(faults.split()) for name, faults in digests.FAULTS.items()
    }
    assert digests.FAULTS.keys() == SCENARIOS.keys()
    assert all(0 <= seed < digests.SEEDS[name][0] for name, found in witnesses.items() for seed in found.values())
