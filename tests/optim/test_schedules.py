from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.errors import ConfigError
from actorflow.optim import schedules


def test_constant_stays() -> None:
    assert [schedules.constant(0.3)(n) for n in (0, 1, 10**9)] == [0.3] * 3


def test_exponential_decays_by_the_factor_every_so_many_updates() -> None:
    rate = schedules.exponential(0.8, 0.5, 10)

    np.testing.assert_allclose([rate(n) for n in (0, 5, 10, 20)], [0.8, 0.8 * 0.5**0.5, 0.4, 0.2])


def test_cosine_goes_from_the_rate_to_the_final_one_and_stays() -> None:
    rate = schedules.cosine(1.0, 100, final=0.2)

    np.testing.assert_allclose([rate(n) for n in (0, 50, 100, 10**6)], [1.0, 0.6, 0.2, 0.2])
    assert all(rate(n) > rate(n + 1) for n in range(100))


@pytest.mark.parametrize(
    "rate", [schedules.constant(0.1), schedules.exponential(0.1, 0.9, 5), schedules.cosine(0.1, 7, 0.01)]
)
def test_schedule_survives_as_plain_data(rate: schedules.Schedule) -> None:
    again = schedules.as_schedule(schedules.plain(rate))

    assert again == rate
    assert [again(n) for n in range(9)] == [rate(n) for n in range(9)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.cosine(0.1, 0), "updates must be at least 1"),
        (lambda: schedules.cosine(0.1, 5, -1.0), "final must be"),
        (lambda: schedules.exponential(0.1, 1.5, 5), r"decay must be in \(0, 1\]"),
        (lambda: schedules.exponential(0.1, 0.5, 0), "every must be at least 1"),
        (
            lambda: schedules.as_schedule({"schedule": "linear"}),
            "no schedule 'linear'; there are constant, cosine, exponential",
        ),
        (
            lambda: schedules.as_schedule({"schedule": "cosine", "speed": 1}),
            "schedule 'cosine' cannot be made",
        ),
    ],
)
def test_schedules_that_cannot_be_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
