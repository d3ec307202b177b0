"""What each check takes, what it makes of it, and how it refuses anything else."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import ActorflowError, ConfigError, SpecError
from actorflow.values.checks import (
    Refusal,
    at_least,
    choice,
    finite,
    flag,
    is_flag,
    is_number,
    is_real,
    is_sequence,
    is_whole,
    not_negative,
    number,
    number_within,
    positive,
    positive_whole,
    seconds,
    sequence,
    weight,
    whole,
)


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


# -- what a value is -----------------------------------------------------------------------------------

BOUNDS = st.none() | st.integers(-5, 5)


@given(st.integers(-8, 8), BOUNDS, BOUNDS, st.sampled_from([int, np.int8, np.int64]))
def test_a_whole_number_is_within_bounds_that_belong_to_them(
    value: int, least: int | None, most: int | None, kind: Any
) -> None:
    within = (least is None or least <= value) and (most is None or value <= most)

    assert is_whole(kind(value), least, most) is within
    assert is_whole(kind(value), least, most, plain=True) is (within and kind is int)
    assert is_whole(value + 0.5, least, most) is False


def test_true_is_no_number_and_nan_is_within_no_bounds() -> None:
    for none in (True, np.bool_(True), "1", None, 1j, [1]):
        assert not is_whole(none)
        assert not is_number(none)
        assert not is_real(none)
        assert np.isnan(number(none))
    assert is_real(float("nan"))
    assert not is_number(float("nan"))
    assert not is_number(np.float32("nan"))


def test_a_plain_number_is_one_of_python() -> None:
    assert is_number(np.float32(0.5), 0, 1)
    assert not is_number(np.float32(0.5), 0, 1, plain=True)
    assert is_number(1, 0, 1, plain=True)
    assert not is_number(1.5, 0, 1, plain=True)
    assert number(Fraction(1, 2)) == 0.5
    assert number(10**400) == float("inf")


def test_a_flag_is_a_bool_and_an_array_of_one_is_none() -> None:
    assert is_flag(False)
    assert is_flag(np.bool_(False))
    assert not any(map(is_flag, (0, "no", None, np.array([True]), np.array(True))))


def test_a_text_is_no_sequence() -> None:
    assert is_sequence((1, 2))
    assert is_sequence(range(2))
    assert not any(map(is_sequence, ("ab", b"ab", {1, 2}, 3)))
    assert sequence("parts", np.arange(2)) == (0, 1)
    with pytest.raises(ConfigError, match="parts must be a sequence, got array"):
        sequence("parts", np.ones((2, 2)))


def test_checks_are_ready_before_numpy_is() -> None:
    """A launcher starts without it."""
    program = "import sys, actorflow.values.checks as c; print(c.is_flag(1), 'numpy' in sys.modules)"
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert made.stdout.split() == ["False", "False"]


# -- settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [finite, positive, not_negative, weight, positive_whole])
def test_a_bool_is_no_setting_that_is_a_number(check: Any) -> None:
    for value in (True, np.bool_(True), float("nan")):
        with pytest.raises(ConfigError, match="n must be"):
            check("n", value)


def test_bounds_are_as_they_say() -> None:
    assert [weight("n", v) for v in (0, 0.5)] == [0.0, 0.5]
    assert positive("n", 1e-320) > 0
    assert finite("n", -3) == -3.0
    assert not_negative("n", 0) == 0
    assert positive_whole("n", 2**62) == 2**62
    assert number(10**400) == np.inf
    assert is_whole(np.int8(3))
    assert not is_whole(3.0)
    assert flag("n", False) is False
    assert sequence("n", [1, 2]) == (1, 2)
    for check, value in (
        (weight, 1),
        (positive, 0),
        (not_negative, -1e-9),
        (positive_whole, 2.0),
        (sequence, "ab"),
        (flag, 0),
    ):
        with pytest.raises(ConfigError, match="n must be"):
            check("n", value)


# -- how they are refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((), "n is a whole number, got 2.5"),
        ((3,), "n is a whole number of at least 3, got 2.5"),
        ((3, 4), "n is a whole number between 3 and 4, got 2.5"),
    ],
)
def test_the_bounds_of_a_whole_number_are_said(bounds: tuple[int, ...], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        whole("n", 2.5, *bounds)

    assert caught.value.what == said


def test_a_number_within_bounds_is_a_float_of_python() -> None:
    found = number_within("p", np.float32(0.5), 0, 1)

    assert (found, type(found)) == (0.5, float)
    with pytest.raises(ConfigError, match="p is a finite number of at least 0, got inf"):
        number_within("p", float("inf"), finite=True)


def test_a_room_refuses_in_its_own_words_and_with_its_own_error() -> None:
    def error(message: str, hint: str | None) -> ActorflowError:
        return SpecError(message, hint=hint or "look it up")

    mine = Refusal("{name}: {rule}, not {got}", error, lambda value: f"<{value}>")

    with pytest.raises(SpecError) as caught:
        whole("{n}", "{0}", 1, rule="a count", refusal=mine)
    assert (caught.value.what, caught.value.hint) == ("{n}: a count, not <{0}>", "look it up")
    with pytest.raises(SpecError, match="it: 'a' or 'b', not <c>"):
        choice("it", "c", ("a", "b"), refusal=mine)
    assert choice("it", "a", ("a", "b")) == "a"


def test_a_long_value_is_shown_shortened() -> None:
    with pytest.raises(ConfigError) as caught:
        at_least(1, "n", "x" * 1000)

    assert len(caught.value.what) < 100
