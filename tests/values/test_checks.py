"""Limits are numbers that let something happen; anything else is refused by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.errors import ConfigError
from actorflow.values.checks import at_least, seconds


def test_a_whole_number_of_any_library_is_taken() -> None:
    found = at_least(1, "max_steps", np.int64(3))

    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize("given", [True, 1.5, "3", None])
def test_what_is_no_whole_number_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=f"max_steps is a whole number, got {given!r}"):
        at_least(1, "max_steps", given)


def test_a_number_that_lets_nothing_happen_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_steps must be at least 1, got 0"):
        at_least(1, "max_steps", 0)


def test_seconds_are_numbers_and_none_is_no_limit() -> None:
    assert seconds(None) is None
    assert seconds(np.float32(0.5), "grace_s") == 0.5


@pytest.mark.parametrize("given", [0, -1.0, float("inf"), float("nan"), 1e9])
def test_seconds_that_cannot_pass_are_refused(given: float) -> None:
    with pytest.raises(ConfigError, match="grace_s must be above 0 and below 1e"):
        seconds(given, "grace_s")


@pytest.mark.parametrize("given", [True, "1"])
def test_what_is_no_number_of_seconds_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="deadline_s is a number of seconds"):
        seconds(given)
