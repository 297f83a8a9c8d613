"""The filter language: CloudEvents SQL 1.0, parsed, evaluated per event and over whole batches."""

from stentor.model.filter.expression import Filter
from stentor.model.filter.failure import FilterErrorKind
from stentor.model.filter.parser import DEEPEST_FILTER, LONGEST_FILTER, MOST_TERMS

__all__ = ["DEEPEST_FILTER", "LONGEST_FILTER", "MOST_TERMS", "Filter", "FilterErrorKind"]
