"""Reading: what a filter costs before an index gets it, that is to parse its text and to find its normal form."""

from itertools import islice

from benchmarks.matching import clock
from benchmarks.matching.workloads import Workload
from stentor import Filter
from stentor.matching.normal_form import normalise

READING = "reading"
TEXTS = 500  # in a round
SHAPES = 100  # in a round
SEED = 6


def read(workload: Workload, rounds: int) -> dict[str, list[float]]:
    """Times of new texts, of new texts of a new shape, and of normal forms.

    Texts that differ only in their constants have one shape, and Stentor parses a shape only once.
    """
    Filter("loaded = TRUE")  # the grammar is read when the first text is
    filters = workload.filters(TEXTS * rounds, SEED)
    texts = iter(dict.fromkeys(filters.text(number) for number in range(filters.count)))
    figures: dict[str, list[float]] = {}
    for number in range(rounds):
        new = list(islice(texts, TEXTS))
        if not new:  # a text is remembered too, so a workload of few texts has only one round
            break
        shapes = [f"n{number}_{place}_{text}" for place, text in enumerate(new[:SHAPES])]  # the first name is another
        made = [Filter(text) for text in new[:1]]
        parsed = clock.costs(Filter, [(text,) for text in new[1:]])
        made += [Filter(text) for text in new[1:]]
        shaped = clock.costs(Filter, [(text,) for text in shapes])
        normalised = clock.costs(normalise, [(each.syntax,) for each in made])
        for name, taken in (("parse", parsed), ("shape", shaped), ("normal", normalised)):
            middle, tail = clock.middle_and_tail(taken)
            figures.setdefault(f"{name}_p50", []).append(middle)
            figures.setdefault(f"{name}_p99", []).append(tail)
    return figures
