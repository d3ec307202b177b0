"""A training position is plain data and back, and says what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import ConfigError, InputError
from actorflow.training.position import TrainingPosition

COUNTS = st.integers(0, 2**40)
NUMBERS = st.floats(allow_nan=False)


@given(
    epoch=COUNTS,
    step=COUNTS,
    taken=COUNTS,
    sums=st.lists(NUMBERS, min_size=2, max_size=2),
    train_s=st.floats(0, 1e9),
    messages=COUNTS,
    stream=st.none() | st.dictionaries(st.text(), COUNTS),
)
def test_it_comes_back_from_json_as_it_was(sums: list[float], **fields: Any) -> None:
    mark = TrainingPosition(loss_sums=tuple(sums), **fields)

    assert TrainingPosition.of(json.loads(json.dumps(mark.data())), 2) == mark


def test_nothing_is_the_start() -> None:
    assert TrainingPosition.of(None, 1) == TrainingPosition()


GOOD = TrainingPosition(taken=1, loss_sums=(1.0,)).data()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"taken": 3},
        [1, 2],
        {**GOOD, "version": 2},
        {**GOOD, "epoch": -1},
        {**GOOD, "step": 1.5},
        {**GOOD, "taken": True},
        {**GOOD, "sums": ["a"]},
        {**GOOD, "sums": None},
        {**GOOD, "train_s": None},
        {**GOOD, "stream": 3},
    ],
)
def test_what_is_no_bookmark_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"a position of a run is what an event's position\(\) gave, got"):
        TrainingPosition.of(wrong, 1)


def test_a_bookmark_of_other_figures_is_refused() -> None:
    with pytest.raises(ConfigError, match="it sums 1 figures, this one 2\n  try:   go on with the loss"):
        TrainingPosition.of(GOOD, 2)


def test_where_the_batches_have_no_position_it_says_why() -> None:
    mark = TrainingPosition(taken=1, unfixed=InputError("no position is fixed behind map 'f'"))

    with pytest.raises(InputError, match="no position is fixed behind map 'f'"):
        mark.data()
