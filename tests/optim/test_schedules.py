from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import ConfigError
from actorflow.optim import schedules
from tests.support.strategies import examples


def test_constant_stays() -> None:
    assert [schedules.constant(0.3)(n) for n in (0, 1, 10**9)] == [0.3] * 3


def test_exponential_decays_by_the_factor_every_so_many_updates() -> None:
    rate = schedules.exponential(0.8, 0.5, 10)

    np.testing.assert_allclose([rate(n) for n in (0, 5, 10, 20)], [0.8, 0.8 * 0.5**0.5, 0.4, 0.2])


def test_cosine_goes_from_the_rate_to_the_final_one_and_stays() -> None:
    rate = schedules.cosine(1.0, 100, final=0.2)

    np.testing.assert_allclose([rate(n) for n in (0, 50, 100, 10**6)], [1.0, 0.6, 0.2, 0.2])
    assert all(rate(n) > rate(n + 1) for n in range(100))


def test_inverse_time_halves_after_the_first_period_of_decay_1() -> None:
    rate = schedules.inverse_time(0.6, 1.0, 10)

    np.testing.assert_allclose([rate(n) for n in (0, 10, 20)], [0.6, 0.3, 0.2])


def test_inverse_sqrt_rises_in_a_line_and_falls_with_the_root() -> None:
    """Vaswani et al. 2017, equation 3, with d_model 512 and 4000 steps of warm-up."""
    rate = schedules.inverse_sqrt(512**-0.5 * 4000**-0.5, 4000)

    want = [512**-0.5 * min(n**-0.5, n * 4000**-1.5) for n in range(1, 20000)]
    np.testing.assert_allclose([rate(n) for n in range(19999)], want, rtol=1e-12)


def test_step_falls_at_every_period() -> None:
    rate = schedules.step(1.0, 0.5, 10)

    assert [rate(n) for n in (0, 9, 10, 19, 20)] == [1, 1, 0.5, 0.5, 0.25]


def test_piecewise_changes_at_its_boundaries() -> None:
    rate = schedules.piecewise([3, 5], [0.1, 0.2, 0.05])

    assert [rate(n) for n in range(7)] == [0.1] * 3 + [0.2] * 2 + [0.05] * 2


def test_linear_and_polynomial_end_at_the_final_rate_and_stay() -> None:
    np.testing.assert_allclose(
        [schedules.linear(1.0, 4, 0.2)(n) for n in (0, 1, 2, 4, 99)], [1, 0.8, 0.6, 0.2, 0.2]
    )
    np.testing.assert_allclose([schedules.linear(0.0, 4, 1.0)(n) for n in (0, 1, 4)], [0, 0.25, 1])
    np.testing.assert_allclose(
        [schedules.polynomial(1.0, 4, power=2.0)(n) for n in (0, 2, 4, 5)], [1, 0.25, 0, 0]
    )


def test_cosine_restarts_after_periods_that_grow() -> None:
    rate, fall = schedules.cosine_restarts(1.0, 4, factor=2, final=0.1), schedules.cosine(1.0, 4, 0.1)

    assert [rate(n) for n in range(4)] == [fall(n) for n in range(4)]
    np.testing.assert_allclose([rate(n) for n in (4, 8, 12, 20, 28)], [1, 0.55, 1, 0.55, 1])
    even = schedules.cosine_restarts(1.0, 4)
    assert [even(n) for n in range(4)] == [even(n) for n in range(400, 404)]


def test_one_cycle_goes_up_down_and_stays() -> None:
    rate = schedules.one_cycle(1.0, 100, warm=0.3, start_factor=10, final_factor=100)
    rates = [rate(n) for n in range(100)]

    np.testing.assert_allclose(
        [rates[0], rates[29], rates[99], rate(10**6)], [0.1, 1.0, 0.001, 0.001], rtol=1e-12
    )
    assert max(rates) == rates[29]
    assert rates[:30] == sorted(rates[:30])
    assert rates[29:] == sorted(rates[29:], reverse=True)


