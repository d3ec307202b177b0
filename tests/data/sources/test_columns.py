"""Fields of text as values of their columns."""

from __future__ import annotations

import numpy as np
import pytest

from actorflow.data.sources.columns import UNFIT, columns_of, first_unfit, one_of, values_of


def test_values_have_the_dtype_of_their_column():
    (column,) = columns_of(("a",), "uint16", None, ("",), "utf-8")

    values = values_of(column, ["1", " 65535 "])

    assert values.dtype == np.uint16
    assert values.tolist() == [1, 65535]


def test_a_float_too_large_is_infinite():
    (column,) = columns_of(("a",), "float32", None, ("",), "utf-8")

    assert values_of(column, ["1e39", "-1e999"]).tolist() == [float("inf"), float("-inf")]


@pytest.mark.parametrize(
    ("dtype", "text"),
    [("int8", "128"), ("uint64", "-1"), ("float32", "x"), ("bool", "yes"), ("complex64", "1+")],
)
def test_a_text_that_is_no_value_raises_what_is_declared(dtype, text):
    (column,) = columns_of(("a",), dtype, None, ("",), "utf-8")

    with pytest.raises(UNFIT):
        values_of(column, [text])


def test_the_first_row_that_does_not_fit_is_found_in_any_column():
    columns = columns_of(("a", "b"), {"a": "int8", "b": "float32"}, None, ("",), "utf-8")

    number, column = first_unfit([["1", "2"], ["3", "?"], ["?", "4"]], columns)

    assert (number, column.name) == (1, "b")


def test_errors_speak_of_values_as_people_do():
    assert [one_of(np.dtype(name)) for name in ("int8", "uint8", "float32", "O")] == [
        "an int8", "a uint8", "a float32", "a bytes",
    ]  # fmt: skip
