from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.kernels.math import random

words = st.integers(-(2**63), 2**64 - 1)
counters = st.tuples(words, words, words, words)
COUNTER = (1, 2, 3, 4)
PINNED_WORDS = [1345417556111637282, 9565923770115421410]
PINNED_UNIFORM = [0.5726887583732605, 0.07293522357940674, 0.5398247241973877, 0.5185697078704834]
PINNED_TRUNCATED = [0.174799502, -1.32632053, 0.0954283029]
PINNED_EXPONENTIAL = [0.850242615, 0.0757318363, 0.776147842]
PINNED_NORMAL = [-1.263415, -0.386537, -0.322907, -0.045306]


def raw(seed: int, counter: tuple[int, ...], n: int) -> np.ndarray:
    """The words of rule 1, from a Philox made for them."""
    c0, c1, c2, c3 = (c % 2**64 for c in counter)
    key, start = np.array([seed, c3], np.uint64), np.array([0, c0, c1, c2], np.uint64)
    return np.random.Philox(key=key, counter=start).random_raw(n)


def uniform(
    shape: tuple[int, ...],
    dtype: str = "float32",
    low: float = 0.0,
    high: float = 1.0,
    seed: int = 5,
    counter=COUNTER,
):
    return random.random_uniform(shape=shape, low=low, high=high, dtype=dtype, seed=seed, counter=counter)


def normal(
    shape: tuple[int, ...],
    dtype: str = "float32",
    mean: float = 0.0,
    stddev: float = 1.0,
    seed: int = 5,
    counter=COUNTER,
):
    return random.random_normal(
        shape=shape, mean=mean, stddev=stddev, dtype=dtype, seed=seed, counter=counter
    )


@settings(deadline=None)
@given(seed=st.integers(0, 2**63 - 1), counter=counters, n=st.integers(0, 40))
def test_uniform_numbers_are_the_words_of_philox(seed: int, counter, n: int) -> None:
    """Rules 1 and 2, which another library must be able to follow."""
    uniform((3,), counter=(9, 9, 9, 9))  # leaves a half-used word behind
    halves = raw(seed, counter, n).view(np.uint32)[:n]

    np.testing.assert_array_equal(
        uniform((n,), "float64", seed=seed, counter=counter),
        (raw(seed, counter, n) >> np.uint64(11)) * 2.0**-53,
    )
    np.testing.assert_array_equal(
        uniform((n,), seed=seed, counter=counter),
        (halves >> np.uint32(8)).astype("float32") * np.float32(2**-24),
    )


def test_the_first_numbers_never_change() -> None:
    """A new numpy that drew others would break replays and checkpoints: this pins them."""
    assert raw(5, COUNTER, 2).tolist() == PINNED_WORDS
    np.testing.assert_array_equal(uniform((4,)), np.array(PINNED_UNIFORM, "float32"))
    np.testing.assert_allclose(normal((4,)), PINNED_NORMAL, rtol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_normal_numbers_are_those_of_box_and_muller(n: int) -> None:
    half = (n + 1) // 2
    u = uniform((2 * half,), "float64")
    r, a = np.sqrt(-2 * np.log(1 - u[:half])), 2 * np.pi * u[half:]

    drawn = normal((n,), "float64", mean=3.0, stddev=0.5)

    np.testing.assert_allclose(
        drawn, (3 + 0.5 * np.concatenate([r * np.cos(a), r * np.sin(a)]))[:n], rtol=1e-13
    )


@settings(deadline=None)
@given(counter=counters, other=counters, seeds=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_another_seed_or_counter_draws_other_numbers(counter, other, seeds) -> None:
    here = (seeds[0], *(c % 2**64 for c in counter))
    there = (seeds[1], *(c % 2**64 for c in other))

    first, second = uniform((8,), seed=seeds[0], counter=counter), uniform((8,), seed=seeds[1], counter=other)

    assert (first.tobytes() == second.tobytes()) == (here == there)


@pytest.mark.parametrize("place", range(4))
def test_neighbouring_counters_are_uncorrelated(place: int) -> None:
    rows = []
    for i in range(64):
        counter = [0, 0, 0, 0]
        counter[place] = i
        rows.append(normal((512,), counter=tuple(counter)))

    correlation = np.corrcoef(np.array(rows))[np.triu_indices(64, 1)]

    assert abs(correlation).max() < 6 / np.sqrt(512)
    assert abs(correlation.mean()) < 5 / np.sqrt(512 * len(correlation))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_have_the_moments_of_a_normal(dtype: str) -> None:
    n = 200_000
    x = normal((n,), dtype, mean=0.0, stddev=1.0).astype("float64")

    for power, moment, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs((x**power).mean() - moment) < 5 * np.sqrt(variance / n)
    assert abs((np.abs(x) > 3).mean() - 0.0026998) < 5 * np.sqrt(0.0027 / n)


def test_uniform_numbers_fill_their_range_evenly() -> None:
    counts, _ = np.histogram(uniform((100_000,), low=-3.0, high=2.0), bins=50, range=(-3, 2))

    assert counts.sum() == 100_000
    assert ((counts - 2000) ** 2 / 2000).sum() < 49 + 6 * np.sqrt(2 * 49)


def test_rounding_never_gives_the_high_end() -> None:
    """In float32, 16777216 + 0.99 * 2 rounds to the end of this range for a quarter of all draws."""
    drawn = uniform((1000,), low=2.0**24, high=2.0**24 + 2)

    assert drawn.max() < 2**24 + 2
    assert drawn.min() == 2**24


def test_empty_range_gives_its_only_number() -> None:
    assert set(uniform((5,), low=1.5, high=1.5).tolist()) == {1.5}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_numbers_are_those_of_float32_rounded(dtype: str) -> None:
    drawn = normal((100,), dtype)

    np.testing.assert_array_equal(drawn, normal((100,)).astype(drawn.dtype))


def test_threads_do_not_disturb_each_other() -> None:
    alone = [normal((1000,), counter=(i, 0, 0, 0)).tobytes() for i in range(50)]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda i: normal((1000,), counter=(i, 0, 0, 0)).tobytes(), range(50)))

    assert together == alone


