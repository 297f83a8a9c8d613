"""Failures: what CESQL calls errors, the part of a result that says why its value is not to be trusted."""

import enum

from stentor.model.attribute import Value


class FilterErrorKind(enum.StrEnum):
    """The error types of CESQL; its parse error is the exception `FilterError`, and nothing else can go wrong."""

    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION_EVALUATION = "functionEvaluation"


class Failure:
    """A value that came with an error; whatever takes it as an operand gives its own zero value with the same error."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: FilterErrorKind, value: Value) -> None:
        self.kind, self.value = kind, value

    def __repr__(self) -> str:
        return f"Failure({self.kind.value}, {self.value!r})"

    def as_boolean(self) -> "Failure":
        return _FALSE[self.kind]

    def as_number(self) -> "Failure":
        return _ZERO[self.kind]

    def as_string(self) -> "Failure":
        return _EMPTY[self.kind]


Outcome = Value | Failure

# Made once: a missing attribute is common and must not cost an allocation.
_FALSE = {kind: Failure(kind, False) for kind in FilterErrorKind}
_ZERO = {kind: Failure(kind, 0) for kind in FilterErrorKind}
_EMPTY = {kind: Failure(kind, "") for kind in FilterErrorKind}

MISSING_ATTRIBUTE = _FALSE[FilterErrorKind.MISSING_ATTRIBUTE]
MISSING_FUNCTION = _FALSE[FilterErrorKind.MISSING_FUNCTION]
NOT_A_BOOLEAN = _FALSE[FilterErrorKind.CAST]
NOT_A_NUMBER = _ZERO[FilterErrorKind.CAST]
NOT_COMPUTABLE = _ZERO[FilterErrorKind.MATH]
