"""What is said when rows become dense, and what is not worth a word."""

from __future__ import annotations

import warnings

import pytest

import actorflow as af
from actorflow.errors import DenseRows
from actorflow.graph.densified import is_worth_a_word, tell
from actorflow.values.spec import spec

LARGE = spec("float32", (1000, 4))


def test_small_tables_and_as_many_rows_as_there_are_are_not_worth_a_word() -> None:
    assert is_worth_a_word(LARGE, (3, 4))
    assert is_worth_a_word(LARGE, (None, 4))
    assert is_worth_a_word(LARGE, None)
    assert is_worth_a_word(spec("float32", (None, 4)), (3, 4))
    assert not is_worth_a_word(LARGE, (1000, 4))
    assert not is_worth_a_word(spec("float32", (10, 4)), (3, 4))


def test_a_place_is_told_once_a_graph_and_another_one_too() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with af.Graph():
                for line in ("a.py:1", "a.py:2", "a.py:1"):
                    tell(LARGE, (3, 4), "table", "clip", made_at="a.py:0", line=line)

    told = [str(each.message).partition(": each")[0] for each in caught]
    assert told == 2 * [
        f"rows of 'table' (1000, 4) float32, from a.py:0, become dense in clip, at a.py:{line}"
        for line in (1, 2)
    ]


def test_what_is_an_error_for_the_user_is_told_again() -> None:
    with af.Graph():
        for _ in range(2):
            with pytest.raises(DenseRows):
                tell(LARGE, (3, 4), "table", "clip", made_at="a.py:0", line="a.py:1")


def test_what_is_of_open_size_is_told_of_variables_alone() -> None:
    whole = spec("float32", (None, 4))
    with af.Graph():
        tell(whole, (3, 4), "", "clip", made_at="a.py:0", line="a.py:1")
        with pytest.raises(DenseRows):
            tell(whole, (3, 4), "table", "clip", made_at="a.py:0", line="a.py:1")