def test_warmup_leads_to_the_first_rate_of_what_follows() -> None:
    rate = schedules.warmup(4, schedules.cosine(0.8, 10), initial=0.4)

    np.testing.assert_allclose([rate(n) for n in (0, 1, 3, 4, 14)], [0.5, 0.6, 0.8, 0.8, 0], atol=1e-15)


@pytest.mark.parametrize("updates", [1, 2, 100])
def test_no_update_of_a_warmup_has_a_rate_of_zero(updates: int) -> None:
    rate = schedules.warmup(updates, 0.3)

    rates = [rate(n) for n in range(updates + 1)]
    assert rates[0] == pytest.approx(0.3 / updates)
    assert rates[updates - 1] == rates[updates] == 0.3
    assert rates == sorted(rates)


@pytest.mark.parametrize(
    "wrapped", [lambda r: r, lambda r: schedules.join([r, 0.1], [3])], ids=["", "joined"]
)
def test_the_first_update_moves_something_whatever_the_schedule(wrapped: Any) -> None:
    assert [rate.name for rate in ALL if not wrapped(rate)(0) > 0] == []


def test_joined_schedules_count_from_their_own_starts() -> None:
    rate = schedules.join([0.1, schedules.linear(1.0, 4), schedules.constant(0.5)], [2, 6])

    np.testing.assert_allclose([rate(n) for n in range(8)], [0.1, 0.1, 1, 0.75, 0.5, 0.25, 0.5, 0.5])


ALL = [
    schedules.constant(0.1),
    schedules.exponential(0.1, 0.9, 5),
    schedules.cosine(0.1, 7, 0.01),
    schedules.cosine_restarts(0.1, 3, 2, 0.01),
    schedules.inverse_time(0.1, 0.5, 3),
    schedules.inverse_sqrt(0.1, 4),
    schedules.step(0.1, 0.5, 3),
    schedules.piecewise([2, 4], [0.3, 0.2, 0.1]),
    schedules.linear(0.1, 5),
    schedules.polynomial(0.1, 5, 0.01, 2.0),
    schedules.one_cycle(0.1, 10),
    schedules.warmup(3, schedules.warmup(2, schedules.cosine(0.1, 4), 0.3)),
    schedules.join([0.1, schedules.join([schedules.linear(0.1, 3), 0.2], [2])], [3]),
]


def test_every_schedule_is_in_the_laws() -> None:
    assert {rate.name for rate in ALL} == set(schedules.table())


@pytest.mark.parametrize("rate", ALL, ids=lambda r: r.name)
def test_schedule_survives_as_plain_data(rate: schedules.Schedule) -> None:
    again = schedules.as_schedule(plain(schedules.plain(rate)))

    assert again == rate
    assert [again(n) for n in range(9)] == [rate(n) for n in range(9)]


def plain(config: Any) -> Any:
    """A copy of plain data; anything else fails."""
    if isinstance(config, dict):
        return {str(k): plain(v) for k, v in config.items()}
    if isinstance(config, tuple):
        return tuple(map(plain, config))
    assert isinstance(config, int | float | str)
    return config


@pytest.mark.parametrize("rate", ALL, ids=lambda r: r.name)
def test_rates_are_finite_and_not_negative_for_ever(rate: schedules.Schedule) -> None:
    found = [rate(n) for n in [*range(200), 10**6, 10**12]]

    assert all(type(r) is float and 0 <= r < np.inf for r in found)


EVER = [0, 1, 2, 3, 1023, 1024, 10**6, 2**31, 2**53 + 1, 2**62 - 1, 2**62]


def rates_of(draw: Any) -> Any:
    return draw(st.one_of(st.floats(0, 1.7e308), st.sampled_from([0.0, 5e-324, 1e-3, 1.7e308])))


