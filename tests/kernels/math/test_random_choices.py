from __future__ import annotations

import math
from collections import Counter as Count
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import KernelError
from actorflow.kernels.math import random_choices as draws
from tests.kernels.math.test_random import COUNTER, raw, uniform

WORD = 2**64
PINNED_INTEGERS = [7, 51, 23, 36]
PINNED_ORDER = [0, 2, 3, 4, 1, 5]
PINNED_CLASSES = [0, 5, 2, 3]
PINNED_EVENTS = [True, False, True, False, False, False]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def integers(n: int, low: int, last: int, dtype: str = "int64", seed: int = 5, counter=COUNTER):
    return draws.random_integers(shape=(n,), low=low, last=last, dtype=dtype, seed=seed, counter=counter)


def bernoulli(p: np.ndarray):
    return draws.random_bernoulli(p, seed=5, counter=COUNTER)


def permutation(n: int, seed: int = 5):
    return draws.random_permutation(n=n, seed=seed, counter=COUNTER)


def categorical(logits: np.ndarray, num_samples: int | None = None, seed: int = 5):
    return draws.random_categorical(logits, num_samples=num_samples, seed=seed, counter=COUNTER)


def chi_square(counts: np.ndarray, want: np.ndarray) -> float:
    """How many standard deviations the statistic lies above its mean."""
    kept = want > 0
    freedom = kept.sum() - 1
    return float((((counts - want) ** 2)[kept] / want[kept]).sum() - freedom) / math.sqrt(2 * freedom)


# ------------------------------------------------------------------------------------- integers


@settings(deadline=None)
@given(dtype=st.sampled_from(INTEGERS), seed=st.integers(0, 2**63 - 1), data=st.data())
def test_integers_are_the_high_end_of_a_product(dtype: str, seed: int, data: st.DataObject) -> None:
    """Rule 9, in the whole numbers of Python."""
    held = st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    low, last = sorted(data.draw(st.tuples(held, held)))
    n = data.draw(st.integers(0, 5))
    words = [int(w) for w in raw(seed, COUNTER, 2 * n)]

    drawn = integers(n, low, last, dtype, seed)

    count = last - low + 1
    assert drawn.dtype == dtype
    assert drawn.tolist() == [
        low + (high * WORD + rest) * count // WORD**2 for high, rest in zip(words[:n], words[n:], strict=True)
    ]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_whole_range_of_a_dtype_can_be_drawn(dtype: str) -> None:
    low, last = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

    drawn = integers(4000, low, last, dtype).astype("float64")

    width = (last + 1 - low) / 16
    counts = np.histogram(drawn, bins=16, range=(float(low), float(last + 1)))[0]
    assert drawn.min() < low + width < last - width < drawn.max()
    assert chi_square(counts, np.full(16, 250)) < 6


def test_a_die_is_fair() -> None:
    counts = np.bincount(integers(60_000, 1, 6), minlength=7)

    assert counts[0] == 0
    assert counts.sum() == 60_000
    assert chi_square(counts[1:], np.full(6, 10_000)) < 6


def test_one_integer_is_no_choice() -> None:
    assert set(integers(9, -3, -3, "int8").tolist()) == {-3}


# ------------------------------------------------------------------------------------ yes or no


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_probability_0_never_comes_and_1_always(dtype: str) -> None:
    p = np.array([0.0, 1.0] * 5000, dtype)

    assert bernoulli(p).tolist() == [False, True] * 5000


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_event_comes_when_its_uniform_number_is_below(dtype: str) -> None:
    p = np.linspace(0, 1, 200, dtype=dtype).reshape(10, 20)

    np.testing.assert_array_equal(bernoulli(p), uniform((10, 20), dtype) < p)


@pytest.mark.parametrize("p", [1e-4, 0.3, 0.999])
def test_events_come_as_often_as_they_should(p: float) -> None:
    n = 100_000
    came = bernoulli(np.full(n, p, "float32")).sum()

    assert abs(came - n * p) < 5 * math.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("p", [-0.1, 1.5, math.nan])
def test_what_is_no_probability_is_refused(p: float) -> None:
    with pytest.raises(KernelError, match=rf"a probability lies in \[0, 1\], got {p}"):
        bernoulli(np.array([0.5, p]))


# --------------------------------------------------------------------------------------- orders


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_a_permutation_has_each_number_once(n: int) -> None:
    assert sorted(permutation(n).tolist()) == list(range(n))


