"""A bounded number of series: a metric must not grow with what users name, or it fills the memory of whoever scrapes.

Filters, patterns and names that the library makes up are never labels. Topics, subscribers, peers and named clients
are, up to `MOST_SERIES` of each metric. Scopes are labels, too, and need no bound: a broker is in as many as its name
has parts.
"""

from collections.abc import Iterator, Mapping

MOST_SERIES = 100  # of one metric at one node: a page stays below 1,000 lines, and a fabric of 100 nodes below 100,000
OTHER = "other"  # the label of all the rest together


class Series:
    """Chooses who gets a series of a metric.

    Whoever has one keeps it as long as it is there: a series that comes and goes with a ranking would be a new one for
    Prometheus each time it moves.
    """

    def __init__(self, width: int) -> None:
        """`width` is the number of labels of the metric."""
        self._other = (OTHER,) * width
        self._kept: list[tuple[str, ...]] = []

    def bound(self, values: Mapping[tuple[str, ...], float]) -> Iterator[tuple[tuple[str, ...], float]]:
        """Return the values that have a series, by their labels, then the sum of all others under one label."""
        kept = [labels for labels in self._kept if labels in values]
        new = sorted(values.keys() - {*kept, self._other})
        self._kept = [*kept, *new][:MOST_SERIES]
        for labels in self._kept:
            yield labels, values[labels]
        if len(self._kept) < len(values):
            yield self._other, sum(values[labels] for labels in values.keys() - self._kept)
