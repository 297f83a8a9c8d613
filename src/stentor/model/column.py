"""A column: one attribute of every event in a batch, as arrays, so that a filter looks at all of them at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stentor.model.attribute import Kind, Value


@dataclass(frozen=True, slots=True)
class Column:
    """`values` is int64, float64, bool or, for strings, uint16 codes into `dictionary`; `valid` None is all there."""

    kind: Kind
    values: NDArray[np.generic]
    valid: NDArray[np.bool_] | None
    dictionary: tuple[str, ...] = ()

    def to_list(self) -> list[Value | None]:
        """Python values, None where the attribute is missing."""
        rows: list[Value | None] = self.values.tolist()
        if self.kind is Kind.STRING:
            rows = [self.dictionary[code] for code in rows]  # type: ignore[index]
        if self.valid is not None:
            rows = [row if there else None for row, there in zip(rows, self.valid.tolist(), strict=True)]
        return rows

    def take(self, rows: NDArray[np.intp]) -> "Column":
        """The same attribute of just these events."""
        valid = None if self.valid is None else self.valid[rows]
        return Column(self.kind, self.values[rows], valid, self.dictionary)