# ------------------------------------------------------------------- truncated and exponential


def truncated(n: int, dtype: str = "float64", mean: float = 0.0, stddev: float = 1.0):
    return random.random_truncated_normal(
        shape=(n,), mean=mean, stddev=stddev, dtype=dtype, seed=5, counter=COUNTER
    )


def exponential(n: int, dtype: str = "float64"):
    return random.random_exponential(shape=(n,), dtype=dtype, seed=5, counter=COUNTER)


def normal_part(x: np.ndarray) -> np.ndarray:
    """The part of a normal below x, by the error function of the standard library."""
    return np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x])


def furthest(drawn: np.ndarray, below: np.ndarray) -> float:
    """The Kolmogorov-Smirnov distance of sorted numbers from the distribution that `below` says."""
    n = drawn.size
    return float(max(np.max(below - np.arange(n) / n), np.max(np.arange(1, n + 1) / n - below)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_truncated_numbers_are_a_normal_cut_off_at_two_deviations(dtype: str) -> None:
    """A sample of the distribution is further away than this bound once in a thousand."""
    n = 20_000
    drawn = np.sort(truncated(n, dtype).astype("float64"))
    low, high = normal_part(np.array([-2.0, 2.0]))

    distance = furthest(drawn, (normal_part(drawn) - low) / (high - low))

    assert -2 <= drawn[0] < drawn[-1] <= 2
    assert distance < 1.95 / math.sqrt(n)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exponential_numbers_are_distributed_so(dtype: str) -> None:
    n = 20_000
    drawn = np.sort(exponential(n, dtype).astype("float64"))

    distance = furthest(drawn, -np.expm1(-drawn))

    assert drawn[0] >= 0
    assert distance < 1.95 / math.sqrt(n)


def test_both_come_from_one_uniform_number_each() -> None:
    """Rules 6 and 7: the number whose part of the distribution below it is the uniform one."""
    u = uniform((50,), "float64")
    low, high = normal_part(np.array([-2.0, 2.0]))

    np.testing.assert_allclose((normal_part(truncated(50)) - low) / (high - low), u, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(exponential(50), -np.log1p(-u), rtol=1e-15)


def test_their_first_numbers_never_change() -> None:
    np.testing.assert_allclose(truncated(3, "float32"), PINNED_TRUNCATED, rtol=1e-6)
    np.testing.assert_allclose(exponential(3, "float32"), PINNED_EXPONENTIAL, rtol=1e-6)


def test_mean_and_deviation_scale_what_is_cut_off() -> None:
    np.testing.assert_allclose(truncated(50, mean=3.0, stddev=0.5), 3 + 0.5 * truncated(50), rtol=1e-14)
    assert set(truncated(5, stddev=0.0, mean=1.5).tolist()) == {1.5}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_rounded_and_stay_within_two_deviations(dtype: str) -> None:
    drawn = truncated(1000, dtype)

    np.testing.assert_array_equal(drawn, truncated(1000, "float32").astype(drawn.dtype))
    assert np.abs(drawn.astype("float32")).max() <= 2