@st.composite
def drawn(draw: st.DrawFn, depth: int = 1) -> schedules.Schedule:
    """Any schedule, with settings as far out as they may be."""
    rate, final = rates_of(draw), rates_of(draw)
    n, small = draw(st.sampled_from([1, 2, 7, 2**40, 2**62])), draw(st.integers(1, 4))
    share = draw(st.one_of(st.floats(0, 1, exclude_min=True), st.sampled_from([5e-324, 1.0])))
    inner = drawn(depth=depth - 1) if depth else st.just(schedules.constant(rate))
    kinds = {
        "constant": lambda: schedules.constant(rate),
        "exponential": lambda: schedules.exponential(rate, share, n),
        "cosine": lambda: schedules.cosine(rate, n, final),
        "cosine_restarts": lambda: schedules.cosine_restarts(rate, n, draw(st.integers(1, 2**62)), final),
        "inverse_time": lambda: schedules.inverse_time(rate, final, n),
        "inverse_sqrt": lambda: schedules.inverse_sqrt(rate, n),
        "step": lambda: schedules.step(rate, draw(st.floats(0, 1)), n),
        "piecewise": lambda: schedules.piecewise([small, max(n, 5)], [rate, final, 0.0]),
        "linear": lambda: schedules.linear(rate, n, final),
        "polynomial": lambda: schedules.polynomial(rate, n, final, draw(st.sampled_from([5e-324, 2, 1e308]))),
        "one_cycle": lambda: schedules.one_cycle(
            rate,
            min(n + 3, 2**62),
            draw(st.floats(0.34, 0.99)),
            draw(st.floats(1, 1e308)),
            draw(st.floats(1, 1e308)),
        ),
        "warmup": lambda: schedules.warmup(n, draw(inner), rate),
        "join": lambda: schedules.join([draw(inner), draw(inner)], [draw(st.integers(1, 2**62))]),
    }
    assert set(kinds) == set(schedules.table())
    return kinds[draw(st.sampled_from(sorted(kinds)))]()


@settings(deadline=None, max_examples=examples(300))
@given(rate=drawn(), counts=st.lists(st.integers(0, 2**62), max_size=5))
def test_every_schedule_that_can_be_made_has_a_finite_rate_at_every_count(
    rate: schedules.Schedule, counts: list[int]
) -> None:
    found = [rate(n) for n in (*EVER, *counts)]

    assert all(type(r) is float and 0 <= r < np.inf for r in found), (rate, found)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.cosine(0.1, 0), "updates must be at least 1"),
        (lambda: schedules.cosine(0.1, 5, -1.0), "final must be"),
        (lambda: schedules.exponential(0.1, 1.5, 5), r"decay must be in \(0, 1\]"),
        (lambda: schedules.exponential(0.1, 0.5, 0), "every must be at least 1"),
        (lambda: schedules.step(0.1, 0.5, 2.5), "every must be at least 1, a whole number, got 2.5"),  # type: ignore[arg-type]
        (lambda: schedules.step(0.1, 2.0, 1), r"factor must be in \[0, 1\], got 2.0"),
        (lambda: schedules.polynomial(0.1, 5, power=0), "power must be positive"),
        (lambda: schedules.piecewise([3], [0.1]), "rates must be 2, one more than boundaries"),
        (
            lambda: schedules.piecewise([3, 3], [0.1, 0.2, 0.3]),
            "boundaries must be counts of updates, rising",
        ),
        (lambda: schedules.piecewise([3], [0.1, -0.2]), "every rate must be a finite number"),
        (lambda: schedules.join([0.1, 0.2], []), "boundaries must be counts"),
        (lambda: schedules.one_cycle(0.1, 10, warm=0.05), "warm must be more than one of 10 updates"),
        (lambda: schedules.one_cycle(0.1, 10, warm=1.0), r"warm must be in \(0, 1\)"),
        (lambda: schedules.warmup(3, -0.1), "rate must be a finite number"),
        (
            lambda: schedules.as_schedule({"schedule": "zigzag"}),
            "no schedule 'zigzag'; there are constant, cosine, cosine_restarts, exponential",
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
