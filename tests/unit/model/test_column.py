"""Columns: arrays of one attribute, and the values that they stand for."""

import numpy as np

from stentor.model.attribute import Kind
from stentor.model.column import Column


def test_numbers_come_out_as_python_values() -> None:
    values = Column(Kind.INTEGER, np.array([1, -(2**63)], "<i8"), None).to_list()
    assert values == [1, -(2**63)]
    assert [type(value) for value in values] == [int, int]
    assert Column(Kind.DECIMAL, np.array([0.5, 1.0]), None).to_list() == [0.5, 1.0]
    assert Column(Kind.BOOLEAN, np.array([True, False]), None).to_list() == [True, False]


def test_strings_are_codes_into_a_dictionary() -> None:
    column = Column(Kind.STRING, np.array([1, 0, 1], "<u2"), None, ("a", "é"))
    assert column.to_list() == ["é", "a", "é"]


def test_what_is_missing_is_none_whatever_the_array_has_there() -> None:
    valid = np.array([True, False, True])
    assert Column(Kind.INTEGER, np.array([1, 2, 3]), valid).to_list() == [1, None, 3]
    assert Column(Kind.STRING, np.array([0, 0, 0], "<u2"), valid, ("",)).to_list() == ["", None, ""]
