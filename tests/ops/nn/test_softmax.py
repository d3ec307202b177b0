from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from tests.support.reference import evaluate


def images(*shape: int | None, dtype: str = "float32") -> Any:
    return af.placeholder(dtype, shape)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.softmax(images(2, 3), axis=2), "axis must lie in"),
        (lambda: af.log_softmax(images(2, dtype="int32")), "log_softmax takes floating numbers"),
        (lambda: af.softmax_cross_entropy(images(4, 10), images(4, dtype="bool")), "labels must be integers"),
        (lambda: af.softmax_cross_entropy(images(4, 10), images(4)), r"a probability for each logit, got logits \(4, 10\) float32 and labels \(4,\) float32"),
        (lambda: af.softmax_cross_entropy(images(4, 10), images(4, 10, dtype="float64")), "a probability for each logit"),
        (lambda: af.softmax_cross_entropy(images(4, 10), images(4, 10), ignore=-1), "ignore is a class number and labels are integers then"),
        (lambda: af.softmax_cross_entropy(images(4, 10), images(4, dtype="int32"), smoothing=1.5), r"smoothing of labels lies in \[0, 1\], got 1.5"),
        (lambda: af.dropout(images(3, 4), 0.5, whole=2), "axis must lie in"),
        (lambda: af.dropout(af.placeholder("float32", None), 0.5, whole=0), "dropout needs a known rank to drop whole axes"),
        (lambda: af.alpha_dropout(images(3), 1), r"rate lies in \[0, 1\), got 1"),
        (lambda: af.softmax_cross_entropy(images(4, 10), images(4, 10, dtype="int32")), "one label for each row"),
        (lambda: af.softmax_cross_entropy(images(), images(dtype="int32")), "a last axis with an element for every class"),
        (lambda: af.dropout(images(3), 1.0), r"rate lies in \[0, 1\), got 1.0"),
        (lambda: af.dropout(images(3), -0.1, training=False), r"rate lies in \[0, 1\), got -0.1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_users_line(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        build()

    assert caught.value.where is not None
    assert "test_softmax.py:" in (caught.value.where.defined_at or "")


def test_dropout_is_the_identity_when_it_does_not_train() -> None:
    with Graph() as graph:
        x = images(3)

        assert af.dropout(x, 0.5, training=False) is x
        assert af.dropout(x, 0.0) is x
        assert len(graph) == 1


def test_gradient_of_dropout_flows_where_values_did() -> None:
    with Graph() as graph:
        x = af.constant(np.full((4, 50), 2, "float32"))
        y = af.dropout(x, 0.5, seed=3)
        (grad,) = af.gradients(y, x)

    value, slope = evaluate(graph, [y, grad])

    np.testing.assert_array_equal(value, 2 * slope)
    assert set(np.unique(slope)) == {0, 2}


def test_whole_channels_are_dropped_together() -> None:
    with Graph() as graph:
        x = af.placeholder("float32", (None, 5, 5, 40))
        y = af.dropout(x, 0.5, whole=(1, 2), seed=3)
        (grad,) = af.gradients(y, x)
    given = np.random.default_rng(0).standard_normal((4, 5, 5, 40)).astype("float32")

    value, slope = evaluate(graph, [y, grad], {x: given})

    assert y.shape == x.shape
    np.testing.assert_array_equal(value, given * slope)
    np.testing.assert_array_equal(slope, np.broadcast_to(slope[:, :1, :1], slope.shape))
    assert set(np.unique(slope)) == {0, 2}
    assert 0.3 < (slope[:, 0, 0] == 0).mean() < 0.7


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    with Graph() as graph:
        x = af.constant(np.random.default_rng(0).standard_normal(100_000).astype("float32"))
        y = af.alpha_dropout(x, 0.3, seed=1)
        (grad,) = af.gradients(y, x)
        assert af.alpha_dropout(x, 0.3, training=False) is x
        lowest = af.selu(-1e3)

    value, slope, low = evaluate(graph, [y, grad, lowest])

    assert abs(value.mean()) < 0.02
    assert abs(value.var() - 1) < 0.02
    dropped = slope == 0
    assert 0.28 < dropped.mean() < 0.32
    a = slope.max()
    assert set(np.unique(slope)) == {0, a}
    np.testing.assert_allclose(np.unique(value[dropped]), [a * low - a * 0.3 * low], rtol=1e-5)


def losses(logits: np.ndarray, labels: np.ndarray, **options: Any) -> Any:
    """The losses of examples, and their gradient for the logits."""
    with Graph() as graph:
        x = af.constant(logits)
        loss = af.softmax_cross_entropy(x, labels, **options)
        (grad,) = af.gradients(loss, x)
    return evaluate(graph, [loss, grad])


def log_softmax(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return found


LOGITS = np.random.default_rng(0).standard_normal((4, 5))
LABELS = np.array([3, 0, 4, 3], "int32")


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_smoothed_labels_are_probabilities(smoothing: float) -> None:
    target = (1 - smoothing) * np.eye(5)[LABELS] + smoothing / 5

    by_number = losses(LOGITS, LABELS, smoothing=smoothing)
    by_rows = losses(LOGITS, np.eye(5)[LABELS], smoothing=smoothing)
    by_target = losses(LOGITS, target)

    for loss, grad in (by_number, by_rows, by_target):
        np.testing.assert_allclose(loss, -(target * log_softmax(LOGITS)).sum(-1), rtol=1e-12)
        np.testing.assert_allclose(grad, np.exp(log_softmax(LOGITS)) - target, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("ignore", [3, -100, 99])
def test_ignored_examples_have_neither_loss_nor_gradient(ignore: int) -> None:
    labels = np.where(LABELS == 3, ignore, LABELS)

    loss, grad = losses(LOGITS, labels, ignore=ignore, smoothing=0.1)
    whole, slopes = losses(LOGITS, LABELS, smoothing=0.1)

    np.testing.assert_array_equal(loss, np.where(LABELS == 3, 0, whole))
    np.testing.assert_array_equal(grad, np.where(LABELS[:, None] == 3, 0, slopes))


def test_a_class_that_is_impossible_and_never_meant_costs_nothing() -> None:
    logits = np.array([[0.0, -np.inf, 0.0]])

    with np.errstate(invalid="ignore"):
        loss, _ = losses(logits, np.array([[0.5, 0.0, 0.5]]))

    np.testing.assert_allclose(loss, [np.log(2)])


@pytest.mark.parametrize("function", [af.softmax, af.log_softmax])
@pytest.mark.parametrize("known", [True, False], ids=["at build time", "in the step"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 0), -1), ((0, 3), 0), ((2, 0, 3), 1), ((0, 3), -1)])
def test_of_no_elements_there_is_none(function: Any, known: bool, shape: tuple[int, ...], axis: int) -> None:
    with Graph() as graph:
        x = images(*(shape if known else (None,) * len(shape)))
        y = function(x, axis)
        (grad,) = af.gradients(y, x)

    for found in (
        evaluate(graph, y, {x: np.zeros(shape, "float32")}),
        evaluate(graph, grad, {x: np.zeros(shape, "float32")}),
    ):
        assert found.shape == shape
        assert found.dtype == np.float32
