from __future__ import annotations

import numpy as np
import pytest

from actorflow.errors import KernelError
from actorflow.kernels.device import parallel_for
from actorflow.kernels.nn import softmax as nn
from actorflow.values.arrays import as_dtype

COUNTER = (1, 2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_is_the_formula_in_float64(axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    want = np.exp(x) / np.exp(x).sum(axis, keepdims=True)

    np.testing.assert_allclose(nn.softmax(x, axis=axis), want, rtol=1e-14)
    np.testing.assert_allclose(nn.log_softmax(x, axis=axis), np.log(want), rtol=1e-13)


def test_huge_logits_neither_overflow_nor_lose_digits() -> None:
    x = np.array([[1000, 0], [-1000, 0], [1e30, -1e30]], "float32")

    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_array_equal(nn.softmax(x, axis=1), [[1, 0], [0, 1], [1, 0]])
        np.testing.assert_array_equal(nn.log_softmax(x, axis=1)[:2], [[0, -1000], [-1000, 0]])
        loss = nn.softmax_cross_entropy(x, np.array([1, 0, 0]))
    np.testing.assert_array_equal(loss, [1000, 1000, 0])


def test_cross_entropy_is_minus_the_log_of_the_softmax() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((2, 3, 5)), rng.integers(0, 5, (2, 3), "int32")
    dy = rng.standard_normal((2, 3))
    p = nn.softmax(logits, axis=-1)

    loss = nn.softmax_cross_entropy(logits, labels)
    grad = nn.softmax_cross_entropy_grad(logits, labels, dy)

    np.testing.assert_allclose(
        loss, -np.log(np.take_along_axis(p, labels[..., None], -1))[..., 0], rtol=1e-13
    )
    np.testing.assert_allclose(grad, (p - np.eye(5)[labels]) * dy[..., None], rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 5), (1, 5), (7, 5), (2, 3, 5)])
@pytest.mark.parametrize("part", [1, 9, 1000])
def test_losses_have_the_same_bits_however_their_rows_are_parted(
    shape: tuple[int, ...], part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal(shape), rng.integers(0, 5, shape[:-1], "int32")
    dy = rng.standard_normal(shape[:-1])
    whole = nn.softmax_cross_entropy(logits, labels), nn.softmax_cross_entropy_grad(logits, labels, dy)
    parts: list[int] = []

    def backwards(given: list[parallel_for.Part]) -> None:
        parts.append(len(given))
        for each in reversed(given):
            each()

    monkeypatch.setattr(nn, "_SHARED", part)
    monkeypatch.setattr(nn, "together", backwards)

    assert nn.softmax_cross_entropy(logits, labels).tobytes() == whole[0].tobytes()
    assert nn.softmax_cross_entropy_grad(logits, labels, dy).tobytes() == whole[1].tobytes()
    assert parts == [max(1, min(4, labels.size, logits.size // part))] * 2


@pytest.mark.parametrize("label", [-1, 10])
def test_label_out_of_range_names_itself_and_the_classes(label: int) -> None:
    logits, labels = np.zeros((2, 10), "float32"), np.array([3, label])

    with pytest.raises(
        KernelError, match=rf"labels must lie in \[0, 10\), the number of classes, got {label}"
    ):
        nn.softmax_cross_entropy(logits, labels)
    with pytest.raises(KernelError, match=rf"got {label}"):
        nn.softmax_cross_entropy_grad(logits, labels, np.ones(2, "float32"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_losses_are_those_of_float32_rounded(dtype: str) -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4, 1000)).astype(as_dtype(dtype))
    labels = rng.integers(0, 1000, 4)

    loss = nn.softmax_cross_entropy(logits, labels)

    assert loss.dtype == as_dtype(dtype)
    np.testing.assert_array_equal(
        loss, nn.softmax_cross_entropy(logits.astype("float32"), labels).astype(loss.dtype)
    )


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_the_rate_and_keeps_the_mean(rate: float) -> None:
    x = np.full((100, 1000), 3, "float32")

    y, factors = nn.dropout(x, rate=rate, seed=7, counter=COUNTER)

    assert set(np.unique(factors)) == {0, np.float32(1 / (1 - rate))}
    np.testing.assert_array_equal(y, x * factors)
    np.testing.assert_allclose((y == 0).mean(), rate, atol=5 * np.sqrt(rate * (1 - rate) / x.size))


def test_dropout_repeats_for_a_counter_and_differs_for_another() -> None:
    x = np.ones((8, 64), "float32")

    first, again, other = (nn.dropout(x, rate=0.5, seed=7, counter=(step, 0, 0, 0))[0] for step in (1, 1, 2))

    np.testing.assert_array_equal(first, again)
    assert 0.3 < (first == other).mean() < 0.7
