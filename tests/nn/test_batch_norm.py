"""Moving averages: updated by every step that computes the values, and by no other."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from tests.support.sessions import run_steps


def drawn(*shape: int) -> np.ndarray:
    return (np.random.default_rng(shape).standard_normal(shape) * 3 + 2).astype("float32")


def test_a_step_that_computes_the_values_updates_the_averages() -> None:
    with af.Graph() as graph:
        norm = af.nn.BatchNorm(3, decay=0.75)
        x = af.placeholder("float32", (None, None, 3))
        y = norm(x, training=True)
    first, second = drawn(4, 5, 3), drawn(2, 2, 3)
    averages = [norm.moving_mean, norm.moving_variance]

    _, one, _, two = run_steps(graph, (y, {x: first}), (averages, {}), (y, {x: second}), (averages, {}))

    mean, variance = np.zeros(3), np.ones(3)
    for batch, (held, spread) in ((first, one), (second, two)):
        mean = 0.75 * mean + 0.25 * batch.mean((0, 1), dtype="float64")
        variance = 0.75 * variance + 0.25 * batch.var((0, 1), ddof=1, dtype="float64")
        np.testing.assert_allclose(held, mean, rtol=1e-5)
        np.testing.assert_allclose(spread, variance, rtol=1e-5)
    assert [v.definition.trainable for v in norm.variables] == [True, True, False, False]


def test_evaluation_uses_the_averages_and_leaves_them() -> None:
    with af.Graph() as graph:
        norm = af.nn.BatchNorm(3)
        x = af.placeholder("float32", (None, 3))
        trained, tested = norm(x, training=True), norm(x, training=False)
    batch, other = drawn(8, 3), drawn(5, 3)
    averages = [norm.moving_mean, norm.moving_variance]

    _, (mean, variance), value, after = run_steps(
        graph, (trained, {x: batch}), (averages, {}), (tested, {x: other}), (averages, {})
    )

    np.testing.assert_allclose(value, (other - mean) / np.sqrt(variance + 1e-5), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(after, [mean, variance])
    assert not np.allclose(mean, 0)


def test_a_training_step_updates_the_averages_though_nobody_asks() -> None:
    with af.Graph() as graph:
        norm = af.nn.BatchNorm(3)
        x = af.placeholder("float32", (None, 3))
        update = af.minimize(af.mean(norm(x, training=True) ** 3), af.optim.sgd(0.1))
    batch = drawn(8, 3)

    (before,), _, after = run_steps(
        graph,
        ([norm.scale], {}),
        (update, {x: batch}),
        ([norm.scale, norm.moving_mean], {}),
    )

    assert not np.allclose(before, after[0])
    np.testing.assert_allclose(after[1], 0.1 * batch.mean(0), rtol=1e-4)


@pytest.mark.parametrize("shape", [(None, 2, 3), (0, 2, 3), (2, 0, 3), (None, None, 3)])
def test_an_empty_batch_leaves_the_averages(shape: tuple[int | None, ...]) -> None:
    with af.Graph() as graph:
        norm = af.nn.BatchNorm(3)
        full, maybe_empty = af.placeholder("float32", (4, 3)), af.placeholder("float32", shape)
        first, second = norm(full, training=True), norm(maybe_empty, training=True)
    averages = [norm.moving_mean, norm.moving_variance]
    nothing = np.zeros([0 if size is None else size for size in shape], "float32")

    _, before, value, after, _, later = run_steps(
        graph,
        (first, {full: drawn(4, 3)}),
        (averages, {}),
        (second, {maybe_empty: nothing}),
        (averages, {}),
        (first, {full: drawn(4, 3)}),
        (averages, {}),
    )

    assert value.shape == nothing.shape
    np.testing.assert_array_equal(after, before)
    assert np.isfinite(later).all()
    assert not np.allclose(later, before)


def test_a_batch_that_is_known_not_to_be_empty_is_not_asked() -> None:
    with af.Graph() as graph:
        af.nn.BatchNorm(3)(af.placeholder("float32", (4, 3)), training=True)

    assert not [node for node in graph.nodes if node.op in ("where", "greater")]


def test_a_batch_of_one_leaves_the_variance_finite() -> None:
    with af.Graph() as graph:
        norm = af.nn.BatchNorm(3)
        x = af.placeholder("float32", (None, 3))
        y = norm(x, training=True)

    value, variance = run_steps(graph, (y, {x: drawn(1, 3)}), (norm.moving_variance, {}))

    np.testing.assert_array_equal(value, np.zeros((1, 3)))
    np.testing.assert_allclose(variance, 0.9)


def network() -> af.nn.Sequential:
    return af.nn.Sequential(
        [
            af.nn.Conv(1, 8, (3, 3), bias=False, name="conv"),
            af.nn.BatchNorm(8, name="norm"),
            af.nn.relu,
            lambda x: af.nn.max_pool(x, size=2, strides=2),
            af.nn.Flatten(),
            af.nn.Dropout(0.25),
            af.nn.Dense(4 * 4 * 8, 10, name="logits"),
        ],
        name="network",
    )


@pytest.mark.slow
def test_a_small_network_learns_the_digits_and_is_evaluated_by_its_averages() -> None:
    images, labels = af.datasets.digits()
    images = images.reshape(-1, 8, 8, 1)
    with af.Graph(seed=0) as graph:
        x, z = af.placeholder("float32", (None, 8, 8, 1)), af.placeholder("int64", (None,))
        model = network()
        loss = af.mean(af.nn.softmax_cross_entropy(model(x, training=True), z))
        update = af.minimize(loss, af.optim.adam(1e-2))
        logits = model(x, training=False)
        accuracy = af.mean(af.cast(af.equal(af.argmax(logits, -1), z), "float32"))
    held_out = {x: images[1500:], z: labels[1500:]}

    async def main() -> tuple[list[Any], Any, Any, Any]:
        losses = []
        async with af.Session(graph) as session:
            untrained = await session.run(accuracy, held_out)
            for step in range(60):
                part = slice(step * 25, step * 25 + 25)
                losses.append((await session.run([loss, update], {x: images[part], z: labels[part]}))[0])
            whole = await session.run(logits, held_out)
            single = await session.run(logits, {x: images[1500:1501]})
            right = await session.run(accuracy, held_out)
        assert untrained < 0.3
        return losses, whole, single, right

    losses, whole, single, right = asyncio.run(main())

    assert np.mean(losses[-10:]) < 0.4 * np.mean(losses[:5])
    assert right > 0.8
    np.testing.assert_allclose(single[0], whole[0], rtol=1e-4, atol=1e-4)  # no image depends on the others
    assert [v.name for v in model.variables] == ["conv/w", "norm/scale", "norm/offset", "norm/moving_mean", "norm/moving_variance", "logits/w", "logits/b"]  # fmt: skip
