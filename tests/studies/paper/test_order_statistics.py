from __future__ import annotations

import math

import pytest

from studies.paper.order_statistics import at_least, errors_off, quantile


def exponential(x: float) -> float:
    return -math.expm1(-max(0.0, x))


def test_at_least_one_and_all_are_known() -> None:
    assert at_least(1, 4, 0.3) == pytest.approx(1 - 0.7**4)
    assert at_least(4, 4, 0.3) == pytest.approx(0.3**4)
    assert at_least(0, 4, 0.3) == pytest.approx(1.0)


def test_the_first_and_the_last_of_exponential_times_have_closed_forms() -> None:
    # The first of n is exponential with n times the rate; the last is below x with chance F(x)^n.
    assert quantile(exponential, 1, 10) == pytest.approx(math.log(2) / 10)
    assert quantile(exponential, 10, 10) == pytest.approx(-math.log(1 - 0.5**0.1))
    assert quantile(exponential, 10, 10, q=0.9) == pytest.approx(-math.log(1 - 0.9**0.1))


def test_the_middle_of_uniform_times_is_the_middle() -> None:
    def uniform(x: float) -> float:
        return min(1.0, max(0.0, x))

    assert quantile(uniform, 26, 51) == pytest.approx(0.5)


def test_times_far_from_zero_are_found() -> None:
    assert quantile(lambda x: exponential(x - 1000), 1, 1) == pytest.approx(1000 + math.log(2))
    assert quantile(lambda x: exponential(x + 1000), 1, 1) == pytest.approx(-1000 + math.log(2))


def test_a_median_of_100_draws_has_a_standard_error_of_a_twentieth() -> None:
    assert errors_off(0.5, 100) == 0.0
    assert errors_off(0.55, 100) == pytest.approx(1.0)