def test_it_is_the_order_of_words() -> None:
    words = raw(5, COUNTER, 40).tolist()

    assert permutation(40).tolist() == sorted(range(40), key=lambda i: (words[i], i))


def test_every_order_comes_alike() -> None:
    came = Count(tuple(permutation(4, seed).tolist()) for seed in range(4800))

    counts = np.array([came[order] for order in permutations(range(4))])
    assert counts.sum() == 4800
    assert chi_square(counts, np.full(24, 200)) < 6


def test_the_number_may_be_computed() -> None:
    drawn = draws.random_permutation(np.array(9, "int32"), n=None, seed=5, counter=COUNTER)

    assert drawn.tolist() == permutation(9).tolist()
    with pytest.raises(KernelError, match="a permutation has a number of elements, got -1"):
        draws.random_permutation(np.array(-1), n=None, seed=5, counter=COUNTER)


# -------------------------------------------------------------------------------------- classes


def test_classes_come_as_softmax_says() -> None:
    logits = np.array([[0.0, 1.0, -1.0, 2.0], [3.0, 3.0, -np.inf, 0.0]], "float32")
    n = 50_000
    share = np.exp(logits.astype("float64"))
    share /= share.sum(axis=1, keepdims=True)

    drawn = categorical(logits, n)

    for row in range(2):
        counts = np.bincount(drawn[row], minlength=4)
        assert chi_square(counts, n * share[row]) < 6
    assert not (drawn[1] == 2).any()


@settings(deadline=None)
@given(data=st.data())
def test_a_class_is_the_first_whose_running_weight_is_above(data: st.DataObject) -> None:
    """Rule 11, number by number; with more rows than samples, and with fewer."""
    rows, classes = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    each, seed = data.draw(st.integers(1, 8)), data.draw(st.integers(0, 99))
    logits = np.random.default_rng(seed).choice([-np.inf, 0.0, 1.0, 2.5], (rows, classes))
    logits[:, 0] = 0.5
    u = uniform((rows, each), "float64", seed=seed)

    drawn = categorical(logits, each, seed)

    for row in range(rows):
        weights = np.exp(logits[row] - logits[row].max())
        running = np.cumsum(weights)
        for sample in range(each):
            above = [k for k in range(classes) if running[k] > u[row, sample] * running[-1]]
            assert drawn[row, sample] == above[0]
            assert weights[drawn[row, sample]] > 0


def test_a_class_without_weight_never_comes_at_the_ends() -> None:
    logits = np.full((1, 7), -np.inf)
    logits[0, 3] = 700.0

    assert set(categorical(logits, 1000).ravel().tolist()) == {3}


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 3), (2, 1, 3)])
def test_samples_are_a_last_axis_or_none(shape: tuple[int, ...]) -> None:
    logits = np.zeros(shape)

    assert categorical(logits).shape == shape[:-1]
    assert categorical(logits, 4).shape == (*shape[:-1], 4)
    assert categorical(logits, 0).shape == (*shape[:-1], 0)
    np.testing.assert_array_equal(categorical(logits), categorical(logits, 1)[..., 0])


def test_large_samples_are_drawn_in_parts_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.random.default_rng(0).standard_normal((9, 5))
    whole = categorical(logits, 7)

    monkeypatch.setattr(draws, "_COMPARED", 100)

    np.testing.assert_array_equal(categorical(logits, 7), whole)


@pytest.mark.parametrize("value", [-math.inf, math.inf, math.nan])
def test_a_row_without_a_finite_largest_logit_is_refused(value: float) -> None:
    logits = np.array([[0.0, 1.0], [-math.inf, value]])

    with pytest.raises(KernelError, match=f"the largest logit of a row must be a finite number, got {value}"):
        categorical(logits)


def test_the_first_choices_never_change() -> None:
    """A new numpy that drew others would break replays and checkpoints: this pins them."""
    assert integers(4, 0, 99).tolist() == PINNED_INTEGERS
    assert permutation(6).tolist() == PINNED_ORDER
    assert categorical(np.zeros((1, 10)), 4).tolist() == [PINNED_CLASSES]
    assert bernoulli(np.full(6, 0.3)).tolist() == PINNED_EVENTS


def test_of_equal_words_the_earlier_comes_first() -> None:
    words = np.random.default_rng(0).integers(0, 50, 5000).astype(np.uint64)

    order = draws._order(words)

    assert order.dtype == np.int64
    np.testing.assert_array_equal(order, np.argsort(words, kind="stable"))
